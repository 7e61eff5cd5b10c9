"""The sentences of a chunk that the question is about: whole, verbatim, and found again in the source."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import fsum, log
from typing import NamedTuple

from pruner.candidates import Candidate, Span
from pruner.passages import Splitter, join, units
from pruner.stages import StageResult
from pruner.terms import terms, terms_of_spans

__all__ = ["Extract"]

# What takes back or limits what the sentence before says: words as `terms` gives them, and what is no word by itself.
_LIMITING_WORDS = frozenset(
    """
    not no never nor neither without except excepted excepting exception exceptions unless however but only otherwise
    although though nevertheless nicht kein keine keinem keinen keiner keines nie niemals ohne außer ausgenommen
    ausnahme ausnahmen ausnahmsweise jedoch aber sofern allerdings sonst không chưa chẳng trừ ngoại nhưng tuy
    """.casefold().split()
)
_LIMITING_PARTS = re.compile(
    r"n['’]t\b|[不没沒未无無勿]|非(?!常)|除外|但|然而|例外|않|아니|없|못|제외|예외|다만|단,|하지만|그러나",
    re.IGNORECASE,
)


class _Sentence(NamedTuple):
    start: int
    end: int
    kind: str
    text: str
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Extract:
    """Show only the sentences that share terms with the query, and those that belong to them.

    A sentence counts by the rare terms of the query that it holds: their share of the weight (log of how rare among all
    sentences shown) of those that occur at all. A sentence that negates or excepts, and the one before it, stay or go
    together; so do a table or code and the line with a colon before it, and neither is ever cut. A chunk that shares
    nothing with the query stays whole: it was kept for another reason.

    Attributes:
        query: the question.
        split: where sentences end, from `load_splitter`.
        share: least part of the weight that a sentence must hold, in [0, 1].
    """

    query: str
    split: Splitter
    share: float = 0.1

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Shorten the texts."""
        cut = [_sentences(c, self.split) for c in candidates]
        weights = _weights(self.query, [sentence.terms for found in cut for sentence in found])
        kept = [_only(c, found, self._wanted(found, weights)) for c, found in zip(candidates, cut, strict=True)]
        whole = sum(before is after for before, after in zip(candidates, kept, strict=True))
        return StageResult(kept, note=f"{whole} of {len(kept)} stay whole" if whole else "")

    def _wanted(self, found: Sequence[_Sentence], weights: Mapping[str, float]) -> list[bool]:
        # fsum: a set gives its terms in any order, and what is added up must not depend on that.
        shares = [fsum(map(weights.__getitem__, s.terms.intersection(weights))) for s in found]
        wanted = [share >= self.share for share in shares]
        for run in _runs(found):
            wanted[run] = [any(wanted[run])] * len(wanted[run])
        return wanted


def _sentences(candidate: Candidate, split: Splitter) -> list[_Sentence]:
    """Cut what is shown of the source, each piece by itself."""
    text = candidate.source.text
    return [sentence for start, end in _pieces(candidate) for sentence in _cut(text[start:end], start, split)]


def _cut(text: str, offset: int, split: Splitter) -> list[_Sentence]:
    found = units(text, split)
    held = terms_of_spans(text, [(start, end) for start, end, _ in found])
    return [
        _Sentence(offset + start, offset + end, kind, text[start:end], frozenset(its))
        for (start, end, kind), its in zip(found, held, strict=True)
    ]


def _pieces(candidate: Candidate) -> list[Span]:
    """Return what is shown, in characters of the source chunk's own text."""
    return [(s - candidate.start, e - candidate.start) for s, e in candidate.spans] or [(0, len(candidate.source.text))]


def _weights(query: str, sentences: Sequence[frozenset[str]]) -> dict[str, float]:
    """Weigh the query's terms by log(N / n), N sentences of which n hold the term; they add up to 1."""
    asked = dict.fromkeys(terms(query))
    frequency = Counter(chain.from_iterable(map(frozenset(asked).intersection, sentences)))
    rarity = {term: log(len(sentences) / frequency[term]) for term in asked if frequency[term]}
    total = sum(rarity.values())
    return {term: weight / total for term, weight in rarity.items()} if total else {}


def _runs(found: Sequence[_Sentence]) -> list[slice]:
    """Group what stays or goes together."""
    starts = [n for n, sentence in enumerate(found) if not n or not _belongs(found[n - 1], sentence)]
    return [slice(start, end) for start, end in pairwise([*starts, len(found)])]


def _belongs(before: _Sentence, sentence: _Sentence) -> bool:
    if before.text.endswith((":", "：")):
        return True
    if sentence.kind == "prose":
        return not _LIMITING_WORDS.isdisjoint(sentence.terms) or _has_limiting_part(sentence.text)
    return sentence.kind == before.kind == "table"


def _has_limiting_part(text: str) -> bool:
    return ("'" in text or not text.isascii()) and bool(_LIMITING_PARTS.search(text))


def _only(candidate: Candidate, found: Sequence[_Sentence], wanted: Sequence[bool]) -> Candidate:
    """Show the wanted sentences; all, if none or every one is."""
    if all(wanted) or not any(wanted):
        return candidate
    spans: list[Span] = []
    for n, sentence in enumerate(found):
        if wanted[n] and n and wanted[n - 1]:
            spans[-1] = (spans[-1][0], sentence.end)
        elif wanted[n]:
            spans.append((sentence.start, sentence.end))
    source, start = candidate.source.text, candidate.start
    above = candidate.text.removesuffix(join(source, _pieces(candidate)))
    return candidate.changed(
        text=above + join(source, spans),
        spans=tuple((start + s, start + e) for s, e in spans),
        tokens=None,
    )
