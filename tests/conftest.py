import os
import shutil

import pytest
from hypothesis import settings

from pruner.backends.modelstore import DEFAULT_MODEL, model_path
from pruner.errors import ConfigError

# How long an example takes says nothing on a busy machine.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

FORBIDDEN = set(filter(None, os.environ.get("PRUNER_TEST_FORBID_SKIPS", "").split(",")))


def _has_model() -> bool:
    try:
        model_path(DEFAULT_MODEL)
    except ConfigError:
        return False
    return True


ABSENT = {
    "local_model": (_has_model, "the embedded model is absent: run `pruner model pull`"),
    "browser": (lambda: bool(shutil.which("chromium")), "no Chromium on this machine"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for mark, (present, why) in ABSENT.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        if not marked or present():
            continue
        if mark in FORBIDDEN:
            pytest.exit(f"{why}, and skipping is forbidden", returncode=1)
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PRUNER_", "OPENAI_", "ANTHROPIC_", "TIKTOKEN_", "DATA_GYM_")):
            monkeypatch.delenv(name)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
