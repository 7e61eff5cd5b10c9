"""What a grading cost, where the model's price is known. Offline."""

from collections.abc import Callable

from pruner.schema import Usage

__all__ = ["Pricer", "make_pricer"]

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
