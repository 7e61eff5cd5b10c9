"""Make lists out of a corpus, queries, relevance judgements and a ranking: BEIR, MTRAG and TREC files.

Documents are read twice and never kept, but for those in a list. Without a run, bm25s ranks the corpus; its index is in
memory.
"""

import heapq
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.errors import EvalError
from eval.jsonl import parse_object, read_lines
from eval.sourcefields import Document, Query, parse

__all__ = ["Judged", "Run", "Sources", "rank_by_bm25", "read_documents", "read_judgements", "read_queries", "read_run"]

Run = Mapping[str, Sequence[tuple[str, float]]]  # query → (document, score), best first

# How a first line names the column of the queries.
_HEADER = re.compile(r"(q|query|topic)[-_ ]?(id|num|number)?", re.IGNORECASE)
# The speakers' marks in MTRAG's queries.
_SPEAKER = re.compile(r"\|(?:user|agent)\|:\s*")


@dataclass(frozen=True)
class Sources:
    """The files.

    Attributes:
        corpus: JSON lines with id and text, or `id<TAB>text` lines; may be several files.
        queries: in the same two forms.
        qrels: `query document relevance` (BEIR, with or without header) or `query 0 document relevance` (TREC).
        run: `query Q0 document rank score tag`; None: BM25 over the corpus.
    """

    corpus: tuple[Path, ...]
    queries: Path
    qrels: Path
    run: Path | None = None


@dataclass
class Judged:
    """Relevance of documents to one query.

    Attributes:
        place: where the query's first judgement stands.
        relevance: by document.
    """

    place: str
    relevance: dict[str, int] = field(default_factory=dict)


def read_judgements(path: Path) -> dict[str, Judged]:
    """Read relevance judgements, by query.

    Raises:
        EvalError: a line has another form, or judges a pair a second time differently.
    """
    found: dict[str, Judged] = {}
    for number, line in _text_lines(path):
        fields = line.split("\t") if line.count("\t") >= 2 else line.split()
        if len(fields) not in (3, 4):
            raise EvalError(f"{path}:{number}: must be `query document relevance` or `query 0 document relevance`")
        query, document, relevance = fields[0], fields[-2], fields[-1]
        if number == 1 and _HEADER.fullmatch(query) and not re.search(r"\d", relevance):
            continue
        value = _relevance(relevance, f"{path}:{number}")
        known = found.setdefault(query, Judged(f"{path}:{number}")).relevance
        if known.setdefault(document, value) != value:
            raise EvalError(f"{path}:{number}: relevance: {document!r} was judged {known[document]} before")
    if not found:
        raise EvalError(f"{path}: no judgement in it")
    return found


def _relevance(text: str, place: str) -> int:
    """Read a whole number, which some tools write as 1.0."""
    if not re.fullmatch(r"[-+]?\d+(\.0*)?", text):
        raise EvalError(f"{place}: relevance: must be a whole number, got {text!r}")
    return int(float(text))


def read_queries(path: Path, wanted: Mapping[str, object]) -> Iterator[tuple[str, Query]]:
    """Yield (place, query) for the wanted ones, speakers' marks taken out.

    Raises:
        EvalError: a line is of another form, an id comes twice, or a wanted query is not there.
    """
    seen: set[str] = set()
    for place, entry in _entries(path):
        query = parse(Query, entry, place)
        if query.id in seen:
            raise EvalError(f"{place}: id: {query.id!r} stands in the file already")
        seen.add(query.id)
        if query.id in wanted:
            yield place, query.model_copy(update={"text": " ".join(_SPEAKER.sub("", query.text).split())})
    if lost := next((name for name in wanted if name not in seen), None):
        raise EvalError(f"{path}: no query {lost!r}, which the judgements are about")


def read_run(path: Path, length: int, wanted: Mapping[str, object]) -> tuple[Run, str]:
    """Read the best of a run for the wanted queries: by score, where scores are equal by rank.

    Returns:
        The lists, and the run's tag.

    Raises:
        EvalError: a line has another form, a score is no finite number, or a document comes twice for a query.
    """
    found: dict[str, list[tuple[float, int, str]]] = {}
    tag = ""
    for number, line in _text_lines(path):
        fields = line.split()
        if len(fields) != 6:
            raise EvalError(f"{path}:{number}: must be `query Q0 document rank score tag`, got {len(fields)} fields")
        query, _, document, rank, score, tag = fields
        if query in wanted:
            entry = (-_number(score, f"{path}:{number}: score"), int(_number(rank, f"{path}:{number}: rank")), document)
            _keep_best(found.setdefault(query, []), entry, length)
    for query, entries in found.items():
        documents = [document for _, _, document in entries]
        if len(set(documents)) < len(documents):
            raise EvalError(f"{path}: a document comes twice in the list of query {query!r}")
    ranked = {query: [(name, -minus) for minus, _, name in sorted(found[query])[:length]] for query in found}
    return ranked, tag


def _keep_best(best: list[tuple[float, int, str]], entry: tuple[float, int, str], length: int) -> None:
    best.append(entry)
    if len(best) >= 8 * length:
        best[:] = heapq.nsmallest(4 * length, best)


def rank_by_bm25(corpus: Sequence[Path], queries: Sequence[Query], length: int) -> Run:
    """Rank a corpus for queries: BM25 (k1 1.2, b 0.75) over title and text."""
    try:
        import bm25s
    except ImportError as error:
        raise EvalError('ranking a corpus needs bm25s: pip install "listwise-pruner[demo]"; or give a --run') from error
    names: list[str] = []
    words = (_words(f"{document.title or ''}\n{document.text}") for document in _read_corpus(corpus, names))
    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index(list(words), show_progress=False)
    return {query.id: _best(index, names, _words(query.text), length) for query in queries}


def _best(index: Any, names: Sequence[str], words: Sequence[str], length: int) -> list[tuple[str, float]]:
    known = [word for word in words if word in index.vocab_dict]
    if not known:
        return []
    scores = index.get_scores(known).tolist()
    best = heapq.nlargest(length, range(len(scores)), key=scores.__getitem__)
    return [(names[place], scores[place]) for place in best if scores[place] > 0]


def _read_corpus(corpus: Sequence[Path], names: list[str]) -> Iterator[Document]:
    """Yield the documents, and write down their names."""
    seen: set[str] = set()
    for path in corpus:
        for place, entry in _entries(path):
            document = parse(Document, entry, place)
            if document.id in seen:
                raise EvalError(f"{place}: id: {document.id!r} stands in the corpus already")
            seen.add(document.id)
            names.append(document.id)
            yield document


def read_documents(corpus: Sequence[Path], wanted: set[str], names: list[str]) -> dict[str, Document]:
    """Read the documents that are in a list, and write down the names of all."""
    return {document.id: document for document in _read_corpus(corpus, names) if document.id in wanted}


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read lines of JSON, or of an id and a text with a tab between them."""
    for number, line in read_lines(path):
        place = f"{path}:{number}"
        if line.startswith((b"{", b"\xef\xbb\xbf{")):
            yield place, parse_object(line, place)
            continue
        name, tab, text = _decoded(line, place).partition("\t")
        if not tab:
            raise EvalError(f"{place}: must be a JSON object, or an id and a text with a tab between them")
        yield place, {"id": name, "text": text}


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    return ((number, _decoded(line, f"{path}:{number}")) for number, line in read_lines(path))


def _decoded(line: bytes, place: str) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvalError(f"{place}: not UTF-8 ({error.reason} at byte {error.start})") from None


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise EvalError(f"{place}: must be a finite number, got {text!r}")
    return value


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
