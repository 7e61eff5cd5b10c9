"""BM25 over the chunks of a set: scores texts that stand in no index on the scale of those that do."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

__all__ = ["Bm25"]

_SINGLE = "\u3040-\u30ff\u3400-\u9fff"  # Scripts without spaces: each character is a term.
_TERM = re.compile(rf"[{_SINGLE}]|[^\W{_SINGLE}]+")
_K1, _B = 1.2, 0.75


class Bm25:
    """Robertson and Zaragoza (2009), with the inverse document frequency of Lucene, which is never negative.

    Args:
        texts: the documents that frequencies and lengths are taken from; no document is kept.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._holders: Counter[str] = Counter()
        self._n = length = 0
        for text in texts:
            found = _terms(text)
            self._holders.update(set(found))
            self._n += 1
            length += len(found)
        self._mean_length = max(length / max(self._n, 1), 1.0)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score texts, indexed or not, for a query."""
        wanted = _terms(query)
        return [self._score(wanted, _terms(text)) for text in texts]

    def _score(self, wanted: Sequence[str], found: Sequence[str]) -> float:
        counts = Counter(found)
        norm = _K1 * (1 - _B + _B * len(found) / self._mean_length)
        return sum(self._weight(term) * counts[term] / (counts[term] + norm) for term in wanted)

    def _weight(self, term: str) -> float:
        holders = self._holders[term]
        return math.log(1 + (self._n - holders + 0.5) / (holders + 0.5))


def _terms(text: str) -> list[str]:
    return _TERM.findall(text.casefold())
