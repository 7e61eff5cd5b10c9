"""Intervals and tests against values worked out by hand or by plain sums, and the guarantee by simulation."""

from math import comb, nan

import numpy as np
import pytest

from eval.statistics import (
    Ratio,
    binomial_p_value,
    fixed_sequence,
    interval,
    learn_then_test,
    losses_allowed,
    lower_bound,
    mcnemar,
    questions_for_power,
    questions_needed,
    upper_bound,
)


def tail(least: int, trials: int, share: float) -> float:
    """P(X >= least) of a binomial, term by term."""
    return sum(comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(least, trials + 1))


@pytest.mark.parametrize(("wins", "losses", "expected"), [(8, 1, 20 / 512), (0, 5, 2 / 32), (3, 3, 1.0), (0, 0, 1.0)])
def test_mcnemar_is_the_exact_binomial_of_the_questions_that_differ(wins: int, losses: int, expected: float) -> None:
    assert mcnemar(wins, losses) == pytest.approx(expected)
    assert mcnemar(losses, wins) == pytest.approx(expected)


@pytest.mark.parametrize(("successes", "trials"), [(9, 10), (1, 7), (68, 70), (195, 200)])
def test_the_lower_bound_is_the_share_at_which_so_many_successes_have_chance_delta(successes: int, trials: int) -> None:
    bound = lower_bound(successes, trials, 0.95)
    assert tail(successes, trials, bound) == pytest.approx(0.05)
    assert bound < successes / trials < upper_bound(successes, trials, 0.95)


def test_the_bounds_at_the_ends() -> None:
    assert lower_bound(74, 74, 0.95) == pytest.approx(0.05 ** (1 / 74))
    assert upper_bound(0, 74, 0.95) == pytest.approx(1 - 0.05 ** (1 / 74))
    assert lower_bound(0, 74) == lower_bound(0, 0) == 0
    assert upper_bound(74, 74) == upper_bound(0, 0) == 1


def test_the_p_value_is_the_binomial_tail_and_agrees_with_the_bound() -> None:
    for successes in range(101):
        p = float(binomial_p_value(successes, 100, 0.9))
        assert p == pytest.approx(tail(successes, 100, 0.9))
        assert (p <= 0.05) == (lower_bound(successes, 100) >= 0.9)


def test_a_fixed_sequence_stops_at_the_first_that_is_not_rejected() -> None:
    assert fixed_sequence([0.01, 0.05, 0.051, 0.0], 0.05) == 2
    assert fixed_sequence([0.2], 0.05) == 0
    assert fixed_sequence([0.0, 0.0], 0.05) == 2
    assert fixed_sequence([], 0.05) == 0


def test_learn_then_test_counts_those_shown_in_a_row() -> None:
    # Of 117 questions one may be lost at a target of 0.96.
    assert learn_then_test([117, 116, 115, 117], 117, 0.96) == 2
    assert learn_then_test([73], 73, 0.96) == 0


@pytest.mark.parametrize(("target", "lost"), [(0.9, 0), (0.96, 0), (0.96, 1), (0.96, 5), (0.98, 2)])
def test_the_questions_needed_are_the_fewest_that_show_the_target(target: float, lost: int) -> None:
    needed = questions_needed(target, 0.95, lost)
    assert tail(needed - lost, needed, target) <= 0.05 < tail(needed - 1 - lost, needed - 1, target)
    assert losses_allowed(needed, target) == lost
    assert losses_allowed(needed - 1, target) == (lost - 1 if lost else None)


@pytest.mark.parametrize(("target", "true"), [(0.9, 0.95), (0.96, 0.99), (0.96, 1.0)])
def test_from_the_questions_for_power_on_the_proof_succeeds_often_enough(target: float, true: float) -> None:
    def power(trials: int) -> float:
        allowed = losses_allowed(trials, target)
        return 0.0 if allowed is None else tail(trials - allowed, trials, true)

    enough = questions_for_power(target, true, power=0.8)
    assert power(enough - 1) < 0.8
    assert all(power(trials) >= 0.8 for trials in range(enough, enough + 200))


def test_a_target_that_is_not_below_the_truth_is_never_shown_with_power() -> None:
    with pytest.raises(ValueError, match="no number of questions"):
        questions_for_power(0.96, 0.96)


def test_a_ratio_divides_sums_and_leaves_out_where_it_is_not_defined() -> None:
    chunks = Ratio(np.array([[1.0, 5.0], [0.0, 0.0]]), np.array([[2.0, 10.0], [2.0, 10.0]]))
    assert chunks.value.tolist() == [0.5, 0.0]
    recall = Ratio.mean([[1.0, nan, 0.0], [nan, nan, nan]])
    assert recall.value[0] == 0.5
    assert np.isnan(recall.value[1])
    assert recall.only(np.array([True, True, False])).value[0] == 1.0


def test_the_bootstrap_repeats_and_its_spread_is_that_of_a_mean() -> None:
    values = Ratio.mean([[0.0, 1.0] * 50])
    samples = values.bootstrap(4000, seed=3)
    assert samples.shape == (4000, 1)
    assert np.array_equal(samples, values.bootstrap(4000, seed=3))
    assert not np.array_equal(samples, values.bootstrap(4000, seed=4))
    assert samples.mean() == pytest.approx(0.5, abs=0.005)
    assert samples.std() == pytest.approx(0.05, rel=0.05)  # sqrt(p (1 - p) / n)


def test_the_bootstrap_in_blocks_draws_whole_lists_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Ratio(np.arange(10.0)[None], np.ones((1, 10)))
    whole = values.bootstrap(7, seed=0)
    monkeypatch.setattr("eval.statistics._BLOCK", 20)
    blocks = values.bootstrap(7, seed=0)
    assert np.array_equal(blocks[:2], whole[:2])
    assert blocks.shape == whole.shape


def test_rows_are_drawn_together_so_that_a_constant_difference_has_no_spread() -> None:
    one = np.random.default_rng(0).random(40)
    samples = Ratio.mean([one, one - 0.1]).bootstrap(500, seed=1)
    assert np.allclose(samples[:, 0] - samples[:, 1], 0.1)


def test_what_a_draw_leaves_out_is_measured_apart() -> None:
    # With two questions a draw holds one of them twice, and the other is left out; or both, and nothing is left out.
    values = Ratio.mean([[0.0, 1.0]])
    drawn, rest = values.bootstrap(200, seed=5)[:, 0], values.bootstrap(200, seed=5, left_out=True)[:, 0]
    both = drawn == 0.5
    assert np.isnan(rest[both]).all()
    assert (rest[~both] == 1 - drawn[~both]).all()


def test_an_interval_passes_over_undefined_samples_without_a_warning() -> None:
    samples = np.array([[0.0, nan], [1.0, nan], [nan, nan]])
    low, high = interval(samples, 0.5)
    assert (low[0], high[0]) == (0.25, 0.75)
    assert np.isnan(low[1])
    assert np.isnan(high[1])


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    samples = generator.random((300, 1, 100)) < 0.8
    ends = [interval(Ratio.mean(sample).bootstrap(300, seed=1)) for sample in samples]
    covered = np.mean([low[0] <= 0.8 <= high[0] for low, high in ends])
    assert 0.90 <= covered <= 0.985


def test_the_guarantee_holds_where_the_best_looking_configuration_would_break_it() -> None:
    """Forty configurations, most of them just below the target: choosing by the eye is wrong far more often."""
    generator = np.random.default_rng(2)
    target, trials, runs = 0.9, 200, 1000
    true = np.concatenate([np.linspace(0.99, 0.9, 10), np.full(30, 0.89)])
    wrong_shown = wrong_seen = shown_at_all = 0
    for _ in range(runs):
        learnt = generator.binomial(trials, true)
        order = np.argsort(-learnt, kind="stable")
        successes = generator.binomial(trials, true)[order]
        shown = learn_then_test(successes, trials, target)
        wrong_shown += bool((true[order[:shown]] < target).any())
        shown_at_all += shown > 0
        wrong_seen += bool((true[learnt >= target * trials] < target).any())
    assert wrong_shown / runs <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    assert wrong_seen / runs > 0.9
    assert shown_at_all / runs > 0.9
