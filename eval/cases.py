"""Rows joined with their records: all that the offline steps see of a list, and no text of it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.datasets import Row, read_all
from eval.errors import EvalError
from eval.records import SETUP, Record, Setup, read_records
from pruner.tokens import TokenCounter

__all__ = ["Case", "Loaded", "load_cases", "make_case", "places_of_answer"]

_LETTER = "[0-9a-z\u00df-\u024f\u0370-\u04ff]"
_SAYS_NOTHING = {"yes", "no"}
Key = tuple[str, str]
# Of a row, by strategy and length: the last record, and where it stands.
Found = Mapping[tuple[str, int], tuple[str, Record]]
Gathered = Mapping[Key, Found]


@dataclass(frozen=True)
class Case:
    """One question with what is known of its list.

    Attributes:
        dataset: name of the set.
        id: of the row.
        n: number of chunks.
        needed: places of the needed chunks; empty when none is in the list.
        missing: number of needed chunks that are not in the list.
        scores: the reranker's.
        tokens: per chunk.
        holds_answer: places of the chunks in which the answer stands word for word.
        has_answer: whether the answer is known.
        meta: of the row.
        records: by strategy.
        helping: places of the chunks labelled as helpful.
        list_sha256: of the question and the list.
    """

    dataset: str
    id: str
    n: int
    needed: frozenset[int]
    missing: int
    scores: tuple[float | None, ...]
    tokens: tuple[int, ...]
    holds_answer: frozenset[int] = frozenset()
    has_answer: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)
    records: Mapping[str, Record] = field(default_factory=dict)
    helping: frozenset[int] = frozenset()
    list_sha256: str = ""


@dataclass(frozen=True)
class Loaded:
    """Cases, and what was left aside to make them.

    Attributes:
        cases: none of the same question and list as another.
        ungraded: number of lists that no record is of.
        repeated: number of lists that another case is of, under another id.
    """

    cases: list[Case]
    ungraded: int = 0
    repeated: int = 0

    @property
    def notes(self) -> list[str]:
        """What was left aside, in a sentence each."""
        ungraded = f"{self.ungraded} lists of these files have no grading: nothing here is about them"
        return [*self.repeats, *([ungraded] if self.ungraded else [])]

    @property
    def repeats(self) -> list[str]:
        """The sentence about equal lists, if there are any."""
        told = f"{self.repeated} lists repeat another's question and chunks under another id: counted once"
        return [told] if self.repeated else []


def load_cases(
    data: Sequence[Path],
    records: Sequence[Path],
    *,
    cut: int | None = None,
    only: Mapping[str, str] | None = None,
) -> Loaded:
    """Join labelled lists with their records.

    Args:
        data: files of rows.
        records: files of records; without any, every row becomes a case, else every row that has a record. Records of
            data sets that are not in `data` are left aside.
        cut: length to which the rows are cut, by which records of other lengths are left aside; by default that of
            their records.
        only: values that a record's setup must have, such as `{"model": "openai:gpt-4o-mini"}`; None where the user
            cannot choose.

    Raises:
        EvalError: a file is faulty; records are of another list than the row, or of lists cut in different ways; the
            records of one strategy were not made by one setup, or those of several not by one model; one list has two
            labels; nothing is left.
    """
    found = _gather(records, only)
    rows = {(row.dataset, row.id): row for _, row in read_all(data)}
    _check_known(found, rows, data)
    cuts = {} if cut else _cuts(found, rows)
    counter = TokenCounter()
    joined = [
        _join(row, found.get(key, {}), cut or cuts.get(row.dataset), counter)
        for key, row in rows.items()
        if key in found or not records
    ]
    cases = [case for case in joined if case is not None]
    if not cases:
        raise EvalError(_why_none(found, rows, cut))
    distinct = _distinct(cases)
    return Loaded(distinct, len(rows) - len(cases), len(cases) - len(distinct))


def _why_none(found: Gathered, rows: Mapping[Key, Row], cut: int | None) -> str:
    for key, records in found.items():
        if key in rows:
            where, record = next(iter(records.values()))
            n = min(cut or record.n, len(rows[key].chunks))
            return f"{where}: n: {record.n} chunks were graded, the list has {n}"
    held, given = (", ".join(sorted({dataset for dataset, _ in keys})) for keys in (found, rows))
    return f"no record is of these lists: the records are of {held or 'nothing'}, the lists of {given}"


def _distinct(cases: Iterable[Case]) -> list[Case]:
    """Keep the first of equal lists: the same question and list a second time says nothing that is new."""
    first: dict[str, Case] = {}
    for case in cases:
        known = first.setdefault(case.list_sha256, case)
        if known.needed != case.needed:
            raise EvalError(
                f"{known.id!r} of {known.dataset!r} and {case.id!r} of {case.dataset!r} are the same question and list "
                "with two labels; correct one of them, or take it out"
            )
    return list(first.values())


def make_case(row: Row, records: Mapping[str, Record], counter: TokenCounter) -> Case:
    """Make the case of a row that has the length of its records."""
    tokens = next((record.tokens for record in records.values() if record.tokens is not None), None)
    return Case(
        dataset=row.dataset,
        id=row.id,
        n=len(row.chunks),
        needed=row.needed,
        missing=len(row.gold) - len(row.needed),
        scores=tuple(chunk.score for chunk in row.chunks),
        tokens=tokens or tuple(counter.count(chunk.text) for chunk in row.chunks),
        holds_answer=places_of_answer(row),
        has_answer=row.answer is not None,
        meta=row.meta,
        records=records,
        helping=row.helping,
        list_sha256=row.sha256,
    )


def places_of_answer(row: Row) -> frozenset[int]:
    """Return the places of the chunks that hold the answer as words of their own, whatever their case and spacing.

    None for `yes` and `no`, which stand everywhere and say nothing there.
    """
    words = (row.answer or "").casefold().split()
    if not words or " ".join(words).strip(".") in _SAYS_NOTHING:
        return frozenset()
    answer = re.compile(rf"(?<!{_LETTER})" + r"\s+".join(map(re.escape, words)) + rf"(?!{_LETTER})")
    texts = [chunk.text.casefold() for chunk in row.chunks]
    # To look for the first word alone is quick, and most chunks do not hold it.
    return frozenset(place for place, text in enumerate(texts) if words[0] in text and answer.search(text))


def _gather(paths: Iterable[Path], only: Mapping[str, str] | None) -> Gathered:
    wanted = only or {}
    if wrong := sorted(wanted.keys() - set(SETUP)):
        raise EvalError(f"{wrong[0]!r} is nothing records are told apart by; use one of {', '.join(SETUP)}")
    found: dict[Key, dict[tuple[str, int], tuple[str, Record]]] = defaultdict(dict)
    setups: Counter[Setup] = Counter()
    for path in paths:
        for number, record in read_records(path):
            if all(_shown(record, name) == value for name, value in wanted.items()):
                setups[record.setup] += 1
                found[record.dataset, record.id][record.strategy, record.n] = f"{path}:{number}", record
    if wanted and not found:
        raise EvalError(f"no record has {', '.join(f'{name}={value}' for name, value in wanted.items())}")
    _check_setups(setups, "give each way a file of its own" if only is None else "")
    return found


def _shown(of: Record | Setup, name: str) -> str:
    """Return what a setup has, as it is written in messages and read from --only."""
    return str(getattr(of, name)) or "none"


def _check_setups(setups: Counter[Setup], advice: str) -> None:
    """Refuse to mix what was graded in different ways: no figure over it would say anything of either."""
    for names in (("strategy", "model"), SETUP):
        for strategy in {setup.strategy for setup in setups}:
            _check_one(setups, strategy if names is SETUP else None, names, advice)


def _check_one(setups: Counter[Setup], strategy: str | None, names: Sequence[str], advice: str) -> None:
    chosen = [setup for setup in setups if strategy in (None, setup.strategy)]
    for name in names[1:]:
        counts: Counter[str] = Counter()
        for setup in chosen:
            counts[_shown(setup, name)] += setups[setup]
        if len(counts) > 1:
            held = ", ".join(f"{value} ({count})" for value, count in counts.most_common())
            what = f"{strategy or ''} records".strip()
            advice = advice or f"choose one with --only {name}=VALUE, or give other files"
            raise EvalError(f"the {what} mix {name}: {held}; {advice}")


def _check_known(found: Gathered, rows: Mapping[Key, Row], data: Sequence[Path]) -> None:
    here = {dataset for dataset, _ in rows}
    for (dataset, identifier), records in found.items():
        if dataset in here and (dataset, identifier) not in rows:
            where, _ = next(iter(records.values()))
            raise EvalError(f"{where}: id: no list {identifier!r} of {dataset!r} in {', '.join(map(str, data))}")
        for where, record in records.values() if dataset in here else ():
            if record.n > (n := len(rows[dataset, identifier].chunks)):
                raise EvalError(f"{where}: n: {record.n} chunks were graded, the list has {n}")


def _cuts(found: Gathered, rows: Mapping[Key, Row]) -> Mapping[str, int]:
    """Return data set → to how many chunks its graded lists were cut, where they were.

    Raises:
        EvalError: those of one set were not all cut to the same number.
    """
    lengths: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    for key, records in found.items():
        if key in rows:
            lengths[key[0]].update((n, len(rows[key].chunks)) for _, n in records)
    cuts = {
        name: min(n for n, of in known if n < of) for name, known in lengths.items() if any(n < of for n, of in known)
    }
    for name, cut in cuts.items():
        if longer := {n for n, _ in lengths[name] if n > cut}:
            held = f"cut to {cut} chunks with lists of {max(longer)}"
            raise EvalError(f"the records of {name!r} mix lists {held}; choose with --cut")
    return cuts


def _join(row: Row, found: Found, cut: int | None, counter: TokenCounter) -> Case | None:
    """Make the case of a row, cut; None where the records are of other lengths."""
    row = row.cut(cut) if cut else row
    fitting = {strategy: record for (strategy, n), record in found.items() if n == len(row.chunks)}
    if found and not fitting:
        return None
    for where, record in fitting.values():
        if record.list_sha256 != row.sha256:
            raise EvalError(f"{where}: list_sha256: another list than {row.id!r} of {row.dataset!r} now is was graded")
    return make_case(row, {strategy: record for strategy, (_, record) in fitting.items()}, counter)
