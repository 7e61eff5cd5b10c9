"""Numbers and tables as every report writes them."""

from collections.abc import Sequence
from math import isnan

from pruner.console import clean

__all__ = ["number", "table"]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table in Markdown; no cell can break out of its place."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(clean(str(cell)).replace('|', '∣') for cell in line)} |" for line in lines)


def number(value: float, digits: int = 2) -> str:
    """Write a number; a dash where it is not defined."""
    return "–" if isnan(value) else f"{value:.{digits}f}"
