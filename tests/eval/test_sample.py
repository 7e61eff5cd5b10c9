"""What the shipped sample promises; the figures in its README are these."""

import gzip
import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from eval.datasets import Row, read_rows
from eval.errors import EvalError
from eval.sample import PYTHON, SAMPLE, build, main

README = SAMPLE.with_name("README.md").read_text()


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(read_rows(SAMPLE))


def kept_after(rows: list[Row], k: int) -> str:
    """Share of questions whose needed chunks are all among the first k, as the README writes it."""
    answerable = [row for row in rows if row.needed]
    share = sum(max(row.needed) < k for row in answerable) / len(answerable)
    return f"{share:.2f}".removeprefix("0")


def test_every_row_is_valid_and_there_are_enough(rows: list[Row]) -> None:
    assert len(rows) >= 40


def test_lists_are_15_to_25_chunks_long(rows: list[Row]) -> None:
    assert {row.id: len(row.chunks) for row in rows if not 15 <= len(row.chunks) <= 25} == {}


def test_enough_questions_need_several_chunks_together(rows: list[Row]) -> None:
    assert sum(len(row.needed) >= 2 for row in rows) >= 12


def test_some_lists_hold_no_answer(rows: list[Row]) -> None:
    assert 6 <= sum(not row.needed for row in rows) <= 9


def test_a_list_without_an_answer_says_that_nothing_is_needed(rows: list[Row]) -> None:
    assert [row.id for row in rows if not row.needed and row.gold] == []


def test_needed_chunks_are_spread_over_the_ranks(rows: list[Row]) -> None:
    places = [place for row in rows for place in row.needed]
    assert sum(place >= 3 for place in places) > len(places) / 4
    assert sum(place >= 9 for place in places) >= 5


def test_chunks_stand_in_the_order_of_their_scores(rows: list[Row]) -> None:
    for row in rows:
        scores = [chunk.score or 0.0 for chunk in row.chunks]
        assert scores == sorted(scores, reverse=True)


def test_every_row_says_who_labelled_it_and_whose_order_it_has(rows: list[Row]) -> None:
    assert {(row.meta["labelled_by"], row.meta["order"], row.meta["python"]) for row in rows} == {
        ("one large language model that read each list in full", "bm25", PYTHON)
    }


def test_there_are_questions_in_german(rows: list[Row]) -> None:
    assert 2 <= sum(row.meta["language"] == "de" for row in rows) <= 4


def test_an_answer_occurs_in_a_needed_chunk(rows: list[Row]) -> None:
    answered = [row for row in rows if row.answer]
    lost = [row.id for row in answered if not any((row.answer or "") in row.chunks[i].text for i in row.needed)]
    assert answered
    assert lost == []


def test_interchangeable_chunks_are_listed_and_stand_for_gold(rows: list[Row]) -> None:
    for row in rows:
        listed = {chunk.id for chunk in row.chunks}
        for gold, others in row.meta.get("interchangeable", {}).items():
            assert gold in row.gold
            assert listed.issuperset(others)
            assert not set(others) & set(row.gold)


def test_no_two_rows_have_the_same_question(rows: list[Row]) -> None:
    assert len({row.query for row in rows}) == len(rows)


@pytest.mark.parametrize("k", [3, 5, 8, 10, 15])
def test_the_readme_says_what_cutting_the_list_keeps(rows: list[Row], k: int) -> None:
    assert f"{kept_after(rows, k)} after {k}" in " ".join(README.split())


@pytest.mark.parametrize(("label", "needed"), [("none", 0), ("one", 1), ("two", 2), ("three", 3)])
def test_the_readme_counts_right(rows: list[Row], label: str, needed: int) -> None:
    line = next(line for line in README.splitlines() if line.startswith(f"| {label}"))
    assert line.split("|")[2].strip() == str(sum(len(row.needed) == needed for row in rows))


def test_the_readme_counts_the_rest_right(rows: list[Row]) -> None:
    text = " ".join(README.split())
    assert f"{len(rows)} questions" in text
    assert f"In {sum(len(row.gold) > len(row.needed) for row in rows)} of those" in text
    assert f"{sum('interchangeable' in row.meta for row in rows)} questions carry" in text


def test_the_documentation_s_licence_comes_with_it() -> None:
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in SAMPLE.with_name("LICENSE.python.txt").read_text()


def test_it_is_small() -> None:
    assert SAMPLE.stat().st_size < 1_000_000


@pytest.mark.skipif(platform.python_version() != PYTHON, reason=f"its texts are those of Python {PYTHON}")
def test_the_builder_makes_the_same_rows(tmp_path: Path) -> None:
    # In a process of its own: the guards of these tests replace `socket.socket`, whose documentation is in the corpus.
    out = tmp_path / "again.gz"
    subprocess.run([sys.executable, "-m", "eval.sample", "--out", str(out)], cwd=SAMPLE.parents[2], check=True)
    assert gzip.decompress(out.read_bytes()) == gzip.decompress(SAMPLE.read_bytes())


def test_another_python_builds_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(platform, "python_version", lambda: "3.13.0")
    with pytest.raises(EvalError, match=r"3\.13\.0"):
        next(build())
    assert main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_labels_of_the_sample_are_those_of_the_questions(rows: list[Row]) -> None:
    lines = SAMPLE.with_name("questions.jsonl").read_text().splitlines()
    questions = {entry["id"]: entry for entry in map(json.loads, lines)}
    assert {row.id: set(row.gold) for row in rows} == {name: set(entry["gold"]) for name, entry in questions.items()}
