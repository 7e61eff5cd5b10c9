from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from pruner import Chunk, GradingError, Pruner, PrunerConfig, Reason
from pruner.backends.scripted import Answer, ScriptedBackend
from pruner.cli import main

CHUNKS = [Chunk(id=str(place), text=f"text {place}") for place in range(4)]


def run(monkeypatch: pytest.MonkeyPatch, answers: Iterable[Answer]) -> int:
    corpus = SimpleNamespace(chunks=CHUNKS, search=lambda query, top: CHUNKS[:top])
    monkeypatch.setattr("pruner.demo.corpus.Corpus.build", lambda counter: corpus)
    monkeypatch.setattr("pruner.demo.check_installed", lambda prefix: None)

    def scripted(config: PrunerConfig) -> Pruner:
        return Pruner(config, backend=ScriptedBackend(answers))

    monkeypatch.setattr("pruner.commands._make_pruner", scripted)
    return main(["demo", "--model", "scripted:unread", "--timeout", "9", "--keep-top-k", "1"])


def test_a_demo_that_was_too_slow_says_how_it_gets_more_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, [GradingError(Reason.TIMEOUT, "too late")]) == 3
    assert capsys.readouterr().err.endswith("this machine was too slow for 9 s: PRUNER_TIMEOUT=90 gives it longer\n")


def test_a_demo_that_was_answered_shows_the_grades(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, ['{"1": 5, "2": 1, "3": 3, "4": 1}']) == 0
    out, err = capsys.readouterr()
    assert "kept     2 of 4 chunks" in out
    assert err == ""


@pytest.mark.parametrize(
    ("model", "missing"), [([], "bm25s, xllamacpp, huggingface_hub, tqdm"), (["--model", "openai:m"], "bm25s")]
)
def test_a_demo_on_a_bare_install_asks_at_once_for_all_that_it_needs(
    model: list[str], missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pruner.demo.find_spec", lambda name: None)
    assert main(["demo", *model]) == 2
    assert f"the demo needs {missing}: pip install 'listwise-pruner[demo]'\n" in capsys.readouterr().err
