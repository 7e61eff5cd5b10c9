"""What selecting costs without the LLM: `python eval/bench/stages.py`.

Every stage is on: access, revision, all kinds of duplicates, threshold, coverage, MMR by embeddings of 1,536
dimensions, caps, sentences around each chunk from its parent, merging, token budget, order; in one row extract too. The
chunks have 300 tokens each, three to a parent and its source, so that those of one merge, and one in ten is a near
copy. Their texts are of two kinds: prose of
made-up words, a paragraph each; and the documentation in eval/data (or other labelled lists: `--lists FILE`), a dozen
paragraphs each with lists and code, one in three set with typographic quotes and dashes, as texts of the web are. Their
tokens have been counted before, as the grading does; those of what is made of them, expanded or extracted, have not but
in the rows `again`, where the same list comes a second time.
Processor time, of this thread, is less disturbed by a busy machine than the wall clock. How fast the machine is just
now says the yardstick, a plain regular expression over the same texts: compare by the ratio.
"""

import argparse
import cProfile
import os
import pstats
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

# One thread: the others would only wait for a processor that is busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from eval.datasets import read_rows
from pruner import Chunk, Grade, Grading, Pruner, PrunerConfig, Status
from pruner.backends.scripted import ScriptedBackend
from pruner.tokens import TokenCounter

TOKENS, DIMENSIONS, BUDGET = 300, 1536, 6000
LISTS = Path(__file__).parents[1] / "data" / "sample.jsonl.gz"
GRADES = (5, 1, 2, 3, 1, 4, 2, 1, 3, 2)
QUERIES = {
    "prose": "How long does the derbaba keep the kibaba of lombaba, and when does nubaba end?",
    "documentation": "How long does a subprocess wait for its output before a timeout is raised, and is it killed?",
}
WORDS = 3000  # different made-up ones
_SYLLABLES = ("ba", "der", "ki", "lom", "nu", "pes", "ra", "tin", "vo", "gal", "he", "mis")
_COMMON = ("the", "of", "to", "that", "and", "is", "for", "in", "a", "when", "with", "by")
_WORDS = re.compile(r"\w+")
_PIECES = re.compile(r"\s*\S+")
_TYPESET = str.maketrans({"'": "’", '"': "”"})
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


def made_up(n: int) -> list[str]:
    """Write sentences of words whose frequencies fall as in real text."""
    rng, counter = random.Random(7), TokenCounter()
    return [_prose(rng, counter) for _ in range(n)]


def _prose(rng: random.Random, counter: TokenCounter) -> str:
    text = ""
    while counter.count(text) < TOKENS - 15:
        words = [_word(int(WORDS ** rng.random())) if rng.random() < 0.5 else rng.choice(_COMMON) for _ in range(14)]
        text = f"{text} {' '.join(words).capitalize()}.".strip()
    return text


def _word(number: int) -> str:
    """Spell a number in syllables, so that it is a word and no number."""
    return "".join(_SYLLABLES[number // 12**place % 12] for place in range(3))


def cut_from(lists: Path) -> list[str]:
    """Cut the texts of lists into pieces; a second round begins in the middle of those of the first."""
    counter, distinct = TokenCounter(), dict.fromkeys(c.text for row in read_rows(lists) for c in row.chunks)
    pieces = [(piece, counter.count(piece)) for text in distinct for piece in _PIECES.findall(f"\n\n{text}")]
    return [*_cut(pieces, TOKENS), *_cut(pieces, TOKENS // 2)]


def _cut(pieces: list[tuple[str, int]], first: int) -> Iterator[str]:
    """Yield texts of so many tokens, leaving out the first of another length."""
    taken, tokens, wanted = "", 0, first
    for piece, cost in pieces:
        taken, tokens = taken + piece, tokens + cost
        if tokens >= wanted:
            if wanted == TOKENS:
                yield taken.strip()
            taken, tokens, wanted = "", 0, TOKENS


def some_chunks(
    n: int, texts: list[str], typeset: bool, floats: bool = False
) -> tuple[list[Chunk], dict[str | int, Chunk]]:
    """Make chunks, and the parents that they are cut from, three of each."""
    vectors, left = np.random.default_rng(7), iter(texts)
    chunks: list[Chunk] = []
    parents: dict[str | int, Chunk] = {}
    while len(chunks) < n:
        name = f"parent-{len(parents)}"
        pieces = [next(left) for _ in range(3)]
        if typeset and len(parents) % 3 == 0:
            pieces = [piece.replace(" - ", " — ").translate(_TYPESET) for piece in pieces]
        parent = parents[name] = Chunk(text="\n\n".join(["First one.", *pieces, "Last one."]), id=name)
        for piece in pieces:
            near = len(chunks) % 10 == 9
            text = f"{chunks[-3].text} Again." if near else piece
            vector = chunks[-3].embedding + 0.01 if near else vectors.standard_normal(DIMENSIONS, np.float32)
            chunks.append(_chunk(len(chunks), text, None if near else parent, vector))
    if floats:
        chunks = [chunk.model_copy(update={"embedding": chunk.embedding.tolist()}) for chunk in chunks]
    return chunks[:n], parents


def _chunk(number: int, text: str, parent: Chunk | None, vector: object) -> Chunk:
    return Chunk(
        text=text,
        id=number,
        source_id=f"source of {parent.id}" if parent else f"source of {number}",
        status="active",
        authority="official" if number % 7 == 0 else None,
        parent_id=parent.id if parent else None,
        start_char=parent.text.index(text) if parent else None,
        heading_path=("Terms", f"Part {number % 5}"),
        query_ids=(f"q{number % 4}",),
        acl=("staff",),
        embedding=vector,
    )


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds of a call: wall clock, and processor time."""
    wall, processor = time.perf_counter(), time.thread_time()
    call()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.thread_time() - processor)


def measured(ready: dict[str, Callable[[], Callable[[], object]]], runs: int) -> list[str]:
    """Time all in turns, and write for each the median and the best of both clocks; the first is the yardstick."""
    taken = [[timed(get_ready()) for get_ready in ready.values()] for _ in range(runs + 1)][1:]
    lines, yardstick = [], 0.0
    for name, times in zip(ready, zip(*taken, strict=True), strict=True):
        walls, processors = zip(*times, strict=True)
        yardstick = yardstick or median(processors)
        numbers = f"{median(walls):>10.1f}{min(walls):>8.1f}{median(processors):>16.1f}{min(processors):>8.1f}"
        lines.append(f"{name:<50}{numbers}{median(processors) / yardstick:>8.1f}")
    return lines


def calls(n: int, kind: str, texts: list[str], floats: bool = False) -> dict[str, Callable[[], Callable[[], object]]]:
    """Return what gets ready the calls that are measured with n chunks."""
    chunks, parents = some_chunks(n, texts, kind == "documentation", floats)
    levels = tuple(Grade(GRADES[i % len(GRADES)]) for i in range(n))
    graded = Grading(levels, (None,) * n, Status.OK)

    def assemble(grading: Grading | None, extract: bool = False, again: bool = False) -> Callable[[], object]:
        counter = TokenCounter()
        for chunk in chunks:
            counter.count(chunk.text)
        pruner = Pruner(PrunerConfig(model="openai:m", **DIALS), backend=ScriptedBackend([]), counter=counter)
        pruner.assemble("", ["Loads what is loaded once."], expand="sentences")
        call = partial(
            pruner.assemble,
            QUERIES[kind],
            chunks,
            grading,
            principals=["staff"],
            required_query_ids=["q0", "q1", "q2", "q3"],
            parents=parents,
            extract=extract,
        )
        if again:
            call()
        return call

    return {
        f"{n} of {kind}, words found (the yardstick)": lambda: lambda: [_WORDS.findall(chunk.text) for chunk in chunks],
        f"{n} of {kind}, graded": partial(assemble, graded),
        f"{n} of {kind}, by rank alone": partial(assemble, None),
        f"{n} of {kind}, graded, with extract": partial(assemble, graded, extract=True),
        f"{n} of {kind}, graded, again": partial(assemble, graded, again=True),
        f"{n} of {kind}, by rank alone, again": partial(assemble, None, again=True),
        f"{n} of {kind}, graded, with extract, again": partial(assemble, graded, extract=True, again=True),
    }


def profiled(get_ready: Callable[[], Callable[[], object]], runs: int) -> None:
    """Show where the time goes."""
    profile = cProfile.Profile(timer=time.thread_time)
    for _ in range(runs):
        profile.runcall(get_ready())
    pstats.Stats(profile, stream=sys.stdout).sort_stats("cumtime").print_stats("pruner", 40)


def main() -> None:
    """Measure both sizes, or profile one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--profile", type=int, metavar="N", help="show where the time goes with N chunks")
    parser.add_argument("--lists", type=Path, default=LISTS, help="labelled lists to take the texts from")
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 500], metavar="N", help="chunks in a list")
    parser.add_argument("--floats", action="store_true", help="embeddings as lists of floats, not as arrays")
    options = parser.parse_args()
    kinds = {"prose": made_up(max(options.sizes) + 3), "documentation": cut_from(options.lists)}
    if options.profile:
        ready = calls(options.profile, "documentation", kinds["documentation"])
        profiled(ready[f"{options.profile} of documentation, graded"], options.runs)
        return
    sys.stdout.write(f"{'ms':<50}{'wall p50':>10}{'best':>8}{'processor p50':>16}{'best':>8}{'ratio':>8}\n")
    for n in options.sizes:
        for kind, texts in kinds.items():
            sys.stdout.write("\n".join(measured(calls(n, kind, texts, options.floats), options.runs)) + "\n")


if __name__ == "__main__":
    main()
