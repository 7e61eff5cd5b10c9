"""The seam to the models: one async method. Policy, retries and reading live in `grading` and `replies`."""

from typing import Protocol, runtime_checkable

from pruner.config import PrunerConfig
from pruner.schema import GradingRequest, RawGrading

__all__ = ["Backend", "ClosableBackend", "make_backend"]


@runtime_checkable
class Backend(Protocol):
    """Whatever can be asked for grades."""

    async def grade(self, request: GradingRequest) -> RawGrading:
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
