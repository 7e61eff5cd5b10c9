"""Where a text may be cut: paragraphs, tables and code, as spans of characters; and what is cut, put together."""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Literal, NamedTuple, TypeAlias

from pruner.candidates import Span

__all__ = ["GAP", "Block", "Kind", "blocks_of", "join", "merge_spans", "regions", "stretches"]

Kind: TypeAlias = Literal["prose", "table", "code"]
GAP = "[…]"
"""Stands where something between two pieces was left out."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_OPENS = re.compile(r"\s*(```|~~~|<(?:table|pre)\b)", re.IGNORECASE)
_TAG = re.compile(r"<(?:table|pre)\b", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n\s*\n")


class Block(NamedTuple):
    """A stretch of a text that belongs together, without the blank lines around it."""

    start: int
    end: int
    kind: Kind


def regions(text: str, longest: int) -> list[Block]:
    """Cut a text into its tables, its code blocks and the prose between them, several paragraphs up to a length."""
    if len(text) <= longest and _is_prose(text):
        return [Block(0, len(text), "prose")]
    found: list[Block] = []
    for stretch in stretches(text):
        for block in blocks_of(text, stretch):
            if found and found[-1].kind == block.kind == "prose" and block.end - found[-1].start <= longest:
                found[-1] = Block(found[-1].start, block.end, "prose")
            else:
                found.append(block)
    return found


def stretches(text: str) -> Sequence[Span | Block]:
    """Cut a text into what `blocks_of` makes its blocks of, for those who need only a few of them."""
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
    if not text or text.isspace():
        return []
    start = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
    end = text.find("\n", len(text.rstrip())) % (len(text) + 1)  # -1 is the length.
    gaps = map(re.Match.span, _BLANK_LINES.finditer(text, start, end))
    edges = [start, *chain.from_iterable(gaps), end]
    return list(zip(edges[::2], edges[1::2], strict=True))


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
