"""Long tool results, pruned before an agent reads them."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pruner.errors import RequestError
from pruner.integrations.adapter import missing
from pruner.integrations.splitting import Split, split_list, split_text
from pruner.pipeline import Pruner
from pruner.schema import Chunk, PruneResult
from pruner.shared import prune, prune_sync
from pruner.tokens import estimate

try:
    from semchunk.semchunk import chunk as cut_prose
except ImportError:
    raise missing("agents", "semchunk", "agents") from None

__all__ = ["Conversation", "ToolText", "prune_tool_output", "prune_tool_output_sync"]

# Tokens of a passage of prose.
_PASSAGE = 180
# More parts than this are graded in groups of neighbours.
_MOST_GRADED = 50

Group = Sequence[int]


class ToolText(str):
    """What is left of a tool's result, as text; the last line says what was left out, if anything was.

    Attributes:
        result: the `PruneResult`, a decision on each part (or group of parts) that was graded; None if none was.
        omitted: what was left out, by the id that the text names; at most one entry.
    """

    result: PruneResult[Chunk] | None
    omitted: Mapping[str, str]

    @classmethod
    def of(cls, text: str, result: PruneResult[Chunk] | None, omitted: Mapping[str, str]) -> "ToolText":
        """Make the text with what is known about it."""
        self = cls(text)
        self.result, self.omitted = result, omitted
        return self


@dataclass
class Conversation:
    """What the model has been shown of its tools' results, and what was left out of them. One per conversation.

    Begin a new one when earlier messages are cut from the conversation: what it holds would count as shown.

    Args:
        keep: how many omissions can be asked for; the oldest are forgotten first.
    """

    keep: int = 100
    _shown: set[bytes] = field(default_factory=set, init=False, repr=False)
    _omitted: dict[str, tuple[str, list[str]]] = field(default_factory=dict, init=False, repr=False)

    def recall(self, omission: str) -> str:
        """Return what was left out, by the id that the text named.

        Raises:
            RequestError: nothing was left out under this id.
        """
        if omission not in self._omitted:
            raise RequestError(
                f"nothing is left out under {omission!r}; ask for one of {', '.join(self._omitted) or '-'}"
            )
        text, parts = self._omitted[omission]
        self.show(parts)
        return text

    def show(self, parts: Iterable[str]) -> None:
        """Remember that the conversation holds these parts."""
        self._shown.update(map(_digest, parts))

    def holds(self, part: str) -> bool:
        """Say whether the conversation holds a part, spacing aside."""
        return _digest(part) in self._shown

    def omit(self, omission: str, text: str, parts: list[str]) -> None:
        """Remember what was left out."""
        self._omitted.pop(omission, None)
        self._omitted[omission] = (text, parts)
        while len(self._omitted) > self.keep:
            del self._omitted[next(iter(self._omitted))]


async def prune_tool_output(
    query: str,
    output: str | Sequence[Any],
    *,
    pruner: Pruner | None = None,
    conversation: Conversation | None = None,
    history: Sequence[str] = (),
) -> ToolText:
    """Return what the answer to `query` needs of a tool's result.

    The result is cut along its own structure: JSON items, Markdown sections, search hits, log records, else passages
    of prose. The tool's order counts as its ranking: where it is none, let the pruner have `keep_top_k=0`.

    Args:
        query: the question that the agent works on.
        output: the result: a text, or a list of strings or of JSON values.
        pruner: by default the one that `prune()` uses.
        conversation: parts that it holds already are neither graded nor returned; it takes what is left out.
        history: earlier turns, oldest first.

    Raises:
        RequestError: the arguments are unusable. Faults of the provider never raise.
    """
    call = _Call(output, conversation or Conversation())
    if not call.chunks:
        return call.finish(None)
    ask = pruner.prune if pruner else prune
    return call.finish(await ask(query, call.chunks, history=history))


def prune_tool_output_sync(
    query: str,
    output: str | Sequence[Any],
    *,
    pruner: Pruner | None = None,
    conversation: Conversation | None = None,
    history: Sequence[str] = (),
) -> ToolText:
    """`prune_tool_output` for synchronous code, with or without an event loop running in this thread."""
    call = _Call(output, conversation or Conversation())
    if not call.chunks:
        return call.finish(None)
    ask = pruner.prune_sync if pruner else prune_sync
    return call.finish(ask(query, call.chunks, history=history))


class _Call:
    """One tool result on its way: what is new in it, in groups, and the text made of what is kept."""

    def __init__(self, output: str | Sequence[Any], conversation: Conversation) -> None:
        self.output, self.conversation = output, conversation
        self.split = _split(output)
        texts = [part.text for part in self.split.parts]
        new = [index for index, text in enumerate(texts) if not conversation.holds(text)]
        self.known = len(texts) - len(new)
        self.groups = _grouped(new)
        # A text in one part has nothing to choose from.
        self.chunks = [self._chunk(group) for group in self.groups] if len(texts) > 1 else []

    def _chunk(self, group: Group) -> Chunk:
        return Chunk(text=self._text(group), heading_path=self.split.parts[group[0]].headings)

    def finish(self, result: PruneResult[Chunk] | None) -> ToolText:
        """Write the text, and tell the conversation what it shows and what it leaves out."""
        decided = [decision.kept for decision in result.decisions] if result else [True] * len(self.groups)
        kept = [index for group, keep in zip(self.groups, decided, strict=True) if keep for index in group]
        left = [index for group, keep in zip(self.groups, decided, strict=True) if not keep for index in group]
        self.conversation.show(self.split.parts[index].text for index in kept)
        text = self.split.join(kept) if left or self.known or not isinstance(self.output, str) else self.output
        notes = [self._note_known()] if self.known else []
        omitted = self._omit(left)
        notes += [self._note_omitted(len(left), id) for id in omitted]
        return ToolText.of("\n".join([text, *notes] if kept else notes), result, omitted)

    def _text(self, indices: Sequence[int]) -> str:
        return "\n".join(self.split.parts[index].text for index in indices)

    def _omit(self, left: Sequence[int]) -> dict[str, str]:
        if not left:
            return {}
        text = self._text(left)
        omission = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
        self.conversation.omit(omission, text, [self.split.parts[index].text for index in left])
        return {omission: text}

    def _note_omitted(self, n: int, omission: str) -> str:
        return f'[{n} of {len(self.split.parts)} {self.split.unit} omitted; ask for "{omission}" to see them]'

    def _note_known(self) -> str:
        return f"[{self.known} of {len(self.split.parts)} {self.split.unit} already in this conversation]"


def _split(output: str | Sequence[Any]) -> Split:
    if isinstance(output, str):
        return split_text(output, _passages)
    if isinstance(output, bytes | bytearray | Mapping) or not isinstance(output, Sequence):
        raise RequestError(f"a tool's output must be a text or a list, not {type(output).__name__}")
    return split_list(output)


def _passages(text: str) -> list[str]:
    # Its memory of counts is never emptied.
    return cut_prose(text, _PASSAGE, estimate, memoize=False)  # type: ignore[return-value]


def _grouped(indices: Sequence[int]) -> list[Group]:
    size = max(1, -(-len(indices) // _MOST_GRADED))
    return [indices[at : at + size] for at in range(0, len(indices), size)]


def _digest(part: str) -> bytes:
    return hashlib.sha256(" ".join(part.split()).encode("utf-8", "replace")).digest()
