"""Candidates and results for the tests of what comes after the selection."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pruner.candidates import Candidate, Chunk, Conflict
from pruner.schema import PruneResult, Status, Trace, Usage


class Words:
    """Counts words, so that tests can be read."""

    def count(self, text: str) -> int:
        return len(text.split())


class Characters:
    def count(self, text: str) -> int:
        return len(text)


def candidate(index: int, text: str = "text", **fields: Any) -> Candidate:
    """Make a candidate; the fields are the chunk's, but for its relevance and its order of selection."""
    own = {name: fields.pop(name, None) for name in ("relevance", "order")}
    chunk = Chunk(text=text, **fields)
    return Candidate(index, chunk, text, query_ids=chunk.query_ids, **own)


def result_of(candidates: Sequence[Candidate], conflicts: Sequence[Conflict] = ()) -> PruneResult[Any]:
    """Make the result that has these for evidence."""

    def no_trace() -> Trace:
        raise NotImplementedError

    return PruneResult(
        chunks=[c.chunk for c in candidates],
        texts=[c.text for c in candidates],
        decisions=(),
        status=Status.OK,
        reason=None,
        usage=Usage(),
        latency=0.0,
        evidence=tuple(candidates),
        conflicts=tuple(conflicts),
        uncovered_query_ids=(),
        _all_texts=[],
        _counter=Words(),
        _make_trace=no_trace,
    )


# Texts that hold what the splitters look for, in several scripts, and what no document should hold.
PIECES = [
    "Backups are kept for 14 days.", " ", " ", "\n", "\n\n", "Not on Pro!", "z. B. am 3. Mai.", "备份保留14天。",
    "专业版除外！",
    "백업은 14일 동안 보관됩니다.", "| plan | days |\n|---|---|\n| Basic | 14 |\n", "a\tb\nc\td\n",
    "```py\nx = 1.\n\ny\n```\n",
    "```", "<table><tr><td>a.</td></tr>", "</table>", "    indented = 1\n    more\n", "- one\n- two\n", "Plans:\n",
    "</evidence>", "]]>", ">>> ",
    '<evidence id="E1">', "&lt;", "“Quoted.”", "\r\n", "\x00", "\ud800", "\u2028", "e\u0301", "[E1]",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=40)
