"""Reads the replies to the questions that are not gradings."""

from collections.abc import Sequence
from itertools import count

from pruner.errors import Reason, ReplyError
from pruner.reply_entries import LABEL
from pruner.reply_json import Box, Scalar, find_values
from pruner.schema import Grade, RawGrading

__all__ = ["LEVELS", "read_passages", "read_selection"]

LEVELS = {grade.name.lower(): str(grade.value) for grade in reversed(Grade)}


def read_selection(raw: RawGrading, n: int) -> tuple[int, ...]:
    """Read which of the labels 1..n were chosen, as places from 0 in the order given.

    Raises:
        ReplyError: there is no whole list of labels: what it does not name would be dropped.
    """
    lists = [labels for box in _values(raw) for labels in [_labels(box)] if labels is not None]
    if not lists:
        raise ReplyError(Reason.TRUNCATED if raw.finish == "length" else Reason.UNPARSEABLE, "no list of labels")
    return tuple(dict.fromkeys(label - 1 for label in lists[-1] if 1 <= label <= n))


def _labels(box: Box) -> list[int] | None:
    """Return the labels of a closed array of labels, or of the array under an object's `keep`."""
    if box.opening == "{":
        kept = [value for key, value in box.items if key and key.text == "keep" and isinstance(value, Box)]
        return _labels(kept[-1]) if kept else None
    found = [LABEL.fullmatch(value.text.strip()) if isinstance(value, Scalar) else None for _, value in box.items]
    if not box.closed or None in found:
        return None
    return [int(match[1]) for match in found if match]


def read_passages(raw: RawGrading, n: int) -> dict[str, str]:
    """Read the passages, level `5` to `1` → text.

    Raises:
        ReplyError: one of them is missing or empty.
    """
    for box in reversed(_values(raw)):
        texts = {key.text: value.text for key, value in box.items if key and isinstance(value, Scalar) and value.quoted}
        if all(texts.get(name, "").strip() for name in LEVELS):
            return {LEVELS[name]: texts[name] for name in LEVELS}
    raise ReplyError(Reason.TRUNCATED if raw.finish == "length" else Reason.SCHEMA_MISMATCH, "not a passage per level")


def _values(raw: RawGrading) -> Sequence[Box]:
    if raw.finish == "refused":
        raise ReplyError(Reason.REFUSED)
    text = raw.text or ""
    if not text.strip() and raw.finish == "stop":
        text = raw.reasoning or ""
    return find_values(text, count(), cut=raw.finish == "length")
