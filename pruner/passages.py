"""Where a text may be cut: paragraphs, tables and code, and the sentences in between, all as spans of characters."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from pruner.candidates import Span
from pruner.errors import ConfigError

__all__ = [
    "GAP",
    "Block",
    "Splitter",
    "blocks",
    "blocks_of",
    "join",
    "load_splitter",
    "merge_spans",
    "sentences",
    "stretches",
    "units",
]

Kind: TypeAlias = Literal["prose", "table", "code"]
Splitter: TypeAlias = Callable[[str], Sequence[int]]
"""Returns where each sentence of a text ends, in order; the last end is the length of the text."""

Unit: TypeAlias = tuple[int, int, Kind]
"""Start, end and kind of what is never cut: a plain tuple, as there are hundreds and names take ten times as long."""

GAP = "[…]"
"""Stands where something between two pieces was left out."""

# Sentence splitters can be quadratic in the number of sentences: they never see more at a time.
_WINDOW = 2_000
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_OPENS = re.compile(r"\s*(```|~~~|<(?:table|pre)\b)", re.IGNORECASE)
_TAG = re.compile(r"<(?:table|pre)\b", re.IGNORECASE)
_PARAGRAPH_ENDS = re.compile(r"[^\S\n]*\n\s*\n")
_SPACES_ALONE = re.compile(r"\n[^\S\n]+\n")
_BLANK_LINES = re.compile(r"\n\s*\n")
# A full stop of these scripts always ends a sentence; a list item always begins one.
_ITEM = re.compile(r"\n(?=\s*(?:[-*+•]|\d{1,3}[.)])\s)")
_STOPS = "。！？"
_SURE = re.compile(rf"[{_STOPS}][”’」』）》\"')]*\s*|{_ITEM.pattern}")
_ORDINAL = re.compile(r"(?:^|[\s(])\d{1,2}\.$")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Block(NamedTuple):
    """A stretch of a text that belongs together, without the blank lines around it."""

    start: int
    end: int
    kind: Kind


def load_splitter() -> Splitter:
    """Load the sentence splitter; before any call, as loading takes a moment.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise ConfigError("splitting sentences needs: pip install 'listwise-pruner[sentences]'") from None

    def split(text: str) -> list[int]:
        sendable = text if text.isascii() else _SURROGATE.sub("\ufffd", text)
        return list(accumulate(map(len, segment("en", sendable))))

    return split


def blocks(text: str) -> list[Block]:
    """Cut a text at its blank lines; a fenced or indented code block and a table are one block each."""
    if _may_be_fenced(text):
        return _mixed(text)
    if _is_prose(text):
        return [Block(start, end, "prose") for start, end in _paragraphs(text)]
    return [block for stretch in _paragraphs(text) for block in blocks_of(text, stretch)]


def stretches(text: str) -> Sequence[Span | Block]:
    """Cut a text into what `blocks_of` makes all of its blocks of: it takes long, and often only a few are needed."""
    return _mixed(text) if _may_be_fenced(text) else _paragraphs(text)


def blocks_of(text: str, stretch: Span | Block) -> list[Block]:
    """Return the blocks of one stretch."""
    if isinstance(stretch, Block):
        return [stretch]
    start, end = stretch
    part = text[start:end]
    if _is_prose(part):  # Most are.
        return [Block(start, end, "prose")]
    return [Block(start + s, start + e, kind) for s, e, kind in _mixed(part)]


def _is_prose(text: str) -> bool:
    """Whether a text holds no sign of a table or code."""
    return not ("|" in text or "\t" in text or "\n    " in text or text.startswith("    ") or _may_be_fenced(text))


def _may_be_fenced(text: str) -> bool:
    return "```" in text or "~~~" in text or ("<" in text and bool(_TAG.search(text)))


def _paragraphs(text: str) -> list[Span]:
    """Return what lies between blank lines, without looking at any other line."""
    gaps = [found.span() for found in _BLANK_LINES.finditer(f"\n{text}\n")]  # The line ends of a first and a last one.
    edges = zip([0, *(end - 1 for _, end in gaps)], [*(start - 1 for start, _ in gaps), len(text)], strict=True)
    return [(start, end) for start, end in edges if start < end]


def _mixed(text: str) -> list[Block]:
    found: list[Block] = []
    lines = _LINE.findall(text)
    starts = list(accumulate(map(len, lines), initial=0))
    at = 0
    while at < len(lines):
        size, kind = _block_at(lines, at)
        if size:
            found.append(Block(starts[at], starts[at + size] - lines[at + size - 1].endswith("\n"), kind))
        at += size or 1
    return found


def _block_at(lines: Sequence[str], at: int) -> tuple[int, Kind]:
    """Return how many lines the block that begins with line `at` has; 0 for a blank line."""
    line = lines[at]
    if not line.strip():
        return 0, "prose"
    if opens := _opens(line):
        return _fenced(lines, at, opens[1].lower())
    if (size := _run(lines, at, _is_row)) > 1:
        return size, "table"
    if size := _run(lines, at, _is_indented):
        return size, "code"
    return _prose(lines, at), "prose"


def _opens(line: str) -> re.Match[str] | None:
    return _OPENS.match(line) if "```" in line or "~~~" in line or "<" in line else None


def _fenced(lines: Sequence[str], at: int, mark: str) -> tuple[int, Kind]:
    """Read to the closing mark, or to the end of the text where there is none."""
    close = f"</{mark[1:]}" if mark[0] == "<" else mark
    kind: Kind = "table" if mark == "<table" else "code"
    for n in range(at, len(lines)):
        line = lines[n].lower()
        if close in (line if n > at else line.replace(mark, "", 1)):
            return n - at + 1, kind
    return len(lines) - at, kind


def _is_row(line: str) -> bool:
    return ("|" in line and (" | " in line or line.lstrip().startswith("|"))) or ("\t" in line and "\t" in line.strip())


def _is_indented(line: str) -> bool:
    return line.startswith(("    ", "\t")) and not line.isspace()


def _run(lines: Sequence[str], at: int, belongs: Callable[[str], bool]) -> int:
    """Count the lines from `at` on that belong together."""
    n = at
    while n < len(lines) and belongs(lines[n]):
        n += 1
    return n - at


def _prose(lines: Sequence[str], at: int) -> int:
    n = at + 1
    while n < len(lines) and not lines[n].isspace() and not _opens(lines[n]):
        if _is_row(lines[n]) and n + 1 < len(lines) and _is_row(lines[n + 1]):
            break
        n += 1
    return n - at


def units(text: str, split: Splitter) -> list[Unit]:
    """Cut a text into its sentences; a table or a code block is one unit."""
    if _is_prose(text) and _nothing_is_sure(text) and not _SPACES_ALONE.search(text):
        return sentences(text, split)  # The splitter cuts at blank lines, too.
    return [unit for run in _runs(text, blocks(text)) for unit in _units_of_run(text, run, split)]


def _runs(text: str, found: Sequence[Block]) -> list[list[Block]]:
    """Gather blocks of prose with nothing but line ends between them."""
    runs: list[list[Block]] = []
    for block in found:
        before = runs[-1][-1] if runs else block
        alike = before.kind == block.kind == "prose" and before is not block
        if alike and not text[before.end : block.start].strip("\n"):
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _units_of_run(text: str, run: Sequence[Block], split: Splitter) -> list[Unit]:
    """Cut blocks at once where that is the same: the splitter cuts at blank lines too, and one call takes less time."""
    start, end = run[0].start, run[-1].end
    if len(run) > 1 and _nothing_is_sure(text[start:end]):
        return sentences(text[start:end], split, start)
    return [unit for block in run for unit in units_of(text, block, split)]


def units_of(text: str, block: Block, split: Splitter) -> list[Unit]:
    """Cut one block."""
    start, end, kind = block
    return sentences(text[start:end], split, start) if kind == "prose" else [block]


def sentences(text: str, split: Splitter, at: int = 0) -> list[Unit]:
    """Cut a prose text into its sentences, without the white space around them; `at` is where the text begins."""
    found: list[Unit] = []
    start = 0
    for end in split(text) if _nothing_is_sure(text) else _ends(text, split):
        stripped = text[start:end].rstrip()
        last = start + len(stripped)
        if not stripped or (text[last - 2].isdigit() and _ORDINAL.search(stripped[-5:]) and _goes_on(text, last)):
            continue
        found.append((at + last - len(stripped.lstrip()), at + last, "prose"))
        start = end
    return found


def _goes_on(text: str, last: int) -> bool:
    return bool(text[last:].strip()) and not _PARAGRAPH_ENDS.match(text, last)


def _nothing_is_sure(text: str) -> bool:
    """Whether all is left to the splitter: it is for most texts, and they take half the time."""
    if len(text) > _WINDOW or ("\n" in text and _ITEM.search(text)):
        return False
    return text.isascii() or not any(map(text.__contains__, _STOPS))


def _ends(text: str, split: Splitter) -> Iterator[int]:
    """Yield where sentences end, each sure end cut first and no window longer than `_WINDOW`."""
    start = 0
    for sure in [*(match.end() for match in _SURE.finditer(text)), len(text)]:
        while start < sure:
            window = text[start : min(start + _WINDOW, sure)]
            cuts = list(split(window))
            if start + len(window) < sure:
                # The last sentence of a window may go on in the next one.
                cuts = cuts[:-1]
            yield from (start + cut for cut in cuts)
            start += cuts[-1] if cuts else len(window)


def join(text: str, spans: Sequence[Span]) -> str:
    """Put pieces of a text together, a mark where something between them was left out; rows of a table join without."""
    shown = ""
    for number, (start, end) in enumerate(spans):
        if number:
            left_out = text[spans[number - 1][1] : start]
            rows = _is_row(shown[shown.rfind("\n") + 1 :]) and _is_row(text[start:end].partition("\n")[0])
            shown += left_out if not left_out.strip() else "\n" if rows else f"\n{GAP}\n"
        shown += text[start:end]
    return shown


def merge_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Sort spans, and make one of those that touch or overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
