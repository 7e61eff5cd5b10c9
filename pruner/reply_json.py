"""Finds JSON values in what a model wrote: prose around, thoughts before, the end cut off.

The standard decoder is all or nothing, recurses, and starts again at each bracket. This reader takes each character a
bounded number of times, no more tokens than it is given steps, and keeps what was whole when a value breaks off. It is
lenient about what cannot change a meaning: trailing or missing commas, comments, single quotes, bare words, unescaped
quotes inside a string. A string ends at a quote that a delimiter follows, as in all valid JSON.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Box", "Scalar", "Steps", "Value", "after_thought", "find_values"]

MAX_DEPTH = 16

_STRING = r"{q}[^{q}\\]*(?:(?:\\.?|{q}(?!\s*(?:[,:\]}}]|\Z)))[^{q}\\]*)*(?:{q}|\Z)"
_STRINGS = "|".join(_STRING.format(q=quote) for quote in "\"'")
_TOKEN = re.compile(
    rf"""[\s,]*
    (?: (?P<comment>//[^\n]*)
      | (?P<mark>[\[\]{{}}])
      | (?P<scalar> {_STRINGS} | -?[0-9][\w.+-]* | -?[^\W\d]\w*(?=\s*[,:\]}}]) ) (?P<colon>\s*:)?
    )""",
    re.VERBOSE | re.DOTALL,
)
_THOUGHT = "(?:think|thinking|thought|reasoning)>"
_START = re.compile(rf"[\[{{]|<(?P<slash>/?){_THOUGHT}", re.IGNORECASE)
_THOUGHT_START = re.compile(rf"\s*<{_THOUGHT}", re.IGNORECASE)
_THOUGHT_END = re.compile(f"</{_THOUGHT}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, number or word, never converted: `text[start:end]` of the reply, decoded if it was quoted."""

    text: str
    quoted: bool
    start: int
    end: int


@dataclass(slots=True)
class Box:
    """An array or object: members in order, repeated keys included; the keys of an array are None.

    Attributes:
        opening: `[` or `{`.
        items: key and value of each whole member; an unclosed box counts as a value here.
        closed: whether its end was seen.
    """

    opening: str
    items: "list[tuple[Scalar | None, Value]]" = field(default_factory=list)
    closed: bool = False


Value: TypeAlias = Scalar | Box
Steps: TypeAlias = Iterator[int]


def find_values(text: str, steps: Steps, *, cut: bool, at: int = 0, end: int | None = None) -> list[Box]:
    """Return the arrays and objects that stand in `text` outside of thoughts, each as far as it goes.

    Thought tags count outside values only, so that a quoted one hides nothing. A closing tag without an opening one
    ends a thought that began in the prompt.

    Args:
        text: what the model wrote.
        steps: one is taken for each token, value and thought; when there are no more, nothing more is read.
        cut: whether the text broke off, so that a number at its very end may be half a number.
        at: where to begin.
        end: where to stop; what is read breaks off there.
    """
    values: list[Box] = []
    end, cut = (len(text), cut) if end is None else (end, True)
    while (start := _START.search(text, at, end)) and next(steps, None) is not None:
        if start["slash"] is None:
            box, at = _read(text, start, steps, cut)
            values.append(box)
        elif start["slash"]:
            values.clear()
            at = start.end()
        else:
            at = _thought_end(text, start.end())
    return values


def after_thought(text: str) -> int:
    """Return where the thought ends that a text begins with; 0 when it begins with none."""
    start = _THOUGHT_START.match(text)
    return _thought_end(text, start.end()) if start else 0


def _thought_end(text: str, at: int) -> int:
    end = _THOUGHT_END.search(text, at)
    return end.end() if end else len(text)


def _read(text: str, start: re.Match[str], steps: Steps, cut: bool) -> tuple[Box, int]:
    """Return the value that starts with a bracket, and where to go on: its end, or what broke it."""
    builder = _Builder(start[0])
    at = start.end()
    while builder.path and next(steps, None) is not None and (token := _TOKEN.match(text, at, start.endpos)):
        at = token.end()
        if not (token["comment"] or _take(builder, token, cut)):
            # A bracket in the wrong place may start a value of its own.
            return builder.root, token.start("mark") if token["mark"] else at
    return builder.root, at


def _take(builder: "_Builder", token: re.Match[str], cut: bool) -> bool:
    """Add the token to the value; say whether it had a place there."""
    if mark := token["mark"]:
        return builder.open(mark) if mark in "[{" else builder.close(mark)
    scalar = _scalar(token["scalar"], token.start("scalar"))
    if token["colon"]:
        return builder.name(scalar)
    if scalar.end == token.endpos and (cut or scalar.quoted):
        return False
    return builder.add(scalar)


def _scalar(raw: str, start: int) -> Scalar:
    quoted = raw[0] in "\"'"
    return Scalar(_decode(raw) if quoted else raw, quoted, start, start + len(raw))


def _decode(raw: str) -> str:
    """Return the content of a quoted string; a faulty escape is left as it stands."""
    if "\\" in raw:
        try:
            return str(json.loads(raw, strict=False))
        except ValueError:
            pass
    return raw[1:-1]


class _Builder:
    """Puts the tokens of one value together; each method says whether the token had a place there."""

    def __init__(self, opening: str) -> None:
        self.root = Box(opening)
        self.path = [self.root]
        self._key: Scalar | None = None

    def open(self, opening: str) -> bool:
        box = Box(opening)
        if len(self.path) == MAX_DEPTH or not self.add(box):
            return False
        self.path.append(box)
        return True

    def close(self, closing: str) -> bool:
        """Close up to the matching bracket; one forgotten on the way is taken as closed too."""
        opening = "[" if closing == "]" else "{"
        if all(box.opening != opening for box in self.path):
            return False
        while self.path:
            box = self.path.pop()
            box.closed = True
            if box.opening == opening:
                break
        self._key = None
        return True

    def name(self, key: Scalar) -> bool:
        self._key = key
        return self.path[-1].opening == "{"

    def add(self, value: Value) -> bool:
        box = self.path[-1]
        if box.opening == "{" and self._key is None:
            return False
        box.items.append((self._key, value))
        self._key = None
        return True
