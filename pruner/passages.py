"""Where a text may be cut: paragraphs, tables and code, and the sentences in between, all as spans of characters."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from pruner.candidates import Span
from pruner.errors import ConfigError

__all__ = ["GAP", "Block", "Splitter", "blocks", "join", "load_splitter", "merge_spans", "sentences", "units"]

Kind: TypeAlias = Literal["prose", "table", "code"]
Splitter: TypeAlias = Callable[[str], Sequence[int]]
"""Returns where each sentence of a text ends, in order; the last end is the length of the text."""

GAP = "[…]"
"""Stands where something between two pieces was left out."""

# Sentence splitters can be quadratic in the number of sentences: they never see more at a time.
_WINDOW = 2_000
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_OPENS = re.compile(r"\s*(```|~~~|<(?:table|pre)\b)", re.IGNORECASE)
_INDENTED = re.compile(r"(?: {4}|\t)\s*\S")
# Without one of these a text has neither tables nor code.
_NOT_PROSE = ("|", "\t", "<", "```", "~~~", "\n    ")
# A full stop of these scripts always ends a sentence; a list item always begins one.
_SURE = re.compile(r"[。！？][”’」』）》\"')]*\s*|\n(?=\s*(?:[-*+•]|\d{1,3}[.)])\s)")
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
        from sentencex import get_sentence_boundaries
    except ImportError:
        raise ConfigError("splitting sentences needs: pip install 'listwise-pruner[sentences]'") from None

    def split(text: str) -> list[int]:
        sendable = text if text.isascii() else _SURROGATE.sub("\ufffd", text)
        return [found["end_index"] for found in get_sentence_boundaries("en", sendable)]

    return split


def blocks(text: str) -> list[Block]:
    """Cut a text at its blank lines; a fenced or indented code block and a table are one block each."""
    if not any(sign in text for sign in _NOT_PROSE) and not text.startswith("    "):
        return _paragraphs(text)
    return _mixed(text)


def _paragraphs(text: str) -> list[Block]:
    """Cut at the blank lines alone: most texts are prose, and so are cut in a fifth of the time."""
    found: list[Block] = []
    start = end = 0
    for line in [*text.split("\n"), ""]:
        if line.strip():
            end += len(line) + 1
        else:
            if end > start:
                found.append(Block(start, end - 1, "prose"))
            start = end = end + len(line) + 1
    return found


def _mixed(text: str) -> list[Block]:
    found: list[Block] = []
    lines = [match.span() for match in _LINE.finditer(text)]
    at = 0
    while at < len(lines):
        size, kind = _block_at(text, lines, at)
        if size:
            start, end = lines[at][0], lines[at + size - 1][1]
            found.append(Block(start, end - (text[end - 1] == "\n"), kind))
        at += size or 1
    return found


def _block_at(text: str, lines: list[Span], at: int) -> tuple[int, Kind]:
    """Return how many lines the block that begins with line `at` has; 0 for a blank line."""
    line = text[slice(*lines[at])]
    if not line.strip():
        return 0, "prose"
    if opens := _OPENS.match(line):
        return _fenced(text, lines, at, opens[1].lower())
    if size := _run(text, lines, at, _is_row):
        return size, "table"
    if _INDENTED.match(line):
        return _run(text, lines, at, _is_indented) or 1, "code"
    return _prose(text, lines, at), "prose"


def _fenced(text: str, lines: list[Span], at: int, mark: str) -> tuple[int, Kind]:
    """Read to the closing mark, or to the end of the text where there is none."""
    close = f"</{mark[1:]}" if mark[0] == "<" else mark
    kind: Kind = "table" if mark == "<table" else "code"
    for n in range(at, len(lines)):
        line = text[slice(*lines[n])].lower()
        if close in (line if n > at else line.replace(mark, "", 1)):
            return n - at + 1, kind
    return len(lines) - at, kind


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|") or "\t" in line.strip() or " | " in line


def _is_indented(line: str) -> bool:
    return bool(_INDENTED.match(line))


def _run(text: str, lines: list[Span], at: int, belongs: Callable[[str], bool]) -> int:
    """Count the lines from `at` on that belong together; a single one is no run."""
    n = at
    while n < len(lines) and belongs(text[slice(*lines[n])]):
        n += 1
    return n - at if n - at > 1 else 0


def _prose(text: str, lines: list[Span], at: int) -> int:
    n = at + 1
    while n < len(lines):
        line = text[slice(*lines[n])]
        if not line.strip() or _OPENS.match(line) or _run(text, lines[n : n + 2], 0, _is_row):
            break
        n += 1
    return n - at


def units(text: str, split: Splitter) -> list[Block]:
    """Cut a text into its sentences; a table or a code block is one unit."""
    return [unit for block in blocks(text) for unit in units_of(text, block, split)]


def units_of(text: str, block: Block, split: Splitter) -> list[Block]:
    """Cut one block."""
    if block.kind != "prose":
        return [block]
    found = sentences(text[block.start : block.end], split)
    return [Block(block.start + s, block.start + e, "prose") for s, e in found]


def sentences(text: str, split: Splitter) -> list[Span]:
    """Return the spans of the sentences of a prose text, without the white space around them."""
    spans, start = [], 0
    for end in _ends(text, split):
        stripped = text[start:end].rstrip()
        if not stripped or (stripped[-2:-1].isdigit() and end < len(text) and _ORDINAL.search(stripped[-5:])):
            continue
        last = start + len(stripped)
        spans.append((last - len(stripped.lstrip()), last))
        start = end
    return spans


def _ends(text: str, split: Splitter) -> Iterator[int]:
    """Yield where sentences end, each sure end cut first and no window longer than `_WINDOW`."""
    if len(text) <= _WINDOW and text.isascii() and "\n" not in text:  # Nothing is sure: most texts, at half the time.
        yield from split(text)
        return
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
