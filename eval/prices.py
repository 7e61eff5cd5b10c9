"""What the generator's tokens cost, and what pruning saves of it, net."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from eval.errors import EvalError
from eval.traffic import Traffic
from pruner.config import PREFIXES
from pruner.prices import make_pricer
from pruner.schema import Usage

__all__ = ["Prices", "Saving", "saving", "token_prices"]

_MILLION = 1_000_000
_SOME = 1_000


class Prices(NamedTuple):
    """US dollars for one token of the generator's input and of its output."""

    input: float
    output: float


def token_prices(model: str | None, per_million_in: float | None, per_million_out: float | None) -> Prices | None:
    """Return the prices of a generator.

    Args:
        model: as `prefix:name`, looked up in the price list of `genai-prices`.
        per_million_in: US dollars for a million input tokens; wins over the list.
        per_million_out: the same for output tokens.

    Returns:
        None where neither a model nor a price was given.

    Raises:
        EvalError: the price of that model is not known, or a price is missing.
    """
    given = [price and price / _MILLION for price in (per_million_in, per_million_out)]
    listed = _listed(model) if model and None in given else Prices(math.nan, math.nan)
    found = Prices(*(known if price is None else price for price, known in zip(given, listed, strict=True)))
    if math.isnan(found.input + found.output):
        if given != [None, None]:
            raise EvalError("give both --input-price and --output-price, or --generator prefix:name")
        return None
    return found


def _listed(model: str) -> Prices:
    prefix, _, name = model.partition(":")
    if prefix not in PREFIXES or not name:
        raise EvalError(f"--generator must be prefix:name, such as openai:gpt-4o; got {model!r}")
    price = make_pricer(prefix, name)
    whole = price(Usage(input_tokens=_SOME)), price(Usage(output_tokens=_SOME))
    if whole[0] is None or whole[1] is None:
        raise EvalError(f"no price is known for {model}; give --input-price and --output-price (dollars a million)")
    return Prices(whole[0] / _SOME, whole[1] / _SOME)


@dataclass(frozen=True, slots=True)
class Saving:
    """What pruning saves; US dollars over all queries.

    Attributes:
        gross: the generator's input tokens that were not sent.
        net: less what the grading cost.
        share: net, as a share of what the queries would have cost; None where the log holds no generator tokens.
        chunk_share: the chunks' share of what the queries would have cost; None in the same case.
        break_even: the share of chunk tokens that must go before pruning pays for itself.
    """

    gross: float
    net: float
    share: float | None
    chunk_share: float | None
    break_even: float


def saving(traffic: Traffic, prices: Prices) -> Saving | None:
    """Compute what pruning saves; None where the cost of a grading is not known, or no chunk had a token.

    The shares are of the queries whose generator tokens the log holds, and are taken to hold for all.
    """
    chunk_cost = traffic.tokens_before * prices.input
    if traffic.unpriced or not chunk_cost:
        return None
    gross = (traffic.tokens_before - traffic.tokens_after) * prices.input
    net = gross - traffic.cost
    known = traffic.generator_input * prices.input + traffic.generator_output * prices.output
    chunk_share = traffic.measured_chunk_tokens * prices.input / known if known else None
    share = net / chunk_cost * chunk_share if chunk_share is not None else None
    return Saving(gross, net, share, chunk_share, traffic.cost / chunk_cost)
