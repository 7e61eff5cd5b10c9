import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_prompts_the_page_the_licence_and_the_type_marker(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"pruner/prompts/grade.v1.jinja", "pruner/prompts/probe.v1.jinja", "pruner/py.typed"} <= set(names)
    page = (ROOT / "pruner" / "service" / "page").iterdir()
    assert {f"pruner/service/page/{file.name}" for file in page} <= set(names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert all(name.startswith(("pruner/", "listwise_pruner-")) for name in names)


def test_the_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    code = "import pruner, pruner.prompting as p; print(pruner.__file__); print(p.PROMPTS); p.load_prompt('grade.v1')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(line.startswith(str(tmp_path)) for line in done.stdout.splitlines())


def test_the_constraints_name_no_host() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert not any("://" in line or line.startswith("-") for line in lines)
