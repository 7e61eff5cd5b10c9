"""From retrieved chunks to a checked answer: a comparison with an exception, over documents that overlap and disagree.

Run it, with `pip install ".[sentences]"`: `python examples/evidence.py`.
The grades and the answer are written down here, so that no model is needed.
"""

import asyncio
import sys

from pruner import Chunk, Pruner, PrunerConfig, check_citations, evidence_rules, render_evidence
from pruner.backends.scripted import ScriptedBackend

QUERY = "How do Basic and Pro compare in backup retention, and what is the exception on cancelling?"
SUB_QUERIES = ("basic", "pro", "cancelling")  # what a query planner made of it

TERMS = """\
Backups run every night. The Basic plan keeps backups for 14 days. The Pro plan keeps backups for 90 days. \
Restoring is free.

When a plan is cancelled, its backups are deleted the same day. Except on Pro: there they stay for another 30 days.\
"""
OLD_TERMS = "Backups run every night. The Basic plan keeps backups for 14 days. The Pro plan keeps backups for 60 days."
SOURCES = {("terms", "2025"): TERMS, ("terms", "2023"): OLD_TERMS}


def cut(start: str, end: str, *query_ids: str) -> Chunk:
    """Cut a chunk out of the terms, with its offsets."""
    begins, ends = TERMS.index(start), TERMS.index(end) + len(end)
    return Chunk(
        text=TERMS[begins:ends],
        id=f"terms:{begins}-{ends}",
        source_id="terms",
        revision_id="2025",
        date="2025-01-01",
        authority="official",
        parent_id="terms-2025",
        start_char=begins,
        end_char=ends,
        heading_path=("Terms", "Backups"),
        query_ids=query_ids,
    )


# Four searches, fused and reranked: overlapping chunks, an older edition, and what has nothing to do with it.
CHUNKS = [
    cut("Backups run", "for 90 days.", "basic", "pro"),
    Chunk(
        text=OLD_TERMS,
        id="old-terms",
        source_id="terms",
        revision_id="2023",
        date="2023-01-01",
        query_ids=("pro",),
    ),
    cut("The Basic plan", "for 90 days.", "basic"),
    Chunk(text="Pro costs 20 a month, Basic 5. Prices are without tax.", id="prices", source_id="prices"),
    cut("its backups are deleted", "Except on Pro", "cancelling"),
    Chunk(text="The choir meets on Tuesdays in the old school.", id="choir", source_id="news"),
]
GRADES = '{"grades": [[1, 5], [2, 4], [3, 2], [4, 4], [5, 1]]}'  # of the five that are left without the copy
ANSWER = """\
Basic keeps backups for 14 days [E1]. Pro keeps them for 90 days by the terms of 2025 [E1]; those of 2023 said 60 [E2].
On cancelling, backups are deleted the same day, except on Pro, where they stay for another 30 days [E1].
"""
CARELESS = "Basic keeps backups for 14 days [E1]. Pro keeps them for ever. Restoring is free [E7]."


async def fetch_parent(parent_id: str | int) -> Chunk | None:
    """Stand for a document store."""
    return Chunk(text=TERMS, source_id="terms", revision_id="2025") if parent_id == "terms-2025" else None


async def main() -> None:
    """Select, render, and check two answers."""
    config = PrunerConfig(model="scripted:grades", dedup="texts", expand="sentences", token_budget=400, mmr_lambda=0.7)
    async with Pruner(config, backend=ScriptedBackend([GRADES])) as pruner:
        result = await pruner.prune(QUERY, CHUNKS, required_query_ids=SUB_QUERIES, fetch_parent=fetch_parent)
    write = sys.stdout.write
    write(f"{evidence_rules(result)}\n\n{render_evidence(result)}\n")
    for rejected in result.trace.rejected:
        of = "" if rejected.of is None else f" of {result.decisions[rejected.of].id}"
        write(f"not in it: {rejected.chunk_id}, {rejected.reason}{of}\n")
    write(f"uncovered: {', '.join(result.uncovered_query_ids) or 'nothing'}\n")
    for answer in (ANSWER, CARELESS):
        report = check_citations(answer, result, sources=SOURCES)
        uncited = [answer[start:end] for start, end in report.uncited]
        write(f"\n{answer.strip()}\n-> {'in order' if report.ok else f'unknown {report.unknown}, uncited {uncited}'}\n")


if __name__ == "__main__":
    asyncio.run(main())
