"""Turning pruning on safely: for nobody, for nobody while it is watched, for a share, for everyone."""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pruner.arguments import check_request
from pruner.decision_log import DecisionLog
from pruner.errors import ConfigError, Reason
from pruner.pipeline import Pruner
from pruner.preparation import to_chunks
from pruner.schema import Decision, Grade, Grading, PruneResult, Status
from pruner.tokens import estimate

__all__ = ["Logged", "Mode", "Rollout", "arm_of"]

T = TypeVar("T")
Mode: TypeAlias = Literal["off", "shadow", "ab", "on"]

_MODES = ("off", "shadow", "ab", "on")
# Bytes that a result takes for each chunk, beside its text.
_SIZE = 2_000
PRUNER, BASELINE = "pruner", "baseline"


class Rollout:
    """A pruner that is being turned on.

    The baseline is the reranker's order, cut to `fallback_top_n`: what the caller had before.

    Args:
        pruner: its owner closes it.
        mode: `off`: everyone gets the baseline, nothing is graded. `shadow`: everyone gets the baseline at once, and
            the grading runs beside it and is logged. `ab`: a share of the keys gets the pruned list. `on`: everyone.
        ab_share: share of the keys that are in the arm `pruner`.
        ab_salt: changes who is in which arm.
        log: where decisions go; its owner closes it.
        log_content: whether query and chunk texts go there too.
        max_shadows: gradings of mode `shadow` that may run at the same time.

    Attributes:
        unwatched: gradings of mode `shadow` that were left out, as `max_shadows` were running.

    Raises:
        ConfigError: there is no such mode, or the share is none.
    """

    def __init__(
        self,
        pruner: Pruner,
        mode: Mode = "on",
        *,
        ab_share: float = 0.5,
        ab_salt: str = "",
        log: DecisionLog | None = None,
        log_content: bool = False,
        max_shadows: int = 100,
    ) -> None:
        if mode not in _MODES:
            raise ConfigError(f"mode must be one of {', '.join(_MODES)}; got {mode!r}")
        if not 0 <= ab_share <= 1:
            raise ConfigError(f"ab_share must be from 0 to 1; got {ab_share!r}")
        self._pruner, self._mode = pruner, mode
        self._share, self._salt = ab_share, ab_salt
        self._log, self._log_content, self._max_shadows = log, log_content, max_shadows
        self._watched: set[asyncio.Task[None]] = set()
        self.unwatched = 0

    async def prune(
        self,
        query: str,
        chunks: Sequence[T],
        *,
        history: Sequence[str] = (),
        principals: Collection[str] = (),
        required_query_ids: Sequence[str] = (),
        parents: Mapping[Any, object] | None = None,
        key: str | None = None,
        dials: Mapping[str, Any] = {},
        request_id: str | None = None,
    ) -> PruneResult[T]:
        """Prune, or do not, as the mode says; `result.arm` tells which.

        Args:
            query: the question.
            chunks: in reranker order, best first.
            history: earlier turns of the conversation, oldest first.
            principals: as for `Pruner.prune`.
            required_query_ids: as for `Pruner.prune`.
            parents: as for `Pruner.assemble`.
            key: of a user or a conversation: the same key is always in the same arm. Without one the query decides.
            dials: selection dials for this once.
            request_id: for the log.

        Raises:
            RequestError: the arguments are unusable.
            ConfigError: a dial is wrong.
        """
        asked = {"principals": principals, "required_query_ids": required_query_ids, "parents": parents or {}}
        check_request(query, history, **asked)
        about = {"request_id": request_id, "key_hash": key and _hash(self._salt, key)[:16]}
        call = _Call(query, chunks, history, asked, dials, about)
        if self._mode == "on" and self._log is None:
            # Nobody sees the baseline; a wrong dial is still refused before anything is paid for.
            self._pruner.config.with_dials(**dials)
            return self._assembled(call, await self._grade(call), PRUNER)
        nothing = self._nothing(call)
        baseline = self._assembled(call, nothing, BASELINE)
        if self._mode == "shadow":
            self._watch(call, baseline)
            return baseline
        if self._arm(key or query) == BASELINE:
            return self._noted(call, nothing, baseline, baseline)
        grading = await self._grade(call)
        return self._noted(call, grading, self._assembled(call, grading, PRUNER), baseline)

    async def drain(self) -> None:
        """Wait for the gradings of mode `shadow` that still run on this loop."""
        here = asyncio.get_running_loop()
        await asyncio.gather(*(task for task in self._watched if task.get_loop() is here), return_exceptions=True)

    def _arm(self, key: str) -> str:
        if self._mode == "ab":
            return arm_of(key, self._share, self._salt)
        return PRUNER if self._mode == "on" else BASELINE

    async def _grade(self, call: "_Call[T]") -> Grading:
        whom = {"history": call.history, "principals": call.asked["principals"]}
        return await self._pruner.grade(call.query, call.chunks, **whom, **call.dials)

    def _nothing(self, call: "_Call[T]") -> Grading:
        nothing = (None,) * len(to_chunks(call.chunks))
        return Grading(nothing, nothing, Status.SKIPPED, Reason.BASELINE, model=self._pruner.model)

    def _assembled(self, call: "_Call[T]", grading: Grading, arm: str) -> PruneResult[T]:
        return replace(self._pruner.assemble(call.query, call.chunks, grading, **call.asked, **call.dials), arm=arm)

    def _watch(self, call: "_Call[T]", baseline: PruneResult[T]) -> None:
        if len(self._watched) >= self._max_shadows:
            self.unwatched += 1
            return
        # The caller may go on to change his lists.
        asked = {name: copy(given) for name, given in call.asked.items()}
        call = replace(call, chunks=list(call.chunks), history=list(call.history), asked=asked)

        async def grade() -> None:
            grading = await self._grade(call)
            self._noted(call, grading, self._assembled(call, grading, PRUNER), baseline)

        task = asyncio.ensure_future(grade())
        self._watched.add(task)
        task.add_done_callback(self._watched.discard)

    def _noted(
        self, call: "_Call[T]", grading: Grading, result: PruneResult[T], baseline: PruneResult[T]
    ) -> PruneResult[T]:
        """Log a result, and return it."""
        if (log := self._log) is None:
            return result
        known = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **call.about, "mode": self._mode}
        known |= _line(result, baseline)
        asked = _prompted(grading) | {"dials": self._pruner.config.with_dials(**call.dials).selection_dials()}
        texts = result.given_texts
        content = {"query": call.query, "chunks": texts} if self._log_content else {}

        def line() -> dict[str, Any]:
            # Counting is slow: where lines come faster than that, a guess is better than none.
            tokens = [estimate(text) for text in texts] if log.behind else list(result.tokens)
            return {**known, "tokens": tokens, **asked, **content}

        log.put(line, sum(map(len, texts)) + _SIZE * len(texts))
        return result


@dataclass(frozen=True, slots=True)
class _Call(Generic[T]):
    """What the caller gave."""

    query: str
    chunks: Sequence[T]
    history: Sequence[str]
    asked: Mapping[str, Any]
    dials: Mapping[str, Any]
    about: Mapping[str, Any]


class Logged(BaseModel):
    """What a line of the decision log says of each chunk, by rank, and of the list.

    Raises:
        ValidationError: something is missing, is no such value, or is not there for each of the `n` chunks.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    n: Annotated[int, Field(ge=0)]
    kept: frozenset[int]
    baseline: frozenset[int]
    ids: tuple[str | int | None, ...]
    grades: tuple[Grade | None, ...]
    expected: tuple[Annotated[float, Field(ge=1, le=5)] | None, ...]
    by: tuple[str, ...]
    tokens: tuple[Annotated[int, Field(ge=0)], ...]
    status: str
    reason: str | None = None
    time: str | None = None
    request_id: str | None = None
    mode: str | None = None
    arm: str | None = None
    model: str | None = None
    latency: Annotated[float, Field(ge=0, lt=1e6)] = 0.0

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if any(len(column) != self.n for column in (self.ids, self.grades, self.expected, self.by, self.tokens)):
            raise ValueError("ids, grades, expected, by and tokens must have n entries each")
        if any(not 0 <= index < self.n for index in self.kept | self.baseline):
            raise ValueError("kept and baseline must hold places from 0 to n - 1")
        return self


def arm_of(key: str, share: float, salt: str = "") -> str:
    """Return `pruner` for about `share` of all keys and `baseline` for the others; the same for a key every time."""
    return PRUNER if int(_hash(salt, key)[:16], 16) < share * 2**64 else BASELINE


def _hash(salt: str, key: str) -> str:
    return hashlib.sha256(f"{salt}\0{key}".encode(errors="surrogatepass")).hexdigest()


def _line(result: PruneResult[T], baseline: PruneResult[T]) -> dict[str, Any]:
    decisions, usage = result.decisions, result.usage
    columns = {name: [getattr(d, field) for d in decisions] for name, field in _COLUMNS.items()}
    return {
        "arm": result.arm,
        "status": result.status,
        "reason": result.reason,
        "n": len(decisions),
        "kept": _kept(decisions),
        "baseline": _kept(baseline.decisions),
        **columns,
        "tokens": None,  # Keeps their place: they are counted when the line is made.
        "usage": {name: getattr(usage, name) for name in _USAGE},
        "latency": round(result.latency, 4),
    }


def _prompted(grading: Grading) -> dict[str, Any]:
    return {name: getattr(grading, name) for name in ("model", "prompt", "prompt_sha256", "left_out")}


_COLUMNS = {"ids": "id", "grades": "grade", "expected": "expected", "by": "by"}
_USAGE = ("input_tokens", "output_tokens", "cached_tokens", "calls", "cost")


def _kept(decisions: Sequence[Decision]) -> list[int]:
    return [d.index for d in decisions if d.kept]
