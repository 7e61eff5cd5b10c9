"""A retrieval corpus for the demo: the standard library's documentation in chunks, with BM25 over them."""

import heapq
import re
from collections import Counter as Multiset
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

from pruner.demo.docs import Doc, read_stdlib
from pruner.errors import ConfigError
from pruner.schema import Chunk, Counter

__all__ = ["DEFAULT_QUESTION", "Corpus", "chunk_docs"]

# Its answer lies in parts of hashlib and hmac; "hash", "compare" and "digest" lead BM25 astray, into unittest too.
DEFAULT_QUESTION = "Which hash function should I use to store passwords, and how do I compare two digests safely?"

# Sizes of a chunk, in tokens. What a whole module has left under TINY says little that its title doesn't.
TINY, SMALL, TARGET, LARGE = 20, 80, 180, 250
# Longer paragraphs than this may be cut at a line end, longer lines at a word.
PIECE = 100
PIECES = [re.compile(pattern, re.DOTALL) for pattern in (r".+?(?:\n\s*\n|\Z)", r".+?(?:\n|\Z)", r"\s*\S+\s*")]

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Passage:
    """Text on its way into a chunk."""

    title: str
    text: str
    tokens: int


@dataclass(frozen=True)
class Corpus:
    """Chunks, and an index to search them with.

    Attributes:
        chunks: by top-level module, within it an owner's own text before that of its parts.
        index: the `bm25s.BM25` over titles and texts.
    """

    chunks: tuple[Chunk, ...]
    index: Any = field(repr=False, compare=False)

    @classmethod
    def build(cls, counter: Counter) -> "Corpus":
        """Read the running Python's documentation and index it; takes some three seconds.

        Args:
            counter: what the chunks' sizes are measured with, part by part (a sum can be off by a token or two).

        Raises:
            ConfigError: bm25s is not installed, or the standard library's source is not there.
        """
        index = _bm25()
        chunks = tuple(chunk_docs(read_stdlib(), counter))
        index.index([_words(f"{chunk.title}\n{chunk.text}") for chunk in chunks], show_progress=False)
        return cls(chunks, index)

    def search(self, query: str, k: int = 15) -> list[Chunk]:
        """Return the best k chunks, best first, each with its BM25 score; fewer where fewer share a word."""
        known = [word for word in _words(query) if word in self.index.vocab_dict]
        if not known:
            return []
        scores = self.index.get_scores(known).tolist()
        best = heapq.nlargest(k, range(len(scores)), key=scores.__getitem__)
        return [self.chunks[i].model_copy(update={"score": scores[i]}) for i in best if scores[i] > 0]


def chunk_docs(docs: Iterable[Doc], counter: Counter) -> Iterator[Chunk]:
    """Turn documentation into chunks of about 80 to 250 tokens, titled by dotted name, each with an id of its own.

    Short neighbours share a chunk, which is then titled by what they are parts of; a long text becomes several. The
    only text left out is the last, under 20 tokens, of a top-level module.
    """
    seen: Multiset[str] = Multiset()
    for doc in docs:
        packed, rest = _pack(doc, counter.count)
        for passage in packed + [short for short in rest if short.tokens >= TINY]:
            title = passage.title
            seen[title] += 1
            number = f"#{seen[title]}" if seen[title] > 1 else ""
            yield Chunk(id=title + number, title=title, text=passage.text)


def _bm25() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise ConfigError('the demo searches with bm25s: pip install "listwise-pruner[demo]"') from error
    return bm25s.BM25()


def _words(text: str) -> list[str]:
    """Split text into index terms."""
    return [term for word in re.findall(r"\w+", text) for term in _terms(word)]


@lru_cache(maxsize=2**16)
def _terms(word: str) -> tuple[str, ...]:
    """Return what a word is found by: lower case, singular, an identifier both whole and in parts, no stop words."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    terms = (part.lower() for part in _parts(word))
    return tuple(_singular(term) for term in terms if term not in STOPWORDS_EN_PLUS)


def _parts(identifier: str) -> list[str]:
    """Return `OrderedDict` with `Ordered` and `Dict`, `lru_cache` with `lru` and `cache`, a plain word alone."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z_]+", identifier)
    return [identifier, *parts] if len(parts) > 1 else parts


def _singular(term: str) -> str:
    """Drop a plural or third-person s (Harman's S-stemmer, 1991), so that "entries" finds "entry"."""
    if term.endswith("ies") and not term.endswith(("aies", "eies")):
        return f"{term[:-3]}y"
    return term[:-1] if term.endswith("s") and not term.endswith(("ss", "us")) else term


def _pack(doc: Doc, count: Count) -> tuple[list[Passage], list[Passage]]:
    """Pack a doc and all inside it; return the passages, and what is too short and left to the owner to merge."""
    short = [Passage(doc.name, doc.text, count(doc.text))] if doc.text else []
    packed: list[Passage] = []
    for inner in doc.inner:
        done, rest = _pack(inner, count)
        packed += done
        short += rest
    if _size(short) >= SMALL:
        return _merge(doc.name, short, count) + packed, []
    if short and doc.is_module:
        text = "\n".join([doc.name, *(passage.text for passage in short)])
        short = [Passage(doc.name, text, count(text))]
    return packed, short


def _size(passages: Iterable[Passage]) -> int:
    return sum(passage.tokens for passage in passages)


def _merge(title: str, passages: Sequence[Passage], count: Count) -> list[Passage]:
    """Join neighbours until they are large enough; the last, if it stays short, joins the one before it."""
    groups: list[list[Passage]] = [[]]
    for passage in passages:
        if _size(groups[-1]) >= SMALL:
            groups.append([])
        groups[-1].append(passage)
    if len(groups) > 1 and _size(groups[-1]) < SMALL:
        last = groups.pop()
        groups[-1] += last
    texts = ("\n\n".join(passage.text for passage in group) for group in groups)
    return [part for text in texts for part in _split(title, text, count)]


def _split(title: str, text: str, count: Count) -> list[Passage]:
    """Cut a long text into parts of about equal size, between paragraphs where they allow it."""
    total = count(text)
    if total <= LARGE:
        return [Passage(title, text, total)]
    return [Passage(title, part, count(part)) for part in _parts_of(text, -(-total // TARGET), count)]


def _parts_of(text: str, n: int, count: Count) -> list[str]:
    """Cut a text where n equal parts would end, each piece going where its middle lies."""
    pieces = list(_pieces(text, count))
    sizes = [count(piece) for piece in pieces]
    middles = (end - size / 2 for size, end in zip(sizes, accumulate(sizes), strict=True))
    parts = [int(middle * n / sum(sizes)) for middle in middles]
    placed = groupby(zip(parts, pieces, strict=True), key=itemgetter(0))
    return ["".join(piece for _, piece in group).strip("\n") for _, group in placed]


def _pieces(text: str, count: Count, level: int = 0) -> Iterator[str]:
    """Yield paragraphs, of the long ones lines, of those too long words; joined they are the text."""
    for piece in PIECES[level].findall(text):
        if level + 1 < len(PIECES) and count(piece) > PIECE:
            yield from _pieces(piece, count, level + 1)
        else:
            yield piece
