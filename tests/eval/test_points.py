from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest

from eval.points import Draws, best_at, pareto, points, trades
from eval.sources import read_configuration
from eval.sweep import Sweep, sweep
from tests.made_cases import made_case

DRAWS = Draws(resamples=400, seed=1)
CASES = [
    made_case("both found", [5, 1, 4, 1], [0, 2]),
    made_case("second missed", [5, 2], [1]),
    made_case("no gold", [1, 1, 1, 3], []),
    made_case("first is all", [5] + [1] * 9, [0], tokens=(91,) + (1,) * 9),
]


def swept(*texts: str) -> Sweep:
    return sweep(CASES, [read_configuration(text) for text in texts])


def test_a_point_holds_what_is_worked_out_by_hand() -> None:
    [point] = points(swept("listwise threshold=3 keep_top_k=0 scoring=grade"), DRAWS)
    assert (point.questions, point.with_gold, point.whole) == (4, 3, 2)
    assert point.recall.value == pytest.approx(2 / 3)
    assert point.compression.value == pytest.approx((2 + 1 + 3 + 9) / 20)
    # 200 tokens: 40 + 20 + 40 + 100; kept are 20 + 10 + 10 + 91.
    assert point.token_compression.value == pytest.approx(69 / 200)
    assert point.chunk_recall == pytest.approx((1 + 0 + 1) / 3)
    assert point.precision == pytest.approx((1 + 0 + 1) / 3)
    assert isnan(point.answer_survives)
    assert (point.cost, point.latency) == pytest.approx((0.001, 0.5))
    assert point.recall_shown == pytest.approx(0.1354, abs=1e-4)  # the p with 3 p^2 - 2 p^3 = 0.05


def test_recall_counts_only_questions_with_gold_and_compression_all() -> None:
    only = np.array([False, False, True, False])
    [point] = points(swept("top_n n=1"), DRAWS, only)
    assert (point.questions, point.with_gold) == (1, 0)
    assert isnan(point.recall.value)
    assert isnan(point.recall.low)
    assert point.compression.value == 0.75
    assert not point.on_line


def test_intervals_hold_the_value_and_repeat() -> None:
    first, again = (points(swept("top_n n=2"), DRAWS)[0] for _ in range(2))
    assert first.compression.low <= first.compression.value <= first.compression.high
    assert repr(first) == repr(again)


def test_the_line_is_what_no_other_beats() -> None:
    recall = [1.0, 1.0, 0.9, 0.9, 0.8, nan]
    compression = [0.1, 0.3, 0.3, 0.5, 0.5, 0.9]
    assert pareto(recall, compression).tolist() == [False, True, False, True, False, False]


def test_of_equal_points_one_is_on_the_line() -> None:
    assert pareto([0.9, 0.9], [0.5, 0.5]).tolist() == [True, False]


def test_each_strategy_has_a_line_of_its_own() -> None:
    found = points(swept("top_n n=10", "top_n n=2", "all", "oracle"), DRAWS)
    assert [point.on_line for point in found] == [True, True, True, True]


def test_the_best_at_a_level_is_the_most_compressing_that_reaches_it() -> None:
    recall, compression = np.array([1.0, 0.96, 0.9]), np.array([0.1, 0.4, 0.8])
    assert [int(best_at(level, recall, compression)) for level in (0.98, 0.96, 0.5)] == [0, 1, 2]
    assert best_at(0.99, recall[1:], compression[1:]) == -1
    assert best_at(0.96, np.array([24 / 25]), np.array([0.5])) == 0


def test_the_trade_names_the_configuration_of_each_strategy_and_level() -> None:
    found = trades(swept("all", "top_n n=10", "top_n n=2", "top_n n=1"), DRAWS, levels=(0.9, 0.6))
    named = {(trade.level, trade.strategy): trade.point and str(trade.point.configuration) for trade in found}
    assert named == {
        (0.9, "all"): "all",
        (0.9, "top_n"): "top_n n=10",
        (0.6, "all"): "all",
        (0.6, "top_n"): "top_n n=2",
    }
    assert [trade.tried for trade in found] == [1, 3, 1, 3]


def test_a_level_that_is_not_reached_has_no_point_and_compresses_nothing() -> None:
    [trade] = trades(swept("top_n n=1"), DRAWS, levels=(0.99,))
    assert trade.point is None
    assert isnan(trade.compression.value)
    assert trade.compression.low == 0


def test_held_out_recall_is_not_flattered_by_the_choice_of_the_best_of_many() -> None:
    """Thirty configurations of pure chance: the best looks good, and keeps on other questions what chance keeps."""
    generator = np.random.default_rng(0)
    cases = [made_case(str(q), [1, 1], [0]) for q in range(40)]
    kept = sweep(cases, [read_configuration(f"score_cut at_least={c}") for c in range(30)])
    compression = np.broadcast_to(np.linspace(0.1, 0.9, 30)[:, None], (30, 40))
    found = []
    for _ in range(30):
        whole = (generator.random((30, 40)) < 0.7).astype(float)
        lucky = replace(kept, whole=whole, compression=compression)
        found += trades(lucky, Draws(100, 1), levels=(0.75,))
    seen = np.mean([trade.point.recall.value for trade in found if trade.point])
    assert seen >= 0.75
    assert np.mean([trade.held_out for trade in found]) == pytest.approx(0.7, abs=0.02)
