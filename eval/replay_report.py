"""How a replayed log is told: a table of days, and a few sentences that say what pruning saves."""

import json
from collections.abc import Iterable
from typing import Any

from eval.markdown import table
from eval.prices import Prices, Saving, saving
from eval.traffic import Replay, Traffic

__all__ = ["to_json", "to_markdown"]

_HEAD = (
    *("day", "queries", "chunks", "chunks dropped", "tokens dropped", "pruner cost", "net saving"),
    *("p50", "p95", "p99", "partial", "fallback"),
)
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def to_markdown(done: Replay, prices: Prices | None) -> str:
    """Tell of a replay in Markdown."""
    days = [_cells(day or "no time", traffic, prices) for day, traffic in sorted(done.days.items())]
    rows = [*days, _cells("all", done.total, prices)] if len(days) != 1 else days
    parts = [table(_HEAD, rows), *_sentences(done, prices)]
    return "\n\n".join(parts)


def to_json(done: Replay, prices: Prices | None) -> str:
    """Tell of a replay in JSON: the same figures, unrounded."""
    told = {
        "days": {day: _figures(traffic, prices) for day, traffic in sorted(done.days.items())},
        "all": _figures(done.total, prices),
        "baseline_lines": done.baseline,
        "unreadable": dict(done.unreadable),
    }
    return json.dumps(told, indent=2, sort_keys=True, allow_nan=False)


def _cells(name: str, traffic: Traffic, prices: Prices | None) -> list[str]:
    saved = prices and saving(traffic, prices)
    cost = "unknown" if traffic.unpriced else _dollars(traffic.cost)
    return [
        *(name, f"{traffic.queries:,}", f"{traffic.chunks_before:,}"),
        *(_percent(traffic.compression), _percent(traffic.token_compression)),
        *(cost, _dollars(saved.net) if saved else "–"),
        *(_seconds(traffic.latency.at(share)) for _, share in _QUANTILES),
        *(_percent(traffic.share(status)) for status in ("partial", "fallback")),
    ]


def _figures(traffic: Traffic, prices: Prices | None) -> dict[str, Any]:
    saved = prices and saving(traffic, prices)
    return {
        "queries": traffic.queries,
        "chunks": [traffic.chunks_before, traffic.chunks_after],
        "tokens": [traffic.tokens_before, traffic.tokens_after],
        "compression": traffic.compression,
        "token_compression": traffic.token_compression,
        "pruner_cost": None if traffic.unpriced else traffic.cost,
        "latency": {name: traffic.latency.at(share) for name, share in _QUANTILES},
        "statuses": dict(traffic.statuses),
        "reasons": dict(traffic.reasons),
        "saving": saved and {name: getattr(saved, name) for name in Saving.__dataclass_fields__},
    }


def _sentences(done: Replay, prices: Prices | None) -> Iterable[str]:
    if done.total.reasons:
        yield "Not ok: " + ", ".join(f"{reason} {count:,}" for reason, count in done.total.reasons.most_common()) + "."
    if done.total.queries:
        yield _money(done.total, prices)
    if done.baseline:
        yield f"{done.baseline:,} lines were not graded (baseline arm, or off); they are not counted."
    if done.unreadable:
        told = "; ".join(f"{why} ({count:,})" for why, count in done.unreadable.most_common(3))
        yield f"{done.unreadable.total():,} lines were passed over: {told}. The first is {done.first_unreadable}."


def _money(traffic: Traffic, prices: Prices | None) -> str:
    if prices is None:
        return "What is saved: give --generator prefix:name, or --input-price and --output-price."
    if traffic.unpriced:
        return f"What is saved is not known: {traffic.unpriced:,} gradings are by a model without a known price."
    saved = saving(traffic, prices)
    if saved is None:
        return "Nothing to save: the chunks hold no tokens."
    told = [
        f"{_sent(traffic.token_compression, saved.gross)} for the generator's input, {_dollars(saved.net)} net of "
        "the grading.",
        f"Pruning pays for itself from {_percent(saved.break_even)} of the tokens dropped.",
    ]
    if saved.share is not None:
        told.append(
            f"The chunks are {_percent(saved.chunk_share)} of what a query costs (measured on {traffic.measured:,}), "
            f"so that is {_percent(saved.share)} of the bill."
        )
    else:
        told.append("The log holds no generator tokens, so the share of the bill is not known.")
    return " ".join(told)


def _sent(dropped: float, gross: float) -> str:
    if dropped < 0:
        return f"{_percent(-dropped)} more of the chunks' tokens are sent than before: {_dollars(-gross)} more"
    return f"{_percent(dropped)} of the chunks' tokens are not sent: {_dollars(gross)} less"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}".replace("%", " %")


def _dollars(amount: float) -> str:
    return (
        f"{'-' if amount < 0 else ''}${abs(amount):,.4f}"
        if abs(amount) < 1
        else f"{'-' if amount < 0 else ''}${abs(amount):,.2f}"
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"
