"""A long text cut where its own structure allows: JSON items, Markdown sections, log records, search hits."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pruner.errors import RequestError

__all__ = ["Part", "Split", "split_list", "split_text"]

# The smallest number of parts that shows a structure; two lines that look alike may be chance.
_LEAST = 3
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r"^(#{1,6})[ \t]+(\S.*)")
_RECORD = re.compile(
    r"""^\W{0,2}(?: \d{4}([-/])\d\d\1\d\d [T\x20] \d\d:\d\d       # 2026-01-31 12:00, ISO 8601, or with /
      | \S+\ \S+\ \S+\ \[\d\d/[A-Z][a-z]{2}/\d{4}:             # 127.0.0.1 - - [31/Jan/2026:, web server
      | [A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d                # Jan 31 12:00:00, syslog
      | \d\d:\d\d:\d\d                                         # 12:00:00
      | [^\s:]+:\d+:                                            # file.py:12:, grep
      | (?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b )""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"^\W{0,2}(\d{1,4})[.)\]:]\**\s")
_LABEL = re.compile(r"^\W{0,2}(Title|Name|URL|Link|Source|Path|File|Result|Document)\b[^:\n]{0,12}:", re.IGNORECASE)
_RULE = re.compile(r"^\s*([-=*_])(?:\s*\1){2,}\s*$")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the text: what is shown, and the headings it stands under."""

    text: str
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """A text in parts.

    Attributes:
        parts: in the text's order; none is blank.
        unit: what a part is called, in the plural.
        join: makes a text of the same kind from the parts at some indices, in order.
    """

    parts: tuple[Part, ...]
    unit: str
    join: Callable[[Sequence[int]], str]


def split_text(text: str, prose: Callable[[str], Sequence[str]]) -> Split:
    """Cut a text by the first structure found in it.

    Args:
        text: anything.
        prose: cuts a text that has none of these structures.
    """
    for find in (_json, _json_lines, _sections, _hits, _records):
        if found := find(text):
            return found
    return _joined([Part(piece) for piece in prose(text) if piece.strip()], "passages", "\n\n")


def split_list(items: Sequence[Any]) -> Split:
    """Take the entries of a list as parts: strings as they are, anything else as JSON.

    Raises:
        RequestError: an entry cannot be written as JSON.
    """
    if all(isinstance(item, str) for item in items):
        return _joined([Part(item) for item in items if item.strip()], "results", "\n\n")
    return _json_items(items, lambda kept: kept)


def _joined(parts: Sequence[Part], unit: str, between: str) -> Split:
    return Split(tuple(parts), unit, lambda kept: between.join(parts[index].text for index in kept))


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"a tool's output cannot be written as JSON: {error}") from None


def _json_items(items: Sequence[Any], put: Callable[[list[Any]], Any]) -> Split:
    parts = tuple(Part(_dumped(item)) for item in items)
    return Split(parts, "results", lambda kept: _dumped(put([items[index] for index in kept])))


def _json(text: str) -> Split | None:
    """Find the array with the most to read, on its own or in objects around it; what is around it stays."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = [(path, items) for path, items in _arrays(value) if len(items) > 1]
    if not found:
        return None
    path, items = max(found, key=lambda array: (_words(array[1]), len(array[1])))
    return _json_items(items, lambda kept: _with(value, path, kept))


def _words(items: Sequence[Any]) -> int:
    """Measure an array in characters; numbers, such as an embedding, count for nothing."""
    return sum(len(_dumped(item)) for item in items if not isinstance(item, int | float))


def _arrays(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    if isinstance(value, list):
        yield path, value
    elif isinstance(value, dict) and len(path) < 4:
        for key, inner in value.items():
            yield from _arrays(inner, (*path, key))


def _with(value: Any, path: tuple[str, ...], kept: list[Any]) -> Any:
    return {**value, path[0]: _with(value[path[0]], path[1:], kept)} if path else kept


def _json_lines(text: str) -> Split | None:
    # Within JSON, no line ends but at a line feed. The last record may be cut off.
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    whole = all(line.startswith("{") for line in lines) and all(line.endswith("}") for line in lines[:-1])
    if len(lines) < _LEAST or not whole:
        return None
    return _joined([Part(line) for line in lines], "records", "\n")


def _sections(text: str) -> Split | None:
    """Cut before each heading; one without text of its own opens the section that follows it."""
    lines = text.splitlines(keepends=True)
    starts: dict[int, tuple[str, ...]] = {}
    above: list[tuple[int, str]] = []
    opened: tuple[int, tuple[str, ...]] | None = None
    for (at, level, title), (after, *_) in pairwise([*_headings(lines), (len(lines), 0, "")]):
        above = [heading for heading in above if heading[0] < level]
        opened = opened or (at, tuple(title for _, title in above))
        above.append((level, title))
        if "".join(lines[at + 1 : after]).strip():
            starts[opened[0]] = opened[1]
            opened = None
    return _cut(lines, {0: (), **starts}, "sections") if len(starts) > 1 else None


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield line, level and title of each heading that is not in a fenced block."""
    fence = ""
    for at, line in enumerate(lines):
        if found := _FENCE.match(line):
            fence = _after(fence, found[1], found[2])
        elif not fence and (found := _HEADING.match(line)):
            yield at, len(found[1]), found[2].rstrip().rstrip("#").rstrip()


def _after(fence: str, mark: str, rest: str) -> str:
    """Return the fence that is open after a mark: a block ends at its own, alone on its line and no shorter."""
    if not fence:
        return mark
    return "" if mark.startswith(fence) and not rest.strip() else fence


def _hits(text: str) -> Split | None:
    """Cut before numbers that count up by one, before a label that recurs, or at rules."""
    lines = text.splitlines(keepends=True)
    numbers = {at: int(found[1]) for at, line in enumerate(lines) if (found := _NUMBER.match(line))}
    if len(numbers) >= _LEAST and all(b - a == 1 for a, b in pairwise(numbers.values())):
        return _cut(lines, _from_the_top(numbers), "results")
    labels = {at: found[1].lower() for at, line in enumerate(lines) if (found := _LABEL.match(line))}
    first = [at for at, label in labels.items() if label == next(iter(labels.values()))]
    if len(first) >= _LEAST:
        return _cut(lines, _from_the_top(first), "results")
    rules = [at for at, line in enumerate(lines) if _RULE.match(line)]
    return _cut(lines, [0, *rules], "results") if len(rules) >= _LEAST - 1 else None


def _records(text: str) -> Split | None:
    """Cut before each line with a time, a level or a place; others, as of a traceback, belong to the line before."""
    lines = text.splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if _RECORD.match(line)]
    return _cut(lines, _from_the_top(starts), "records") if len(starts) >= _LEAST else None


def _from_the_top(starts: Iterable[int]) -> list[int]:
    """Let the first part begin where the text does: what is said before the first result is no result."""
    return [0, *list(starts)[1:]]


def _cut(lines: Sequence[str], starts: Iterable[int], unit: str) -> Split:
    headings: Mapping[int, tuple[str, ...]] = starts if isinstance(starts, Mapping) else {}
    bounds = sorted({*starts, len(lines)})
    parts = [Part("".join(lines[a:b]).rstrip("\n"), headings.get(a, ())) for a, b in pairwise(bounds)]
    return _joined([part for part in parts if part.text.strip()], unit, "\n")
