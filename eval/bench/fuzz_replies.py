"""What broken replies do to a result: `python eval/bench/fuzz_replies.py --examples 1000000 --seed 1`.

Valid replies in every form are cut, doubled, nested, swapped and wrapped, and pruned by; what `prune()` promises for
any reply is checked each time. Ends with exit code 1 at the first broken promise, and prints the reply that broke it.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from pruner.backends.scripted import ScriptedBackend
from pruner.config import PrunerConfig
from pruner.pipeline import Pruner
from pruner.schema import PruneResult, RawGrading, Status

__all__ = ["FINISHES", "FORMS", "JUNK", "MUTATIONS", "Step", "broken", "mutated"]

CHUNKS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
FINISHES: tuple[Literal["stop", "length"], ...] = ("stop", "length")

Form = Callable[[Sequence[int], str | None], object]
Mutation = Callable[[str, int, int, str], str]
Step = tuple[str, int, int, str]


def _pairs(grades: Sequence[int], note: str | None) -> object:
    return {"grades": [[label, grade, *([note] if note else [])] for label, grade in enumerate(grades, 1)]}


def _listed(grades: Sequence[int], note: str | None) -> object:
    return {"grades": [{"id": label, "grade": grade, "reason": note} for label, grade in enumerate(grades, 1)]}


def _keyed(grades: Sequence[int], note: str | None) -> object:
    return {str(label): {"grade": grade, "reason": note} if note else grade for label, grade in enumerate(grades, 1)}


FORMS: dict[str, Form] = {"pairs": _pairs, "listed": _listed, "keyed": _keyed}

# Each takes the text, two places in it, the first before the second, and something to put there.
MUTATIONS: dict[str, Mutation] = {
    "cut": lambda text, i, j, junk: text[:j],
    "behead": lambda text, i, j, junk: text[i:],
    "remove": lambda text, i, j, junk: text[:i] + text[j:],
    "double": lambda text, i, j, junk: text[:j] + text[i:],
    "repeat": lambda text, i, j, junk: text + junk + text,
    "swap": lambda text, i, j, junk: text[:i] + text[j : j + 1] + text[i + 1 : j] + text[i : i + 1] + text[j + 1 :],
    "insert": lambda text, i, j, junk: text[:i] + junk + text[i:],
    "replace": lambda text, i, j, junk: text[:i] + junk + text[j:],
    "wrap": lambda text, i, j, junk: junk + text + junk,
    "nest in an array": lambda text, i, j, junk: f"[{text}]",
    "nest in an object": lambda text, i, j, junk: f'{{"grades":{text}}}',
    "nest in itself": lambda text, i, j, junk: text[:i] + text + text[j:],
    "encode": lambda text, i, j, junk: json.dumps(text),
    "fence": lambda text, i, j, junk: f"```json\n{text}\n```",
    "think": lambda text, i, j, junk: f"<think>{text[:i]}</think>{text[i:]}",
    "think without end": lambda text, i, j, junk: f"<think>{text}",
}

JUNK = [*'[]{}",:\\0123456789-.', "'", " ", "\n", "\0", "\ud800", "\u2028", "٥", "//", "null", "true", "NaN", "1e999"]
JUNK += [
    "9" * 400,
    "</think>",
    "<think>",
    '"grades":',
    '{"1":5}',
    "[[1,1],[2,1]]",
    "ESSENTIAL",
    "5 - ",
    "Here: ",
    "```",
]


def mutated(text: str, steps: Iterable[Step]) -> str:
    """Break a text step by step; a step is the name of a mutation, two places (modulo the length), and junk."""
    for name, a, b, junk in steps:
        i, j = sorted((a % (len(text) + 1), b % (len(text) + 1)))
        text = MUTATIONS[name](text, i, j, junk)
    return text


def broken(result: PruneResult[Any], given: Sequence[object], keep_top_k: int) -> list[str]:
    """Return which of the promises that hold for any reply a result breaks."""
    kept = [d.index for d in result.decisions if d.kept]
    held = {
        "a decision for each chunk": [d.index for d in result.decisions] == list(range(len(given))),
        "the caller's own objects": list(map(id, result.chunks)) == [id(given[index]) for index in kept],
        "in the order given": kept == sorted(set(kept)),
        "with the first few": set(range(min(keep_top_k, len(given)))) <= set(kept),
        "with what is ungraded": all(d.kept for d in result.decisions if d.grade is None),
        "a reason unless ok": (result.reason is None) == (result.status is Status.OK),
    }
    return [promise for promise, holds in held.items() if not holds]


def _reply(rng: random.Random) -> str:
    note = rng.choice([None, None, "few words", '"],[2,5],[3,5', rng.choice(JUNK)])
    grades = [rng.randint(1, 5) for _ in range(rng.randint(1, len(CHUNKS) + 1))]
    text = json.dumps(FORMS[rng.choice(list(FORMS))](grades, note), indent=rng.choice([None, 2]))
    steps = [_step(rng, len(text)) for _ in range(rng.randint(0, 5))]
    return mutated(text, steps)


def _step(rng: random.Random, length: int) -> Step:
    junk = rng.choice(JUNK) if rng.random() < 0.9 else chr(rng.randrange(0x110000))
    return rng.choice(list(MUTATIONS)), rng.randrange(2 * length), rng.randrange(2 * length), junk


async def fuzz(examples: int, seed: int, say: Callable[[str], object]) -> Counter[str]:
    """Prune by as many broken replies; return how often each status and reason came.

    Raises:
        RuntimeError: a promise was broken; the message holds the reply.
    """
    said = RawGrading()
    backend = ScriptedBackend(lambda request: said)
    pruner = Pruner(PrunerConfig(model="openai:any"), backend=backend)
    rng, counts, started = random.Random(seed), Counter[str](), time.monotonic()
    for example in range(1, examples + 1):
        said = RawGrading(text=_reply(rng), finish=rng.choice(FINISHES))
        counts[await _outcome(pruner, said)] += 1
        backend.requests.clear()
        if example % max(examples // 10, 1) == 0:
            say(f"{example:>9,} examples, {(time.monotonic() - started) / example * 1e3:.2f} ms each\n")
    return counts


async def _outcome(pruner: Pruner, said: RawGrading) -> str:
    try:
        result = await pruner.prune("q", CHUNKS)
        faults = broken(result, CHUNKS, pruner.config.keep_top_k)
    except Exception as error:
        raise RuntimeError(f"{said.text!r} ({said.finish}) raised {error!r}") from error
    if faults:
        raise RuntimeError(f"{said.text!r} ({said.finish}) broke: {', '.join(faults)}")
    return f"{result.status} {result.reason or ''}"


def main() -> int:
    """Fuzz, and print how often each status came."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # Each fallback logs one.
    try:
        counts = asyncio.run(fuzz(options.examples, options.seed, sys.stderr.write))
    except RuntimeError as error:
        sys.stderr.write(f"{error!s}\n".encode("utf-8", "backslashreplace").decode())
        return 1
    sys.stdout.writelines(f"{count:>9,}  {outcome}\n" for outcome, count in counts.most_common())
    return 0


if __name__ == "__main__":
    sys.exit(main())
