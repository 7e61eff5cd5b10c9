import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.candidates import By, Candidate, Chunk
from pruner.errors import ConfigError
from pruner.parents import ExpandParents, Expansion, MergeChildren
from pruner.sentences import load_splitter
from pruner.stages import Stage, run_stages
from tests.packed import candidate, texts

SPLIT = load_splitter()
SECTION = """# Plans

Every plan has backups. They run at night.

| plan | days |
|---|---|
| Basic | 14 |
| Pro | 90 |
| Max | 365 |

Retention ends on cancelling. Except when the law demands more. Then it is kept. Ask us.

Prices are elsewhere."""
START = 1000
PARENT = Chunk(text=SECTION, id="s", start_char=START)
HOWS: list[Expansion] = ["heading", "paragraph", "sentences", "table", "section"]


def child(index: int, text: str, **fields: Any) -> Candidate:
    return candidate(index, text, parent_id="s", start_char=START + SECTION.index(text), **fields)


def expand(how: Expansion, *children: Candidate, sentences: int = 1) -> list[Candidate]:
    return list(ExpandParents(how, {"s": PARENT}, sentences, SPLIT)(children).kept)


def test_the_heading_path_is_put_above_the_text() -> None:
    headed = candidate(0, "Kept for 14 days.", heading_path=("Plans", "Basic"))
    assert ExpandParents("heading", {})([headed]).kept[0].text == "Plans / Basic\n\nKept for 14 days."


def test_a_paragraph_is_completed() -> None:
    [grown] = expand("paragraph", child(0, "when the law demands"))
    assert grown.text == "Retention ends on cancelling. Except when the law demands more. Then it is kept. Ask us."


def test_a_paragraph_that_is_a_table_comes_whole() -> None:
    [grown] = expand("paragraph", child(0, "Pro | 90"))
    assert grown.text.startswith("| plan | days |")
    assert grown.text.endswith("| Max | 365 |")


def test_sentences_are_added_on_both_sides_and_completed() -> None:
    [grown] = expand("sentences", child(0, "when the law demands"))
    assert grown.text == "Retention ends on cancelling. Except when the law demands more. Then it is kept."


def test_sentences_reach_over_paragraphs_but_take_no_table_along() -> None:
    [grown] = expand("sentences", child(0, "Retention ends on cancelling."), sentences=9)
    assert grown.text.startswith("Retention")
    assert grown.text.endswith("Prices are elsewhere.")


@pytest.mark.parametrize("before", ["", "A sentence. " * 300, "many words " * 300])
def test_the_sentences_next_to_a_chunk_are_found_in_long_paragraphs_too(before: str) -> None:
    text = f"{before}One before. This is it. One after. {'More of it. ' * 300}"
    stage = ExpandParents("sentences", {"p": Chunk(text=text)}, 1, SPLIT)
    shown = stage([candidate(0, "is", parent_id="p", start_char=text.index("is it"))]).kept[0].text
    assert shown == f"{before if 'words' in before else ''}One before. This is it. One after."


@pytest.mark.parametrize("how", ["paragraph", "sentences", "table"])
def test_a_blank_chunk_stays(how: Expansion) -> None:
    blank = candidate(0, " ", parent_id="p")
    assert ExpandParents(how, {"p": Chunk(text="One. Two.")}, 1, SPLIT)([blank]).kept == [blank]


def test_rows_of_a_table_are_completed_and_get_its_header() -> None:
    [grown] = expand("table", child(0, "90 |\n| Max"))
    assert grown.text == "| plan | days |\n|---|---|\n| Pro | 90 |\n| Max | 365 |"


def test_a_chunk_that_has_the_header_keeps_its_place() -> None:
    [grown] = expand("table", child(0, "They run at night.\n\n| plan | days |\n|---|---|\n| Bas"))
    assert grown.text == "They run at night.\n\n| plan | days |\n|---|---|\n| Basic | 14 |"


@pytest.mark.parametrize(
    ("table", "cell", "shown"),
    [
        ("name\tdays\nBasic\t14\nPro\t90", "Pro\t90", "name\tdays\nPro\t90"),
        (
            "<table><thead>\n<tr><th>days</th></tr></thead>\n<tr><td>14</td></tr>\n<tr><td>90</td></tr></table>",
            "90",
            "<table><thead>\n<tr><th>days</th></tr></thead>\n[…]\n<tr><td>90</td></tr></table>",
        ),
    ],
)
def test_tables_of_other_kinds_get_their_headers(table: str, cell: str, shown: str) -> None:
    stage = ExpandParents("table", {1: Chunk(text=f"Before.\n\n{table}")})
    assert stage([candidate(0, cell, parent_id=1)]).kept[0].text == shown


def test_a_section_is_shown_whole() -> None:
    assert expand("section", child(0, "Ask us."))[0].text == SECTION


@pytest.mark.parametrize("how", HOWS)
def test_the_offset_says_which_of_several_places_is_meant(how: Expansion) -> None:
    parent = Chunk(text="One is 14. A.\n\nTwo is 14. B.", start_char=5)
    second = candidate(0, "is 14.", parent_id="s", start_char=5 + 19)
    [grown] = ExpandParents(how, {"s": parent}, 1, SPLIT)([second]).kept
    if how == "paragraph":
        assert grown.text == "Two is 14. B."
    assert_spans_hold(grown)


def test_a_child_without_a_true_offset_is_found_by_its_text() -> None:
    [grown] = expand("paragraph", candidate(0, "They run", parent_id="s", start_char=7))
    assert grown.text == "Every plan has backups. They run at night."


@pytest.mark.parametrize("how", ["paragraph", "sentences", "table", "section"])
@pytest.mark.parametrize("parents", [{}, {"s": Chunk(text=" ")}, {"t": PARENT}])
def test_without_its_parent_a_child_stays_and_the_trace_says_so(
    how: Expansion, parents: dict[str | int, Chunk]
) -> None:
    alone = [child(0, "Ask us."), candidate(1, "no parent_id")]
    result = ExpandParents(how, parents, 1, SPLIT)(alone)
    assert result.kept == alone
    assert result.note == "2 of 2 without more of a parent"


def test_expanding_by_sentences_without_a_splitter_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs a splitter"):
        ExpandParents("sentences", {})


def merge(*children: Candidate) -> list[Candidate]:
    return list(MergeChildren()(children).kept)


def test_children_of_one_parent_become_one_block_in_the_order_of_the_source() -> None:
    a, b = expand("paragraph", child(4, "Ask us."), child(7, "They run at night."))
    [block] = merge(a, b)
    assert (block.index, block.merged) == (4, (7,))
    assert block.text == (
        "Every plan has backups. They run at night.\n[…]\n"
        "Retention ends on cancelling. Except when the law demands more. Then it is kept. Ask us."
    )


def test_what_overlaps_is_shown_once() -> None:
    assert [c.text for c in merge(*expand("section", child(0, "Ask us."), child(1, "Plans")))] == [SECTION]


def test_a_merged_child_says_into_whom() -> None:
    result = MergeChildren()(expand("section", child(0, "Ask us."), child(1, "Plans")))
    assert result.dropped == {1: By.MERGED}
    assert result.of == {1: 0}


def test_a_block_has_the_sub_queries_order_and_relevance_of_all_its_children() -> None:
    a, b = expand("section", child(0, "Ask us.", query_ids=("x", "y")), child(1, "Plans", query_ids=("y", "z")))
    [block] = merge(replace(a, order=5, relevance=0.2), replace(b, order=1, relevance=0.9))
    assert (block.query_ids, block.order, block.relevance) == (("x", "y", "z"), 1, 0.9)


def test_a_block_shows_the_headings_that_its_children_share() -> None:
    paths = (("Terms", "Basic", "A"), ("Terms", "Basic", "B"), ())
    texts_ = ("Ask us.", "Plans", "Basic")
    children = [child(i, text, heading_path=path) for i, (text, path) in enumerate(zip(texts_, paths, strict=True))]
    assert merge(*expand("section", *children))[0].text == f"Terms / Basic\n\n{SECTION}"


def test_children_of_different_revisions_or_without_a_parent_at_hand_do_not_merge() -> None:
    children = expand("section", child(0, "Ask us.", revision_id=1), child(1, "Plans", revision_id=2))
    lonely = [child(2, "Basic"), child(3, "Pro")]
    assert [c.index for c in merge(*children, *lonely)] == [0, 1, 2, 3]


def assert_spans_hold(shown: Candidate) -> None:
    """Each span is verbatim in the source and in what is shown."""
    for start, end in shown.spans:
        piece = shown.source.text[start - shown.start : end - shown.start]
        assert 0 <= start - shown.start < end - shown.start <= len(shown.source.text)
        assert piece in shown.text


@st.composite
def families(draw: st.DrawFn) -> tuple[dict[str | int, Chunk], list[Candidate]]:
    """Parents, and children cut from them: some with offsets, some with wrong ones, some not from them at all."""
    parents: dict[str | int, Chunk] = {
        name: Chunk(text=draw(texts), start_char=draw(st.none() | st.integers(0, 50))) for name in ("p", "q")
    }
    children: list[Candidate] = []
    for index in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from(["p", "q", "r", None]))
        text = parents[name].text if name in parents else draw(texts)
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        offset = draw(
            st.sampled_from([None, start, start + (getattr(parents.get(name or ""), "start_char", 0) or 0), 7])
        )
        path = draw(st.sampled_from([(), ("A",), ("A", "B")]))
        children.append(candidate(index, text[start:end], parent_id=name, start_char=offset, heading_path=path))
    return parents, children


@given(families(), st.sampled_from(HOWS), st.integers(0, 3))
def test_expansion_and_merging_lose_no_text_mutate_nothing_and_keep_true_spans(
    family: tuple[dict[str | int, Chunk], list[Candidate]], how: Expansion, sentences: int
) -> None:
    parents, children = family
    before = copy.deepcopy((parents, children))
    stages: list[Stage] = [ExpandParents(how, parents, sentences, SPLIT), MergeChildren()]
    kept, traces = run_stages(children, stages)
    assert (parents, children) == before
    shown_by = {index: c for c in kept for index in (c.index, *c.merged)}
    assert sorted(shown_by) == [c.index for c in children]
    for c in children:
        if how != "section" or shown_by[c.index].parent is None:
            assert c.text in shown_by[c.index].text
    for c in kept:
        assert c.chunk is children[c.index].chunk
        assert_spans_hold(c)
    again, _ = run_stages(kept, [MergeChildren()])
    assert list(again) == list(kept)
    assert traces[1].of.keys() == traces[1].dropped.keys()


@pytest.mark.parametrize("how", HOWS)
def test_expanding_twice_is_expanding_once(how: Expansion) -> None:
    once = expand(how, child(0, "90 |\n| Max", heading_path=("Plans",)), child(1, "Ask us."))
    assert expand(how, *once) == once


def test_a_parent_of_another_source_is_none() -> None:
    theirs = Chunk(text="One. Two.", source_id="a")
    mine, other = (candidate(n, "One.", parent_id="p", source_id=source) for n, source in enumerate("ab"))
    kept = ExpandParents("section", {"p": theirs})([mine, other]).kept
    assert [c.text for c in kept] == ["One. Two.", "One."]


def test_a_long_parent_without_a_full_stop_is_split_once_for_all_its_children() -> None:
    read: list[int] = []

    def split(text: str) -> list[int]:
        read.append(len(text))
        return [len(text)]

    words = [f"w{n}" for n in range(4000)]
    text = " ".join(words)
    children = [candidate(n, f"{word} ", parent_id="p") for n, word in enumerate(words[1000:1100])]
    kept = ExpandParents("sentences", {"p": Chunk(text=text)}, 1, split)(children).kept
    assert all(c.parent is not None for c in kept)
    assert sum(read) < 5 * len(text)
