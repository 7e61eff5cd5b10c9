"""What is known of hosted models, offline: their price and the size of their context."""

from collections.abc import Callable

from pruner.schema import Usage

__all__ = ["Pricer", "context_window", "make_pricer", "unpriced"]

Pricer = Callable[[Usage], float | None]


def make_pricer(provider: str, model: str) -> Pricer:
    """Return a function from usage to US dollars: None for unknown models, and without the extra `prices`."""
    vendor, model = _as_priced(provider, model)
    try:
        from genai_prices import Usage as Priced
        from genai_prices import calc_price
    except ImportError:
        return unpriced

    def price(usage: Usage) -> float | None:
        try:
            counted = Priced(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cached_tokens,
                cache_write_tokens=usage.written_tokens,
            )
            return float(calc_price(counted, model_ref=model, provider_id=vendor).total_price)
        except (LookupError, ValueError):
            return None

    # To look for an unknown model takes long each time.
    return unpriced if price(Usage(input_tokens=1)) is None else price


def unpriced(usage: Usage) -> None:
    """Say of any usage that nobody knows its price."""
    return


def context_window(provider: str, model: str) -> int | None:
    """Return how many tokens a model takes, input and output together; None where nobody knows."""
    vendor, model = _as_priced(provider, model)
    try:
        from genai_prices import Usage as Priced
        from genai_prices import calc_price

        return calc_price(Priced(input_tokens=1), model_ref=model, provider_id=vendor).model.context_window
    except (ImportError, LookupError, ValueError):
        return None


def _as_priced(provider: str, model: str) -> tuple[str | None, str]:
    """Return vendor and model of a `litellm:vendor/model`; no vendor where litellm would guess it from the model."""
    if provider != "litellm":
        return provider, model
    vendor, slash, name = model.partition("/")
    return (vendor, name) if slash else (None, model)
