"""The curve as a picture: recall preserved against compression, a colour and a marker per strategy."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from textwrap import wrap
from unicodedata import east_asian_width

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from eval.points import LEVELS, Estimate, Point

__all__ = ["Style", "draw_curve", "draw_slices", "save", "style_of"]

Series = Mapping[str, Sequence[Point]]


@dataclass(frozen=True)
class Style:
    """How a strategy looks; colours of Okabe and Ito, told apart by the colour-blind, and a marker for print."""

    colour: str
    marker: str
    dashes: str = "-"


_STYLES = {
    "listwise": Style("#0072B2", "o"),
    "top_n": Style("#000000", "s", "--"),
    "score_cut": Style("#E69F00", "^"),
    "relative_cut": Style("#8C510A", "<"),
    "direct_select": Style("#CC79A7", "D"),
    "budget_select": Style("#009E73", "v"),
    "anchors": Style("#D55E00", "P"),
    "oracle": Style("#56B4E9", "*"),
    "all": Style("#666666", "X"),
}
_FURTHER = (Style("#542788", ">"), Style("#7F7F00", "p"))
_SLICES_SHOWN = 12
_PANEL = 3.2  # width of one, in inches
# Shades of more than two would hide each other; the other intervals are drawn as bars.
_SHADED = ("listwise", "top_n")
_TITLE, _NOTE = 13, 9
_MOST_LINES = {_TITLE: 4, _NOTE: 16}
# The picture shows a box for it; the SVG holds the letter.
_NO_LETTER = "Glyph .* missing from font"
_POINTS, _LETTER = 72, 0.62  # to the inch; mean width of a letter, in sizes of the font


def style_of(strategy: str, among: Sequence[str]) -> Style:
    """Return the look of a strategy; those without one of their own take turns."""
    others = [name for name in among if name not in _STYLES]
    return _STYLES[strategy] if strategy in _STYLES else _FURTHER[others.index(strategy) % len(_FURTHER)]


@mpl.rc_context({"text.parse_math": False})
def draw_curve(points: Sequence[Point], title: str, note: str) -> Figure:
    """Draw every configuration, each strategy's Pareto line with its band, in chunks and in tokens.

    Args:
        points: of all configurations on the same questions.
        title: the first line: which data, how many questions.
        note: what a reader must know, such as whose order the lists are in.
    """
    figure = Figure(figsize=(12, 6.4), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, points, lambda p: p.compression)
    _panel(right, points, lambda p: p.token_compression)
    left.set(xlabel="compression: share of chunks dropped", ylabel="recall preserved: share of questions still whole")
    right.set(xlabel="token compression: share of tokens dropped")
    figure.suptitle(_wrapped(title, figure.get_figwidth(), _TITLE), fontsize=_TITLE)
    _add_legend(figure, left, note)
    return figure


@mpl.rc_context({"text.parse_math": False})
def draw_slices(slices: Series, note: str, strategies: Sequence[str] = ("listwise", "top_n")) -> Figure:
    """Draw the Pareto lines of a few strategies, a small panel per slice, the largest slices first."""
    largest = sorted(slices.items(), key=lambda item: -item[1][0].with_gold)[:_SLICES_SHOWN]
    columns = min(4, len(largest))
    rows = ceil(len(largest) / columns)
    figure = Figure(figsize=(_PANEL * columns + 0.6, 2.9 * rows + 1), dpi=150, layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (name, points) in zip(panels, largest, strict=False):
        _panel(axes, [p for p in points if p.strategy in strategies], lambda p: p.compression, scattered=False)
        shown = _wrapped(name, _PANEL, _NOTE, most=2)
        axes.set_title(f"{shown}\n{points[0].with_gold} questions", fontsize=_NOTE)
    for axes in panels[len(largest) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(largest) - columns) : len(largest)]:
        axes.set_xlabel("chunks dropped", fontsize=9)
        axes.xaxis.set_tick_params(labelbottom=True)
    for axes in panels[::columns]:
        axes.set_ylabel("recall preserved", fontsize=9)
    _add_legend(figure, panels[0], note)
    return figure


def _add_legend(figure: Figure, axes: Axes, note: str) -> None:
    handles, labels = axes.get_legend_handles_labels()
    title = _wrapped(note, figure.get_figwidth(), _NOTE)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=4, frameon=False, title=title, title_fontsize=_NOTE
    )


def _wrapped(text: str, inches: float, size: int, most: int | None = None) -> str:
    """Break lines that are wider than this, and cut what would take more than `most` lines: what runs over is lost."""
    shown = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
    wide = any(east_asian_width(letter) in "WF" for letter in shown)
    width = int(inches * _POINTS / (size * _LETTER)) // (2 if wide else 1)
    lines = [part for line in shown.split("\n") for part in wrap(line, width)]
    most = most or _MOST_LINES[size]
    return "\n".join(lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][: width - 2]} …"])


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write `stem.png` and `stem.svg`, the same bytes every time."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with mpl.rc_context({"svg.hashsalt": "pruner", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_LETTER)
        figure.savefig(paths[0], metadata={"Software": None})
        # The layout is found; finding it again takes as long as the drawing.
        figure.set_layout_engine("none")
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths


def _panel(axes: Axes, points: Sequence[Point], across: Callable[[Point], Estimate], *, scattered: bool = True) -> None:
    names = list(dict.fromkeys(p.strategy for p in points))
    for level in LEVELS:
        axes.axhline(level, color="#999999", linewidth=0.6, linestyle=":", zorder=0)
    for name in names:
        own = [p for p in points if p.strategy == name]
        _draw_strategy(axes, name, own, style_of(name, names), across, scattered)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.03))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


def _draw_strategy(
    axes: Axes, name: str, own: list[Point], style: Style, across: Callable[[Point], Estimate], scattered: bool
) -> None:
    if scattered:
        off = [p for p in own if not p.on_line]
        xs, ys = [across(p).value for p in off], [p.recall.value for p in off]
        axes.scatter(xs, ys, s=12, color=style.colour, marker=style.marker, alpha=0.3, linewidths=0, zorder=2)
    line = sorted((p for p in own if p.on_line), key=lambda p: across(p).value)
    xs = [across(p).value for p in line]
    lows, highs = [p.recall.low for p in line], [p.recall.high for p in line]
    if name in _SHADED:
        axes.fill_between(xs, lows, highs, color=style.colour, alpha=0.14, linewidth=0, zorder=1)
    else:
        axes.vlines(xs, lows, highs, color=style.colour, alpha=0.5, linewidth=0.8, zorder=1)
    axes.plot(
        xs,
        [p.recall.value for p in line],
        linestyle=style.dashes,
        color=style.colour,
        marker=style.marker,
        markersize=5 if style.marker != "*" else 11,
        linewidth=1.6,
        label=name if name != "top_n" else "top_n (cutting the ranking)",
        zorder=3,
    )
