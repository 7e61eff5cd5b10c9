import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def built(kind: str, out: Path) -> Path:
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_source_distribution_holds_what_the_page_links_to_and_what_the_tests_read(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    links = re.findall(r"\]\(([^)#:]+)[)#]", (ROOT / "README.md").read_text(encoding="utf-8"))
    linked = {str(file.relative_to(ROOT)) for link in links for file in _files(ROOT / link)}
    assert len(linked) > 10
    assert {*linked, ".env.example", "constraints.txt", "Makefile"} <= names


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in (".md", ".py")]


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
