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
# Characters of a part that is worth hiding once it was shown; a shorter one may be a state, such as "running".
_LONG = 200
# More parts than this are graded in groups of neighbours.
_MOST_GRADED = 50

Group = Sequence[int]


class ToolText(str):
    """What is left of a tool's result, as text; the last lines say what was left out, if anything was.

    Attributes:
        result: the `PruneResult`, a decision on each part (or group of parts) that was graded; None if none was.
        omitted: what was left out, by the id that the text names: what is not needed, and what was shown before.
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

    Only parts of 200 characters or more count as shown, and only the same to the letter: a short one may be a state.
    Give none to a tool whose long answers change to and fro. Begin a new one when earlier messages are cut from the
    conversation: what it holds would count as shown.

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
        """Remember that the conversation holds these parts, short ones aside."""
        self._shown.update(_digest(part) for part in parts if len(part) >= _LONG)

    def holds(self, part: str) -> bool:
        """Say whether the conversation holds a part, line ends aside; a short one never counts."""
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
        conversation: long parts that it holds already are neither graded nor returned, unless nothing else is left; it
            takes what is left out. Without one, nobody can ask for that, and only `omitted` has it.
        history: earlier turns, oldest first.

    Raises:
        RequestError: the arguments are unusable. Faults of the provider never raise.
    """
    call = _Call(output, conversation)
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
    call = _Call(output, conversation)
    if not call.chunks:
        return call.finish(None)
    ask = pruner.prune_sync if pruner else prune_sync
    return call.finish(ask(query, call.chunks, history=history))


class _Call:
    """One tool result on its way: what is new in it, in groups, and the text made of what is kept."""

    def __init__(self, output: str | Sequence[Any], conversation: Conversation | None) -> None:
        self.output, self.conversation = output, conversation
        self.split = _split(output)
        parts = self.split.parts
        self.known: Group = [at for at, part in enumerate(parts) if conversation and conversation.holds(part.text)]
        self.groups = _grouped(sorted({*range(len(parts))}.difference(self.known)))
        # A text in one part has nothing to choose from.
        self.chunks = [self._chunk(group) for group in self.groups] if len(parts) > 1 else []

    def _chunk(self, group: Group) -> Chunk:
        return Chunk(text=self._text(group), heading_path=self.split.parts[group[0]].headings)

    def finish(self, result: PruneResult[Chunk] | None) -> ToolText:
        """Write the text, and tell the conversation what it shows and what it leaves out."""
        kept, left, known = self._decided(result)
        text = self.split.join(kept) if left or known or not isinstance(self.output, str) else self.output
        unneeded, shown = self._omit(left), self._omit(known)
        if self.conversation:
            self.conversation.show(self.split.parts[index].text for index in kept)
        notes = [self._note(len(left), "omitted", id, "see them") for id in unneeded]
        notes += [self._note(len(known), "shown before", id, "see them again") for id in shown]
        return ToolText.of("\n".join([text, *notes] if kept else notes), result, unneeded | shown)

    def _decided(self, result: PruneResult[Chunk] | None) -> tuple[Group, Group, Group]:
        decided = [decision.kept for decision in result.decisions] if result else [True] * len(self.groups)
        kept = [index for group, keep in zip(self.groups, decided, strict=True) if keep for index in group]
        left = [index for group, keep in zip(self.groups, decided, strict=True) if not keep for index in group]
        # Where nothing else is, what was shown before is the answer.
        return (kept, left, self.known) if kept else (self.known, left, [])

    def _text(self, indices: Group) -> str:
        return "\n".join(self.split.parts[index].text for index in indices)

    def _omit(self, indices: Group) -> dict[str, str]:
        if not indices:
            return {}
        text = self._text(indices)
        omission = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
        if self.conversation:
            self.conversation.omit(omission, text, [self.split.parts[index].text for index in indices])
        return {omission: text}

    def _note(self, n: int, what: str, omission: str, to: str) -> str:
        ask = f'; ask for "{omission}" to {to}' if self.conversation else ""
        return f"[{n} of {len(self.split.parts)} {self.split.unit} {what}{ask}]"


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
    return hashlib.sha256("\n".join(part.splitlines()).encode("utf-8", "replace")).digest()
