"""Bring a public data set, which you have on disk, into the form of the labelled lists.

  hotpotqa FILE…   distractor (or fullwiki) JSON, one array          2wiki FILE…   2WikiMultihopQA, the same form
  musique FILE…    JSON lines, with is_supporting
  beir, mtrag      --corpus corpus.jsonl --queries queries.jsonl --qrels qrels/test.tsv [--run RUN]
  trec             --corpus FILE --queries FILE --qrels QRELS --run RUN

The first three bring their paragraphs in random order: lists are put into BM25 order (or left, --order original). The
others take the order of the run; without one, the corpus is ranked by BM25. Neither is a neural reranker's order.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from eval.datasets import to_row
from eval.errors import EvalError
from eval.multihop import ORDERS, READERS, Entries, in_bm25_order
from eval.qrels import Judged, Run, Sources, rank_by_bm25, read_documents, read_judgements, read_queries, read_run
from eval.sourcefields import Document
from eval.writing import write_objects

__all__ = ["FORMATS", "add_arguments", "convert", "run"]

QRELS_FORMATS = ("beir", "mtrag", "trec")
FORMATS = (*READERS, *QRELS_FORMATS)
_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `convert`."""
    parser.add_argument("format", choices=FORMATS, metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="of hotpotqa, 2wiki or musique")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where to; gzip if it ends in .gz")
    parser.add_argument("--dataset", metavar="NAME", help="name of the set in the rows (default: the format)")
    parser.add_argument("--order", choices=ORDERS, help="of lists without a ranking (default: bm25)")
    group = parser.add_argument_group("beir, mtrag, trec")
    group.add_argument("--corpus", nargs="+", type=Path, default=[], metavar="FILE", help="JSON lines or id<TAB>text")
    group.add_argument("--queries", type=Path, metavar="FILE", help="JSON lines or id<TAB>text")
    group.add_argument("--qrels", type=Path, metavar="FILE", help="three columns (BEIR) or four (TREC)")
    group.add_argument("--run", type=Path, metavar="FILE", dest="ranking", help="query Q0 document rank score tag")
    group.add_argument("--length", type=int, default=20, metavar="N", help="chunks in a list (default: 20)")
    group.add_argument(
        "--min-relevance", type=int, default=1, metavar="N", help="needed from here on; below, helpful (default: 1)"
    )


def run(options: argparse.Namespace) -> int:
    """Convert, and say what came out."""
    entries = _qrels_entries(options) if options.format in QRELS_FORMATS else _multihop_entries(options)
    tally = {"rows": 0, "no needed chunk in the list": 0, "a needed chunk not retrieved": 0}
    name = options.dataset or options.format
    tally["rows"] = write_objects(options.out, _counted(convert(entries, name), tally))
    sys.stdout.write(f"{options.out}: " + ", ".join(f"{count} {what}" for what, count in tally.items()) + "\n")
    return 0


def convert(entries: Entries, dataset: str) -> Iterator[dict[str, Any]]:
    """Name the set in each row, and check the row.

    Raises:
        EvalError: `place in the source: field: what is wrong`; there is no row at all, or one a second time.
    """
    places: dict[str, str] = {}
    for place, entry in entries:
        row = {"id": entry["id"], "dataset": dataset, **entry}
        try:
            to_row(row)
            if row["id"] in places:
                raise EvalError(f"id: {row['id']!r} stands in {places[row['id']]} already")
        except EvalError as error:
            raise EvalError(f"{place}: {error}") from None
        places[row["id"]] = place
        yield row
    if not places:
        raise EvalError("no list came out: no query has both judgements and a ranking")


def _counted(rows: Iterator[dict[str, Any]], tally: dict[str, int]) -> Iterator[dict[str, Any]]:
    for row in rows:
        missing = row.get("gold_missing", [])
        tally["no needed chunk in the list"] += len(missing) == len(row["gold"])
        tally["a needed chunk not retrieved"] += bool(missing)
        yield row


def _multihop_entries(options: argparse.Namespace) -> Entries:
    if not options.files:
        raise EvalError(f"name the files of {options.format}")
    read = partial(_all_of, READERS[options.format], options.files)
    order = options.order or "bm25"
    ordered = in_bm25_order(read) if order == "bm25" else read()
    for place, entry in ordered:
        yield place, entry | {"meta": entry["meta"] | {"order": order}}


def _all_of(read: Callable[[Path], Entries], paths: list[Path]) -> Entries:
    return chain.from_iterable(map(read, paths))


def _qrels_entries(options: argparse.Namespace) -> Entries:
    sources = _sources(options)
    judged = read_judgements(sources.qrels)
    queries = list(read_queries(sources.queries, judged))
    if sources.run:
        ranking, tag = read_run(sources.run, options.length, judged)
        order = f"run {tag}"
    else:
        ranking = rank_by_bm25(sources.corpus, [query for _, query in queries], options.length)
        order = "bm25"
    names: list[str] = []
    documents = read_documents(sources.corpus, {name for best in ranking.values() for name, _ in best}, names)
    _check_judged(judged, names, sources)
    _check_texts(ranking, documents, sources)
    _tell_unranked([query.id for _, query in queries if not ranking.get(query.id)], len(queries))
    for place, query in queries:
        if best := ranking.get(query.id):
            chunks = [_chunk(documents[name], score) for name, score in best]
            labels = _labels(judged[query.id], [chunk["id"] for chunk in chunks], options.min_relevance)
            yield place, {"id": query.id, "query": query.text, "chunks": chunks, **labels, "meta": {"order": order}}


def _sources(options: argparse.Namespace) -> Sources:
    if options.files:
        raise EvalError(f"{options.format} takes --corpus, --queries and --qrels, no bare file: {options.files[0]}")
    needed = {"--corpus": options.corpus, "--queries": options.queries, "--qrels": options.qrels}
    if options.format == "trec":
        needed["--run"] = options.ranking
    if lacking := [flag for flag, value in needed.items() if not value]:
        raise EvalError(f"{options.format} needs {' and '.join(lacking)}")
    if options.length < 1:
        raise EvalError("--length must be at least 1")
    return Sources(tuple(options.corpus), options.queries, options.qrels, options.ranking)


def _check_judged(judged: Mapping[str, Judged], names: Sequence[str], sources: Sources) -> None:
    """Refuse judgements of another corpus: by them, nothing would be needed and all of it not retrieved."""
    if not {name for of in judged.values() for name in of.relevance} & set(names):
        first = next(iter(next(iter(judged.values())).relevance))
        raise EvalError(
            f"{sources.qrels}: no judged document is in the corpus, such as {first!r}; are the ids the same?"
        )


def _tell_unranked(ids: Sequence[str], of: int) -> None:
    """Say on stderr which queries have no list; when none has one, the error says it."""
    if 0 < len(ids) < of:
        shown = ", ".join(map(repr, ids[:_SHOWN])) + (", …" if len(ids) > _SHOWN else "")
        sys.stderr.write(f"convert: {len(ids)} judged queries have no ranking and are left out: {shown}\n")


def _check_texts(ranking: Run, documents: Mapping[str, Document], sources: Sources) -> None:
    for query, best in ranking.items():
        if lost := next((name for name, _ in best if name not in documents), None):
            raise EvalError(f"{sources.run}: document {lost!r} of query {query!r} is not in the corpus")


def _chunk(document: Document, score: float) -> dict[str, Any]:
    title = {"title": document.title} if document.title else {}
    return {"id": document.id, **title, "text": document.text, "score": round(score, 4)}


def _labels(judged: Judged, listed: list[str], least: int) -> dict[str, Any]:
    gold = [name for name, relevance in judged.relevance.items() if relevance >= least]
    return {
        "gold": gold,
        "gold_missing": [name for name in gold if name not in listed],
        "helpful": [name for name in listed if 0 < judged.relevance.get(name, 0) < least],
    }
