"""Makes grades of what a backend answered: a tolerant reader, a strict validator.

`reply_json` finds the values in a text, whatever stands around them, and `reply_entries` the entries in a value, in
whichever form. What counts is decided here: a label 1..n with a grade 1..5, however spelled. A chunk without a valid
grade is ungraded. Of several values in one reply the one with most valid grades is the answer, the last of equals.

Some models count from 0, whatever they were shown. Labels that are 0..n-1, all of them, are taken so. Where some of
these are missing it cannot be told which chunks they mean, and none counts. A 0 beside n, or beside other labels that
there are not, is one of those.
"""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pruner.errors import Reason, ReplyError
from pruner.reply_entries import LABEL, Entry, gradings
from pruner.reply_json import Box, Steps, after_thought, find_values
from pruner.schema import Grade, RawGrading, Token

__all__ = ["GradeSheet", "read_reply"]

# Of a longer reply, this many characters for all, and for each chunk, are read at its front, and as many at its end;
# an entry with its reason mostly has a hundred. The thought that it begins with does not count.
ROOM, ROOM_EACH = 50_000, 100
# At each end, so many tokens: an entry with its reason has eight.
STEPS, STEPS_EACH = 500, 16
# So many brackets from the last one back: an entry has one.
_BRACKETS, _BRACKETS_EACH = 20, 2

_LEVELS = frozenset("12345")
_NUMBER = r"([1-5])(?:\.0+)?"
_NAME = "|".join(grade.name for grade in Grade)
_BETWEEN = r"[\s.:,()\[\]–—-]{1,4}"
_GRADE = re.compile(rf"(?:{_NUMBER}|(?:{_NUMBER}{_BETWEEN})?({_NAME})(?:{_BETWEEN}{_NUMBER})?[)\]]?)", re.I | re.ASCII)
_BLANK = r"[ \t\r\n]*+"
_PAIR = rf"\[{_BLANK}[1-9][0-9]{{0,3}}+{_BLANK},{_BLANK}[1-5]{_BLANK}\]{_BLANK}"
_PAIRS = re.compile(
    rf'{_BLANK}\{{{_BLANK}"grades"{_BLANK}:{_BLANK}\[{_BLANK}{_PAIR}(?:,{_BLANK}{_PAIR})*+\]{_BLANK}\}}{_BLANK}'
)
_BRACKET = re.compile(r"[\[{]")
_LEVEL_OF = {str(grade.value): grade for grade in Grade}


@dataclass(frozen=True, slots=True)
class GradeSheet:
    """What a reply says about labels 1..n.

    Attributes:
        grades: one per label, None where nothing valid was said.
        expected: mean level in [1, 5] by the model's own probabilities, None where it gave none.
        notes: the few words beside each grade, when reasons were asked for.
        missing: labels without a valid grade.
        duplicate: entries for a label that had one already; the higher grade counts.
        unknown: entries for no label of ours.
        invalid: entries for a label of ours without a valid grade.
    """

    grades: tuple[Grade | None, ...]
    expected: tuple[float | None, ...]
    notes: tuple[str | None, ...]
    missing: int
    duplicate: int
    unknown: int
    invalid: int


@dataclass(slots=True)
class _Answer:
    """The valid grades of one value, and counts of the rest."""

    best: dict[int, tuple[Grade, Entry]] = field(default_factory=dict)
    duplicate: int = 0
    unknown: int = 0
    invalid: int = 0


def read_reply(raw: RawGrading, n: int) -> GradeSheet:
    """Read the grades of `n` chunks, labelled 1..n, from whatever came back.

    Raises:
        ReplyError: there is not one valid grade; its reason says why.
    """
    if raw.finish == "refused":
        raise ReplyError(Reason.REFUSED)
    if raw.levels is not None:
        return _read_levels(raw.levels, n)
    return _read_exact(raw, n) or _read_text(raw, n)


def _read_exact(raw: RawGrading, n: int) -> GradeSheet | None:
    """Read the reply that was asked for: pairs, each label once and in order, nothing else; None for any other.

    The tolerant reader says the same of it, in ten times the time.
    """
    text = raw.text or ""
    if raw.tokens or len(text) > _room(n) or not _PAIRS.fullmatch(text):
        return None
    numbers = re.findall("[0-9]+", text)
    if numbers[::2] != [str(label) for label in range(1, n + 1)]:
        return None
    grades = tuple(_LEVEL_OF[level] for level in numbers[1::2])
    return GradeSheet(grades, (None,) * n, (None,) * n, missing=0, duplicate=0, unknown=0, invalid=0)


def _read_levels(levels: Sequence[Sequence[float]], n: int) -> GradeSheet:
    means = [_mean_level(row) for row in levels[:n]]
    expected = (*means, *[None] * (n - len(means)))
    grades = tuple(None if mean is None else Grade(math.floor(mean + 0.5)) for mean in expected)
    if not any(grades):
        why = f"not one usable distribution in {len(levels)}: use readout='json' if the server gives no logprobs"
        raise ReplyError(Reason.SCHEMA_MISMATCH, why)
    return GradeSheet(
        grades=grades,
        expected=expected,
        notes=(None,) * n,
        missing=grades.count(None),
        duplicate=0,
        unknown=max(len(levels) - n, 0),
        invalid=means.count(None),
    )


def _mean_level(weights: Sequence[float]) -> float | None:
    """Return the mean of the levels 1..5 under `weights`, scaled to sum 1; None when they are no distribution."""
    total = sum(weights)
    if len(weights) != len(Grade) or not (0 < total < math.inf) or min(weights) < 0:
        return None
    mean = sum(grade * (weight / total) for grade, weight in zip(Grade, weights, strict=True))
    return min(max(mean, 1.0), 5.0)


def _read_text(raw: RawGrading, n: int) -> GradeSheet:
    text = raw.text or ""
    if not text.strip() and raw.finish == "stop":
        text = raw.reasoning or ""
    text = _decoded(text) if len(text) <= 2 * _room(n) else text
    values = _values(text, n, cut=raw.finish == "length")
    answer = _choose(values, n)
    if not answer.best:
        raise ReplyError(_why_none(raw, values), f"no valid grade in a reply of {len(text)} characters")
    return _sheet(answer, _expected(answer, text, raw.tokens), n)


def _values(text: str, n: int, *, cut: bool) -> list[Box]:
    """Return what there is in a reply, of a long one only what stands first and last: the work is bounded."""
    start, room = after_thought(text), _room(n)
    if len(text) - start <= 2 * room:
        return find_values(text, _steps(2, n), cut=cut, at=start)
    front = find_values(text, _steps(1, n), cut=True, at=start, end=start + room)
    return [*front, *find_values(text, _steps(1, n), cut=cut, at=_end_of(text, n))]


def _end_of(text: str, n: int) -> int:
    """Return where the end of a long reply begins; not with what is all brackets before the answer."""
    brackets = [bracket.start() for bracket in _BRACKET.finditer(text, len(text) - _room(n))]
    last = brackets[-_BRACKETS - _BRACKETS_EACH * n :]
    return last[0] if last else len(text)


def _room(n: int) -> int:
    return ROOM + ROOM_EACH * n


def _steps(ends: int, n: int) -> Steps:
    return iter(range(ends * (STEPS + STEPS_EACH * n)))


def _decoded(text: str) -> str:
    """Return the content of a reply that is one JSON string (arguments encoded twice), else the reply."""
    stripped = text.strip(" \t\r\n\ufeff")
    if not stripped.startswith('"'):
        return text
    try:
        return str(json.loads(stripped, strict=False))
    except ValueError:
        return text


def _why_none(raw: RawGrading, values: Iterable[Box]) -> Reason:
    if raw.finish == "length":
        return Reason.TRUNCATED
    # `[3]` in prose is a citation, not JSON of another schema.
    is_json = any(box.closed and (box.opening == "{" or len(box.items) != 1) for box in values)
    return Reason.SCHEMA_MISMATCH if is_json else Reason.UNPARSEABLE


def _choose(values: Iterable[Box], n: int) -> _Answer:
    """Return the best value: most valid grades, the last of equals, since a corrected answer follows its draft."""
    answers = [_validate(entries, n) for entries in gradings(values, _steps(1, n))]
    return max(reversed(answers), key=lambda answer: len(answer.best), default=_Answer())


def _validate(entries: Sequence[Entry], n: int) -> _Answer:
    answer = _Answer()
    seen: set[int] = set()
    for label, entry in zip(_labels(entries, n), entries, strict=True):
        grade = _grade(entry.grade)
        if label is None:
            answer.unknown += 1
            continue
        answer.duplicate += label in seen
        seen.add(label)
        if grade is None:
            answer.invalid += 1
        elif label not in answer.best or grade > answer.best[label][0]:
            answer.best[label] = grade, entry
    return answer


def _labels(entries: Iterable[Entry], n: int) -> list[int | None]:
    """Return the label of ours that each entry means, None for one that means none."""
    numbers = [int(match[1]) if (match := LABEL.fullmatch(entry.label.strip())) else None for entry in entries]
    written, ours = set(numbers) - {None}, range(1, n + 1)
    from_zero = 0 in written and written.issubset(range(n))
    if from_zero and len(written) < n:
        return [None] * len(numbers)
    labels = [None if number is None else number + from_zero for number in numbers]
    return [label if label in ours else None for label in labels]


def _grade(written: str) -> Grade | None:
    match = _GRADE.fullmatch(written.strip())
    parts = filter(None, match.groups()) if match else ()
    said = {Grade[part.upper()] if part.isalpha() else Grade(int(part)) for part in parts}
    return said.pop() if len(said) == 1 else None


def _sheet(answer: _Answer, expected: Mapping[int, float | None], n: int) -> GradeSheet:
    best = [answer.best.get(label) for label in range(1, n + 1)]
    return GradeSheet(
        grades=tuple(found and found[0] for found in best),
        expected=tuple(expected.get(label) for label in range(1, n + 1)),
        notes=tuple(found and found[1].note for found in best),
        missing=best.count(None),
        duplicate=answer.duplicate,
        unknown=answer.unknown,
        invalid=answer.invalid,
    )


def _expected(answer: _Answer, text: str, tokens: Sequence[Token]) -> dict[int, float | None]:
    """Return the mean level per label, from the token that holds the digit of its grade."""
    start = "".join(token.text for token in tokens).find(text)
    if start < 0:
        return {}
    ends = list(accumulate(len(token.text) for token in tokens))
    means = {}
    for label, (grade, entry) in answer.best.items():
        place = text.find(str(grade.value), *entry.span) if entry.span else -1
        if place >= 0:
            index = bisect_right(ends, start + place)
            token = tokens[index]
            means[label] = _mean_at(token, start + place - ends[index] + len(token.text))
    return means


def _mean_at(token: Token, offset: int) -> float | None:
    """Return the mean level over those alternatives of `token` that differ from it in the digit at `offset` only."""
    weights = [0.0] * len(Grade)
    for text, logprob in token.top:
        digit, after = text[offset : offset + 1], text[offset + 1 : offset + 2]
        is_level = text[:offset] == token.text[:offset] and digit in _LEVELS
        if is_level and not (after.isdigit() or after == ".") and not math.isnan(logprob):
            weights[int(digit) - 1] += math.exp(min(logprob, 0.0))
    return _mean_level(weights)
