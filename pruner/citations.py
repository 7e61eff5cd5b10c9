"""Does an answer cite what it was given? What a program can check of it, without a model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pruner.candidates import Candidate, Span
from pruner.evidence import evidence_id
from pruner.schema import PruneResult
from pruner.sentences import Splitter, load_splitter, units

__all__ = ["CitationReport", "check_citations"]

_NAME = r"[EＥ]\d{1,40}(?![^\W_])"
_LEAD = r"\^?\s{0,9}(?:[^\W\d_]{1,20}[.:：]?\s{1,9}){0,3}"
_NEXT = r"\s{0,9}(?:[,;:/&+，；：、–—~～-]|\s(?:and|und|et|y|to|bis)\s|\s[EＥ]\d|[)）])"
# What a bracket holds is a citation when it begins with an id, whatever else it says, also after a few words:
# "[E1, E3]", "[E1-E3]", "[E1, page 3]", "[see E1]". In round ones an id must stand alone or in a list: "(E1, E3)".
_GROUP = re.compile(
    rf"[\[［【〔]{_LEAD}{_NAME}[^\[\]［］【】〔〕]{{0,1000}}[\]］】〕]|[(（]{_LEAD}{_NAME}(?={_NEXT})[^()（）]{{0,1000}}[)）]",
    re.IGNORECASE,
)
# An id, with the numbers that belong to it: "E1-E3", "E1-3", "E1, 2".
_ID = re.compile(
    r"(?<![^\W_])[EＥ](\d{1,40})(?![^\W_])((?:\s?[-–—~～]\s?[EＥ]?\d{1,40}(?![^\W_]))?"
    r"(?:\s{0,9}[,;，；、&/]\s{0,9}\d{1,40}(?=\s{0,9}[,;，；、&/\]］】〕)）]))*)",
    re.IGNORECASE,
)
_RANGE_END = re.compile(r"[-–—~～]\s?[EＥ]?(\d+)", re.IGNORECASE)
_LISTED = re.compile(r"[,;，；、&/]\s*(\d+)")
_LONGEST_RANGE = 100
# A citation may stand behind the full stop: it belongs to the sentence before it.
_AFTER_STOP = re.compile(rf"([.!?。！？][”’\"')»]*)(\s*)((?:(?:{_GROUP.pattern})\s*)+)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class CitationReport:
    """What is wrong with the citations of an answer.

    Attributes:
        cited: ids of the blocks that it cites, in the order of their first citation.
        unknown: cited ids that no block has.
        uncited: sentences without a citation, as spans of the answer in characters.
        unsourced: cited ids whose block shows text that is not where the source has it.
    """

    cited: tuple[str, ...]
    unknown: tuple[str, ...]
    uncited: tuple[Span, ...]
    unsourced: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing wrong."""
        return not (self.unknown or self.uncited or self.unsourced)


def check_citations(
    answer: str,
    result: PruneResult[Any],
    *,
    sources: Mapping[Any, str] | None = None,
    split: Splitter | None = None,
) -> CitationReport:
    """Check an answer that was written from `render_evidence(result)`.

    Headings, code, and lines that end with a colon need no citation. Whether a cited block says what the sentence says
    is not checked.

    Args:
        answer: with citations such as `[E1]`, `[E1, E3]`, `[E1-E3]`, `[see E1]` or `(E1)`, before or after the full
            stop.
        result: what the blocks were made of.
        sources: source_id, or (source_id, revision_id), → whole text; each span is then looked up there, and not only
            in chunk and parent.
        split: where sentences end; by default that of the extra `sentences`.

    Raises:
        ConfigError: no `split` is given and the extra `sentences` is not installed.
    """
    blocks = {evidence_id(number): candidate for number, candidate in enumerate(result.evidence, 1)}
    cited = tuple(dict.fromkeys(name for group in _GROUP.findall(answer) for name in _ids(group)))
    return CitationReport(
        cited=cited,
        unknown=tuple(name for name in cited if name not in blocks),
        uncited=_uncited(answer, split or load_splitter()),
        unsourced=tuple(name for name in cited if name in blocks and not _sourced(blocks[name], sources or {})),
    )


def _ids(group: str) -> list[str]:
    """Name the blocks that a bracket cites, those between the ends of a range too."""
    found: list[int] = []
    for number, rest in _ID.findall(group):
        first, end = int(number), _RANGE_END.match(rest.lstrip())
        last = int(end[1]) if end else first
        found += range(first, last + 1) if 0 <= last - first < _LONGEST_RANGE else (first, last)
        found += map(int, _LISTED.findall(rest))
    return [evidence_id(number) for number in found]


def _uncited(answer: str, split: Splitter) -> tuple[Span, ...]:
    moved = _AFTER_STOP.sub(_before_stop, answer)
    return tuple(
        (start, end) for start, end, kind in units(moved, split) if kind != "code" and _claims(moved[start:end])
    )


def _before_stop(match: re.Match[str]) -> str:
    """Move a citation before the full stop, so that it lies in its sentence; the length stays the same."""
    stop, space, citations = match.groups()
    return space + citations.rstrip() + stop + citations[len(citations.rstrip()) :]


def _claims(sentence: str) -> bool:
    """Whether a sentence says something and cites nothing."""
    said = bool(_WORD.search(sentence)) and not sentence.startswith("#") and not sentence.endswith((":", "："))
    return said and not _GROUP.search(sentence)


def _sourced(candidate: Candidate, sources: Mapping[Any, str]) -> bool:
    source, start = candidate.source, candidate.start
    if source.start_char is not None and source.end_char not in (None, source.start_char + len(source.text)):
        return False
    name = candidate.chunk.source_id
    whole = sources.get((name, candidate.chunk.revision_id), sources.get(name))
    return all(
        _shows(candidate, source.text, s - start, e - start)
        and _holds(whole, source.text[s - start : e - start], None if source.start_char is None else s)
        for s, e in candidate.spans or [(start, start + len(source.text))]
    )


def _shows(candidate: Candidate, text: str, start: int, end: int) -> bool:
    return 0 <= start <= end <= len(text) and text[start:end] in candidate.text


def _holds(whole: str | None, piece: str, at: int | None) -> bool:
    """Look a piece up in the source, anywhere if it is not known where."""
    return whole is None or (piece in whole if at is None else whole.startswith(piece, at))
