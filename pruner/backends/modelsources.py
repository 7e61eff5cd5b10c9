"""What a model and a source of models are, and the first source: the Hugging Face hub.

A source only fetches. What it returns is untrusted until `modelstore.pull` has checked its sha256.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from pruner.errors import ConfigError

__all__ = ["HubFile", "Model", "Source", "bytes_under", "reason"]

T = TypeVar("T")


@dataclass(frozen=True)
class Model:
    """A model file: what it is, the hash it is trusted by, and where its bytes lie (sizes in bytes)."""

    name: str
    file: str
    size: int
    sha256: str
    hf_repo: str
    hf_file: str
    licence: str
    parts_package: str
    parts_version: str
    parts: int
    part_size: int = 50 * 2**20

    def bytes_of(self, number: int) -> int:
        """Size of part `number` (from 1): all are equal, the last holds the rest."""
        return min(self.part_size, self.size - (number - 1) * self.part_size)


class Source(Protocol):
    """Somewhere to fetch a model from.

    A call puts the model's bytes into one file below `folder` and returns it; it may find there what an earlier,
    interrupted call left. It raises `ConfigError` where it can't deliver, and the next source is tried.
    """

    @property
    def name(self) -> str:
        """What the user is told, and the name of the source's folder."""

    @property
    def copies(self) -> int:
        """How many times the model's size it needs on disk at its peak."""

    def __call__(self, model: Model, folder: Path) -> Path:
        """Fetch the model and return its file, not yet checked."""


def reason(error: BaseException) -> str:
    """What an error says, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def bytes_under(path: Path) -> int:
    """Bytes in a file, or in all files of a folder; what isn't there, or vanishes meanwhile, counts as nothing."""
    try:
        return sum(bytes_under(below) for below in path.iterdir()) if path.is_dir() else path.stat().st_size
    except FileNotFoundError:
        return 0


@dataclass(frozen=True)
class HubFile:
    """The model as one file from the Hugging Face hub.

    Args:
        endpoint: the hub's address, where it isn't the usual one.
        patience: seconds for the hub to say that it has the file; there may be no route to it at all.
    """

    name: str = "huggingface-hub"
    copies: int = 1
    endpoint: str | None = None
    patience: float = 5.0

    def __call__(self, model: Model, folder: Path) -> Path:
        """Append to what an interrupted call left; `hf_hub_download` would begin anew."""
        try:
            import httpx2
            from huggingface_hub.file_download import http_get
        except ImportError as error:
            raise ConfigError(f"huggingface_hub cannot be used: {reason(error)}") from error
        target = folder / "model.gguf"
        if bytes_under(target) > model.size:
            target.unlink()  # nothing that could go on from there
        try:
            url = self._ask(model)
            with target.open("ab") as file:
                http_get(url, file, resume_size=file.tell(), expected_size=model.size, displayed_filename=model.file)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, RuntimeError) as error:
            raise ConfigError(reason(error)) from error
        return target

    def _ask(self, model: Model) -> str:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url = hf_hub_url(model.hf_repo, model.hf_file, endpoint=self.endpoint)
        # token=False: an outdated token of the user's must not close a public file.
        ask = partial(get_hf_file_metadata, url, token=False, timeout=self.patience, endpoint=self.endpoint)
        if (size := _within(self.patience, ask).size) != model.size:
            raise ConfigError(f"the file there has {size} bytes, not {model.size}")
        return url


def _within(seconds: float, ask: Callable[[], T]) -> T:
    """Call in a daemon thread and give up on time: a host name's look-up can hang, and takes no timeout."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError as error:
        raise ConfigError(f"no answer within {seconds:g} s") from error
