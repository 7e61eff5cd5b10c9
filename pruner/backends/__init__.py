"""The seam to the models: one async method. Policy, retries and reading live in `grading` and `replies`."""

from typing import Protocol, runtime_checkable

from pruner.config import PrunerConfig
from pruner.errors import ConfigError
from pruner.schema import GradingRequest, RawGrading

__all__ = ["Backend", "ClosableBackend", "check_backend", "make_backend"]


@runtime_checkable
class Backend(Protocol):
    """Whatever can be asked for grades."""

    async def grade(self, request: GradingRequest, /) -> RawGrading:
        """Ask once.

        Raises:
            BackendError: the provider or the network failed; nothing else may come out of a vendor's fault.
        """


@runtime_checkable
class ClosableBackend(Backend, Protocol):
    """A backend that holds something: connections, a model."""

    async def aclose(self) -> None:
        """Give it back; can be called again."""


def make_backend(config: PrunerConfig) -> Backend:
    """Make the backend that `config.model` names; its SDK is imported here, not during a call.

    Raises:
        ConfigError: a key, an extra or a model is missing.
    """
    if config.prefix == "local":
        from pruner.backends.local import LocalBackend

        return LocalBackend.from_config(config)
    if config.prefix == "scripted":
        from pruner.backends.scripted import ScriptedBackend

        return ScriptedBackend.from_config(config)
    if config.prefix == "anthropic":
        from pruner.backends.anthropic import AnthropicBackend

        return AnthropicBackend.from_config(config)
    if config.prefix == "litellm":
        from pruner.backends.litellm import LiteLLMBackend

        return LiteLLMBackend.from_config(config)
    from pruner.backends.openai import OpenAIBackend

    return OpenAIBackend.from_config(config)


def check_backend(backend: Backend) -> Backend:
    """Return a caller's own backend.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(backend, type):
        raise ConfigError(f"backend must be an instance, not the class {backend.__name__}: write {backend.__name__}(…)")
    if not callable(getattr(backend, "grade", None)):
        raise ConfigError(f"backend must have a method `async def grade(request)`; a {type(backend).__name__} has none")
    return backend
