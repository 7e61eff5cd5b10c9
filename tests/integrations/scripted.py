import json
from typing import Any

from pruner import Pruner, PrunerConfig
from pruner.backends.scripted import Answer, ScriptedBackend

TEXTS = ["alpha", "beta", "gamma", "delta", "epsilon"]


def pairs(*grades: int) -> str:
    return json.dumps({"grades": [[label, grade] for label, grade in enumerate(grades, 1)]})


def make_pruner(*answers: Answer, **dials: Any) -> Pruner:
    return Pruner(PrunerConfig(**dials), backend=ScriptedBackend(answers))


def requests_of(pruner: Pruner) -> list[Any]:
    return pruner._backend.requests  # type: ignore[attr-defined, no-any-return]
