"""From the chunk that was found to the passage it stands in: parent expansion, and merging the children of a parent."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from operator import itemgetter
from typing import Literal, TypeAlias

from pruner.candidates import By, Candidate, Chunk, Span, by_rank
from pruner.errors import ConfigError
from pruner.passages import Block, blocks_of, join, merge_spans, stretches
from pruner.sentences import Splitter, Unit, units_of
from pruner.stages import StageResult

__all__ = ["ExpandParents", "Expansion", "MergeChildren"]

Expansion: TypeAlias = Literal["heading", "paragraph", "sentences", "table", "section"]

# In so many characters a sentence is sought first.
_ROOM = 300
_start, _end = itemgetter(0), itemgetter(1)
_RULE = re.compile(r"[\s|:+=-]+")
_HTML_HEADER = re.compile(r".*?</thead>|.*?</tr>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExpandParents:
    """Show more of the parent than the chunk itself, its heading path above; the chunk stays as it is.

    A chunk whose parent is not at hand, is empty or does not hold its text gets its headings only (`section` takes the
    caller's word that it is the parent).

    Attributes:
        how: `heading`: the heading path alone. `paragraph`: the paragraphs that the chunk touches. `sentences`: so many
            sentences more on both sides, but no table or code. `table`: whole rows, and the table's header above them.
            `section`: all of the parent.
        parents: parent_id → parent, whose text holds the child's.
        sentences: how many, for `sentences`.
        split: where sentences end; needed by `sentences`.

    Raises:
        ConfigError: `sentences` without a splitter.
    """

    how: Expansion
    parents: Mapping[str | int, Chunk]
    sentences: int = 1
    split: Splitter | None = None

    def __post_init__(self) -> None:
        """Check that the splitter is there."""
        if self.how == "sentences" and self.split is None:
            raise ConfigError("expanding by sentences needs a splitter: pass load_splitter()")

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Replace the texts."""
        cuts = _Cuts(self.split)
        grown = [_shown(self._grow(c, cuts), c.chunk.heading_path) for c in candidates]
        alone = sum(c.parent is None for c in grown)
        note = f"{alone} of {len(grown)} without more of a parent" if alone and self.how != "heading" else ""
        return StageResult(grown, note=note)

    def _grow(self, candidate: Candidate, cuts: "_Cuts") -> Candidate:
        name = candidate.chunk.parent_id
        parent = None if name is None else self.parents.get(name)
        if parent is None or self.how == "heading" or not parent.text.strip() or _of_another_source(candidate, parent):
            return candidate
        here = _locate(candidate.chunk, parent)
        if self.how == "section":
            spans = [(0, len(parent.text))]
        else:
            spans = self._window(parent.text, here, cuts) if here else []
        if not spans:
            return candidate
        start = parent.start_char or 0
        return candidate.changed(parent=parent, spans=tuple((start + s, start + e) for s, e in merge_spans(spans)))

    def _window(self, text: str, here: Span, cuts: "_Cuts") -> list[Span]:
        if self.how == "sentences":
            return self._sentences_around(text, here, cuts)
        stretches = cuts.stretches(text)
        found = [block for n in _touched(stretches, here) for block in blocks_of(text, stretches[n])]
        within = [found[n] for n in _touched(found, here)]
        if self.how == "table" or not within:
            return _with_header(text, within, here)
        return [(min(here[0], within[0].start), max(here[1], within[-1].end))]

    def _sentences_around(self, text: str, here: Span, cuts: "_Cuts") -> list[Span]:
        stretches, more = cuts.stretches(text), self.sentences
        touched = _touched(stretches, here)
        before = stretches[max(touched.start - more, 0) : touched.start + 1][::-1]
        after = stretches[touched.stop - 1 : touched.stop + more]
        # To look backwards is to look forwards in a text whose places are negative.
        left = ((-e, -s, kind) for near in before for s, e, kind in self._units_near(text, near, here, cuts)[::-1])
        right = (unit for near in after for unit in self._units_near(text, near, here, cuts))
        return [(-self._reach(left, -here[0]), self._reach(right, here[1]))]

    def _reach(self, outward: Iterable[Unit], edge: int) -> int:
        """Return where the sentences beyond an edge end; one that lies across it is shown whole."""
        end, more = edge, self.sentences
        for near, far, kind in outward:
            if near < edge:
                end = max(end, far)
            elif more and kind == "prose":
                end, more = far, more - 1
            else:
                break
        return end

    def _units_near(self, text: str, stretch: Span | Block, here: Span, cuts: "_Cuts") -> list[Unit]:
        if here[0] <= stretch[0] and stretch[1] <= here[1]:  # It is shown, whatever it is.
            return [(stretch[0], stretch[1], "prose")]
        return [unit for block in blocks_of(text, stretch) for unit in self._cut_near(text, block, here, cuts)]

    def _cut_near(self, text: str, block: Block, here: Span, cuts: "_Cuts") -> list[Unit]:
        """Cut a block into units around a place: no more of a long one than is needed, as splitting takes long."""
        wanted = max(self.sentences, 1)
        room = wanted * _ROOM
        if block.kind != "prose" or block.end - block.start <= room:
            return cuts.units(text, block)
        start = max(block.start, min(here[0], block.end) - room)
        end = min(block.end, max(here[1], block.start) + room)
        found = cuts.units(text, Block(start, end, "prose"))
        whole = found[start > block.start : len(found) - (end < block.end)]
        before = len(whole) >= wanted and _end(whole[wanted - 1]) <= here[0]
        after = len(whole) >= wanted and _start(whole[-wanted]) >= here[1]
        if (start > block.start and not before) or (end < block.end and not after):
            return cuts.units(text, block)
        return whole


class _Cuts:
    """Where parents may be cut, found once, as each child of one needs it."""

    def __init__(self, split: Splitter | None) -> None:
        self._split = split
        self.stretches = cache(stretches)
        self.units = cache(self._units)

    def _units(self, text: str, block: Block) -> list[Unit]:
        assert self._split is not None  # ExpandParents.__post_init__
        return units_of(text, block, self._split)


def _of_another_source(candidate: Candidate, parent: Chunk) -> bool:
    """Whether a parent was found by an id that two sources have: a block must not name the wrong one."""
    return None not in (candidate.chunk.source_id, parent.source_id) and candidate.chunk.source_id != parent.source_id


def _locate(child: Chunk, parent: Chunk) -> Span | None:
    """Find a child in its parent's text: where its offset says, if it is there, else where its text first occurs."""
    start = (child.start_char or 0) - (parent.start_char or 0)
    if child.start_char is None or start < 0 or not parent.text.startswith(child.text, start):
        start = parent.text.find(child.text)
    return (start, start + len(child.text)) if start >= 0 and child.text.strip() else None


def _touched(found: Sequence[Unit] | Sequence[Span | Block], here: Span) -> range:
    """Return the places of those stretches or blocks, which lie in order, that a span touches."""
    return range(bisect_right(found, here[0], key=_end), bisect_left(found, here[1], key=_start))


def _with_header(text: str, touched: Sequence[Block], here: Span) -> list[Span]:
    """Return the chunk with whole rows, and the header of the table that it begins in; nothing if it has no table."""
    tables = [block for block in touched if block.kind == "table"]
    if not tables:
        return []
    start, end = here
    header: list[Span] = []
    if tables[0].start < start:
        start = text.rfind("\n", tables[0].start, start) + 1 or tables[0].start
        header = [(tables[0].start, _header_end(text, tables[0]))]
    if tables[-1].end > end:
        line_end = text.find("\n", end, tables[-1].end)
        end = tables[-1].end if line_end < 0 else line_end
    return [*header, (start, end)]


def _header_end(text: str, table: Block) -> int:
    """Find the end of a table's header: of the line of dashes below it, or of the first row."""
    if found := _HTML_HEADER.match(text[table.start : table.end]):
        return table.start + found.end()
    first, _, rest = text[table.start : table.end].partition("\n")
    second = rest.partition("\n")[0]
    return table.start + len(first) + (1 + len(second) if _RULE.fullmatch(second) else 0)


@dataclass(frozen=True, slots=True)
class MergeChildren:
    """Make one block of the children of one parent: the best ranked one shows what all of them showed.

    Only children that were expanded from their parent merge: the others' places in it are not known.
    """

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Keep the best ranked child of each parent, in the order given."""
        families: dict[object, list[Candidate]] = {}
        for candidate in by_rank(candidates):
            families.setdefault(_family(candidate), []).append(candidate)
        merged = {children[0].index: _merge(children) for children in families.values()}
        of = {c.index: children[0].index for children in families.values() for c in children[1:]}
        return StageResult(
            [merged[c.index] for c in candidates if c.index in merged], dict.fromkeys(of, By.MERGED), of=of
        )


def _family(candidate: Candidate) -> object:
    chunk = candidate.chunk
    return candidate.index if candidate.parent is None else (chunk.source_id, chunk.revision_id, chunk.parent_id)


def _merge(children: Sequence[Candidate]) -> Candidate:
    first, *others = children
    if not others:
        return first
    orders = [c.order for c in children if c.order is not None]
    relevances = [c.relevance for c in children if c.relevance is not None]
    merged = first.changed(
        query_ids=tuple(dict.fromkeys(name for c in children for name in c.query_ids)),
        merged=tuple(sorted({*first.merged, *(index for c in others for index in (c.index, *c.merged))})),
        spans=merge_spans([span for c in children for span in c.spans]),
        order=min(orders, default=None),
        relevance=max(relevances, default=None),
    )
    return _shown(merged, _common([c.chunk.heading_path for c in children if c.chunk.heading_path]))


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return [level[0] for level in levels]


def _shown(candidate: Candidate, headings: Sequence[str]) -> Candidate:
    """Write the text anew: headings, then the spans of the source."""
    source, start = candidate.source.text, candidate.start
    spans = [(s - start, e - start) for s, e in candidate.spans] or [(0, len(source))]
    above = " / ".join(headings)
    return candidate.changed(text=f"{above}\n\n{join(source, spans)}" if above else join(source, spans))
