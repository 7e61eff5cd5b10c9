from collections.abc import Sequence
from math import nan
from pathlib import Path

import numpy as np
import pytest

from eval.__main__ import main
from eval.ab import Arm, arm_of, compare, cuts_like, matched_cut
from eval.points import Draws
from tests.made_cases import made_case, write_lists

DRAWS = Draws(resamples=300, seed=2)


def arm(name: str, whole: Sequence[float], chunks: Sequence[float]) -> Arm:
    return Arm(name, np.array(whole), np.array(chunks), 10 * np.array(chunks))


def test_wins_and_losses_are_the_questions_that_only_one_kept_whole() -> None:
    a, b = arm("a", [1, 1, 0, 0, nan], [2, 2, 2, 2, 2]), arm("b", [1, 0, 1, 0, nan], [4, 4, 4, 4, 4])
    found = compare(a, b, [10] * 5, [100] * 5, DRAWS)
    assert (found.wins, found.losses, found.p_value) == ((1,), (2,), 1.0)
    assert [estimate.value for estimate in found.recall] == [0.5, 0.5, 0.0]
    assert [estimate.value for estimate in found.compression] == pytest.approx([0.8, 0.6, 0.2])
    assert [estimate.value for estimate in found.token_compression] == pytest.approx([0.8, 0.6, 0.2])


def test_the_bootstrap_is_paired_so_that_a_difference_without_spread_has_none() -> None:
    generator = np.random.default_rng(0)
    kept = generator.integers(1, 9, 50).astype(float)
    found = compare(
        arm("a", [1.0] * 50, (kept - 1).tolist()), arm("b", [1.0] * 50, kept.tolist()), [10] * 50, [100] * 50, DRAWS
    )
    difference = found.compression[2]
    assert (difference.low, difference.high) == pytest.approx((0.1, 0.1))
    assert found.compression[0].high - found.compression[0].low > 0.03


def test_mcnemar_is_over_the_questions_that_differ() -> None:
    a, b = arm("a", [1] * 8 + [0] + [1] * 20, [1] * 29), arm("b", [0] * 8 + [1] + [1] * 20, [1] * 29)
    assert compare(a, b, [2] * 29, [20] * 29, DRAWS).p_value == pytest.approx(20 / 512)


def test_an_arm_counts_what_was_kept() -> None:
    cases = [made_case("x", [5, 1, 4], [0, 2]), made_case("y", [1, 1], [])]
    made = arm_of("a", cases, [frozenset({0, 1}), frozenset({1})])
    assert made.whole[0] == 0
    assert np.isnan(made.whole[1])
    assert (made.chunks.tolist(), made.tokens.tolist()) == ([2, 1], [20, 10])


def test_a_cut_keeps_exactly_as_many_chunks_where_it_can() -> None:
    weights = [(1,) * 5, (1,) * 3, (1,) * 5, (1,)]
    for total in range(15):
        kept = matched_cut(weights, total, seed=0)
        assert sum(map(len, kept)) == total
        lengths = [len(own) for own in kept]
        longest = max(lengths)
        assert all(size >= min(longest - 1, len(own)) for size, own in zip(lengths, weights, strict=True))
        assert all(own == frozenset(range(len(own))) for own in kept)


def test_a_cut_keeps_no_more_tokens_than_allowed_and_nearly_as_many() -> None:
    generator = np.random.default_rng(1)
    weights = [tuple(map(int, generator.integers(5, 60, 12))) for _ in range(40)]
    kept = matched_cut(weights, 7000, seed=3)
    tokens = sum(own[place] for own, left in zip(weights, kept, strict=True) for place in left)
    assert 7000 - 60 <= tokens <= 7000


def test_who_gets_the_chunk_more_is_drawn_by_the_seed() -> None:
    weights = [(1,) * 4] * 30
    assert matched_cut(weights, 45, seed=1) == matched_cut(weights, 45, seed=1)
    assert matched_cut(weights, 45, seed=1) != matched_cut(weights, 45, seed=2)


def test_the_rankings_are_cut_to_what_was_kept() -> None:
    cases = [made_case("x", [5] * 6, [0], tokens=(1, 1, 1, 1, 1, 95)), made_case("y", [5] * 6, [0])]
    cuts = cuts_like(cases, [frozenset({5}), frozenset({0})], seed=0)
    chunks, tokens = cuts.values()
    assert [len(kept) for kept in chunks] == [1, 1]
    # 105 tokens were kept: five chunks each are 55, of the sixth only the second list's fits.
    assert [len(kept) for kept in tokens] == [5, 6]


LISTS = {
    "near": ([5, 1, 1, 1], [0]),
    "far": ([1, 1, 1, 5], [3]),
    "missed": ([1, 5, 1, 1], [2]),
    "none": ([1, 1, 1, 1], []),
}


def test_the_command_compares_with_the_ranking_cut_alike_and_lists_who_lost_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ab", *write_lists(tmp_path, LISTS), "--a", "listwise threshold=3 keep_top_k=1 scoring=grade"]) == 0
    out = capsys.readouterr().out
    assert "order of the lists: BM25, not a neural reranker" in out
    assert out.count("## A: listwise threshold=3 keep_top_k=1 scoring=grade") == 2
    assert "## B: the ranking cut to as many chunks" in out
    assert "## B: the ranking cut to as many tokens" in out
    assert "1 questions only A kept whole, 0 only B; exact McNemar p = 1.0000" in out
    assert "Lost by B alone:" in out
    assert "| made | far | 1 | 4 (5) |" in out


def test_the_command_compares_any_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", *write_lists(tmp_path, LISTS), "--a", "top_n n=3", "--b", "oracle"]) == 0
    out = capsys.readouterr().out
    assert "## B: oracle" in out
    assert "Lost by A alone:" in out
    assert "| made | far | 1 | 4 (5) |" in out
    assert "Lost by B alone:" not in out


def test_a_mistake_in_the_other_configuration_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", *write_lists(tmp_path, LISTS), "--b", "anchors level=3 keep_top_k=0"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("ab: no list has a grading for anchors: make them by `python -m eval grade`")
    assert err.count("\n") == 1
