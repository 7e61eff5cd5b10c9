"""The sentences of a chunk that the question is about: whole, verbatim, and found again in the source."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import fsum, log
from operator import itemgetter
from typing import NamedTuple

from pruner.candidates import Candidate, Span
from pruner.passages import join
from pruner.sentences import LIST_ITEM, Splitter, Unit, units
from pruner.stages import StageResult
from pruner.terms import terms, terms_held

__all__ = ["Extract"]

# What takes back or limits what the sentence before says: words as `terms` gives them, and what is no word by itself.
_LIMITING_WORDS = frozenset(
    """
    not no never nor neither without except excepted excepting exception exceptions unless however but only otherwise
    although though nevertheless cannot none nothing nobody nowhere excluded excludes excluding exempt forbidden
    prohibited impossible instead nicht kein keine keinem keinen keiner keines nichts niemand nie niemals ohne außer
    ausgenommen ausgeschlossen ausnahme ausnahmen ausnahmsweise verboten unmöglich jedoch aber sofern allerdings sonst
    nur không chưa chẳng cấm trừ ngoại nhưng tuy
    """.casefold().split()
)
# Each alternative begins with a sign of its own, so that a text without any is searched in no time.
_LIMITING_PARTS = re.compile(
    r"不|没|沒|未|无|無|勿|非(?!常)|除外|但|然而|例外|않|아니|없|못|제외|예외|다만|단,|하지만|그러나"
)
_CONTRACTED = (re.compile(r"n['’]t\b"), re.compile(r"N['’]T\b"))
_ANNOUNCES = re.compile(r"[:：](?:[*_]+|</\w+>)*$")
_ANNOUNCING_ENDS = frozenset(":：*_>")
_LISTED = re.compile(rf"\n(?={LIST_ITEM})[^\S\n]*")


class _Sentences(NamedTuple):
    """Those of one candidate.

    Attributes:
        spans: in characters of the source chunk's own text.
        held: which terms of the query, and which limiting words, each holds.
        follows: whether each goes with the one before it.
        introduced: of one in a list, the place of the sentence that stands before the list.
        joins: whether each stands in the same piece of the source as the one before it.
    """

    spans: list[Span]
    held: list[frozenset[str]]
    follows: list[bool]
    introduced: list[int | None]
    joins: list[bool]


@dataclass(frozen=True, slots=True)
class Extract:
    """Show only the sentences that share terms with the query, and those that belong to them.

    A sentence counts by the rare terms of the query that it holds: their share of the weight (log of how rare among all
    sentences shown) of those that occur at all. A sentence that negates or excepts, and the one before it, stay or go
    together; so do a table or code and the line with a colon or the heading before it, and neither is ever cut. A list
    stays whole with the sentence before it, and an item stays with that sentence. A chunk that shares nothing with the
    query stays whole: it was kept for another reason.

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
        asked = frozenset(terms(self.query))
        cut = [_sentences(c, asked | _LIMITING_WORDS, self.split) for c in candidates]
        enough = self._enough([held for found in cut for held in found.held], asked)
        kept = [_only(c, found, _wanted(found, enough)) for c, found in zip(candidates, cut, strict=True)]
        whole = sum(before is after for before, after in zip(candidates, kept, strict=True))
        return StageResult(kept, note=f"{whole} of {len(kept)} stay whole" if whole else "")

    def _enough(self, held: Sequence[frozenset[str]], asked: frozenset[str]) -> dict[frozenset[str], bool]:
        """Say of each set of words that some sentence holds whether they are so much of the query."""
        weights = _weights(held, asked)
        # fsum: a set gives its terms in any order, and what is added up must not depend on that.
        return {words: fsum(map(weights.__getitem__, words & asked)) >= self.share for words in set(held)}


def _wanted(found: _Sentences, enough: Mapping[frozenset[str], bool]) -> list[bool]:
    told = [enough[words] for words in found.held]
    wanted = told.copy()
    for n, introduction in enumerate(found.introduced):
        if introduction is not None:
            wanted[n] |= told[introduction]
            wanted[introduction] |= told[n]
    for run in _runs(found.follows):
        wanted[run] = [any(wanted[run])] * (run.stop - run.start)
    return wanted


def _sentences(candidate: Candidate, heeded: frozenset[str], split: Splitter) -> _Sentences:
    """Cut what is shown of the source, each piece by itself, and look for words."""
    found = _Sentences([], [], [], [], [])
    before, announced, headed = "", False, False
    for offset, stop in _pieces(candidate):
        text = candidate.source.text[offset:stop]
        cut = units(text, split)
        held = terms_held(text, [(start, end) for start, end, _ in cut], heeded)
        listed = _introductions(text, cut, len(found.spans))
        found.introduced.extend(listed)
        found.held.extend(held)
        found.spans.extend([(offset + start, offset + end) for start, end, _ in cut])
        found.joins.extend([n > 0 for n in range(len(cut))])
        for (start, end, kind), limits, item in zip(cut, _limits(text, cut, held), listed, strict=True):
            tied = limits if kind == "prose" else headed or before == kind == "table"
            found.follows.append(tied or (announced and item is None))
            before, headed = kind, text[start] == "#"
            announced = text[end - 1] in _ANNOUNCING_ENDS and bool(_ANNOUNCES.search(text, max(start, end - 20), end))
    return found


def _introductions(text: str, sentences: Sequence[Unit], first: int) -> list[int | None]:
    """Return for each sentence in a list the place, counted from `first`, of the one before the list."""
    begins = {match.end() - 1 for match in _LISTED.finditer("\n" + text)}
    if not begins:
        return [None] * len(sentences)
    found: list[int | None] = []
    last, inside = 0, False
    for n, (start, end, kind) in enumerate(sentences):
        goes_on = kind != "prose" or text.count("\n", last, start) < 2 or text[start - 2 : start] == "  "
        listed = start in begins or (inside and goes_on)
        before = found[-1] if inside else first + n - 1 if n else None
        found.append(before if listed else None)
        inside, last = listed, end
    return found


def _limits(text: str, sentences: Sequence[Unit], held: Sequence[frozenset[str]]) -> list[bool]:
    """Say of each sentence whether it takes back or limits what stands before it."""
    found = [not _LIMITING_WORDS.isdisjoint(words) for words in held]
    signs = _CONTRACTED if text.isascii() else (*_CONTRACTED, _LIMITING_PARTS)
    for place in [part.start() for sign in signs for part in sign.finditer(text)]:
        found[bisect_right(sentences, place, key=itemgetter(0)) - 1] = True
    return found


def _pieces(candidate: Candidate) -> list[Span]:
    """Return what is shown, in characters of the source chunk's own text."""
    return [(s - candidate.start, e - candidate.start) for s, e in candidate.spans] or [(0, len(candidate.source.text))]


def _weights(held: Sequence[frozenset[str]], asked: frozenset[str]) -> dict[str, float]:
    """Weigh terms by log(N / n), N sentences of which n hold the term; they add up to 1, if not all are everywhere."""
    frequency = Counter(chain.from_iterable(held))
    rarity = {term: log(len(held) / frequency[term]) for term in sorted(asked) if frequency[term]}
    total = sum(rarity.values())
    return {term: weight / (total or 1) for term, weight in rarity.items()}


def _runs(follows: Sequence[bool]) -> list[slice]:
    """Group what stays or goes together, where that is more than one."""
    starts = [n for n, with_it in enumerate(follows) if not n or not with_it]
    runs = pairwise([*starts, len(follows)])
    return [slice(start, end) for start, end in runs if end - start > 1]


def _only(candidate: Candidate, found: _Sentences, wanted: Sequence[bool]) -> Candidate:
    """Show the wanted sentences; all, if none or every one is."""
    if all(wanted) or not any(wanted):
        return candidate
    shown: list[Span] = []
    for n, (start, end) in enumerate(found.spans):
        if wanted[n] and n and wanted[n - 1] and found.joins[n]:
            shown[-1] = (shown[-1][0], end)
        elif wanted[n]:
            shown.append((start, end))
    source, at = candidate.source.text, candidate.start
    above = candidate.text.removesuffix(join(source, _pieces(candidate)))
    return candidate.changed(
        text=above + join(source, shown), spans=tuple((at + s, at + e) for s, e in shown), tokens=None
    )
