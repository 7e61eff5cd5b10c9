"""The terms of a text, in any language, for measures of shared words."""

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import pairwise

__all__ = ["terms", "terms_held"]

# Scripts that do not put spaces between words, and Korean, which writes particles onto them.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    r"\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
)
_TERM = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_RUN = re.compile(rf"[{_UNSPACED}]")
_OTHER = "\0"
# ASCII letters and digits stay, the rest parts them.
_ASCII = {n: chr(n) if chr(n).isalnum() else " " for n in range(128)}


def terms(text: str) -> list[str]:
    """Return the words of a text in one case; of scripts without spaces, and of Korean, each pair of characters."""
    folded = text.casefold()
    parted = _parted(folded)
    if _OTHER not in parted:
        return parted.split()
    found: list[str] = []
    for word in _TERM.findall(folded):
        if len(word) > 1 and _RUN.match(word):
            found += map("".join, pairwise(word))
        else:
            found.append(word)
    return found


def terms_held(text: str, spans: Iterable[tuple[int, int]], wanted: frozenset[str]) -> list[frozenset[str]]:
    """Return which of some terms several stretches of a text hold, from start to end each."""
    folded = text.casefold()
    parted = _parted(folded)
    if len(folded) > len(text) or _OTHER in parted:  # ß is folded into ss.
        return [wanted.intersection(terms(text[start:end])) for start, end in spans]
    return [wanted.intersection(parted[start:end].split()) for start, end in spans]


def _parted(folded: str) -> str:
    """Leave words with spaces around them; `_OTHER` in scripts that do not put any."""
    return folded.translate(_ASCII) if folded.isascii() else _part()(folded)


@cache
def _part() -> Callable[[str], str]:
    from pruner.characters import replaced, table  # Loads numpy, which not everybody needs.

    return partial(replaced, by=table((r"[\W_]", " "), (f"[{_UNSPACED}]", _OTHER)), beyond=_OTHER)
