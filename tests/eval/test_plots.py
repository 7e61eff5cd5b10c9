from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from eval.plots import draw_curve, draw_slices, save
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
        lambda measured: draw_curve(measured, "questions of " + "a set, " * 900, "graded " * 900),
        lambda measured: draw_slices(
            {"all": measured, "tier = " + "x" * 900: measured, "y " * 900: measured}, NOTE * 90
        ),
    ],
)
def test_no_text_runs_over_the_edge(draw: Draw, measured: list[Point]) -> None:
    figure = draw(measured)
    figure.draw_without_rendering()
    texts = [figure.legends[0].get_title(), *figure.texts, *(axes.title for axes in figure.axes)]
    for text in texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


VALUES = (
    *("$5 to $10", r"EU $\frac$", "$a^^b$", "$9.99/month", "a_b^c", "\\", "中文" * 60, "x" * 400, "a b " * 300),
    *("a|b\n<script>&amp;", "\x00\x07", "\ud800", " ", "", "é" * 90, "हिन्दी", "عربي", "😀", "\u202e"),
)


@pytest.mark.parametrize("values", [VALUES[:10], VALUES[10:]])
def test_whatever_stands_in_the_data_is_drawn(values: Sequence[str], measured: list[Point], tmp_path: Path) -> None:
    said = "; ".join(values)
    figures = {
        "curve": draw_curve(measured, f"4 questions ({said})", said),
        "slices": draw_slices({f"tier = {value}": measured for value in values}, said),
    }
    for name, figure in figures.items():
        png, svg = save(figure, tmp_path / name)
        assert png.stat().st_size > 0
        ElementTree.parse(svg)


def test_a_price_is_no_formula(measured: list[Point], tmp_path: Path) -> None:
    _, svg = save(draw_slices({"tier = $5 to $10": measured}, "from $1 to $2"), tmp_path / "slices")
    assert "tier = $5 to $10" in svg.read_text(encoding="utf-8")
    assert "from $1 to $2" in svg.read_text(encoding="utf-8")


def test_the_note_keeps_its_words(measured: list[Point]) -> None:
    told = draw_curve(measured, "title", NOTE).legends[0].get_title().get_text()
    assert told.split() == NOTE.split()
