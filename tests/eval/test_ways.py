import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from eval.__main__ import main
from eval.datasets import read_rows
from eval.points import Draws
from eval.records import to_line
from eval.ways import Way, compare
from tests.made_cases import made_case, made_record, write_lists

DRAWS = Draws(resamples=200)


def way(name: str, *graded: Sequence[int | None], needed: Sequence[int] = (0,), scoring: str = "grade") -> Way:
    return Way(name, scoring, tuple(made_case(f"q{i}", grades, needed) for i, grades in enumerate(graded)))


def cells(table: str, name: str) -> list[str]:
    [line] = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_area_is_worked_out_list_by_list() -> None:
    # Needed above both others, level with one and below the other, below both.
    assert list(way("a", [5, 1, 1], [3, 3, 5], [1, 2, 2]).aucs) == [1.0, 0.25, 0.0]


def test_a_list_of_which_nothing_is_needed_has_no_area() -> None:
    assert np.isnan(way("a", [5, 1], needed=()).aucs).all()


def test_an_ungraded_chunk_counts_as_kept_for_certain() -> None:
    assert list(way("a", [None, 5, 4]).aucs) == [0.75]
    assert way("a", [None, 5, 4]).ungraded == pytest.approx(1 / 3)


def test_mean_levels_are_used_where_they_are_the_scoring() -> None:
    record = made_record("q", [3, 3], expected=(2.0, 3.5))
    case = made_case("q", [3, 3], [1], records={"listwise": record})
    assert list(Way("a", "expected", (case,)).aucs) == [1.0]
    assert list(Way("a", "grade", (case,)).aucs) == [0.5]


def test_ways_are_held_against_the_first_list_by_list() -> None:
    table = compare([way("good", [5, 1], [5, 1]), way("bad", [1, 5], [1, 5])], 3, 0, DRAWS)
    assert cells(table, "good")[4] == "–"
    assert cells(table, "bad")[3:5] == ["0.00 [0.00, 0.00]", "-1.00 [-1.00, -1.00]"]


def test_the_ranking_itself_is_a_row() -> None:
    assert cells(compare([way("a", [1, 5, 5])], 3, 0, DRAWS), "the ranking itself")[3] == "1.00 [1.00, 1.00]"


def test_recall_and_compression_are_those_of_the_dials() -> None:
    table = compare([way("a", [5, 1, 1, 1], [2, 1, 1, 4])], 3, 0, DRAWS)
    assert [re.split(r" \[", cell)[0] for cell in cells(table, "a")[5:]] == ["0.50", "0.75"]


def test_the_command_takes_the_lists_that_all_ways_graded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = {"one": ([5, 1, 1], [0]), "two": ([1, 5, 1], [0])}
    first = write_lists(tmp_path, lists)
    (tmp_path / "records.jsonl").rename(tmp_path / "pairs.jsonl")
    write_lists(tmp_path, lists, reply_format="listed")
    (tmp_path / "records.jsonl").write_text(
        (tmp_path / "records.jsonl").read_text(encoding="utf-8").splitlines()[0] + "\n"
    )
    ways = ["--records", str(tmp_path / "pairs.jsonl"), "--records", str(tmp_path / "records.jsonl")]
    assert main(["ways", first[0], *ways, "--resamples", "50"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 lists that all of these graded")
    assert cells(said, "pairs")[3] == cells(said, "listed")[3] == "1.00 [1.00, 1.00]"


def test_ways_without_a_list_in_common_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_lists(tmp_path, {"one": ([5, 1], [0]), "two": ([5, 1], [])})
    lines = (tmp_path / "records.jsonl").read_text(encoding="utf-8").splitlines()
    ways = []
    for place, line in enumerate(lines):
        (tmp_path / f"{place}.jsonl").write_text(line + "\n", encoding="utf-8")
        ways += ["--records", str(tmp_path / f"{place}.jsonl")]
    assert main(["ways", first[0], *ways]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_equal_lists_are_counted_once_and_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_lists(tmp_path, {"one": ([5, 1], [0])})
    for path in (Path(first[0]), Path(first[2])):
        once = path.read_text(encoding="utf-8")
        path.write_text(once + once.replace('"id": "one"', '"id": "two"'), encoding="utf-8")
    assert main(["ways", *first, "--resamples", "20"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 lists that all of these graded")
    assert "\n\n1 lists repeat another's question and chunks under another id: counted once\n\n|" in said
    assert said.endswith("|\n")


def test_two_ways_in_one_file_are_refused_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_lists(tmp_path, {"one": ([5, 1], [0])})
    other = write_lists(tmp_path, {"one": ([5, 1], [0])}, dials="temperature=1.0")
    assert first == other
    path = tmp_path / "records.jsonl"
    graded = path.read_text(encoding="utf-8")
    path.write_text(graded + graded.replace("temperature=1.0", "temperature=0.0"), encoding="utf-8")
    assert main(["ways", *first]) == 2
    said = capsys.readouterr().err
    assert said.endswith("temperature=0.0 (1); give each way a file of its own\n")


def test_ways_that_graded_another_number_of_chunks_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_lists(tmp_path, {"one": ([5, 1, 1], [0])})
    [row] = read_rows(Path(first[0]))
    cut = made_record("one", [5, 1], list_sha256=row.cut(2).sha256)
    (tmp_path / "cut.jsonl").write_text(to_line(cut), encoding="utf-8")
    assert main(["ways", *first, "--records", str(tmp_path / "cut.jsonl")]) == 2
    assert capsys.readouterr().err == "ways: of 'one' (made) these graded [2, 3] chunks; choose with --cut\n"


@pytest.mark.parametrize("dial", ["--threshold=nan", "--threshold=9", "--keep-top-k=-3", "--keep-top-k=some"])
def test_a_dial_out_of_its_range_is_one_line(dial: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ways", *write_lists(tmp_path, {"one": ([5, 1], [0])}), dial])
    err = capsys.readouterr().err
    assert "is not a" in err
    assert err.count("\n") == 1
