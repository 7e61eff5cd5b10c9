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

__all__ = ["Case", "load_cases", "load_graded", "make_case", "places_of_answer"]

_LETTER = "[0-9a-z\u00df-\u024f\u0370-\u04ff]"
_SAYS_NOTHING = {"yes", "no"}
Found = tuple[str, Record]
Key = tuple[str, str]


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


def load_cases(
    data: Sequence[Path],
    records: Sequence[Path],
    *,
    cut: int | None = None,
    only: Mapping[str, str] | None = None,
) -> list[Case]:
    """Join labelled lists with their records.

    Args:
        data: files of rows.
        records: files of records; without any, every row becomes a case, else every row that has a record. Records of
            data sets that are not in `data` are left aside.
        cut: length to which the rows are cut; by default that of their records.
        only: values that a record's setup must have, such as `{"model": "openai:gpt-4o-mini"}`.

    Raises:
        EvalError: a file is faulty; records are of another list or length than the row; the records of one strategy
            were not made by one setup, or those of several not by one model; nothing is left.
    """
    return load_graded(data, records, cut=cut, only=only)[0]


def load_graded(
    data: Sequence[Path], records: Sequence[Path], *, cut: int | None = None, only: Mapping[str, str] | None = None
) -> tuple[list[Case], int]:
    """Do what `load_cases` does, and return also how many lists are left out because no record is of them."""
    found = _gather(records, only or {})
    rows = {(row.dataset, row.id): row for _, row in read_all(data)}
    _check_known(found, rows, data)
    counter = TokenCounter()
    cases = [_join(row, found.get(key, {}), cut, counter) for key, row in rows.items() if key in found or not records]
    if not cases:
        held, given = (", ".join(sorted({dataset for dataset, _ in keys})) for keys in (found, rows))
        raise EvalError(f"no record is of these lists: the records are of {held or 'nothing'}, the lists of {given}")
    return cases, len(rows) - len(cases)


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


def _gather(paths: Iterable[Path], only: Mapping[str, str]) -> dict[Key, dict[str, Found]]:
    """Return row → strategy → the last record, with where it stands."""
    if wrong := sorted(only.keys() - set(SETUP)):
        raise EvalError(f"{wrong[0]!r} is nothing records are told apart by; use one of {', '.join(SETUP)}")
    found: dict[Key, dict[str, Found]] = defaultdict(dict)
    setups: Counter[Setup] = Counter()
    for path in paths:
        for number, record in read_records(path):
            if all(getattr(record, name) == value for name, value in only.items()):
                setups[record.setup] += 1
                found[record.dataset, record.id][record.strategy] = f"{path}:{number}", record
    if only and not found:
        raise EvalError(f"no record has {', '.join(f'{name}={value}' for name, value in only.items())}")
    _check_setups(setups)
    return found


def _check_setups(setups: Counter[Setup]) -> None:
    """Refuse to mix what was graded in different ways: no figure over it would say anything of either."""
    for names in (("strategy", "model"), SETUP):
        for strategy in {setup.strategy for setup in setups}:
            _check_one(setups, strategy if names is SETUP else None, names)


def _check_one(setups: Counter[Setup], strategy: str | None, names: Sequence[str]) -> None:
    chosen = [setup for setup in setups if strategy in (None, setup.strategy)]
    for name in names[1:]:
        counts: Counter[str] = Counter()
        for setup in chosen:
            counts[getattr(setup, name)] += setups[setup]
        if len(counts) > 1:
            held = ", ".join(f"{value or 'none'} ({count})" for value, count in counts.most_common())
            what = f"{strategy or ''} records".strip()
            raise EvalError(f"the {what} mix {name}: {held}; choose one with --only {name}=VALUE, or give other files")


def _check_known(found: Mapping[Key, Mapping[str, Found]], rows: Mapping[Key, Row], data: Sequence[Path]) -> None:
    here = {dataset for dataset, _ in rows}
    for (dataset, identifier), records in found.items():
        if dataset in here and (dataset, identifier) not in rows:
            where, _ = next(iter(records.values()))
            raise EvalError(f"{where}: id: no list {identifier!r} of {dataset!r} in {', '.join(map(str, data))}")


def _join(row: Row, found: Mapping[str, Found], cut: int | None, counter: TokenCounter) -> Case:
    lengths = {record.n for _, record in found.values()}
    if cut is None and len(lengths) > 1:
        raise EvalError(f"the records of {row.id!r} ({row.dataset}) grade {sorted(lengths)} chunks; choose with --cut")
    row = row.cut(cut or max(lengths, default=len(row.chunks)))
    for where, record in found.values():
        if record.n != len(row.chunks):
            raise EvalError(f"{where}: n: {record.n} chunks were graded, the list has {len(row.chunks)}")
        if record.list_sha256 != row.sha256:
            raise EvalError(f"{where}: list_sha256: another list than {row.id!r} of {row.dataset!r} now is was graded")
    return make_case(row, {strategy: record for strategy, (_, record) in found.items()}, counter)
