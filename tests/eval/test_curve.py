import csv
from pathlib import Path

import pytest

from eval.__main__ import main
from tests.made_cases import write_lists

LISTS = {
    "near": ([5, 1, 1, 1], [0]),
    "far": ([5, 1, 1, 5], [0, 3]),
    "missed": ([1, 5, 2, 1], [2]),
    "none": ([1, 1, 1, 1], []),
}
FILES = ("curve.csv", "curve.md", "curve.png", "curve.svg", "slices.png", "slices.svg")


def run(folder: Path, out: str, *more: str) -> Path:
    written = folder / out
    assert main(["curve", *write_lists(folder, LISTS), "--resamples", "50", "--out", str(written), *more]) == 0
    return written


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("curve"), "deep/curve")


def test_the_curve_is_written_as_figures_table_and_pictures(curve: Path) -> None:
    assert sorted(path.name for path in curve.iterdir()) == sorted(FILES)
    told = (curve / "curve.md").read_text(encoding="utf-8")
    assert "4 questions, 3 with a needed chunk in the list (made)" in told
    assert "order of the lists: BM25, not a neural reranker" in told
    # The second list needs its last chunk, so only the whole list keeps everything.
    assert "| 96% | top_n | 4 | 0.00 [0.00, " in told
    assert "| top_n n=4 |" in told
    assert "| 90% | oracle | 1 | 0.75 [" in told
    assert "| hops = 2 | 1 | 1 |" in told


def test_the_figures_are_those_worked_out_by_hand(curve: Path) -> None:
    with (curve / "curve.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["slice"], row["configuration"]): row for row in csv.DictReader(file)}
    pruner = rows["all", "listwise threshold=3 keep_top_k=0 scoring=grade"]
    assert float(pruner["recall"]) == pytest.approx(2 / 3)
    assert float(pruner["compression"]) == pytest.approx(12 / 16)  # kept are 1, 2, 1 and 0 of 4
    assert (pruner["with_gold"], pruner["whole"], pruner["questions"]) == ("3", "2", "4")
    assert pruner["answer_survives"] == ""
    assert float(rows["hops = 2", "listwise threshold=3 keep_top_k=0 scoring=grade"]["recall"]) == 1
    assert float(rows["gold = 1", "listwise threshold=3 keep_top_k=0 scoring=grade"]["recall"]) == 0.5
    assert rows["hops = 0", "top_n n=1"]["recall"] == ""


def test_the_same_run_writes_the_same_bytes(curve: Path, tmp_path: Path) -> None:
    again = run(tmp_path, "again")
    for name in FILES:
        assert (curve / name).read_bytes() == (again / name).read_bytes(), name


def test_pictures_name_order_model_and_axes(curve: Path) -> None:
    svg = (curve / "curve.svg").read_text(encoding="utf-8")
    for told in (
        "order of the lists: BM25, not a neural reranker",
        "openai:gpt-4o-mini",
        "top_n (cutting the ranking)",
        "compression: share of chunks dropped",
        "token compression: share of tokens dropped",
        "recall preserved: share of questions still whole",
    ):
        assert told in svg


def test_strategies_and_slices_can_be_chosen(tmp_path: Path) -> None:
    with (run(tmp_path, "c", "--strategy", "top_n", "--slice", "hops") / "curve.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["strategy"] for row in rows} == {"top_n"}
    assert {row["slice"] for row in rows} == {"all", "hops = 0", "hops = 1", "hops = 2"}


def test_the_order_can_be_named_and_is_otherwise_admitted_to_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "c", "--order", "my-reranker")
    assert "order of the lists: my-reranker\n" in capsys.readouterr().out
    data = tmp_path / "lists.jsonl"
    data.write_text(data.read_text(encoding="utf-8").replace('"order"', '"other"'), encoding="utf-8")
    assert main(["curve", str(data), "--resamples", "20", "--out", str(tmp_path / "d")]) == 0
    assert "order of the lists: as given, by an unnamed ranker" in capsys.readouterr().out


def test_an_order_that_only_some_lists_name_is_not_said_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(write_lists(tmp_path, LISTS)[0])
    data.write_text(data.read_text(encoding="utf-8").replace('"order"', '"other"', 1), encoding="utf-8")
    assert main(["ab", str(data), "--a", "top_n n=1", "--b", "all", "--resamples", "20"]) == 0
    assert "order of the lists: BM25, as given, by an unnamed ranker\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--strategy", "magic"], "curve: no strategy 'magic'; there are all, top_n"),
        (["--slice", "magic"], "curve: no question has a plain value for 'magic' in 'meta'; there are hops, order\n"),
        (["--only", "model"], "curve: 'model' is not of the form NAME=VALUE\n"),
        (["--only", "model=x:y"], "curve: no record has model=x:y\n"),
        (["--out", "{file}"], "curve: {file}: File exists\n"),
    ],
)
def test_wrong_arguments_are_one_line(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write_lists(tmp_path, LISTS)
    more = [each.format(file=arguments[0]) for each in more]
    assert main(["curve", *arguments, "--resamples", "20", "--out", str(tmp_path / "c"), *more]) == 2
    err = capsys.readouterr().err
    assert err.startswith(said.format(file=arguments[0]))
    assert err.count("\n") == 1


def test_lists_without_gold_cannot_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", *write_lists(tmp_path, {"none": ([1, 1], [])})]) == 2
    assert capsys.readouterr().err == (
        "curve: no question has a needed chunk in its list: there is nothing to measure recall by\n"
    )
