"""The sentences of a text, as spans of characters."""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias

from pruner.errors import ConfigError
from pruner.passages import Block, Kind, regions

__all__ = ["LIST_ITEM", "Splitter", "Unit", "load_splitter", "sentences", "units", "units_of"]

Splitter: TypeAlias = Callable[[str], Sequence[int]]
"""Returns where each sentence of a text ends, in order; the last end is the length of the text."""

Unit: TypeAlias = tuple[int, int, Kind]
"""Start, end and kind of what is never cut: a plain tuple, as there are hundreds and names take ten times as long."""

LIST_ITEM = r"[^\S\n]*(?:[-*+•]|\d{1,3}[.)])\s"
"""Regular expression: how the line of an item of a list begins."""

# Sentence splitters can be quadratic in the number of sentences: they never see more at a time.
_WINDOW = 2_000
_GOES_ON = re.compile(r"(?![^\S\n]*\n\s*\n)\s*\S")
# A full stop of some scripts always ends a sentence; so does a line of blanks alone, and before a list item, each line.
_LINE = re.compile(rf"\n(?:[^\S\n]+\n|(?={LIST_ITEM}))")
_STOPS = "。！？"
_SURE = re.compile(rf"[{_STOPS}][”’」』）》\"')]*\s*|{_LINE.pattern}")
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
    return [unit for region in regions(text, _WINDOW) for unit in units_of(text, region, split)]


def units_of(text: str, block: Block, split: Splitter) -> list[Unit]:
    """Cut one block."""
    start, end, kind = block
    return sentences(text[start:end], split, start) if kind == "prose" else [block]


def sentences(text: str, split: Splitter, at: int = 0) -> list[Unit]:
    """Cut a prose text into its sentences, without the white space around them; `at` is where the text begins."""
    found: list[Unit] = []
    start = before = 0
    for end in split(text) if _nothing_is_sure(text) else _ends(text, split):
        last = before + len(part := text[before:end].rstrip())
        if not part:
            if start == before:
                start = end
        elif not (part[-2:-1].isdigit() and _goes_on(text, start, last)):
            if text[start].isspace():
                start = last - len(text[start:last].lstrip())
            found.append((at + start, at + last, "prose"))
            start = end
        before = end
    return found


def _goes_on(text: str, start: int, end: int) -> bool:
    """Whether what ends there is an ordinal, such as the 3. of a month, and no sentence."""
    return bool(_ORDINAL.search(text[max(start, end - 5) : end]) and _GOES_ON.match(text, end))


def _nothing_is_sure(text: str) -> bool:
    """Whether all is left to the splitter: it is for most texts, and they take half the time."""
    if len(text) > _WINDOW or ("\n" in text and _LINE.search(text)):
        return False
    return text.isascii() or not any(map(text.__contains__, _STOPS))


def _ends(text: str, split: Splitter) -> list[int]:
    """Return where sentences end, each sure end cut first and no window longer than `_WINDOW`."""
    ends: list[int] = []
    start = 0
    sure_ends = _LINE if text.isascii() else _SURE  # The first begins with one sign, and is found soon.
    for sure in [*(match.end() for match in sure_ends.finditer(text)), len(text)]:
        while start < sure:
            stop = min(start + _WINDOW, sure)
            cuts = split(text[start:stop])
            if stop < sure:
                # The last sentence of a window may go on in the next one.
                cuts = cuts[:-1]
            ends += [start + cut for cut in cuts]
            start = ends[-1] if cuts else stop
    return ends
