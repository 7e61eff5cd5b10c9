import math
import random

import pytest

from eval.traffic import Pruned, Quantiles, Traffic


def pruned(**changed: object) -> Pruned:
    known = {
        "day": "2026-11-01",
        "status": "ok",
        "reason": None,
        "chunks": (10, 4),
        "tokens": (1000, 300),
        "cost": 0.001,
        "latency": 0.5,
        "generator": None,
    }
    return Pruned(**{**known, **changed})  # type: ignore[arg-type]


def test_quantiles_are_within_one_percent_of_the_sorted_values() -> None:
    draw = random.Random(7)
    values = [draw.lognormvariate(0, 2) for _ in range(5_000)]
    quantiles = Quantiles()
    for value in values:
        quantiles.add(value)
    for share in (0.01, 0.5, 0.95, 0.99, 1.0):
        exact = sorted(values)[math.ceil(share * len(values)) - 1]
        assert quantiles.at(share) == pytest.approx(exact, rel=0.0101)


def test_quantiles_of_nothing_are_none() -> None:
    assert Quantiles().at(0.5) is None


def test_quantiles_take_a_latency_of_zero() -> None:
    quantiles = Quantiles()
    quantiles.add(0.0)
    assert quantiles.at(0.5) == pytest.approx(1e-6, rel=0.02)


def test_sums_and_shares() -> None:
    traffic = Traffic()
    traffic.add(pruned())
    traffic.add(pruned(status="fallback", reason="timeout", chunks=(10, 10), tokens=(1000, 1000), cost=0.0))
    assert (traffic.compression, traffic.token_compression) == pytest.approx((0.3, 0.35))
    assert traffic.share("fallback") == 0.5
    assert traffic.reasons == {"fallback timeout": 1}
    assert traffic.cost == pytest.approx(0.001)


def test_an_unknown_cost_is_counted_as_unknown() -> None:
    traffic = Traffic()
    traffic.add(pruned(cost=None))
    assert (traffic.unpriced, traffic.cost) == (1, 0.0)


def test_of_nothing_all_shares_are_zero() -> None:
    traffic = Traffic()
    assert (traffic.compression, traffic.token_compression, traffic.share("ok")) == (0, 0, 0)
