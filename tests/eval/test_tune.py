import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eval.__main__ import main
from eval.errors import EvalError
from eval.sources import read_configuration
from eval.statistics import Matrix
from eval.sweep import Sweep, sweep
from eval.tune import order_to_test, paste, split, tune
from pruner import PrunerConfig
from tests.made_cases import made_case, made_record, write_lists

T3 = "listwise threshold=3 keep_top_k=2 scoring=grade"


def made_sweep(whole: Matrix, compression: Sequence[float]) -> Sweep:
    """A sweep with these outcomes, bool[C, Q], and compressions."""
    count, questions = whole.shape
    cases = [made_case(str(q), [5], [0]) for q in range(questions)]
    names = [f"listwise threshold={1 + c / 100} keep_top_k=0 scoring=grade" for c in range(count)]
    blank = sweep(cases, [read_configuration(name) for name in names])
    across = np.broadcast_to(np.array(compression)[:, None], whole.shape)
    return replace(blank, whole=whole.astype(float), compression=across)


def everything(swept: Sweep) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(len(swept.cases), dtype=bool)


def test_the_safest_is_tested_first_and_what_is_beaten_not_at_all() -> None:
    whole = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]])
    swept = made_sweep(whole, [0.9, 0.1, 0.5, 0.3, 0.9])
    # The third (0.5 recall, 0.5 compression) is beaten by the first; the fourth is as good in recall and safer.
    assert order_to_test(swept, everything(swept)).tolist() == [1, 3, 0, 4]


def test_the_split_is_of_questions_with_gold_and_keeps_a_question_on_its_side() -> None:
    cases = [made_case(str(q), [5, 1], [] if q % 10 == 0 else [0]) for q in range(100)]
    swept = sweep(cases, [read_configuration("all")])
    mask = split(swept, 1 / 3, seed=0)
    assert mask.sum() == 30
    assert not any(mask[q] for q in range(0, 100, 10))
    chosen = {case.id for case, side in zip(cases, mask, strict=True) if side}
    turned = sweep(cases[::-1], [read_configuration("all")])
    again = {case.id for case, side in zip(turned.cases, split(turned, 1 / 3, seed=0), strict=True) if side}
    assert chosen == again
    other = {case.id for case, side in zip(cases, split(swept, 1 / 3, seed=1), strict=True) if side}
    assert chosen != other


def test_too_few_questions_to_split_are_refused() -> None:
    swept = sweep([made_case("only", [5], [0])], [read_configuration("all")])
    with pytest.raises(EvalError, match="1 questions with a needed chunk cannot be split"):
        split(swept, 1 / 3, seed=0)


def test_the_most_compressing_that_is_shown_is_found() -> None:
    # 30 questions to choose by; of the other 117 the second loses one, which 0.96 allows, and the third two.
    whole = np.ones((3, 147), dtype=bool)
    whole[1, 40] = False
    whole[2, [0, 40, 41]] = False
    swept = made_sweep(whole, [0.0, 0.5, 0.8])
    found = tune(swept, 0.96, 0.95, np.arange(147) < 30)
    assert (found.chosen_on, found.proved_on, found.whole, found.shown) == (30, 117, (117, 116, 115), 2)
    assert found.best == swept.configurations[1]


def test_what_the_choosing_half_loses_does_not_count_in_the_proof_and_the_other_way_round() -> None:
    whole = np.ones((2, 104), dtype=bool)
    whole[1, :3] = False
    swept = made_sweep(whole, [0.0, 0.5])
    choosing = np.arange(104) < 30
    assert tune(swept, 0.96, 0.95, choosing).best == swept.configurations[1]
    assert tune(swept, 0.96, 0.95, ~choosing).best is None


def test_what_is_returned_really_reaches_the_target_as_often_as_promised() -> None:
    """Grades of simulated questions, nested as thresholds are, most thresholds just short of the target."""
    generator = np.random.default_rng(5)
    true = np.array([1.0, 0.995, 0.985, 0.955, 0.955, 0.95, 0.95, 0.94, 0.9, 0.8])
    blank = made_sweep(np.ones((10, 300), dtype=bool), np.linspace(0, 0.9, 10).tolist())
    choosing, wrong, found, runs = np.arange(300) < 100, 0, 0, 600
    for _ in range(runs):
        # Half of the questions are lost by the same luck whatever the configuration, the others by luck of its own.
        shared, own = generator.random(300), generator.random((10, 300))
        luck = np.where(np.arange(300) % 2, shared, own)
        best = tune(replace(blank, whole=(luck < true[:, None]).astype(float)), 0.96, 0.95, choosing).best
        if best is not None:
            found += 1
            wrong += bool(true[blank.configurations.index(best)] < 0.96)
    assert wrong / runs <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    assert found / runs > 0.5


GOOD = {f"q{q}": ([5, 1, 4, 1, 1, 1], [0, 2]) for q in range(180)}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["tune", *arguments])
    out, err = capsys.readouterr()
    return code, out + err


def test_the_command_prints_lines_that_set_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out = run(capsys, *write_lists(tmp_path, GOOD))
    assert code == 0
    assert "order of the lists: BM25, not a neural reranker" in out
    assert "36 questions put" in out
    assert "144 others test them" in out
    assert "Which are which depends on --seed (here 0), and so may the choice" in out
    assert "SHOWN: listwise threshold=4 keep_top_k=1 scoring=grade keeps at least 96.0%" in out
    assert "at least 74, if not one is lost (117 if one is, 156 if two are)" in out
    toml, env = (found[1] for found in re.finditer(r"```(?:toml)?\n(.*?)\n```", out, re.DOTALL))
    file = tmp_path / "pruner.toml"
    file.write_text(toml, encoding="utf-8")
    config = PrunerConfig.load(file=file)
    assert (config.threshold, config.keep_top_k, config.scoring) == (4, 1, "grade")
    for line in env.splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    assert PrunerConfig.load() == config


def test_where_nothing_qualifies_it_says_so_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = dict(list(GOOD.items())[:60])
    code, out = run(capsys, *write_lists(tmp_path, few))
    assert code == 1
    assert "NOTHING QUALIFIES" in out
    assert (
        "48 questions show no more than 93.9%, even if not one is lost; label at least 92 questions with a needed chunk"
        in out
    )
    assert "pruner.toml" not in out


@pytest.mark.parametrize("choose", [0.1, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("few", [12, 24, 60])
def test_as_many_labels_as_it_asks_for_leave_enough_for_the_proof(
    choose: float, few: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = {f"q{q}": ([5, 1], [0]) for q in range(800)}
    _, out = run(capsys, *write_lists(tmp_path, dict(list(lists.items())[:few])), "--choose", str(choose))
    asked = int(re.findall(r"label at least (\d+) questions", out)[0])
    codes = [
        run(capsys, *write_lists(tmp_path, dict(list(lists.items())[:n])), "--choose", str(choose))[0]
        for n in (asked - 1, asked)
    ]
    assert codes == [1, 0]


def test_lists_without_a_grading_are_counted_in_the_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = write_lists(tmp_path, GOOD)
    graded = Path(arguments[2])
    graded.write_text("".join(graded.read_text(encoding="utf-8").splitlines(keepends=True)[:-7]), encoding="utf-8")
    assert "7 lists of these files have no grading: nothing here is about them" in run(capsys, *arguments)[1]


def test_repeated_questions_prove_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = write_lists(tmp_path, dict(list(GOOD.items())[:60]))
    paths = [Path(arguments[0]), Path(arguments[2])]
    for path in paths:
        once = path.read_text(encoding="utf-8")
        path.write_text("".join(once.replace('"id": "q', f'"id": "{copy}q') for copy in "abc"), encoding="utf-8")
    code, out = run(capsys, *arguments)
    assert code == 1
    assert "120 lists repeat another's question and chunks under another id: counted once" in out
    assert "48 questions show no more than 93.9%" in out


def test_a_model_that_loses_too_much_qualifies_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {f"q{q}": ([5, 4, 4, 4, 4, 4, 1], [6] if q % 3 else [0]) for q in range(300)}
    code, out = run(capsys, *write_lists(tmp_path, bad))
    assert code == 1
    assert "lost too many questions already" in out


def test_the_same_labels_give_the_same_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = write_lists(tmp_path, GOOD)
    assert run(capsys, *arguments) == run(capsys, *arguments)


@pytest.mark.parametrize(
    ("lost", "code", "said"),
    [(0, 0, "HOLDS"), (3, 0, "HOLDS"), (4, 1, "NOT SHOWN"), (20, 1, "BROKEN")],
)
def test_a_check_holds_as_long_as_the_bound_does(
    lost: int, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = {f"q{q}": ([5, 1, 1 if q < lost else 4, 1], [0, 2]) for q in range(200)}
    found, out = run(capsys, *write_lists(tmp_path, lists), "--check", "--configuration", T3)
    assert (found, said in out) == (code, True)
    assert f"kept {200 - lost} of 200 questions whole" in out


def test_a_check_takes_the_dials_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = PrunerConfig()
    from eval.setups import setup_of

    sha = setup_of(config).prompt_sha256
    arguments = write_lists(tmp_path, GOOD, prompt_sha256=sha)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRUNER_THRESHOLD", "4")
    code, out = run(capsys, *arguments, "--check")
    assert code == 0
    assert "listwise threshold=4 keep_top_k=2 scoring=grade kept 180 of 180" in out


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PRUNER_MODEL", "openai:another", "graded with model 'openai:gpt-4o-mini', in use is 'openai:another'"),
        ("PRUNER_MAX_CHUNKS", "7", "max_chunks is set and is not measured here"),
        ("PRUNER_TOKEN_BUDGET", "90", "token_budget is set and is not measured here"),
        ("PRUNER_THRESHOLD", "9", "threshold"),
    ],
)
def test_a_check_refuses_what_the_records_cannot_speak_of(
    variable: str,
    value: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = write_lists(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value)
    code, out = run(capsys, *arguments, "--check")
    assert code == 2
    assert said in out
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "96"], "'96' is not a share from 0.5 to 0.995"),
        (["--target", "nan"], "is not a share"),
        (["--confidence", "1"], "is not a share from 0.5 to 0.999"),
        (["--choose", "x"], "'x' is not a share"),
        (["--seed", "-1"], "'-1' is not a whole number from 0 on"),
    ],
)
def test_a_wrong_argument_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        run(capsys, *write_lists(tmp_path, GOOD), *arguments)
    out, err = capsys.readouterr()
    assert exit_.value.code == 2
    assert said in err
    assert (out + err).count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no strategy ''"),
        ("nothing", "no strategy 'nothing'"),
        ("listwise threshold=3", "the dials of listwise are threshold, keep_top_k, scoring"),
        ("listwise threshold=3 keep_top_k=2 scoring", "is not of the form NAME=VALUE"),
        ("top_n n=2 m=3", "the dials of top_n are n"),
        ("top_n n=2 n=3", "give each once"),
        ("top_n n=2.5", "n must be a whole number from 0 on, not '2.5'"),
        ("score_cut at_least=nan", "at_least must be a number, not 'nan'"),
        ("listwise threshold=9 keep_top_k=2 scoring=grade", "threshold"),
        ("listwise threshold=3 keep_top_k=2 scoring=luck", "scoring"),
    ],
)
def test_a_wrong_configuration_is_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = run(capsys, *write_lists(tmp_path, GOOD), "--check", "--configuration", text)
    assert code == 2
    assert said in out
    assert out.count("\n") == 1


def test_without_gradings_there_is_nothing_to_tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, write_lists(tmp_path, GOOD)[0])
    assert code == 2
    said = "no list has a grading for listwise: make them by `python -m eval grade`, and give them by --records"
    assert out == f"tune: {said}\n"


def test_what_else_was_set_at_the_grading_is_told_with_the_lines() -> None:
    setup = replace(made_record("x", [5]).setup, dials="temperature=0.0")
    assert "with what else was set at the grading: temperature=0.0" in paste(read_configuration(T3), setup)


def test_a_shuffled_order_is_set_with_its_seed() -> None:
    setup = replace(made_record("x", [5]).setup, chunk_order="shuffle 7", model='local:"x"')
    toml = paste(read_configuration(T3), setup).split("```")[1].removeprefix("toml")
    assert tomllib.loads(toml) == {
        "model": 'local:"x"',
        "prompt": "grade.v1",
        "readout": "json",
        "reply_format": "pairs",
        "chunk_order": "shuffle",
        "seed": 7,
        "threshold": 3,
        "keep_top_k": 2,
        "scoring": "grade",
    }
