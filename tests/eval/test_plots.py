from collections.abc import Callable, Sequence

import pytest
from matplotlib.figure import Figure

from eval.plots import draw_curve, draw_slices
from eval.points import Draws, Point, points
from eval.strategies import configurations
from eval.sweep import sweep
from tests.made_cases import made_case

NOTE = "order of the lists: BM25\ngraded: " + "; ".join(f"strategy {n} by openai:gpt-4o-mini" for n in range(9))
Draw = Callable[[Sequence[Point]], Figure]


@pytest.fixture
def measured() -> list[Point]:
    cases = [made_case("a", [5, 1, 1], [0]), made_case("b", [1, 5, 1], [1])]
    return points(sweep(cases, configurations(cases)), Draws(20))


@pytest.mark.parametrize(
    "draw",
    [
        lambda measured: draw_curve(measured, "questions of " + "a set, " * 40, NOTE),
        lambda measured: draw_slices({"all": measured}, NOTE),
        lambda measured: draw_slices(dict(zip("abcde", [measured] * 5, strict=True)), NOTE),
    ],
)
def test_no_text_runs_over_the_edge(draw: Draw, measured: list[Point]) -> None:
    figure = draw(measured)
    figure.draw_without_rendering()
    texts = [figure.legends[0].get_title(), *figure.texts]
    for text in texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_the_note_keeps_its_words(measured: list[Point]) -> None:
    told = draw_curve(measured, "title", NOTE).legends[0].get_title().get_text()
    assert told.split() == NOTE.split()
