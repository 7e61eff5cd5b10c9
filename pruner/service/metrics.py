"""What Prometheus is told; over all workers of this service together."""

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from pruner.schema import Grading, PruneResult, Usage

__all__ = ["Metrics"]

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 180.0)


class Metrics:
    """Counters of one worker.

    With the variable `PROMETHEUS_MULTIPROC_DIR`, which `pruner serve` sets for several workers, they are kept in files
    there.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("pruner_requests", "Requests answered", ["path", "code"], registry=registry)
        self._results = Counter("pruner_results", "Lists answered", ["status", "reason", "arm"], registry=registry)
        self._gradings = Counter("pruner_gradings", "Gradings, of shadows too", ["status", "reason"], registry=registry)
        self._grading = Histogram(
            "pruner_grading_seconds", "Seconds of asking the model", buckets=_SECONDS, registry=registry
        )
        self._chunks = Counter("pruner_chunks", "Chunks given and kept", ["which"], registry=registry)
        self._tokens = Counter("pruner_tokens", "Tokens as the provider counted them", ["kind"], registry=registry)
        self._cost = Counter("pruner_cost_dollars", "What the gradings cost", registry=registry)
        self._lines = Counter("pruner_decision_log_lines", "Decisions logged or lost", ["outcome"], registry=registry)
        self._unwatched = Counter(
            "pruner_shadows_left_out", "Gradings of mode shadow that found no room", registry=registry
        )
        self._known_unwatched = 0
        self.in_flight = Gauge(
            "pruner_in_flight", "Requests being answered", multiprocess_mode="livesum", registry=registry
        )

    def request(self, path: str, code: int) -> None:
        """Count a request by its route and its status code."""
        self._requests.labels(path, str(code)).inc()

    def result(self, result: PruneResult[Any]) -> None:
        """Count the answer to a list."""
        self._results.labels(result.status, result.reason or "", result.arm or "").inc()
        self._chunks.labels("given").inc(len(result.decisions))
        self._chunks.labels("kept").inc(len(result.chunks))

    def grading(self, grading: Grading) -> None:
        """Count a grading, whether anyone waited for it or not."""
        self._gradings.labels(grading.status, grading.reason or "").inc()
        if grading.usage.calls:
            self._grading.observe(grading.latency)
            self._usage(grading.usage)

    def line(self, written: bool) -> None:
        """Count a line of the decision log; may be called from any thread."""
        self._lines.labels("written" if written else "dropped").inc()

    def unwatched(self, total: int) -> None:
        """Count the shadows that were left out, of which this worker has had so many."""
        self._unwatched.inc(total - self._known_unwatched)
        self._known_unwatched = total

    def _usage(self, usage: Usage) -> None:
        self._tokens.labels("input").inc(usage.input_tokens)
        self._tokens.labels("output").inc(usage.output_tokens)
        self._tokens.labels("cached").inc(usage.cached_tokens)
        self._cost.inc(usage.cost or 0.0)

    def render(self) -> bytes:
        """Write everything in Prometheus' text format."""
        registry = self._registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
