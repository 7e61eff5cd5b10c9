from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pruner.backends.calibration import levels_of

readings = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30)


@given(readings)
def test_each_row_is_a_distribution_over_five_levels(values: list[float]) -> None:
    for row in levels_of(values):
        assert len(row) == 5
        assert min(row) >= 0
        assert abs(sum(row) - 1) < 1e-9


def _means(values: list[float]) -> list[float]:
    return [sum(level * p for level, p in enumerate(row, 1)) for row in levels_of(values)]


@given(readings)
def test_a_higher_reading_never_means_a_lower_level(values: list[float]) -> None:
    by_reading = [mean for _, mean in sorted(zip(values, _means(values), strict=True))]
    assert all(a <= b + 1e-9 for a, b in pairwise(by_reading))


def test_a_list_of_which_nothing_is_needed_is_graded_low_throughout() -> None:
    assert max(_means([-4.0] * 15)) < 2


def test_a_list_of_which_all_is_needed_is_graded_high_throughout() -> None:
    assert min(_means([6.0] * 5)) > 4
