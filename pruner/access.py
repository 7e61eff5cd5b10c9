"""Who may see a chunk, and whether its revision is in force; decided before anything else, and again of parents."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pruner.candidates import By, Candidate, Chunk
from pruner.stages import StageResult

__all__ = ["Access", "Revision", "in_force", "may_see"]

_IN_FORCE = frozenset({"", "active", "current", "published", "approved", "effective", "valid"})


def may_see(chunk: Chunk, principals: Iterable[str]) -> bool:
    """Whether one of the principals is on the chunk's list. No list: anyone may; an empty one: no one."""
    return chunk.acl is None or not set(chunk.acl).isdisjoint(principals)


def in_force(chunk: Chunk) -> bool:
    """Whether nothing is said against the chunk's revision: it has no status, or one such as `active`."""
    return (chunk.status or "").strip().casefold() in _IN_FORCE


@dataclass(frozen=True, slots=True)
class Access:
    """Drop what none of the principals may see: the chunk itself, or the parent that its text was taken from.

    Attributes:
        principals: users, groups and roles that the caller speaks for; none may see only what has no list.
    """

    principals: frozenset[str] = frozenset()

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by access."""
        seen = [c for c in candidates if all(may_see(chunk, self.principals) for chunk in (c.chunk, c.source))]
        kept = {c.index for c in seen}
        return StageResult(seen, {c.index: By.ACCESS for c in candidates if c.index not in kept})


@dataclass(frozen=True, slots=True)
class Revision:
    """Drop chunks of revisions that are not in force; one without a status stays: nothing is known against it."""

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by status."""
        stale = {c.index for c in candidates if not (in_force(c.chunk) and in_force(c.source))}
        unknown = sum(c.chunk.status is None for c in candidates)
        note = f"{unknown} of {len(candidates)} without a status" if unknown else ""
        kept = [c for c in candidates if c.index not in stale]
        return StageResult(kept, dict.fromkeys(sorted(stale), By.STALE_REVISION), note=note)
