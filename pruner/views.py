"""A result as a person reads it: one line per chunk, and what it all came to."""

from collections.abc import Mapping, Sequence
from typing import Any

from pruner.console import clean, table
from pruner.schema import Chunk, Decision, PruneResult, Status

__all__ = ["decision_table", "summary"]

_HEADER = ("rank", "title", "tokens", "grade", "expected", "", "by")
_ALIGN = "><><>"


def decision_table(result: PruneResult[Any], chunks: Sequence[str | Chunk | Mapping[str, Any]]) -> str:
    """Show each chunk in the order given: title, tokens, grade, expected grade, kept or dropped, and by what."""
    rows = [_row(d, chunk, tokens) for d, chunk, tokens in zip(result.decisions, chunks, result.tokens, strict=True)]
    return table(rows, _HEADER, _ALIGN, flexible="title")


def _row(decision: Decision, chunk: str | Chunk | Mapping[str, Any], tokens: int) -> tuple[object, ...]:
    grade = f"{decision.grade} {decision.grade.name}" if decision.grade else "-"
    expected = "-" if decision.expected is None else f"{decision.expected:.2f}"
    verdict = "kept" if decision.kept else "dropped"
    return decision.index + 1, _title(decision, chunk), tokens, grade, expected, verdict, decision.by.replace("_", " ")


def _title(decision: Decision, chunk: str | Chunk | Mapping[str, Any]) -> str:
    if isinstance(chunk, Chunk):
        chunk = chunk.model_dump()
    text = chunk if isinstance(chunk, str) else chunk.get("title") or decision.id or chunk["text"]
    return clean(str(text)[:80])


def summary(result: PruneResult[Any], model: str) -> str:
    """Say in a few lines what was kept, how it went, what it took."""
    n, kept = len(result.decisions), len(result.chunks)
    before, after = result.tokens_before, result.tokens_after
    cost = "" if result.usage.cost is None else f", ${result.usage.cost:.5f}"
    status = result.status if result.reason is None else f"{result.status} ({result.reason})"
    usage = result.usage
    remembered = f" ({usage.cached_tokens} of them from the cache)" if usage.cached_tokens else ""
    asked = "" if result.status is Status.SKIPPED else f" in {result.latency:.1f} s"
    return "\n".join(
        [
            f"kept     {kept} of {n} chunks, {after} of {before} tokens "
            f"(compression {_share(n, kept)} of the chunks, {_share(before, after)} of the tokens)",
            f"status   {status}{asked}",
            f"model    {model}, {usage.input_tokens} tokens in{remembered}, {usage.output_tokens} out{cost}",
        ]
    )


def _share(before: int, after: int) -> str:
    return f"{1 - after / before:.0%}" if before else "-"
