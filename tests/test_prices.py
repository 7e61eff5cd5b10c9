import pytest

from pruner.prices import make_pricer
from pruner.schema import Usage

pytest.importorskip("genai_prices")


@pytest.mark.parametrize(
    ("provider", "model", "cached", "written", "dollars"),
    [
        # Of 9,000 tokens in and 100 out: a token read from a cache costs a tenth (half), one written to it 5/4 or 1.
        ("anthropic", "claude-haiku-4-5", 0, 0, 0.0095),
        ("anthropic", "claude-haiku-4-5", 8_000, 0, 0.0023),
        ("anthropic", "claude-haiku-4-5", 0, 8_000, 0.0115),
        ("anthropic", "claude-haiku-4-5", 4_000, 4_000, 0.0069),
        ("litellm", "anthropic/claude-haiku-4-5", 4_000, 4_000, 0.0069),
        ("openai", "gpt-4o-mini", 0, 0, 0.00141),
        ("openai", "gpt-4o-mini", 8_000, 0, 0.00081),
        ("openai", "gpt-4o-mini", 0, 8_000, 0.00141),
    ],
)
def test_what_a_cache_held_and_took_has_its_own_price(
    provider: str, model: str, cached: int, written: int, dollars: float
) -> None:
    price = make_pricer(provider, model)
    assert price(Usage(9_000, 100, cached, written_tokens=written)) == pytest.approx(dollars)


def test_senseless_counts_have_no_price() -> None:
    assert make_pricer("anthropic", "claude-haiku-4-5")(Usage(10, 1, 20, written_tokens=20)) is None
