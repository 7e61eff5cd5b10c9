"""A result as a person reads it: one line per chunk, and what it all came to."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pruner.console import clean, table
from pruner.rollout import Logged
from pruner.schema import By, Chunk, Decision, Grade, PruneResult, Rejected, Selected, Status, Trace

__all__ = ["decision_table", "explanation", "logged_table", "summary"]

_HEADER = ("rank", "title", "tokens", "grade", "expected", "", "by")
_ALIGN = "><><>"
_LOGGED_HEADER = ("rank", "id", "tokens", "grade", "expected", "pruner", "baseline", "by")
_LOGGED_ALIGN = "><><><<<"
_TRACE_HEADER = ("evidence", "rank", "id", "parent", "sub-queries", "tokens", "score", "grade", "MMR", "taken", "by")
_TRACE_ALIGN = "<><<<>>>>><"


def decision_table(result: PruneResult[Any], chunks: Sequence[str | Chunk | Mapping[str, Any]]) -> str:
    """Show each chunk in the order given: title, tokens, grade, expected grade, kept or dropped, and by what."""
    rows = [_row(d, chunk, tokens) for d, chunk, tokens in zip(result.decisions, chunks, result.tokens, strict=True)]
    return table(rows, _HEADER, _ALIGN, flexible="title")


def _row(decision: Decision, chunk: str | Chunk | Mapping[str, Any], tokens: int) -> tuple[object, ...]:
    known = (tokens, _grade(decision.grade), _expected(decision.expected))
    verdict = "kept" if decision.kept else "dropped"
    return decision.index + 1, _title(decision, chunk), *known, verdict, decision.by.replace("_", " ")


def _grade(grade: Grade | None) -> str:
    return f"{grade} {grade.name}" if grade else "-"


def _expected(level: float | None) -> str:
    return "-" if level is None else f"{level:.2f}"


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
    parts = [table(rows, _TRACE_HEADER, _TRACE_ALIGN, flexible=_narrowed("id")), _stages(trace), _sums(trace)]
    return "\n\n".join(filter(None, parts))


def logged_table(line: Logged) -> str:
    """Show a line of the decision log: each chunk by rank, whether it and the baseline kept it, and how it went."""
    rows = [_logged(line, index) for index in range(line.n)]
    status = line.status if line.reason is None else f"{line.status} ({line.reason})"
    kept = f"{len(line.kept)} of {line.n} chunks kept, {len(line.baseline)} by the baseline"
    lines = [
        ("status", f"{status} in {line.latency:.1f} s, {kept}"),
        ("request", f"{_or_dash(line.request_id)} at {_or_dash(line.time)}"),
        ("mode", f"{_or_dash(line.mode)}, arm {_or_dash(line.arm)}, model {_or_dash(line.model)}"),
    ]
    below = "\n".join(f"{name:<9}{clean(said)}" for name, said in lines)
    return f"{table(rows, _LOGGED_HEADER, _LOGGED_ALIGN, flexible=_narrowed('id'))}\n\n{below}"


def _narrowed(column: str) -> str | None:
    """Shorten names on a terminal that is too narrow only: whoever reads a pipe wants to find them."""
    return column if sys.stdout.isatty() else None


def _logged(line: Logged, index: int) -> tuple[object, ...]:
    kept, baseline = ("kept" if index in side else "dropped" for side in (line.kept, line.baseline))
    known = (line.tokens[index], _grade(line.grades[index]), _expected(line.expected[index]))
    return index + 1, _or_dash(line.ids[index]), *known, kept, baseline, line.by[index].replace("_", " ")


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
