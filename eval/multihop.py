"""Read question sets whose entries bring their own paragraphs: HotpotQA, 2WikiMultihopQA, MuSiQue."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from eval.jsonarray import read_array
from eval.jsonl import read_objects
from eval.ranking import Bm25
from eval.sourcefields import Hotpot, Musique, parse

__all__ = ["ORDERS", "READERS", "Entries", "in_bm25_order"]

# (place in the source, row without its data set), as often as asked.
Entries = Iterator[tuple[str, dict[str, Any]]]

ORDERS = ("bm25", "original")


def _read_hotpotqa(path: Path) -> Entries:
    for number, found in read_array(path):
        place = f"{path}: entry {number}"
        yield place, _hotpot_row(parse(Hotpot, found, place))


def _read_musique(path: Path) -> Entries:
    for number, found in read_objects(path):
        place = f"{path}:{number}"
        yield place, _musique_row(parse(Musique, found, place))


READERS: dict[str, Callable[[Path], Entries]] = {
    "2wiki": _read_hotpotqa,
    "hotpotqa": _read_hotpotqa,
    "musique": _read_musique,
}


def _hotpot_row(source: Hotpot) -> dict[str, Any]:
    titles = [title for title, _ in source.context]
    names = _unique(titles)
    supporting = list(dict.fromkeys(title for title, _ in source.supporting_facts))
    chunks = [
        {"id": name, "title": title, "text": " ".join(sentence.strip() for sentence in sentences)}
        for name, (title, sentences) in zip(names, source.context, strict=True)
    ]
    gold = [name for name, title in zip(names, titles, strict=True) if title in supporting]
    # In fullwiki files the retriever may have missed a paragraph.
    missing = [title for title in supporting if title not in titles]
    meta = {"type": source.type, "level": source.level, "hops": len(supporting)}
    return {
        "id": source.id,
        "query": source.question,
        "chunks": chunks,
        "gold": gold + missing,
        "gold_missing": missing,
        **_answer(source.answer),
        "meta": {key: value for key, value in meta.items() if value is not None},
    }


def _musique_row(source: Musique) -> dict[str, Any]:
    chunks = [{"id": str(p.idx), "title": p.title, "text": p.paragraph_text} for p in source.paragraphs]
    # Without one of its paragraphs a question has no answer in the list, whatever the others hold.
    gold = [str(p.idx) for p in source.paragraphs if p.is_supporting and source.answerable]
    meta = {"hops": len(source.question_decomposition), "answerable": source.answerable}
    return {
        "id": source.id,
        "query": source.question,
        "chunks": chunks,
        "gold": gold,
        **(_answer(source.answer) if source.answerable else {}),
        "meta": meta | ({"answer_aliases": list(source.answer_aliases)} if source.answer_aliases else {}),
    }


def _answer(text: str) -> dict[str, str]:
    """Leave out yes and no, whose letters occur anywhere and say nothing of an answer that survives."""
    return {} if text.strip().lower() in {"", "yes", "no", "noanswer"} else {"answer": text}


def _unique(titles: Iterable[str]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for title in titles:
        seen[title] += 1
        names.append(title if seen[title] == 1 else f"{title}#{seen[title]}")
    return names


def in_bm25_order(read: Callable[[], Entries]) -> Entries:
    """Put each list into BM25 order, with the frequencies of all paragraphs of the set.

    Args:
        read: called twice, once to count words and once to score, so that no paragraph stays in memory.
    """
    ranker = Bm25(_shown(chunk) for _, row in read() for chunk in row["chunks"])
    for place, row in read():
        scores = ranker.scores(row["query"], [_shown(chunk) for chunk in row["chunks"]])
        scored = [chunk | {"score": round(score, 4)} for chunk, score in zip(row["chunks"], scores, strict=True)]
        yield place, row | {"chunks": sorted(scored, key=lambda chunk: -chunk["score"])}


def _shown(chunk: dict[str, Any]) -> str:
    return f"{chunk['title']}\n{chunk['text']}"
