import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.candidates import Candidate, Chunk
from pruner.extract import Extract
from pruner.parents import ExpandParents
from pruner.passages import join
from pruner.sentences import load_splitter, units
from tests.packed import candidate, texts

SPLIT = load_splitter()
QUERY = "How long are Basic backups kept?"
TABLE = "| plan | backups |\n|---|---|\n| Basic | 14 days |\n| Pro | 90 days |"
CODE = "```sh\nbackups kept --plan basic\n\nsleep 1\n```"
NOISE = "Rice is boiled. The choir meets. It rains on Monday. Nobody came. Tea was served."


def extract(*texts_: str, query: str = QUERY, **fields: Any) -> list[str]:
    # The last one makes the words of the query rare, as they are in a real list.
    rows = [candidate(i, text, **fields) for i, text in enumerate([*texts_, NOISE])]
    return [c.text for c in Extract(query, SPLIT)(rows).kept[:-1]]


def test_the_sentences_that_share_terms_with_the_query_stay() -> None:
    assert extract("The choir sings. Basic backups are kept for 14 days. Tea is hot.") == [
        "Basic backups are kept for 14 days."
    ]


def test_what_was_left_out_between_two_sentences_is_marked() -> None:
    text = "Basic backups are kept for 14 days. The choir sings. Pro backups are kept for 90 days."
    assert extract(text) == ["Basic backups are kept for 14 days.\n[…]\nPro backups are kept for 90 days."]


@pytest.mark.parametrize(
    ("query", "text", "shown"),
    [
        ("备份保留多久？", "饭煮好了。备份保留14天。天气很好。", "备份保留14天。"),
        (
            "백업 보관 기간은?",
            "날씨가 좋습니다. 백업은 14일 동안 보관됩니다. 밥을 먹습니다.",
            "백업은 14일 동안 보관됩니다.",
        ),
        ("Wie lange werden Backups gespeichert?", "Es regnet. Backups werden 14 Tage gespeichert. Ende.", None),
        ("Sao lưu được giữ bao lâu?", "Trời mưa. Sao lưu được giữ 14 ngày. Xin chào.", "Sao lưu được giữ 14 ngày."),
    ],
)
def test_any_language_will_do(query: str, text: str, shown: str | None) -> None:
    assert extract(text, query=query) == [shown or "Backups werden 14 Tage gespeichert."]


@pytest.mark.parametrize(
    "limit",
    ["Except on cancelled plans.", "This isn't so on Pro.", "However, the law may ask for more.", "Unless you pay.",
     "You cannot on Pro.", "Nothing is kept on Free.", "Free plans are excluded.",
     "Nur auf Pro.", "Das gilt nicht für Pro.", "Ausgenommen ist Pro.", "Trừ gói Pro.", "专业版除外。", "这不适用。",
     "단, 프로는 다릅니다.",
     "프로는 해당되지 않습니다.", "プロを除外。"],
)  # fmt: skip
def test_a_negation_or_exception_stays_with_the_sentence_it_belongs_to(limit: str) -> None:
    assert extract(f"The choir sings. Basic backups are kept for 14 days. {limit} Tea is hot.") == [
        f"Basic backups are kept for 14 days. {limit}"
    ]


def test_the_sentence_that_an_exception_is_about_comes_with_it() -> None:
    text = "The choir sings. Data goes on cancelling. Except for Basic backups, which are kept. Tea is hot."
    assert extract(text) == ["Data goes on cancelling. Except for Basic backups, which are kept."]


@pytest.mark.parametrize("whole", [TABLE, CODE])
def test_a_table_or_code_is_kept_whole(whole: str) -> None:
    assert extract(f"The choir sings.\n\n{whole}\n\nTea is hot.") == [whole]


def test_what_a_colon_announces_stays_with_it() -> None:
    text = f"The choir sings.\n\nThis is how long:\n\n{TABLE}\n\nTea is hot."
    assert extract(text) == [f"This is how long:\n\n{TABLE}"]


@pytest.mark.parametrize("line", ["**Limits:**", "*Limits:*", "_Limits_:", "<b>Limits:</b>", "### Limits"])
def test_a_line_of_emphasis_or_a_heading_announces_a_table_too(line: str) -> None:
    assert extract(f"The choir sings.\n\n{line}\n\n{TABLE}\n\nTea is hot.") == [f"{line}\n\n{TABLE}"]


STEPS = "1. Open the console. It is blue.\n2. Choose a project:\n\n       ls\n\n3. Press it."


@pytest.mark.parametrize("line", ["To keep Basic backups:", "Basic backups are kept so.", "## Basic backups, kept"])
@pytest.mark.parametrize("items", [STEPS, "- one\n- two\n\n  More of two.\n\n- three", "• one\n\n• two"])
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_a_list_comes_whole_with_what_introduces_it(line: str, items: str, gap: str) -> None:
    text = f"The choir sings.\n\n{line}{gap}{items}\n\nTea is hot."
    assert extract(text) == [f"{line}{gap}{items}"]


def test_an_item_comes_with_what_introduces_it_and_without_the_others() -> None:
    text = "The choir sings.\n\nPlans:\n\n- Free is free.\n- Basic backups are kept.\n- Pro is dear.\n\nTea is hot."
    assert extract(text) == ["Plans:\n[…]\n- Basic backups are kept."]
    assert extract("- Free is free.\n- Basic backups are kept.\n- Pro is dear.") == ["- Basic backups are kept."]


def test_what_was_not_shown_before_is_not_shown() -> None:
    text = "Basic backups are kept for 14 days. A secret. Pro backups are kept for 90 days."
    shown = (0, 35), (46, len(text))
    pieces = Candidate(0, Chunk(text=text), "\n[…]\n".join(text[start:end] for start, end in shown), spans=shown)
    rest = "The choir sings."
    both = pieces.changed(chunk=Chunk(text=f"{rest} {text}"), spans=((0, 16), *((s + 17, e + 17) for s, e in shown)))
    [_, cut, _] = Extract(QUERY, SPLIT)([pieces, both, candidate(1, NOISE)]).kept
    assert cut.text.endswith("Basic backups are kept for 14 days.\n[…]\nPro backups are kept for 90 days.")
    assert "secret" not in cut.text


def test_a_chunk_that_shares_nothing_with_the_query_stays_whole() -> None:
    assert extract("Frankfurt. Two weeks.") == ["Frankfurt. Two weeks."]


def test_a_query_of_nothing_or_of_words_that_stand_everywhere_cuts_nothing() -> None:
    assert extract("It is one. It is two.", query="?!") == ["It is one. It is two."]
    one = Extract("it is", SPLIT)([candidate(0, "It is one. It is two.")])
    assert one.kept[0].text == "It is one. It is two."


def test_the_trace_says_how_many_stay_whole() -> None:
    rows = [candidate(0, "Basic backups are kept. Tea is hot."), candidate(1, NOISE)]
    assert Extract(QUERY, SPLIT)(rows).note == "1 of 2 stay whole"


def test_headings_above_the_text_stay_and_spans_count_in_the_source() -> None:
    text = "The choir sings. Basic backups are kept for 14 days."
    parent = Chunk(text=text, start_char=100)
    rows = ExpandParents("section", {"s": parent})(
        [candidate(0, "choir", parent_id="s", heading_path=("Plans",)), candidate(1, NOISE)]
    ).kept
    [shown, _] = Extract(QUERY, SPLIT)(rows).kept
    assert shown.text == "Plans\n\nBasic backups are kept for 14 days."
    assert shown.spans == ((117, 152),)


lists = st.lists(st.tuples(texts, st.none() | st.integers(0, 99)), max_size=5).map(
    lambda rows: [candidate(i, text, start_char=start) for i, (text, start) in enumerate(rows)]
)


@given(lists, st.sampled_from([QUERY, "备份 백업 nicht", "a b", ""]), st.floats(0, 1))
def test_whatever_is_shown_is_whole_sentences_verbatim_at_their_places(
    candidates: list[Candidate], query: str, share: float
) -> None:
    before = copy.deepcopy(candidates)
    result = Extract(query, SPLIT, share)(candidates)
    assert candidates == before
    assert not result.dropped
    for c in result.kept:
        edges = units(c.chunk.text, SPLIT)
        for start, end in c.spans:
            assert start - c.start in {start for start, _, _ in edges}
            assert end - c.start in {end for _, end, _ in edges}
            assert c.chunk.text[start - c.start : end - c.start] in c.text
        assert c.text.replace("[…]", "").strip() or not c.chunk.text.strip()


@given(lists, st.data())
def test_whatever_is_shown_was_shown_before(candidates: list[Candidate], data: st.DataObject) -> None:
    def cut(candidate: Candidate) -> Candidate:
        text = candidate.chunk.text
        edges = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
        spans = [(s, e) for s, e in zip(edges[::2], edges[1::2], strict=False) if text[s:e].strip()]
        if not spans:
            return candidate
        at = candidate.start
        return candidate.changed(text=join(text, spans), spans=tuple((at + s, at + e) for s, e in spans))

    pieces = list(map(cut, candidates))
    for before, after in zip(pieces, Extract(QUERY, SPLIT, 0.01)(pieces).kept, strict=True):
        known = before.spans or ((before.start, before.start + len(before.chunk.text)),)
        assert all(any(s <= start and end <= e for s, e in known) for start, end in after.spans)


@given(lists)
def test_extracting_without_a_share_to_reach_keeps_everything(candidates: list[Candidate]) -> None:
    assert Extract(QUERY, SPLIT, 0.0)(candidates).kept == candidates
