"""What selecting costs without the LLM: `python eval/bench/stages.py`.

Every stage is on: access, revision, all kinds of duplicates, threshold, coverage, MMR by embeddings of 1,536
dimensions, caps, sentences around each chunk from its parent, merging, token budget, order; in one row extract too. The
chunks are distinct ones of 300 tokens, three to a parent; one in ten is a near copy. Their tokens have been counted
once, as the grading does. Processor time, of this thread, is less disturbed by a busy machine than the wall clock. How
fast the machine is just now says the yardstick, a plain regular expression over the same texts: compare by the ratio.
"""

import argparse
import cProfile
import os
import pstats
import random
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

# One thread: the others would only wait for a processor that is busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from pruner import Chunk, Grade, Grading, Pruner, PrunerConfig, Status
from pruner.backends.scripted import ScriptedBackend
from pruner.tokens import TokenCounter

TOKENS, DIMENSIONS, BUDGET = 300, 1536, 6000
WORDS = 3000  # different ones
_WORDS = re.compile(r"\w+")
GRADES = (5, 1, 2, 3, 1, 4, 2, 1, 3, 2)
QUERY = "How long does the derbaba keep the kibaba of lombaba, and when does nubaba end?"
DIALS: dict[str, Any] = {
    "revision_policy": "active",
    "dedup": "texts",
    "mmr_lambda": 0.7,
    "max_per_source": 10,
    "max_per_parent": 5,
    "expand": "sentences",
    "token_budget": BUDGET,
    "evidence_order": "edges",
}


def some_chunks(n: int) -> tuple[list[Chunk], dict[str | int, Chunk]]:
    """Make chunks, and the parents that they are cut from, three of each."""
    rng, vectors = random.Random(7), np.random.default_rng(7)
    chunks: list[Chunk] = []
    parents: dict[str | int, Chunk] = {}
    while len(chunks) < n:
        name = f"parent-{len(parents)}"
        pieces = [_text(rng) for _ in range(3)]
        parents[name] = Chunk(text="\n\n".join(["First one.", *pieces, "Last one."]), id=name)
        for piece in pieces:
            near = len(chunks) % 10 == 9
            text = f"{chunks[-3].text} Again." if near else piece
            vector = chunks[-3].embedding + 0.01 if near else vectors.standard_normal(DIMENSIONS, np.float32)
            chunks.append(_chunk(len(chunks), text, None if near else name, vector))
    return chunks[:n], parents


def _chunk(number: int, text: str, parent: str | None, vector: object) -> Chunk:
    return Chunk(
        text=text,
        id=number,
        source_id=f"source-{number % 20}",
        status="active",
        authority="official" if number % 7 == 0 else None,
        parent_id=parent,
        heading_path=("Terms", f"Part {number % 5}"),
        query_ids=(f"q{number % 4}",),
        acl=("staff",),
        embedding=vector,
    )


def _text(rng: random.Random) -> str:
    """Write sentences of words whose frequencies fall as in real text, up to 300 tokens."""
    counter, text = TokenCounter(), ""
    while counter.count(text) < TOKENS - 15:
        words = [_word(int(WORDS ** rng.random())) if rng.random() < 0.5 else rng.choice(_COMMON) for _ in range(14)]
        text = f"{text} {' '.join(words).capitalize()}.".strip()
    return text


def _word(number: int) -> str:
    """Spell a number in syllables, so that it is a word and no number."""
    return "".join(_SYLLABLES[number // 12**place % 12] for place in range(3))


_SYLLABLES = ("ba", "der", "ki", "lom", "nu", "pes", "ra", "tin", "vo", "gal", "he", "mis")
_COMMON = ("the", "of", "to", "that", "and", "is", "for", "in", "a", "when", "with", "by")


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds of a call: wall clock, and processor time."""
    wall, processor = time.perf_counter(), time.thread_time()
    call()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.thread_time() - processor)


def measured(calls: dict[str, Callable[[], object]], runs: int) -> list[str]:
    """Time all in turns, and write for each the median and the best of both clocks; the first is the yardstick."""
    taken = [[timed(call) for call in calls.values()] for _ in range(runs + 1)][1:]
    lines, yardstick = [], 0.0
    for name, times in zip(calls, zip(*taken, strict=True), strict=True):
        walls, processors = zip(*times, strict=True)
        yardstick = yardstick or median(processors)
        numbers = f"{median(walls):>10.1f}{min(walls):>8.1f}{median(processors):>16.1f}{min(processors):>8.1f}"
        lines.append(f"{name:<42}{numbers}{median(processors) / yardstick:>8.1f}")
    return lines


def calls(n: int, pruner: Pruner) -> dict[str, Callable[[], object]]:
    """Return what is measured with n chunks."""
    chunks, parents = some_chunks(n)
    levels = tuple(Grade(GRADES[i % len(GRADES)]) for i in range(n))
    graded = Grading(levels, (None,) * n, Status.OK)

    def assemble(grading: Grading | None, extract: bool = False) -> object:
        return pruner.assemble(
            QUERY,
            chunks,
            grading,
            principals=["staff"],
            required_query_ids=["q0", "q1", "q2", "q3"],
            parents=parents,
            extract=extract,
        )

    return {
        f"{n} chunks, words found (the yardstick)": lambda: [_WORDS.findall(chunk.text) for chunk in chunks],
        f"{n} chunks, graded": partial(assemble, graded),
        f"{n} chunks, by rank alone": partial(assemble, None),
        f"{n} chunks, graded, with extract": partial(assemble, graded, extract=True),
    }


def profiled(call: Callable[[], object], runs: int) -> None:
    """Show where the time goes."""
    profile = cProfile.Profile(timer=time.thread_time)
    profile.runcall(lambda: [call() for _ in range(runs)])
    pstats.Stats(profile, stream=sys.stdout).sort_stats("cumtime").print_stats("pruner", 40)


def main() -> None:
    """Measure both sizes, or profile one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--profile", type=int, metavar="N", help="show where the time goes with N chunks")
    options = parser.parse_args()
    pruner = Pruner(PrunerConfig(model="openai:m", **DIALS), backend=ScriptedBackend([]))
    if options.profile:
        profiled(calls(options.profile, pruner)[f"{options.profile} chunks, graded"], options.runs)
        return
    sys.stdout.write(f"{'ms':<42}{'wall p50':>10}{'best':>8}{'processor p50':>16}{'best':>8}{'ratio':>8}\n")
    for n in (50, 500):
        sys.stdout.write("\n".join(measured(calls(n, pruner), options.runs)) + "\n")


if __name__ == "__main__":
    main()
