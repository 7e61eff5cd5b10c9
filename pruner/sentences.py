"""The sentences of a text, as spans of characters."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from pruner.errors import ConfigError
from pruner.passages import Block, Kind, blocks, is_prose

__all__ = ["Splitter", "Unit", "load_splitter", "sentences", "units", "units_of"]

Splitter: TypeAlias = Callable[[str], Sequence[int]]
"""Returns where each sentence of a text ends, in order; the last end is the length of the text."""

Unit: TypeAlias = tuple[int, int, Kind]
"""Start, end and kind of what is never cut: a plain tuple, as there are hundreds and names take ten times as long."""

# Sentence splitters can be quadratic in the number of sentences: they never see more at a time.
_WINDOW = 2_000
_GOES_ON = re.compile(r"(?![^\S\n]*\n\s*\n)\s*\S")
_SPACES_ALONE = re.compile(r"\n[^\S\n]+\n")
# A full stop of these scripts always ends a sentence; a list item always begins one.
_ITEM = re.compile(r"\n(?=\s*(?:[-*+•]|\d{1,3}[.)])\s)")
_STOPS = "。！？"
_SURE = re.compile(rf"[{_STOPS}][”’」』）》\"')]*\s*|{_ITEM.pattern}")
_ORDINAL = re.compile(r"(?:^|[\s(])\d{1,2}\.$")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


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


def units(text: str, split: Splitter) -> list[Unit]:
    """Cut a text into its sentences; a table or a code block is one unit."""
    if is_prose(text) and _nothing_is_sure(text) and not _SPACES_ALONE.search(text):
        return sentences(text, split)  # The splitter cuts at blank lines, too.
    return [unit for block in _joined(text, blocks(text)) for unit in units_of(text, block, split)]


def _joined(text: str, found: Sequence[Block]) -> list[Block]:
    """Join blocks where that is the same: the splitter cuts at blank lines too, and takes less time for one text."""
    joined: list[Block] = []
    alone, plain = True, _nothing_is_sure(f"\n{text}")
    for block in found:
        before, after_another = joined[-1] if joined else block, not alone
        alone = block.kind != "prose" or not (plain or _nothing_is_sure(f"\n{text[block.start : block.end]}"))
        parted = text[before.end : block.start].strip("\n") or block.end - before.start > _WINDOW
        if after_another and not alone and not parted:
            joined[-1] = Block(before.start, block.end, "prose")
        else:
            joined.append(block)
    return joined


def units_of(text: str, block: Block, split: Splitter) -> list[Unit]:
    """Cut one block."""
    start, end, kind = block
    return sentences(text[start:end], split, start) if kind == "prose" else [block]


def sentences(text: str, split: Splitter, at: int = 0) -> list[Unit]:
    """Cut a prose text into its sentences, without the white space around them; `at` is where the text begins."""
    found: list[Unit] = []
    start = before = 0
    for end in split(text) if _nothing_is_sure(text) else _ends(text, split):
        last = before + len(text[before:end].rstrip())
        before = end
        may_be_ordinal = text[last - 2 : last - 1].isdigit()
        if may_be_ordinal and _ORDINAL.search(text[max(start, last - 5) : last]) and _GOES_ON.match(text, last):
            continue
        if sentence := text[start:last].lstrip():
            found.append((at + last - len(sentence), at + last, "prose"))
        start = end
    return found


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
