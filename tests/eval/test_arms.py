import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.arms import Arms, read_arms, told
from eval.errors import EvalError


def line(arm: str, user: str, kept: int, request: str = "", **changed: Any) -> dict[str, Any]:
    known = {
        **{"mode": "ab", "arm": arm, "key_hash": user, "request_id": request, "status": "ok"},
        **{"kept": list(range(kept)), "tokens": [10] * 9, "n": 9},
    }
    return {**known, **changed}


def log(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "decisions.jsonl"
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines))
    return path


TWO = (line("pruner", "a", 2), line("pruner", "b", 4), line("baseline", "c", 9), line("baseline", "d", 7))


def test_means_are_over_the_requests_of_an_arm(tmp_path: Path) -> None:
    arms = read_arms([log(tmp_path, *TWO, line("pruner", "a", 3))], {})
    assert arms.mean("pruner", "chunks")[0] == 3
    assert arms.mean("baseline", "tokens")[0] == 80
    assert arms.requests("pruner") == 3


def test_one_request_a_user_gives_the_textbook_standard_error(tmp_path: Path) -> None:
    arms = read_arms([log(tmp_path, *TWO)], {})
    assert arms.mean("pruner", "chunks")[1] == pytest.approx(math.sqrt(2) / math.sqrt(2))


def test_requests_of_one_user_are_not_counted_as_so_many_users(tmp_path: Path) -> None:
    once = read_arms([log(tmp_path, *TWO)], {})
    often = read_arms([log(tmp_path, *TWO * 50)], {})
    assert often.mean("pruner", "chunks") == pytest.approx(once.mean("pruner", "chunks"))


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(300):
        mean, error = _simulated(random.Random(seed)).mean("pruner", "chunks")
        covered += abs(mean - 5) <= 1.96 * error
    assert 0.91 <= covered / 300 <= 0.98


def _simulated(dice: random.Random) -> Arms:
    arms = Arms()
    for user in range(60):
        habit = dice.gauss(5, 1)
        for _ in range(dice.randint(1, 6)):
            arms.units["pruner"][str(user)].add({"chunks": habit + dice.gauss(0, 0.5)})
    return arms


def test_outcomes_are_joined_by_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line(arm, f"{arm}{i}", 3, f"{arm}{i}") for arm in ("pruner", "baseline") for i in range(4)]
    outcomes = tmp_path / "outcomes.jsonl"
    went = [("pruner0", 1), ("pruner1", 1), ("baseline0", 1), ("baseline1", 0), ("unknown", 1)]
    outcomes.write_text("".join(json.dumps({"request_id": name, "outcome": value}) + "\n" for name, value in went))
    assert main(["ab", str(log(tmp_path, *lines)), "--outcomes", str(outcomes)]) == 0
    [row] = [row for row in capsys.readouterr().out.splitlines() if row.startswith("| outcome")]
    assert [cell.split()[0] for cell in row.strip("|").split("|")] == ["outcome", "1.00", "0.50", "0.50"]


def outcomes_of(folder: Path, went: dict[str, float]) -> str:
    path = folder / "outcomes.jsonl"
    path.write_text("".join(json.dumps({"request_id": name, "outcome": value}) + "\n" for name, value in went.items()))
    return str(path)


def cells(table: str, name: str) -> list[str]:
    [row] = [row for row in table.splitlines() if row.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_outcomes_of_no_request_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line(arm, f"{arm}{i}", 3, f"{arm}{i}") for arm in ("pruner", "baseline") for i in range(4)]
    assert main(["ab", str(log(tmp_path, *lines)), "--outcomes", outcomes_of(tmp_path, {"x": 1, "y": 0})]) == 2
    assert capsys.readouterr().err == "ab: none of the 2 outcomes has the request_id of a request in the log\n"


def test_of_one_user_there_is_no_interval_and_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line(arm, f"{arm}{i}", 3, f"{arm}{i}") for arm in ("pruner", "baseline") for i in range(4)]
    outcomes = outcomes_of(tmp_path, {"pruner0": 1, "baseline0": 1})
    assert main(["ab", str(log(tmp_path, *lines)), "--outcomes", outcomes]) == 0
    said = capsys.readouterr().out
    assert cells(said, "outcome") == ["1.00", "1.00", "0.00"]
    assert "over users; outcome: fewer than two users in an arm, so no interval there." in said


def test_so_few_users_have_the_interval_of_student(tmp_path: Path) -> None:
    # 2 and 4 chunks, 9 and 7: errors of 1, one degree of freedom each; the difference has two.
    said = told(read_arms([log(tmp_path, *TWO)], {}))
    assert cells(said, "chunks sent") == ["3.00 [-9.71, 15.71]", "8.00 [-4.71, 20.71]", "-5.00 [-11.08, 1.08]"]


def test_the_interval_of_few_users_covers_the_truth_as_often_as_it_says(tmp_path: Path) -> None:
    covered, runs = 0, 400
    for seed in range(runs):
        dice, arms = random.Random(seed), Arms()
        for arm in ("pruner", "baseline"):
            for user in range(4):
                arms.units[arm][str(user)].add({"chunks": dice.gauss(5, 1)})
        low, high = re.findall(r"-?[\d.]+", cells(told(arms), "chunks sent")[2])[1:]
        covered += float(low) <= 0 <= float(high)
    assert 0.92 <= covered / runs <= 0.99


@pytest.mark.parametrize("request_id", ["", None])
def test_requests_without_key_and_id_are_users_of_their_own_and_it_says_so(
    tmp_path: Path, request_id: str | None
) -> None:
    lines = [
        {**line(arm, "", kept), "key_hash": None, "request_id": request_id}
        for arm in ("pruner", "baseline")
        for kept in (2, 3, 4)
    ]
    arms = read_arms([log(tmp_path, *lines)], {})
    assert [len(arms.units[arm]) for arm in ("pruner", "baseline")] == [3, 3]
    assert "6 requests have no key: each counts as a user of its own." in told(arms)


def test_without_outcomes_it_says_what_is_not_known(tmp_path: Path) -> None:
    assert "--outcomes" in told(read_arms([log(tmp_path, *TWO)], {}))


def test_lines_of_other_modes_and_broken_ones_are_counted_apart(tmp_path: Path) -> None:
    arms = read_arms(
        [log(tmp_path, *TWO, line("pruner", "x", 1, mode="on"), "{", {**line("pruner", "y", 1), "kept": [99]})], {}
    )
    assert (arms.others, arms.unreadable) == (1, 2)
    assert "1 lines of other modes, 2 that cannot be read" in told(arms)


def test_a_log_with_one_arm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="'baseline'"):
        read_arms([log(tmp_path, *TWO[:2])], {})


@pytest.mark.parametrize("entry", [{"request_id": "a"}, {"outcome": 1}, {"request_id": "a", "outcome": "good"}])
def test_an_outcome_that_is_none_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: dict[str, Any]
) -> None:
    outcomes = tmp_path / "outcomes.jsonl"
    outcomes.write_text(json.dumps(entry) + "\n")
    assert main(["ab", str(log(tmp_path, *TWO)), "--outcomes", str(outcomes)]) == 2
    assert (
        capsys.readouterr().err.strip().endswith("outcomes.jsonl:1: must hold a 'request_id' and a number as 'outcome'")
    )
