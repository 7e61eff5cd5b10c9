"""What Prometheus is told; over all workers of this service together."""

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from pruner.schema import PruneResult, Usage

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
        self._results = Counter("pruner_results", "Lists pruned", ["status", "reason"], registry=registry)
        self._grading = Histogram(
            "pruner_grading_seconds", "Seconds of asking the model", buckets=_SECONDS, registry=registry
        )
        self._chunks = Counter("pruner_chunks", "Chunks given and kept", ["which"], registry=registry)
        self._tokens = Counter("pruner_tokens", "Tokens as the provider counted them", ["kind"], registry=registry)
        self._cost = Counter("pruner_cost_dollars", "What the gradings cost", registry=registry)
        self.in_flight = Gauge(
            "pruner_in_flight", "Requests being answered", multiprocess_mode="livesum", registry=registry
        )

    def request(self, path: str, code: int) -> None:
        """Count a request by its route and its status code."""
        self._requests.labels(path, str(code)).inc()

    def result(self, result: PruneResult[Any]) -> None:
        """Count a pruned list."""
        self._results.labels(result.status, result.reason or "").inc()
        self._chunks.labels("given").inc(len(result.decisions))
        self._chunks.labels("kept").inc(len(result.chunks))
        if result.usage.calls:
            self._grading.observe(result.latency)
            self._usage(result.usage)

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
