import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.cases import Case, load_cases, places_of_answer
from eval.datasets import read_rows
from eval.errors import EvalError
from eval.records import SETUP, Record, to_line
from pruner.schema import Chunk
from tests.made_cases import made_record
from tests.made_rows import entry, row, write


def record(path: Path, identifier: str = "q1", n: int = 4, dataset: str = "set", **further: Any) -> Record:
    [found] = [r for r in read_rows(path) if (r.dataset, r.id) == (dataset, identifier)]
    grades = further.pop("grades", [5, 1, 4, None][:n])
    return made_record(identifier, grades, **{"dataset": dataset, "list_sha256": found.cut(n).sha256, **further})


def load_with(folder: Path, data: Path | Sequence[Path], *records: Record, **further: Any) -> list[Case]:
    path = folder / "records.jsonl"
    path.write_text("".join(map(to_line, records)))
    return load_cases([data] if isinstance(data, Path) else data, [path], **{"only": {}, **further}).cases


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [entry("q1", gold=["a", "d"], answer="of q1"), entry("q2", gold=["zz"], gold_missing=["zz"], helpful=["b"])]
    return write(tmp_path / "lists.jsonl", rows)


def test_a_case_holds_what_selection_and_measures_need_and_no_text(tmp_path: Path, data: Path) -> None:
    graded = record(data, tokens=(7, 8, 9, 10))
    [case] = load_with(tmp_path, data, graded)
    assert (case.dataset, case.id, case.n, case.needed, case.missing) == ("set", "q1", 4, frozenset({0, 3}), 0)
    assert (case.scores, case.tokens) == ((4.0, 3.0, 2.0, 1.0), (7, 8, 9, 10))
    assert (case.has_answer, case.holds_answer) == (True, frozenset(range(4)))
    assert case.records == {"listwise": graded}


def test_without_records_every_row_is_a_case(data: Path) -> None:
    first, second = load_cases([data], []).cases
    assert (second.needed, second.missing, second.helping) == (frozenset(), 1, frozenset({1}))
    assert all(tokens > 0 for tokens in first.tokens)
    assert not first.records


def test_rows_are_cut_to_what_was_graded(tmp_path: Path, data: Path) -> None:
    [case] = load_with(tmp_path, data, record(data, n=2))
    assert (case.n, case.needed, case.missing, len(case.scores)) == (2, frozenset({0}), 1, 2)


def test_of_two_gradings_of_one_list_the_later_counts(tmp_path: Path, data: Path) -> None:
    failed = record(data, status="fallback", reason="timeout", grades=[None] * 4)
    [case] = load_with(tmp_path, data, failed, record(data))
    assert case.records["listwise"].status == "ok"


def test_records_of_sets_that_are_not_given_are_left_aside(tmp_path: Path, data: Path) -> None:
    [case] = load_with(tmp_path, data, replace(record(data), dataset="elsewhere"), record(data))
    assert case.dataset == "set"


def test_one_name_in_two_sets_is_two_lists(tmp_path: Path, data: Path) -> None:
    other = write(tmp_path / "other.jsonl", [entry("q1", dataset="other", query="what?")])
    cases = load_with(tmp_path, [data, other], record(data), record(other, dataset="other"))
    assert [(case.dataset, case.id) for case in cases] == [("set", "q1"), ("other", "q1")]


FAULTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"list_sha256": "0" * 64}, "records.jsonl:2: list_sha256: another list than 'q2' of 'set' now is was graded"),
    ({}, {"id": "q9"}, "records.jsonl:2: id: no list 'q9' of 'set' in "),
    ({"cut": 3}, {}, "records.jsonl:1: n: 4 chunks were graded, the list has 3"),
    (
        {"cut": 9},
        {"n": 5, "grades": (1,) * 5, "expected": (None,) * 5},
        "records.jsonl:2: n: 5 chunks were graded, the list has 4",
    ),
    (
        {},
        {"model": "openai:other"},
        "the records mix model: openai:gpt-4o-mini (1), openai:other (1); choose one with --",
    ),
    ({}, {"prompt_sha256": "1" * 64}, "the listwise records mix prompt_sha256: 0000"),
    ({}, {"prompt": "mine"}, "the listwise records mix prompt: grade.v1 (1), mine (1); choose one with --only prompt="),
    ({}, {"readout": "probe"}, "the listwise records mix readout: json (1), probe (1)"),
    ({}, {"reply_format": "keyed"}, "the listwise records mix reply_format: pairs (1), keyed (1)"),
    ({}, {"chunk_order": "shuffle 1"}, "the listwise records mix chunk_order: reranker (1), shuffle 1 (1)"),
    ({}, {"dials": "temperature=1.0"}, "the listwise records mix dials: none (1), temperature=1.0 (1)"),
    ({}, {"strategy": "anchors", "model": "m:2"}, "the records mix model: openai:gpt-4o-mini (1), m:2 (1)"),
    ({"only": {"model": "m"}}, {}, "no record has model=m"),
    ({"only": {"cost": "0"}}, {}, "'cost' is nothing records are told apart by; use one of strategy, model, prompt"),
]


@pytest.mark.parametrize(("further", "fields", "message"), FAULTS)
def test_records_that_do_not_fit_are_refused_in_one_line(
    tmp_path: Path, data: Path, further: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    second = replace(record(data, "q2"), **fields)
    with pytest.raises(EvalError, match=re.escape(message)) as caught:
        load_with(tmp_path, data, record(data), second, **further)
    assert "\n" not in str(caught.value)


def test_one_of_several_ways_of_grading_can_be_chosen(tmp_path: Path, data: Path) -> None:
    records = [record(data), record(data, model="m:2", grades=[1] * 4)]
    [case] = load_with(tmp_path, data, *records, only={"model": "m:2"})
    assert case.records["listwise"].grades == (1, 1, 1, 1)


def test_strategies_have_prompts_of_their_own(tmp_path: Path, data: Path) -> None:
    chosen = record(data, strategy="direct_select", prompt="direct_select.v1", prompt_sha256="2" * 64, selected=(1,))
    [case] = load_with(tmp_path, data, record(data), chosen)
    assert case.records.keys() == {"listwise", "direct_select"}


def test_records_and_lists_of_different_sets_have_nothing_to_say(tmp_path: Path, data: Path) -> None:
    with pytest.raises(EvalError, match="no record is of these lists: the records are of elsewhere, the lists of set"):
        load_with(tmp_path, data, replace(record(data), dataset="elsewhere"))


@pytest.mark.parametrize("second", [("q1", 2), ("q2", 2), ("q1", 3)])
def test_gradings_of_different_lengths_need_a_cut(tmp_path: Path, data: Path, second: tuple[str, int]) -> None:
    held = f"the records of 'set' mix lists cut to {second[1]} chunks with lists of 4; choose with --cut"
    with pytest.raises(EvalError, match=held):
        load_with(tmp_path, data, record(data), record(data, *second))


def test_a_cut_chooses_among_gradings_of_different_lengths(tmp_path: Path, data: Path) -> None:
    records = [record(data, n=2, grades=[1, 2]), record(data), record(data, "q2")]
    [case] = load_with(tmp_path, data, *records, cut=2)
    assert case.records["listwise"].grades == (1, 2)
    assert [case.n for case in load_with(tmp_path, data, *records, cut=4)] == [4, 4]


def test_lists_shorter_than_the_cut_are_no_mix(tmp_path: Path, data: Path) -> None:
    long = write(tmp_path / "long.jsonl", [entry("q3", n=8)])
    cut = record(long, "q3", 6, grades=[1] * 6)
    assert [case.n for case in load_with(tmp_path, [data, long], record(data), cut)] == [4, 6]


def test_every_set_may_have_a_cut_of_its_own(tmp_path: Path, data: Path) -> None:
    other = write(tmp_path / "other.jsonl", [entry("q1", dataset="other", query="what?")])
    records = [record(data), record(other, n=2, dataset="other")]
    assert [case.n for case in load_with(tmp_path, [data, other], *records)] == [4, 2]


def test_what_is_not_set_can_be_chosen_as_messages_show_it(tmp_path: Path, data: Path) -> None:
    records = [record(data, grades=[5] * 4), record(data, dials="temperature=1.0")]
    [case] = load_with(tmp_path, data, *records, only={"dials": "none"})
    assert case.records["listwise"].grades == (5,) * 4


@pytest.mark.parametrize("name", [name for name in SETUP if name != "strategy"])
def test_every_value_that_a_refusal_shows_can_be_chosen(tmp_path: Path, data: Path, name: str) -> None:
    other: dict[str, Any] = {name: "" if name == "reply_format" else "other"}
    records = [record(data), record(data, **other)]
    with pytest.raises(EvalError) as caught:
        load_with(tmp_path, data, *records)
    held = re.search(r": (\S+) \(1\), (\S+) \(1\);", str(caught.value))
    assert held is not None
    for value in held.groups():
        assert load_with(tmp_path, data, *records, only={name: value})


def test_equal_lists_under_other_ids_are_counted_once(tmp_path: Path) -> None:
    rows = [entry("q1"), entry("q2"), entry("q3")]
    for repeated in rows:
        repeated["chunks"] = rows[0]["chunks"]
    rows.append(entry("q4", dataset="other", query="how?"))
    loaded = load_cases([write(tmp_path / "l.jsonl", rows)], [])
    assert [case.id for case in loaded.cases] == ["q1", "q4"]
    assert loaded.notes == ["2 lists repeat another's question and chunks under another id: counted once"]


def test_equal_lists_with_two_labels_are_refused(tmp_path: Path) -> None:
    rows = [entry("q1"), entry("q2", gold=["b"])]
    rows[1]["chunks"] = rows[0]["chunks"]
    with pytest.raises(EvalError, match="'q1' of 'set' and 'q2' of 'set' are the same question and list with two"):
        load_cases([write(tmp_path / "l.jsonl", rows)], [])


@pytest.mark.parametrize(
    ("answer", "text", "held"),
    [
        ("Cabarrus County", "It borders CABARRUS\n county.", True),
        ("12", "chapter 112 of 120", False),
        ("12", "在12年", True),
        ("蓝色", "东门是蓝色的", True),
        ("art", "a party", False),
        ("C++", "written in C++.", True),
        ("yes", "yes, it is", False),
        ("No.", "no", False),
        (None, "anything", False),
        (" ", "a b", False),
    ],
)
def test_an_answer_is_held_as_words_of_its_own(answer: str | None, text: str, held: bool) -> None:
    found = places_of_answer(row(chunks=(Chunk(id="a", text="x"), Chunk(id="b", text=text)), answer=answer))
    assert found == ({1} if held else set())
