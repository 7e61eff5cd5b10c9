import pytest

from eval.errors import EvalError
from eval.prices import Prices, saving, token_prices
from eval.traffic import Pruned, Traffic


def traffic(*, cost: float | None = 0.2, generator: tuple[int, int] | None = (2_000, 500)) -> Traffic:
    made = Traffic()
    made.add(Pruned("", "ok", None, (10, 4), (1_000, 300), cost, 0.5, generator))
    return made


def test_a_given_price_is_per_million_tokens() -> None:
    assert token_prices(None, 2.0, 8.0) == Prices(2e-6, 8e-6)


def test_a_listed_price_is_found_by_the_models_name() -> None:
    found = token_prices("openai:gpt-4o-mini", None, None)
    assert found is not None
    assert found.output > found.input > 0


def test_a_given_price_wins_over_the_list() -> None:
    found = token_prices("openai:gpt-4o-mini", 2.0, None)
    assert found is not None
    assert found.input == 2e-6


def test_without_model_and_price_there_are_none() -> None:
    assert token_prices(None, None, None) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("openai:no-such-model", None, None), "--input-price"),
        (("gpt-4o", None, None), "prefix:name"),
        ((None, 1.0, None), "both"),
    ],
)
def test_a_price_that_cannot_be_known_is_one_clear_line(
    given: tuple[str | None, float | None, float | None], says: str
) -> None:
    with pytest.raises(EvalError, match=says) as error:
        token_prices(*given)
    assert "\n" not in str(error.value)


def test_the_saving_is_net_of_the_grading() -> None:
    # A dollar a thousand input tokens, two a thousand output tokens: the chunks cost 1.00 of 2.00 + 1.00.
    found = saving(traffic(), Prices(0.001, 0.002))
    assert found is not None
    assert found.gross == pytest.approx(0.7)
    assert found.net == pytest.approx(0.5)
    assert found.chunk_share == pytest.approx(1 / 3)
    assert found.share == pytest.approx(0.5 / 3)
    assert found.break_even == pytest.approx(0.2)


def test_without_generator_tokens_the_share_of_the_bill_is_unknown() -> None:
    found = saving(traffic(generator=None), Prices(0.001, 0.002))
    assert found is not None
    assert (found.share, found.chunk_share) == (None, None)


def test_no_saving_is_claimed_when_a_grading_has_no_price() -> None:
    assert saving(traffic(cost=None), Prices(0.001, 0.002)) is None


def test_chunks_without_tokens_or_price_save_nothing() -> None:
    assert saving(Traffic(), Prices(0.001, 0.002)) is None
    assert saving(traffic(), Prices(0.0, 0.0)) is None
