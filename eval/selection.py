"""What the stages around the grading make of labelled lists: `python -m eval.selection`.

Each strategy adds a step: A the ranking cut after k; B without duplicates; C by MMR; D sub-queries covered first, and
sentences around each chunk from its parent; E of that only the sentences that the query is about. Each by the ranking
alone and by gradings. Prints Markdown tables; they hold no text of the lists.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from eval.embedded import DATA, OVERLAPPING, RECORDS, Record, load_records
from eval.lists import LabelledList, overlapping, plain, rows
from pruner import Grade, Grading, Pruner, PrunerConfig, PruneResult, Status, check_citations, render_evidence
from pruner.backends.calibration import levels_of
from pruner.backends.scripted import ScriptedBackend
from pruner.candidates import Candidate, Span
from pruner.coverage import uncovered
from pruner.passages import merge_spans
from pruner.replies import read_reply
from pruner.schema import RawGrading
from pruner.sentences import load_splitter
from pruner.similarity import tfidf_cosines
from pruner.tokens import TokenCounter

__all__ = ["STRATEGIES", "Measures", "by_labels", "measure", "select"]

Result: TypeAlias = PruneResult[Any]
Graded: TypeAlias = tuple[LabelledList, Grading | None]
Key: TypeAlias = tuple[str, str]
"""Data set and id of a list."""

K = 8
_ALL: dict[str, Any] = {"max_chunks": K, "keep_top_k": 2, "threshold": 3}
_MMR = {**_ALL, "dedup": "texts", "mmr_lambda": 0.7}
STRATEGIES: dict[str, dict[str, Any]] = {
    "A top-k": _ALL,
    "B dedup + top-k": {**_ALL, "dedup": "texts"},
    "C dedup + MMR": _MMR,
    "D coverage + MMR + parents": {**_MMR, "expand": "sentences"},
    "E D + extract": {**_MMR, "expand": "sentences", "extract": True},
}
_HEADER = (
    "strategy",
    "evidence coverage",
    "answer or passage shown",
    "redundancy",
    "sources",
    "uncovered sub-queries",
    "tokens",
    "spans valid",
)
_TOP = f"""\
# Selection, measured

`python -m eval.selection > eval/SELECTION.md` wrote this. At most {K} chunks (MMR with lambda 0.7; graded: threshold 3
and `keep_top_k` 2), means over the lists. The ranking is that of BM25. Sub-queries exist for musique, parents for the
lists that were cut anew. Of those, coverage counts the needed passages that are shown whole, and the next column the
share of their characters; elsewhere that is whether the answer's text is shown, where the list has it. Graded by the
labels are those of a grader without mistakes (5 for a window that shows a part of a needed passage, else 1): a bound
and no measurement of a grader. Spans are looked up in the whole source where it is known, for the lists that were cut
anew; elsewhere in the chunk."""
_SPLIT = load_splitter()
_COUNTER = TokenCounter()
_PRUNER = Pruner(PrunerConfig(model="local:any"), backend=ScriptedBackend([]))


@dataclass(frozen=True)
class Measures:
    """What is measured of one result; NaN where the list has no labels for it.

    Attributes:
        coverage: share of the needed chunks that are kept, as a part of a block or by a copy; or of the needed passages
            that are shown whole.
        shown: whether the answer's text is in a block, if it is in the list; or share of the passages' characters.
        redundancy: mean TF-IDF cosine of all pairs of blocks.
        sources: number of them.
        uncovered: sub-queries that no block serves.
        tokens: of the rendered blocks.
        valid: share of the blocks whose spans are where the sources have them.
    """

    coverage: float
    shown: float
    redundancy: float
    sources: float
    uncovered: float
    tokens: float
    valid: float


def select(strategy: str, given: LabelledList, grading: Grading | None) -> Result:
    """Run a strategy on a list; without a grading by the ranking alone."""
    covers = strategy[0] in "DE"
    return _PRUNER.assemble(
        given.query,
        given.chunks,
        grading,
        required_query_ids=given.required if covers else (),
        parents=given.parents if covers else None,
        **STRATEGIES[strategy],
    )


def measure(given: LabelledList, result: Result) -> Measures:
    """Measure a result against the labels of its list."""
    blocks = result.evidence
    likeness = tfidf_cosines([c.text for c in blocks])
    pairs = likeness[np.triu_indices(len(blocks), 1)]
    answer = " ".join(f"[E{number}]" for number in range(1, len(blocks) + 1))
    report = check_citations(answer, result, sources=given.sources, split=_SPLIT)
    return Measures(
        coverage=_coverage(given, result),
        shown=_shown(given, blocks),
        redundancy=float(pairs.mean()) if pairs.size else 0.0,
        sources=len({c.chunk.source_id for c in blocks}),
        uncovered=len(uncovered(blocks, given.required)) if given.required else np.nan,
        tokens=_COUNTER.count(render_evidence(result)),
        valid=1 - len(report.unsourced) / len(blocks) if blocks else np.nan,
    )


def _coverage(given: LabelledList, result: Result) -> float:
    if given.references:
        return float(np.mean([shown == 1 for shown in _passages_shown(given, result.evidence)]))
    represented = {index for c in result.evidence for index in (c.index, *c.merged)}
    stands_for = {d.index: d.of for d in result.decisions if d.of is not None}
    while more := {index for index, of in stands_for.items() if of in represented} - represented:
        represented |= more
    return len(given.needed & represented) / len(given.needed) if given.needed else np.nan


def _shown(given: LabelledList, blocks: Sequence[Candidate]) -> float:
    if given.references:
        return float(np.mean(_passages_shown(given, blocks)))
    answer = _folded(given.answer or "")
    if not answer or not any(answer in _folded(chunk.text) for chunk in given.chunks):
        return np.nan
    return float(any(answer in _folded(c.text) for c in blocks))


def _passages_shown(given: LabelledList, blocks: Sequence[Candidate]) -> list[float]:
    """Return for each needed passage the share of its characters that the blocks show."""
    spans: dict[object, list[Span]] = {}
    for c in blocks:
        whole = (c.start, c.start + len(c.source.text))
        spans.setdefault(c.chunk.source_id, []).extend(c.spans or [whole])
    return [
        sum(max(min(end, e) - max(start, s), 0) for s, e in merge_spans(spans.get(source, []))) / (end - start)
        for source, start, end in given.references
    ]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def by_large_model(data: Path) -> Iterator[Graded]:
    """Yield the lists that a large model graded, with its grades."""
    lines = (data / "graded" / "large_llm.jsonl").read_text(encoding="utf-8").splitlines()
    graded = {(row["dataset"], row["id"]): row["grades"] for row in map(json.loads, lines)}
    for given in _lists(data, {key: len(grades) for key, grades in graded.items()}):
        grades = tuple(map(Grade, graded[given.dataset, given.id]))
        yield given, Grading(grades, (None,) * len(grades), Status.OK)


def by_embedded_model(lists: Iterable[LabelledList], read: Mapping[Key, Record]) -> Iterator[Graded]:
    """Yield those lists that the embedded model read, with what its readings amount to."""
    for given in lists:
        if record := read.get((given.dataset, given.id)):
            sheet = read_reply(RawGrading(levels=levels_of(record.readings)), record.n)
            yield replace(given, chunks=given.chunks[: record.n]), Grading(sheet.grades, sheet.expected, Status.OK)


def by_labels(lists: Iterable[LabelledList]) -> Iterator[Graded]:
    """Yield lists with the grades of one who makes no mistake: 5 for what shows a part of a needed passage, else 1."""
    for given in lists:
        needed = given.touching
        grades = tuple(Grade(5 if place in needed else 1) for place in range(len(given.chunks)))
        yield given, Grading(grades, (None,) * len(grades), Status.OK)


def _lists(data: Path, sizes: Mapping[Key, int]) -> Iterator[LabelledList]:
    for dataset in dict.fromkeys(dataset for dataset, _ in sizes):
        for row in rows(data / f"{dataset}.dev.jsonl.gz"):
            if (dataset, row["id"]) in sizes:
                yield plain(dataset, row, sizes[dataset, row["id"]])


def table(title: str, graded: Sequence[Graded]) -> str:
    """Write the means over some lists, a line per strategy, by the ranking alone and by gradings where there are."""
    names = dict.fromkeys(given.dataset for given, _ in graded)
    sizes = ", ".join(f"{sum(given.dataset == name for given, _ in graded)} {name}" for name in names)
    lines = [f"## {title}", "", f"{len(graded)} lists: {sizes}.", "", f"| {' | '.join(_HEADER)} |", f"|{'---|' * 8}"]
    for strategy in STRATEGIES:
        lines.append(_line(f"{strategy}, ranking", [(given, None) for given, _ in graded], strategy))
        if graded[0][1]:
            lines.append(_line(f"{strategy}, graded", graded, strategy))
    return "\n".join(lines)


def _line(name: str, graded: Sequence[Graded], strategy: str) -> str:
    found = [astuple(measure(given, select(strategy, given, grading))) for given, grading in graded]
    means = [np.nan if np.isnan(column).all() else float(np.nanmean(column)) for column in zip(*found, strict=True)]
    forms = ("{:.3f}", "{:.3f}", "{:.3f}", "{:.1f}", "{:.2f}", "{:.0f}", "{:.3f}")
    cells = ["-" if np.isnan(mean) else form.format(mean) for form, mean in zip(forms, means, strict=True)]
    return f"| {name} | {' | '.join(cells)} |"


def _by_list(records: Path) -> dict[Key, Record]:
    return {(record.dataset, record.id): record for record in load_records(records)}


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(prog="python -m eval.selection", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the labelled lists")
    parser.add_argument("--records", type=Path, default=RECORDS, help="readings of the embedded model")
    options = parser.parse_args()
    cut_anew = list(overlapping(rows(options.data / "chroma.dev.jsonl.gz")))
    read, read_anew = _by_list(options.records), _by_list(OVERLAPPING)
    whole = _lists(options.data, {key: record.n for key, record in read.items()})
    tables = [
        table("Graded by a large model", list(by_large_model(options.data))),
        table("Graded by the embedded model", list(by_embedded_model(whole, read))),
        table("Cut with half overlap, graded by the embedded model", list(by_embedded_model(cut_anew, read_anew))),
        table("Cut with half overlap, graded by the labels", list(by_labels(cut_anew))),
    ]
    sys.stdout.write("\n\n".join([_TOP, *tables]) + "\n")


if __name__ == "__main__":
    main()
