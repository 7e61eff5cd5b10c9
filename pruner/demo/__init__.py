"""What `pruner demo` works on: real documentation, found on the machine it runs on."""

from importlib.util import find_spec

from pruner.errors import ConfigError

__all__ = ["check_installed"]


def check_installed(prefix: str) -> None:
    """Look for all that the demo needs with a model of that kind, before it takes its time.

    Raises:
        ConfigError: something is not installed.
    """
    needed = ["bm25s", *(["xllamacpp", "huggingface_hub", "tqdm"] if prefix == "local" else [])]
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ConfigError(f"the demo needs {', '.join(missing)}: pip install 'listwise-pruner[demo]'")
