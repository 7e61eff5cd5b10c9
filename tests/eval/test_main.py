import subprocess
import sys
from pathlib import Path

import pytest

from eval.__main__ import COMMANDS, EXIT_INTERRUPTED, main


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"python -m eval {command}" in capsys.readouterr().out


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("arguments", [[], ["grades"], ["grade"], ["curve", "--no-such"]])
def test_a_wrong_command_line_is_one_line_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    shown = capsys.readouterr().err.strip()
    assert caught.value.code == 2
    assert "--help" in shown
    assert "\n" not in shown


@pytest.mark.parametrize("command", ["curve", "ab", "tune", "report", "replay"])
def test_a_file_that_is_not_there_is_one_line_and_code_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "none.jsonl")]) == 2
    shown = capsys.readouterr().err.strip()
    assert "none.jsonl: No such file or directory" in shown
    assert "\n" not in shown


def test_an_interrupted_command_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("eval.curve.run", interrupted)
    assert main(["curve", "x"]) == EXIT_INTERRUPTED


def test_only_what_a_command_needs_is_loaded() -> None:
    code = "import sys, eval.__main__; print({m.split('.')[0] for m in sys.modules} & {'matplotlib', 'scipy', 'bm25s'})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"
