import hashlib
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pruner.backends import modelstore
from pruner.backends.modelstore import (
    DEFAULT_MODEL,
    MODELS,
    Model,
    cache_dir,
    find_model,
    installed,
    model_path,
    pull,
)
from pruner.errors import ConfigError
from tests.backends.tiny import CONTENT, TINY


@dataclass
class Fake:
    """A source that delivers what the test gave it, or fails."""

    name: str = "fake"
    copies: int = 1
    content: bytes = CONTENT
    error: BaseException | None = None
    before: Callable[[], object] = lambda: None
    found: list[list[str]] = field(default_factory=list)

    def __call__(self, model: Model, folder: Path) -> Path:
        self.found.append(sorted(file.name for file in folder.iterdir()))
        self.before()
        target = folder / "fetched"
        target.write_bytes(self.content)
        if self.error:
            raise self.error
        return target


def files_below(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "tiny", TINY)


def test_a_pull_brings_the_file_into_the_cache_and_names_the_source(tmp_path: Path) -> None:
    said: list[str] = []
    path = pull(TINY, tmp_path, echo=said.append, sources=[Fake()])
    assert path == tmp_path / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert "from fake" in said[-1]


def test_a_finished_pull_leaves_nothing_but_the_file(tmp_path: Path) -> None:
    pull(TINY, tmp_path, sources=[Fake("first", error=ConfigError("no route")), Fake()])
    assert files_below(tmp_path) == ["tiny.gguf"]
    assert not (tmp_path / "tiny.gguf.partial").exists()


def test_a_second_pull_fetches_nothing_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    source = Fake()
    first = pull(TINY, tmp_path, sources=[source])
    assert pull(TINY, tmp_path, echo=said.append, sources=[source]) == first
    assert len(source.found) == 1
    assert said == [f"tiny is already here: {first}"]


def test_a_checking_pull_replaces_a_damaged_file_and_leaves_a_good_one(tmp_path: Path) -> None:
    source = Fake()
    path = pull(TINY, tmp_path, sources=[source])
    assert pull(TINY, tmp_path, sources=[source], check=True) == path
    assert len(source.found) == 1
    path.write_bytes(b"\0" * len(CONTENT))
    said: list[str] = []
    pull(TINY, tmp_path, echo=said.append, sources=[source], check=True)
    assert path.read_bytes() == CONTENT
    assert "is damaged" in said[0]


def test_the_next_source_is_used_when_the_first_cannot_deliver(tmp_path: Path) -> None:
    said: list[str] = []
    path = pull(TINY, tmp_path, echo=said.append, sources=[Fake("hub", error=ConfigError("no route")), Fake("index")])
    assert path.read_bytes() == CONTENT
    assert "hub cannot deliver: no route" in said
    assert "from index" in said[-1]


def test_the_error_names_every_source_that_was_tried(tmp_path: Path) -> None:
    sources = [Fake("hub", error=ConfigError("no route")), Fake("index", error=ConfigError("no such package"))]
    with pytest.raises(ConfigError, match=r"hub: no route; index: no such package") as caught:
        pull(TINY, tmp_path, sources=sources)
    assert "\n" not in str(caught.value)


def test_a_wrong_hash_leaves_no_file_and_names_the_sources(tmp_path: Path) -> None:
    wrong = bytes(len(CONTENT))
    with pytest.raises(ConfigError, match=r"hub: what came is not tiny\.gguf.*; index: what came"):
        pull(TINY, tmp_path, sources=[Fake("hub", content=wrong), Fake("index", content=wrong)])
    assert files_below(tmp_path) == []


def test_a_wrong_hash_from_one_source_is_made_good_by_the_next(tmp_path: Path) -> None:
    path = pull(TINY, tmp_path, sources=[Fake("hub", content=b"GGUF other model"), Fake("index")])
    assert path.read_bytes() == CONTENT


def test_what_a_failed_source_fetched_is_there_for_the_next_pull(tmp_path: Path) -> None:
    source = Fake(error=ConfigError("cable pulled"))
    for _ in range(2):
        with pytest.raises(ConfigError, match="cable pulled"):
            pull(TINY, tmp_path, sources=[source])
    assert source.found == [[], ["fetched"]]


def test_a_half_file_at_the_final_path_does_not_count_and_is_replaced(tmp_path: Path, known: None) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT[:100])
    with pytest.raises(ConfigError, match="pruner model pull tiny"):
        model_path("tiny", tmp_path)
    assert pull(TINY, tmp_path, sources=[Fake()]).read_bytes() == CONTENT


def test_stopping_it_is_one_line_and_leaves_no_file_in_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stopped; `pruner model pull` goes on") as caught:
        pull(TINY, tmp_path, sources=[Fake(error=KeyboardInterrupt())])
    assert isinstance(caught.value.__cause__, KeyboardInterrupt)
    assert not (tmp_path / "tiny.gguf").exists()
    assert files_below(tmp_path / "tiny.gguf.partial") == ["fetched"]


def test_on_a_full_disk_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1_000_000))
    source = Fake()
    with pytest.raises(ConfigError, match=r"fake: needs 0\.1 GB in .*, 0\.0 GB are free"):
        pull(TINY, tmp_path, sources=[source])
    assert source.found == []


@pytest.mark.parametrize(("copies", "enough"), [(1, True), (2, False)])
def test_a_source_that_needs_two_copies_asks_for_the_space_of_two(
    copies: int, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=modelstore.MARGIN + TINY.size))
    source = Fake(copies=copies, error=ConfigError("asked"))
    with pytest.raises(ConfigError):
        pull(TINY, tmp_path, sources=[source])
    assert bool(source.found) is enough


def test_what_is_already_fetched_needs_no_more_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = tmp_path / "tiny.gguf.partial" / "fake"
    partial.mkdir(parents=True)
    (partial / "part").write_bytes(CONTENT[:-1])
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=modelstore.MARGIN + 1))
    assert pull(TINY, tmp_path, sources=[Fake()]).is_file()


def test_a_cache_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(ConfigError, match=r"cannot keep the model in .*cache: .*; set PRUNER_CACHE_DIR"):
        pull(TINY, tmp_path / "cache", sources=[Fake()])


def test_of_two_pulls_at_once_the_second_waits_and_finds_the_file(tmp_path: Path) -> None:
    fetching, second_waits = threading.Event(), threading.Event()

    def until_the_second_waits() -> None:
        fetching.set()
        assert second_waits.wait(30)

    source = Fake(before=until_the_second_waits)
    first = threading.Thread(target=pull, args=(TINY, tmp_path), kwargs={"sources": [source]})
    first.start()
    assert fetching.wait(30)
    said: list[str] = []

    def echo(line: str) -> None:
        said.append(line)
        second_waits.set()

    path = pull(TINY, tmp_path, echo=echo, sources=[source])
    first.join()
    assert said == ["another pull is at it: waiting", f"tiny is already here: {path}"]
    assert len(source.found) == 1


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(ConfigError, match=r"pip install 'listwise-pruner\[local\]'"):
        pull(TINY, tmp_path, sources=[Fake()])


def test_the_path_of_a_pulled_model_is_its_file_in_the_cache(tmp_path: Path, known: None) -> None:
    pulled = pull(TINY, tmp_path, sources=[Fake()])
    assert model_path("tiny", tmp_path) == pulled


def test_a_model_that_was_not_pulled_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run `pruner model pull`$"):
        model_path(DEFAULT_MODEL, tmp_path)


def test_a_cache_folder_that_cannot_be_looked_into_holds_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", denied)
    with pytest.raises(ConfigError, match="run `pruner model pull`"):
        model_path(DEFAULT_MODEL, tmp_path)


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"unknown model 'gpt': known are {DEFAULT_MODEL}"):
        model_path("gpt", tmp_path)
    with pytest.raises(ConfigError, match="unknown model 'gpt'"):
        find_model("gpt")


def test_a_path_to_a_gguf_file_is_taken_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own.GGUF"
    own.write_bytes(b"GGUF\3\0\0\0")
    assert model_path(str(own)) == own


def test_a_path_may_start_at_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own.gguf").write_bytes(b"GGUF\3\0\0\0")
    assert model_path("~/own.gguf") == tmp_path / "own.gguf"


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>not found</html>")
    with pytest.raises(ConfigError, match=r"page\.gguf is not a GGUF file"):
        model_path(str(tmp_path / "page.gguf"))


@pytest.mark.parametrize("name", ["missing.gguf", "folder.gguf", "~nobody-of-that-name/x.gguf", "nul\0.gguf"])
def test_a_path_that_cannot_be_read_is_a_clear_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(ConfigError, match="cannot read the model file"):
        model_path(name)


def test_the_list_says_which_models_are_present(tmp_path: Path, known: None) -> None:
    pull(TINY, tmp_path, sources=[Fake()])
    rows = {row.name: row for row in installed(tmp_path)}
    assert (rows["tiny"].present, rows[DEFAULT_MODEL].present) == (True, False)
    assert rows[DEFAULT_MODEL].licence == "Apache-2.0"
    assert rows[DEFAULT_MODEL].path.parent == tmp_path


def test_the_users_own_cache_folder_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRUNER_CACHE_DIR", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
    with pytest.raises(ConfigError, match="own"):
        model_path(DEFAULT_MODEL)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/pruner"),
        ("linux", {}, "/home/me/.cache/pruner"),
        ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "/home/me/Library/Caches/pruner"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/pruner"),
    ],
)
def test_the_cache_folder_follows_the_platform(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert cache_dir() == Path(expected)


def test_the_parts_of_each_known_model_add_up_to_its_size() -> None:
    for model in MODELS.values():
        sizes = [model.bytes_of(number) for number in range(1, model.parts + 1)]
        assert sum(sizes) == model.size
        assert min(sizes) > 0
    assert MODELS[DEFAULT_MODEL].bytes_of(22) == 16_315_968


def test_a_model_is_known_by_its_own_name() -> None:
    assert all(name == model.name for name, model in MODELS.items())


def test_sources_share_nothing_below_the_partial_folder(tmp_path: Path) -> None:
    second = Fake("index")
    pull(TINY, tmp_path, sources=[Fake("hub", error=ConfigError("cable pulled")), second])
    assert second.found == [[]]


@pytest.mark.local_model
def test_the_model_on_this_machine_has_the_published_bytes() -> None:
    with model_path(DEFAULT_MODEL).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == MODELS[DEFAULT_MODEL].sha256


def test_a_model_of_the_right_size_and_wrong_bytes_is_never_installed(tmp_path: Path) -> None:
    other = replace(TINY, sha256=hashlib.sha256(b"other").hexdigest())
    with pytest.raises(ConfigError, match="its sha256 is"):
        pull(other, tmp_path, sources=[Fake()])
    assert not (tmp_path / "tiny.gguf").exists()
