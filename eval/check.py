"""`python -m eval tune --check`: does what is in use still hold on new labels?"""

import argparse
import sys
from collections.abc import Sequence

from eval.errors import EvalError
from eval.points import Point, points
from eval.records import LISTWISE, SETUP, Record
from eval.setups import FURTHER_DIALS, setup_of
from eval.sources import Source, draws_of, read_configuration
from eval.statistics import lower_bound, questions_needed, upper_bound
from eval.strategies import Configuration
from eval.sweep import sweep
from pruner.config import PrunerConfig

__all__ = ["in_use", "run_check"]

EXIT_HOLDS, EXIT_FAILS = 0, 1
_MEASURED = ("threshold", "keep_top_k", "scoring")
# Whom to ask and how long, names, and the order of what is kept: none of them says what is kept. Nor does the seed,
# which is in the setup where it matters.
_KEEP_THE_SAME = ("api_key", "base_url", "timeout", "parent_timeout", "seed", "policy", "evidence_order")


def run_check(loaded: Source, options: argparse.Namespace) -> int:
    """Print whether the recall of one configuration is shown on these questions; 1 when it is not.

    One hypothesis, named before the labels are looked at: nothing is searched, so nothing is to be corrected for.
    """
    if options.configuration is not None:
        configuration = read_configuration(options.configuration)
    else:
        configuration = in_use(
            PrunerConfig.load(), [c.records[LISTWISE] for c in loaded.cases if LISTWISE in c.records]
        )
    swept = sweep(loaded.cases, [configuration])
    [point] = points(swept, draws_of(options))
    bound = lower_bound(point.whole, point.with_gold, options.confidence)
    parts = [loaded.swept(swept).head, verdict(point, options.target, options.confidence)]
    sys.stdout.write("\n\n".join(parts) + "\n")
    return EXIT_HOLDS if bound >= options.target else EXIT_FAILS


def in_use(config: PrunerConfig, records: Sequence[Record]) -> Configuration:
    """Return the configuration that is in force (`PrunerConfig.load()`), as far as these records can speak of it.

    Raises:
        EvalError: a dial is set that is not measured here, or the records are of another model, prompt or form.
    """
    if set_ := _not_measured(config):
        raise EvalError(f"{set_[0]} is set and is not measured here; give what is to be tested by --configuration")
    # By what to judge is no matter of the grading, and `grade` asks for token probabilities where there are any.
    used = setup_of(config.with_dials(scoring="expected"))
    for record in records:
        for name in SETUP:
            if (graded := getattr(record, name)) != getattr(used, name):
                raise EvalError(
                    f"the lists were graded with {name} {graded!r}, in use is {getattr(used, name)!r}: grade them "
                    "with what is in use, or give what is to be tested by --configuration"
                )
    dials = {"threshold": float(config.threshold), "keep_top_k": config.keep_top_k, "scoring": config.scoring}
    return Configuration(LISTWISE, tuple(dials.items()))


def _not_measured(config: PrunerConfig) -> list[str]:
    """Return the dials that are not at their default and that neither the sweep nor the setup of a record speaks of."""
    known = {*_MEASURED, *_KEEP_THE_SAME, *SETUP, *FURTHER_DIALS}
    fields = PrunerConfig.model_fields.items()
    return [name for name, field in fields if name not in known and getattr(config, name) != field.default]


def verdict(point: Point, target: float, confidence: float) -> str:
    """Say whether the target is shown, shown to be missed, or left open, and what would settle it."""
    low = lower_bound(point.whole, point.with_gold, confidence)
    high = upper_bound(point.whole, point.with_gold, confidence)
    seen = f"{point.configuration} kept {point.whole} of {point.with_gold} questions whole ({point.recall.value:.1%})"
    if low >= target:
        return f"HOLDS: {seen}; with {confidence:.1%} confidence at least {low:.1%}, the target is {target:.1%}"
    if high < target:
        return f"BROKEN: {seen}; with {confidence:.1%} confidence at most {high:.1%}, the target is {target:.1%}"
    lost = point.with_gold - point.whole
    return (
        f"NOT SHOWN: {seen}; with {confidence:.1%} confidence only {low:.1%} is sure, the target is {target:.1%}. "
        f"{questions_needed(target, confidence, lost)} questions, with no more than {lost} of them lost, would show it"
    )
