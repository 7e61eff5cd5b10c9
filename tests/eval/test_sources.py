from collections.abc import Sequence
from pathlib import Path

import pytest

from eval.__main__ import main
from eval.cases import Case
from eval.errors import EvalError
from eval.sources import Source, sweep_of
from tests.made_cases import made_case
from tests.made_rows import entry, write

SURE = made_case("sure", [5, 1], [0], scores=(1.5, -2.0))
UNSURE = made_case("unsure", [5, 1, 1], [0], scores=(-1.5, -2.0, -3.0))
UNSCORED = made_case("unscored", [5, 1, 1, 1], [0], scores=(None, -2.0, -3.0, -4.0))


def strategies(*cases: Case) -> set[str]:
    return {configuration.strategy for configuration in sweep_of(Source(cases)).configurations}


@pytest.mark.parametrize(
    ("cases", "omitted"),
    [
        ([SURE], {}),
        ([SURE, UNSURE], {"relative_cut": 1}),
        ([UNSURE, UNSURE, SURE], {"relative_cut": 2}),
        ([SURE, UNSURE, UNSCORED], {"score_cut": 1, "relative_cut": 2}),
    ],
)
def test_a_list_that_a_cut_cannot_be_applied_to_leaves_out_the_cut_and_no_list(
    cases: Sequence[Case], omitted: dict[str, int]
) -> None:
    swept = sweep_of(Source(tuple(cases)))
    assert (len(swept.cases), swept.omitted) == (len(cases), omitted)
    assert strategies(*cases) == strategies(SURE) - omitted.keys()


def test_what_is_left_out_is_named_with_its_reason() -> None:
    source = Source((SURE, UNSURE))
    said = "relative_cut is left out: it needs a score for each chunk, the best above 0, which 1 of the lists lack"
    assert said in source.swept(sweep_of(source)).notes
    with pytest.raises(EvalError, match=said):
        sweep_of(source, ["relative_cut"])


def test_lists_without_a_grading_are_counted_by_strategy() -> None:
    source = Source((SURE, made_case("bare", [1], [0], records={})))
    said = "1 more are left out: they lack what is gone by for listwise (1)"
    assert said in source.swept(sweep_of(source)).notes


SCORES: list[list[float | None]] = [[1.5, -2.0], [-1.5, -2.0, -3.0], [None, -2.0, -3.0, -4.0]]


@pytest.mark.parametrize(
    "command", [["curve"], ["report"], ["ab", "--a", "relative_cut share=0.5", "--b", "top_n n=1"]]
)
def test_logits_and_missing_scores_are_no_fault(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [entry(f"q{n}", len(scores)) for n, scores in enumerate(SCORES)]
    for row, scores in zip(rows, SCORES, strict=True):
        for chunk, score in zip(row["chunks"], scores, strict=True):
            chunk["score"] = score
    name, *more = command
    out = [] if name == "ab" else ["--out", str(tmp_path / "out")]
    lists = str(write(tmp_path / "lists.jsonl", rows))
    assert main([name, lists, "--resamples", "20", *out, *more]) == 0
    assert capsys.readouterr().err == ""
