"""Copies, pickles and schemas of what holds a pruner: one set of promises for all of them."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from haystack import Pipeline
from haystack.utils import Secret
from pydantic import SecretStr
from pydantic_core import PydanticSerializationError

from pruner import ConfigError, Pruner, PrunerConfig
from pruner.integrations.haystack import PrunerComponent
from pruner.integrations.langchain import PrunerCompressor
from pruner.integrations.llamaindex import PrunerPostprocessor
from tests.integrations.scripted import make_pruner

MADE: dict[str, tuple[Callable[[Pruner], Any], Callable[[Any], Pruner]]] = {
    "pruner": (lambda pruner: pruner, lambda made: made),
    "langchain": (lambda pruner: PrunerCompressor(pruner=pruner), lambda made: made.pruner),
    "llamaindex": (lambda pruner: PrunerPostprocessor(pruner=pruner), lambda made: made.pruner),
    "haystack": (PrunerComponent, lambda made: made._maker.make()),
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


CONFIG = PrunerConfig(threshold=4, api_key=SecretStr("sk-secret"))


@pytest.mark.parametrize("given", [CONFIG, {"threshold": 4, "api_key": "sk-secret"}], ids=["config", "mapping"])
@pytest.mark.parametrize("make", [PrunerCompressor, PrunerPostprocessor, PrunerComponent])
@pytest.mark.parametrize("used", [False, True])
def test_whatever_a_component_was_made_from_its_pickle_has_no_key(
    make: Any, given: Any, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = make(given)
    if used and make is PrunerComponent:
        made.warm_up()
    pickled = pickle.dumps(made)
    assert b"sk-" not in pickled
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    read = pickle.loads(pickled)
    config = (read._maker.make() if make is PrunerComponent else read.pruner).config
    assert (config.threshold, config.api_key.get_secret_value()) == (4, "sk-of-the-environment")


def test_a_pickled_secret_is_the_name_of_a_variable_and_never_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-mine")
    named = PrunerComponent({}, api_key=Secret.from_env_var("MY_KEY"))
    named.warm_up()
    pickled = pickle.dumps(named)
    assert b"sk-" not in pickled
    assert pickle.loads(pickled).api_key == Secret.from_env_var("MY_KEY")
    token = pickle.dumps(PrunerComponent({}, api_key=Secret.from_token("sk-secret")))
    assert b"sk-" not in token
    assert pickle.loads(token).api_key is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_in_the_same_process_keeps_the_key(copied: Any) -> None:
    config = copied(PrunerComponent(CONFIG))._maker.make().config
    assert config.api_key.get_secret_value() == "sk-secret"


@each
def test_a_pruner_with_a_backend_of_its_own_is_not_pickled(make: Any, pruner_of: Any) -> None:
    pruner = make_pruner()
    made = make(pruner)
    with pytest.raises(TypeError, match="cannot be pickled; make it anew"):
        pickle.dumps(made)
    assert pruner_of(made) is pruner


def _in_pipeline(pruner: Pruner) -> Pipeline:
    made = Pipeline()
    made.add_component("pruner", PrunerComponent(pruner))
    return made


@pytest.mark.parametrize(
    "store",
    [
        lambda pruner: PrunerCompressor(pruner).model_dump(),
        lambda pruner: PrunerCompressor(pruner).model_dump_json(),
        lambda pruner: PrunerPostprocessor(pruner).to_dict(),
        lambda pruner: PrunerPostprocessor(pruner).to_json(),
        lambda pruner: PrunerComponent(pruner).to_dict(),
        lambda pruner: _in_pipeline(pruner).dumps(),
    ],
)
def test_a_pruner_with_a_backend_of_its_own_is_not_stored_as_another_model(store: Any) -> None:
    with pytest.raises((ConfigError, PydanticSerializationError)) as caught:
        store(make_pruner())
    assert "a Pruner with a backend of its own cannot be stored; make it anew" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", [PrunerCompressor, PrunerPostprocessor])
def test_a_schema_describes_the_pruner_as_its_dials(model: Any) -> None:
    assert model.model_json_schema()["properties"]["pruner"]["type"] == "object"
