"""Copies, pickles and schemas of what holds a pruner: one set of promises for all of them."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from pruner import Pruner, PrunerConfig
from pruner.integrations.haystack import PrunerComponent
from pruner.integrations.langchain import PrunerCompressor
from pruner.integrations.llamaindex import PrunerPostprocessor
from tests.integrations.scripted import make_pruner

MADE: dict[str, tuple[Callable[[Pruner], Any], Callable[[Any], Pruner]]] = {
    "pruner": (lambda pruner: pruner, lambda made: made),
    "langchain": (lambda pruner: PrunerCompressor(pruner=pruner), lambda made: made.pruner),
    "llamaindex": (lambda pruner: PrunerPostprocessor(pruner=pruner), lambda made: made.pruner),
    "haystack": (PrunerComponent, lambda made: made._warm()),
}

each = pytest.mark.parametrize(("make", "pruner_of"), [pytest.param(*two, id=name) for name, two in MADE.items()])


@each
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_shares_the_pruner(make: Any, pruner_of: Any, copied: Any) -> None:
    pruner = make_pruner()
    assert pruner_of(copied(make(pruner))) is pruner


@each
def test_a_pickle_has_the_dials_and_no_key(make: Any, pruner_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "7")
    pickled = pickle.dumps(make(Pruner(PrunerConfig(threshold=4, api_key=SecretStr("sk-secret")))))
    assert b"sk-" not in pickled
    config = pruner_of(pickle.loads(pickled)).config
    assert (config.threshold, config.keep_top_k) == (4, 2)
    assert config.api_key.get_secret_value() == "sk-of-the-environment"


@each
def test_a_pruner_with_a_backend_of_its_own_is_not_pickled(make: Any, pruner_of: Any) -> None:
    pruner = make_pruner()
    made = make(pruner)
    with pytest.raises(TypeError, match="cannot be pickled; make it anew"):
        pickle.dumps(made)
    assert pruner_of(made) is pruner


@pytest.mark.parametrize("model", [PrunerCompressor, PrunerPostprocessor])
def test_a_schema_describes_the_pruner_as_its_dials(model: Any) -> None:
    assert model.model_json_schema()["properties"]["pruner"]["type"] == "object"
