"""By what lists are graded: from the dials of a pruner to the `Setup` that its records carry."""

import hashlib
from typing import Any

from eval.records import LISTWISE, Setup
from pruner.config import PrunerConfig
from pruner.prompting import load_prompt

__all__ = ["FURTHER_DIALS", "grading_config", "setup_of"]

# What else changes grades, besides what a setup names; all other dials select, which is free and done later.
FURTHER_DIALS = ("temperature", "instructions", "reasons", "max_input_tokens", "max_output_tokens", "scoring")
# Selection is for later: every dial of it is at its default, and nothing is kept from the model now.
_NO_SELECTION = {name: PrunerConfig.model_fields[name].default for name in PrunerConfig().selection_dials()}
_NO_SELECTION |= {"keep_top_k": 0, "min_chunks": 0, "min_tokens": 0}
del _NO_SELECTION["scoring"]


def grading_config(**dials: Any) -> PrunerConfig:
    """Make the config to grade by: dials, environment and file, and token probabilities where there are any.

    Raises:
        ConfigError: a dial is wrong.
    """
    return PrunerConfig.load(**{"scoring": "expected", **dials, **_NO_SELECTION})


def setup_of(config: PrunerConfig) -> Setup:
    """Return how lists are graded by a config."""
    prompt = load_prompt(config.prompt)
    return Setup(
        strategy=LISTWISE,
        model=config.model,
        prompt=prompt.name,
        prompt_sha256=prompt.sha256,
        readout=config.readout,
        reply_format=config.reply_format if config.readout == "json" else "",
        chunk_order=f"shuffle {config.seed}" if config.chunk_order == "shuffle" else "reranker",
        dials=_further_dials(config),
    )


def _further_dials(config: PrunerConfig) -> str:
    """Return the other dials that are not as usual; instructions by a hash, as they may be private."""
    usual = PrunerConfig(scoring="expected")
    changed = {name: getattr(config, name) for name in FURTHER_DIALS if getattr(config, name) != getattr(usual, name)}
    if "instructions" in changed:
        changed["instructions"] = hashlib.sha256(config.instructions.encode()).hexdigest()[:8]
    return " ".join(f"{name}={value}" for name, value in changed.items())
