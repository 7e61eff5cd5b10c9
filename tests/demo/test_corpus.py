import itertools
import sys
from collections import Counter as Multiset

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.demo.corpus import DEFAULT_QUESTION, Corpus, chunk_docs
from pruner.demo.docs import Doc, read_stdlib
from pruner.errors import ConfigError
from pruner.tokens import TokenCounter


class Words:
    def count(self, text: str) -> int:
        return len(text.split())


@pytest.fixture(scope="session")
def counter() -> TokenCounter:
    return TokenCounter()


@pytest.fixture(scope="session")
def corpus(counter: TokenCounter) -> Corpus:
    return Corpus.build(counter)


@pytest.fixture(scope="session")
def sizes(corpus: Corpus, counter: TokenCounter) -> dict[str, int]:
    return {str(chunk.id): counter.count(chunk.text) for chunk in corpus.chunks}


def titles(corpus: Corpus, query: str, k: int = 15) -> list[str | None]:
    return [chunk.title for chunk in corpus.search(query, k)]


def words(n: int, start: int = 0) -> str:
    return " ".join(f"w{i}" for i in range(start, start + n))


def test_there_are_a_few_thousand_chunks(corpus: Corpus) -> None:
    assert 2000 < len(corpus.chunks) < 6000


def test_no_chunk_is_much_too_long(sizes: dict[str, int]) -> None:
    assert {name: size for name, size in sizes.items() if size > 260} == {}


def test_hardly_a_chunk_is_too_short(sizes: dict[str, int]) -> None:
    short = [name for name, size in sizes.items() if size < 78]
    assert len(short) < len(sizes) / 50


def test_short_chunks_are_what_a_top_level_module_has_left(sizes: dict[str, int]) -> None:
    assert [name for name, size in sizes.items() if size < 70 and "." in name] == []


def test_no_chunk_is_tiny(sizes: dict[str, int]) -> None:
    assert min(sizes.values()) >= 18


def test_ids_are_unique(corpus: Corpus) -> None:
    assert len({chunk.id for chunk in corpus.chunks}) == len(corpus.chunks)


def test_titles_are_dotted_names(corpus: Corpus) -> None:
    parts = {part for chunk in corpus.chunks for part in (chunk.title or "").split(".")}
    assert {part for part in parts if not part.isidentifier() or part.startswith("_")} == set()


def test_the_same_library_gives_the_same_chunks(corpus: Corpus, counter: TokenCounter) -> None:
    assert tuple(chunk_docs(read_stdlib(), counter)) == corpus.chunks


def test_a_long_enough_doc_is_a_chunk_by_itself() -> None:
    [chunk] = chunk_docs([Doc("m", inner=(Doc("m.f", words(90)),), is_module=True)], Words())
    assert (chunk.id, chunk.title, chunk.text) == ("m.f", "m.f", words(90))


def test_short_members_share_a_chunk_titled_by_their_owner() -> None:
    members = tuple(Doc(f"m.C.f{i}", words(50, 50 * i)) for i in range(2))
    [chunk] = chunk_docs([Doc("m", inner=(Doc("m.C", inner=members),), is_module=True)], Words())
    assert (chunk.title, chunk.text) == ("m.C", f"{members[0].text}\n\n{members[1].text}")


def test_a_short_remainder_joins_the_chunk_before_it() -> None:
    members = tuple(Doc(f"m.f{i}", words(50)) for i in range(3))
    [chunk] = chunk_docs([Doc("m", inner=members, is_module=True)], Words())
    assert Words().count(chunk.text) == 150


def test_what_is_too_short_for_its_module_goes_to_the_package_under_the_modules_name() -> None:
    modules = tuple(Doc(f"p.m{i}", words(50), is_module=True) for i in range(2))
    [chunk] = chunk_docs([Doc("p", inner=modules, is_module=True)], Words())
    assert chunk.title == "p"
    assert chunk.text.startswith("p.m0\nw0 w1")


def test_a_long_doc_is_split_at_paragraphs_into_numbered_parts() -> None:
    paragraphs = [words(60, 60 * i) for i in range(6)]
    first, second = chunk_docs([Doc("m", "\n\n".join(paragraphs), is_module=True)], Words())
    assert (first.id, second.id, second.title) == ("m", "m#2", "m")
    assert (first.text, second.text) == ("\n\n".join(paragraphs[:3]), "\n\n".join(paragraphs[3:]))


def test_a_long_line_is_split_too() -> None:
    assert all(Words().count(chunk.text) <= 250 for chunk in chunk_docs([Doc("m", words(1000))], Words()))


def test_the_rest_of_a_module_is_dropped_only_when_tiny() -> None:
    assert [chunk.title for chunk in chunk_docs([Doc("tiny", words(19)), Doc("small", words(20))], Words())] == [
        "small"
    ]


docs = st.recursive(
    st.builds(Doc, st.just("leaf"), st.integers(0, 400).map(words)),
    lambda inner: st.builds(
        Doc, st.just("owner"), st.integers(0, 400).map(words), st.lists(inner, max_size=4).map(tuple), st.booleans()
    ),
    max_leaves=12,
).map(lambda doc: Doc("owner", inner=(doc,), is_module=True))


def all_words(doc: Doc) -> Multiset[str]:
    return sum(map(all_words, doc.inner), Multiset(doc.text.split()))


@settings(deadline=None)
@given(docs)
def test_no_text_is_lost_or_doubled(doc: Doc) -> None:
    kept = Multiset(word for chunk in chunk_docs([doc], Words()) for word in chunk.text.split())
    kept = Multiset({word: n for word, n in kept.items() if word not in ("leaf", "owner")})
    assert kept <= all_words(doc)
    assert (all_words(doc) - kept).total() < 20


@settings(deadline=None)
@given(docs)
def test_chunks_stay_near_their_bounds(doc: Doc) -> None:
    counts = [Words().count(chunk.text) for chunk in chunk_docs([doc], Words())]
    assert max(counts, default=0) <= 280


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("lru_cache", "functools.lru_cache"),
        ("lru cache", "functools.lru_cache"),
        ("LRU-Cache?", "functools.lru_cache"),
        ("asyncio.timeout", "asyncio.timeouts.timeout"),
        ("asyncio.wait_for", "asyncio.tasks.wait_for"),
        ("ordered dict", "collections.OrderedDict"),
        ("str.split", "builtins.str.split"),
        ("heap queues", "heapq"),
    ],
)
def test_names_are_found_whole_and_by_their_parts(corpus: Corpus, query: str, title: str) -> None:
    assert title in titles(corpus, query, 5)


@pytest.mark.skipif(not hasattr(itertools, "batched"), reason="itertools.batched is new in Python 3.12")
def test_a_new_function_is_found(corpus: Corpus) -> None:
    assert titles(corpus, "itertools.batched", 1) == ["itertools.batched"]


def test_scores_are_set_and_descend(corpus: Corpus) -> None:
    scores = [chunk.score or 0.0 for chunk in corpus.search(DEFAULT_QUESTION)]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def test_the_corpus_itself_keeps_no_scores(corpus: Corpus) -> None:
    corpus.search(DEFAULT_QUESTION)
    assert {chunk.score for chunk in corpus.chunks} == {None}


def test_the_default_question_finds_both_halves_of_its_answer(corpus: Corpus) -> None:
    found = corpus.search(DEFAULT_QUESTION)
    assert len(found) == 15
    assert any("compare_digest(" in chunk.text for chunk in found)
    assert any("scrypt(" in chunk.text or "pbkdf2_hmac(" in chunk.text for chunk in found)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_no_more_than_k_are_returned(corpus: Corpus, k: int) -> None:
    assert len(corpus.search(DEFAULT_QUESTION, k)) == k


def test_k_may_exceed_the_corpus(corpus: Corpus) -> None:
    assert 0 < len(corpus.search("lru_cache", 10**6)) < len(corpus.chunks)


@pytest.mark.parametrize("query", ["", " \n", "the of and", "xyzzyplugh", "日本語の質問", "?!…", "\ud800"])
def test_a_query_that_shares_no_word_finds_nothing(corpus: Corpus, query: str) -> None:
    assert corpus.search(query) == []


def test_a_query_may_mix_scripts(corpus: Corpus) -> None:
    assert titles(corpus, "functools.lru_cache の使い方は?", 1) == ["functools.lru_cache"]


def test_searching_prints_nothing(corpus: Corpus, capfd: pytest.CaptureFixture[str]) -> None:
    corpus.search(DEFAULT_QUESTION)
    assert capfd.readouterr() == ("", "")


def test_without_bm25s_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ConfigError, match=r'pip install "listwise-pruner\[demo\]"'):
        Corpus.build(Words())
