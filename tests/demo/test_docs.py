import subprocess
import sys
from collections import Counter as Multiset
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pruner.demo.docs import Doc, read_stdlib
from pruner.errors import ConfigError

ROOT = Path(__file__).parents[2]


def walk(docs: Iterable[Doc]) -> Iterator[Doc]:
    for doc in docs:
        yield doc
        yield from walk(doc.inner)


def texts(root: Path) -> dict[str, str]:
    return {doc.name: doc.text for doc in walk(read_stdlib(root))}


@pytest.fixture(scope="module")
def library() -> list[Doc]:
    return list(walk(read_stdlib()))


@pytest.fixture(scope="module")
def real(library: list[Doc]) -> dict[str, str]:
    return {doc.name: doc.text for doc in library}


def test_a_module_is_documented_by_its_docstring(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('"""First.\n\n    Indented.\n    """')
    assert texts(tmp_path)["alpha"] == "First.\n\nIndented."


def test_a_function_begins_with_its_signature(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('def add(a, b: int = 1, *, c=None) -> int:\n    """Add."""')
    assert texts(tmp_path)["alpha.add"] == "add(a, b: int=1, *, c=None)\nAdd."


def test_a_coroutine_says_so(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('async def wait():\n    """Wait."""')
    assert texts(tmp_path)["alpha.wait"] == "async wait()\nWait."


def test_a_method_is_named_within_its_module_and_without_self(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('class A:\n    class B:\n        def f(self, x):\n            """Do."""')
    assert texts(tmp_path)["alpha.A.B.f"] == "A.B.f(x)\nDo."


def test_a_property_has_no_arguments(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('class A:\n    @property\n    def p(self):\n        """Value."""')
    assert texts(tmp_path)["alpha.A.p"] == "A.p\nValue."


def test_a_class_tells_how_it_is_made(tmp_path: Path) -> None:
    source = 'class A:\n    """Thing."""\n    def __init__(self, x=1):\n        """Make it."""'
    (tmp_path / "alpha.py").write_text(source)
    assert texts(tmp_path)["alpha.A"] == "A(x=1)\nThing.\n\nMake it."


def test_definitions_under_a_condition_count(tmp_path: Path) -> None:
    source = 'try:\n    import beta\nexcept ImportError:\n    if True:\n        def f():\n            """Do."""'
    (tmp_path / "alpha.py").write_text(source)
    assert texts(tmp_path)["alpha.f"] == "f()\nDo."


def test_of_two_definitions_the_first_documented_one_counts(tmp_path: Path) -> None:
    source = 'def f(a):\n    pass\ndef f(b):\n    """Second."""\ndef f(c):\n    """Third."""'
    (tmp_path / "alpha.py").write_text(source)
    assert texts(tmp_path)["alpha.f"] == "f(b)\nSecond."


def test_packages_hold_their_modules(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text('"""Inside."""')
    assert texts(tmp_path)["pack.inner"] == "Inside."


@pytest.mark.parametrize("name", ["_private.py", "test.py", "idlelib.py", "no-name.py", "data.txt"])
def test_what_is_private_or_no_library_is_left_out(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('"""Hidden."""')
    (tmp_path / "alpha.py").write_text('"""Shown."""\ndef _f():\n    """Hidden."""')
    assert {text for text in texts(tmp_path).values() if text in ("Shown.", "Hidden.")} == {"Shown."}


def test_folders_that_are_no_packages_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('"""Shown."""')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beta.py").write_text('"""Hidden."""')
    assert "folder.beta" not in texts(tmp_path)


def test_source_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('"""Read only."""\nraise SystemExit("run")')
    assert texts(tmp_path)["alpha"] == "Read only."


@pytest.mark.parametrize("source", [b"def (", b"\xff\xfe\xff", b"x = '\0'"])
def test_a_file_that_does_not_parse_is_passed_over(tmp_path: Path, source: bytes) -> None:
    (tmp_path / "alpha.py").write_bytes(source)
    (tmp_path / "beta.py").write_text('"""Shown."""')
    assert texts(tmp_path)["beta"] == "Shown."


def test_a_broken_link_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").symlink_to(tmp_path / "gone.py")
    (tmp_path / "beta.py").write_text('"""Shown."""')
    assert texts(tmp_path)["beta"] == "Shown."


def test_old_escapes_in_source_do_not_warn(tmp_path: Path) -> None:
    (tmp_path / "alpha.py").write_text('"""Old \\d escape."""')
    assert texts(tmp_path)["alpha"] == "Old \\d escape."


@pytest.mark.parametrize("folder", [".", "python311.zip"])
def test_a_library_without_source_is_said_clearly(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ConfigError, match=r"no source of the standard library in .*--chunks FILE"):
        read_stdlib(tmp_path / folder)


@pytest.mark.parametrize(
    "name",
    [
        "builtins.str.split",
        "builtins.dict.get",
        "collections.OrderedDict.move_to_end",
        "functools.lru_cache",
        "functools.reduce",
        "hmac.compare_digest",
        "io.open",
        "itertools.groupby",
        "math.gcd",
        "re.Pattern.sub",
        "socket.socket.recv",
        "threading.Lock",
        "time.sleep",
    ],
)
def test_documentation_from_c_is_there(real: dict[str, str], name: str) -> None:
    assert real[name]


def test_c_signatures_do_not_show_the_bound_argument(real: dict[str, str]) -> None:
    assert real["builtins.str.split"].startswith("str.split(sep=None, maxsplit=-1)\n")


def test_a_c_doc_that_begins_with_a_signature_gets_no_other(real: dict[str, str]) -> None:
    assert real["time.strptime"].startswith("strptime(string, format) -> struct_time\n")


def test_a_name_is_documented_once(library: list[Doc]) -> None:
    assert [name for name, times in Multiset(doc.name for doc in library).items() if times > 1] == []


def test_a_module_does_not_claim_what_it_imports(real: dict[str, str]) -> None:
    assert not {"functools.RLock", "socket.SocketType", "array.ArrayType"} & set(real)


def test_reading_imports_and_prints_nothing_odd() -> None:
    program = (
        "import sys; from pruner.demo.docs import read_stdlib; read_stdlib();"
        "print({'this', 'antigravity', 'turtle', 'tkinter', 'idlelib', 'webbrowser'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("set()\n", "")
