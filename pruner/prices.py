"""What is known of hosted models, offline: their price and the size of their context."""

from collections.abc import Callable

from pruner.schema import Usage

__all__ = ["Pricer", "context_window", "make_pricer"]

Pricer = Callable[[Usage], float | None]


def make_pricer(provider: str, model: str) -> Pricer:
    """Return a function from usage to US dollars: None for unknown models, and without the extra `prices`."""
    try:
        from genai_prices import Usage as Priced
        from genai_prices import calc_price
    except ImportError:
        return lambda usage: None

    def price(usage: Usage) -> float | None:
        counted = Priced(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
        )
        try:
            return float(calc_price(counted, model_ref=model, provider_id=provider).total_price)
        except (LookupError, ValueError):
            return None

    price(Usage(input_tokens=1))
    return price


def context_window(provider: str, model: str) -> int | None:
    """Return how many tokens a model takes, input and output together; None where nobody knows."""
    try:
        from genai_prices import Usage as Priced
        from genai_prices import calc_price

        return calc_price(Priced(input_tokens=1), model_ref=model, provider_id=provider).model.context_window
    except (ImportError, LookupError, ValueError):
        return None
