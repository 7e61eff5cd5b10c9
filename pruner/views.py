"""A result as a person reads it: one line per chunk, and what it all came to."""

from collections.abc import Mapping, Sequence
from typing import Any

from pruner.console import clean, table
from pruner.schema import By, Chunk, Decision, PruneResult, Rejected, Selected, Status, Trace

__all__ = ["decision_table", "explanation", "summary"]

_HEADER = ("rank", "title", "tokens", "grade", "expected", "", "by")
_ALIGN = "><><>"
_TRACE_HEADER = ("evidence", "rank", "id", "parent", "sub-queries", "tokens", "score", "grade", "MMR", "taken", "by")
_TRACE_ALIGN = "<><<<>>>>><"


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
    if decision.by == By.ACCESS:
        return "(no access)"
    if isinstance(chunk, Chunk):
        text: object = chunk.title or decision.id or chunk.text
    else:
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


def explanation(trace: Trace) -> str:
    """Show a trace: the kept chunks in the order of the prompt, the others by rank, what each stage did, the sums."""
    rows = [*map(_selected, trace.selected), *map(_rejected, trace.rejected)]
    parts = [table(rows, _TRACE_HEADER, _TRACE_ALIGN, flexible="id"), _stages(trace), _sums(trace)]
    return "\n\n".join(filter(None, parts))


def _selected(entry: Selected) -> tuple[object, ...]:
    level = entry.grade if entry.expected is None else f"{entry.expected:.2f}"
    taken = None if entry.selection_order is None else entry.selection_order + 1
    numbers = (entry.tokens, _number(entry.reranker_score), _or_dash(level), _number(entry.mmr_score), _or_dash(taken))
    names = (_or_dash(entry.chunk_id), _or_dash(entry.parent_id), ", ".join(entry.query_ids) or "-")
    return entry.evidence_id, entry.index + 1, *names, *numbers, entry.by.replace("_", " ")


def _rejected(entry: Rejected) -> tuple[object, ...]:
    of = "" if entry.of is None else f" of rank {entry.of + 1}"
    rest = (_or_dash(entry.tokens), "-", "-", "-", "-")
    return "-", entry.index + 1, _or_dash(entry.chunk_id), "-", "-", *rest, entry.reason.replace("_", " ") + of


def _or_dash(value: object) -> object:
    return "-" if value is None else value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _stages(trace: Trace) -> str:
    rows = [(stage.stage, len(stage.kept), len(stage.dropped), stage.note or "-") for stage in trace.stages]
    return table(rows, ("stage", "on", "dropped", "note"), "<>>", flexible="note") if rows else ""


def _sums(trace: Trace) -> str:
    status = trace.status if trace.reason is None else f"{trace.status} ({trace.reason})"
    budget = "no budget" if trace.budget is None else f"a budget of {trace.budget}"
    policy = clean(f"{trace.policy or '-'} ({trace.policy_sha256[:12]})")
    used = "-" if trace.used_tokens is None else trace.used_tokens
    lines = [
        f"status     {status}, {len(trace.selected)} of {len(trace.selected) + len(trace.rejected)} chunks kept",
        f"tokens     {used} of {budget}",
        f"policy     {policy}, lambda {_or_dash(trace.mmr_lambda)}",
    ]
    if trace.conflicts:
        pairs = (f"rank {a + 1} and {b + 1} ({clean(c.kind)})" for c in trace.conflicts for a, b in [c.indices])
        lines.append(f"conflicts  {', '.join(pairs)}")
    if trace.uncovered_query_ids:
        lines.append(f"uncovered  {clean(', '.join(trace.uncovered_query_ids))}")
    return "\n".join(lines)
