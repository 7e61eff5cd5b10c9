"""The loop that pays: a few lists at a time, within a budget, each record written as soon as it is here."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from eval.datasets import Row
from eval.graders import Grader
from eval.recordfile import RecordFile
from eval.records import Record
from pruner.errors import Reason

__all__ = ["Budget", "Run"]

# The model was never reached, so nothing is to be learnt about it: such a list is left for the next run.
_NOT_REACHED = {Reason.AUTH, Reason.RATE_LIMITED, Reason.PROVIDER_ERROR, Reason.BAD_REQUEST}
_NO_ANSWER = {*_NOT_REACHED, Reason.TIMEOUT}
_IN_A_ROW = 5


class Budget:
    """Lets a list be paid only when even its worst price is covered, those on their way included.

    The worst price is what the prompt can cost, or the dearest list so far: attempts and thoughts are not foreseen.

    Args:
        limit: US dollars; None is no limit.
        spent: what was paid before.
    """

    def __init__(self, limit: float | None, spent: float) -> None:
        self.spent = spent
        self._limit = limit
        self._reserved = self._dearest = 0.0
        self._settled = asyncio.Condition()

    async def reserve(self, worst: float) -> float | None:
        """Wait until others are settled if that can help; return what is reserved, None where it is too much."""
        async with self._settled:
            await self._settled.wait_for(lambda: self._fits(worst) or not self._reserved)
            if not self._fits(worst):
                return None
            self._reserved += (reserved := max(worst, self._dearest))
            return reserved

    async def settle(self, reserved: float, cost: float) -> None:
        """Give back what was reserved, for what it did cost."""
        async with self._settled:
            self.spent += cost
            self._dearest = max(self._dearest, cost)
            self._reserved = max(self._reserved - reserved, 0.0)
            self._settled.notify_all()

    def _fits(self, worst: float) -> bool:
        return self._limit is None or self.spent + self._reserved + max(worst, self._dearest) <= self._limit


class Run:
    """Grades lists until there are none left, or something says stop.

    Args:
        grader: who grades.
        file: where the records go.
        budget: what may be paid.
        worst: row → its highest possible price.
        keep_reply: whether the raw replies are written.

    Attributes:
        stopped: why it ended early; empty when it did not.
        counts: of statuses, and of reasons.
        written: number of records.
    """

    def __init__(
        self,
        grader: Grader,
        file: RecordFile,
        budget: Budget,
        worst: Callable[[Row], float],
        *,
        keep_reply: bool = True,
    ) -> None:
        self._grader, self._file, self._worst = grader, file, worst
        self.budget = budget
        self._keep_reply = keep_reply
        self._silent_in_a_row = 0
        self._unpriced = False
        self.stopped = ""
        self.counts: Counter[str] = Counter()
        self.written = 0

    async def __call__(self, rows: Sequence[Row], concurrency: int) -> None:
        """Grade the rows; on Ctrl-C or SIGTERM those on their way are still waited for, as they are paid."""
        queue = iter(rows)
        with tqdm(total=len(rows), unit="list") as bar, self._stops_on_signal(bar):
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(concurrency, len(rows))):
                        group.create_task(self._work(queue, bar))
            except ExceptionGroup as faults:
                raise faults.exceptions[0] from None

    @property
    def paid(self) -> str:
        """What the records have cost, as far as anyone knows."""
        return f"${self.budget.spent:.4f}" + (" and what has no known price" if self._unpriced else "")

    async def _work(self, queue: Iterator[Row], bar: Any) -> None:
        while not self.stopped and (row := next(queue, None)):
            reserved = await self.budget.reserve(self._worst(row))
            if reserved is None:
                self.stopped = self.stopped or "the next list might exceed --max-cost"
                return
            cost = 0.0
            try:
                record = await self._grader(row)
                cost = record.cost or 0.0
                self._take(record)
            finally:
                await self.budget.settle(reserved, cost)
            bar.set_postfix_str(self.paid, refresh=False)
            bar.update()

    def _take(self, record: Record) -> None:
        self.counts.update(filter(None, (record.status, record.reason)))
        self._unpriced |= record.cost is None and record.input_tokens > 0
        self._silent_in_a_row = self._silent_in_a_row + 1 if record.reason in _NO_ANSWER else 0
        if record.reason == Reason.AUTH or self._silent_in_a_row >= _IN_A_ROW:
            self.stopped = f"the model does not answer ({record.reason}, {self._silent_in_a_row} in a row)"
        if record.reason not in _NOT_REACHED:
            self.written += 1
            self._file.append(record if self._keep_reply else replace(record, reply=None))

    @contextmanager
    def _stops_on_signal(self, bar: Any) -> Iterator[None]:
        """Stop gently once; a second signal finds the usual handler again."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.stopped = "interrupted"
            bar.set_description_str("waiting for what is on its way")
            _leave(loop)

        with suppress(ValueError, RuntimeError, NotImplementedError):  # Only the main thread may handle signals.
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop)
        try:
            yield
        finally:
            _leave(loop)


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, RuntimeError, NotImplementedError):
            loop.remove_signal_handler(number)
