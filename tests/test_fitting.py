from hypothesis import given
from hypothesis import strategies as st

from pruner.fitting import CUT_MARK, fit
from pruner.schema import Candidate, Chunk


class Words:
    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return len(text.split())


def candidates(*sizes: int) -> list[Candidate]:
    texts = [" ".join(["word"] * size) for size in sizes]
    return [Candidate(index, Chunk(text=text), text) for index, text in enumerate(texts)]


def test_without_a_limit_everything_is_shown_and_nothing_counted() -> None:
    words = Words()
    assert len(fit(candidates(9, 9), None, [], words).shown) == 2
    assert words.asked == 0


def test_bytes_settle_it_where_they_can() -> None:
    words = Words()
    assert fit(candidates(10, 10), 1_000, ["query"], words).left_out == ()
    assert words.asked == 0


def test_a_list_that_fits_by_tokens_is_shown_whole() -> None:
    rows = candidates(100, 100)
    assert fit(rows, 400, [], Words()).shown == rows


def test_the_longest_are_cut_and_marked_and_the_others_left_alone() -> None:
    rows = candidates(100, 2_000, 1_500)
    found = fit(rows, 1_000, [], Words())
    assert found.left_out == ()
    assert found.shown[0] == rows[0]
    assert all(c.text.endswith(CUT_MARK) for c in found.shown[1:])
    assert rows[1].text.startswith(found.shown[1].text.removesuffix(CUT_MARK))


def test_the_tail_of_the_ranking_stays_out_when_cutting_is_not_enough() -> None:
    found = fit(candidates(*[500] * 10), 1_000, [], Words())
    assert found.left_out == (4, 5, 6, 7, 8, 9)
    assert all(len(c.text.split()) >= 150 for c in found.shown)


def test_titles_and_headings_take_room_too() -> None:
    long_title = Candidate(0, Chunk(text="w", title="word " * 500), "w")
    assert fit([long_title] * 3, 1_500, [], Words()).left_out == (0,)


def test_a_budget_that_the_query_eats_leaves_everything_out() -> None:
    found = fit(candidates(500, 500), 100, ["word " * 200], Words())
    assert (found.shown, found.left_out) == ([], (0, 1))


@given(st.lists(st.integers(0, 3_000), max_size=20), st.integers(1, 20_000), st.integers(0, 500))
def test_what_is_shown_never_exceeds_the_budget_and_keeps_its_order(sizes: list[int], budget: int, query: int) -> None:
    rows = candidates(*sizes)
    found = fit(rows, budget, ["word " * query], Words())
    indices = [c.index for c in found.shown]
    assert [*indices, *found.left_out] == list(range(len(rows)))
    if found.shown:
        # The mark may count as a word of its own.
        assert query + sum(Words().count(c.text) for c in found.shown) <= budget + len(found.shown)
