import asyncio
from pathlib import Path
from typing import Any

import haystack.telemetry._telemetry
import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.core.errors import DeserializationError
from haystack.dataclasses import ByteStream
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret
from pydantic import SecretStr

from pruner import BackendError, ConfigError, Pruner, PrunerConfig, Reason
from pruner.integrations.haystack import PrunerComponent
from tests.integrations.scripted import TEXTS, make_pruner, pairs, requests_of
from tests.provider import chat, serve

GRADES = pairs(1, 1, 5, 2, 3)
ALLOWED = ["pruner.integrations.haystack"]


@component
class Fixed:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(id=text, content=text) for text in TEXTS]}


def pipeline(pruner: Any, retriever: Any = None, **options: Any) -> Pipeline:
    made = Pipeline()
    made.add_component("retriever", retriever or Fixed())
    made.add_component("pruner", PrunerComponent(pruner, **options))
    template = "{% for d in documents %}{{ d.content }} {% endfor %}{{ query }}"
    made.add_component("prompt", PromptBuilder(template, required_variables=["documents", "query"]))
    made.connect("retriever.documents", "pruner.documents")
    made.connect("pruner.documents", "prompt.documents")
    return made


def run(made: Pipeline, *, use_async: bool = False) -> dict[str, Any]:
    data = {name: {"query": "what is gamma"} for name in ("retriever", "pruner", "prompt")}
    outputs = {"pruner", "prompt"}
    if use_async:
        return asyncio.run(made.run_async(data, include_outputs_from=outputs))
    return made.run(data, include_outputs_from=outputs)


@pytest.mark.parametrize("use_async", [False, True])
def test_it_works_in_a_pipeline(use_async: bool) -> None:
    out = run(pipeline(make_pruner(GRADES)), use_async=use_async)
    assert out["prompt"]["prompt"] == "alpha beta gamma epsilon what is gamma"
    assert (out["pruner"]["status"], out["pruner"]["reason"]) == ("ok", None)
    assert [d["kept"] for d in out["pruner"]["decisions"]] == [True, True, True, False, True]


@pytest.mark.parametrize("use_async", [False, True])
def test_a_fault_does_not_stop_a_pipeline(use_async: bool) -> None:
    out = run(pipeline(make_pruner(BackendError(Reason.AUTH))), use_async=use_async)
    assert out["prompt"]["prompt"] == "alpha beta gamma delta epsilon what is gamma"
    assert (out["pruner"]["status"], out["pruner"]["reason"]) == ("fallback", "auth")


def test_it_takes_what_a_retriever_of_the_framework_gives() -> None:
    store = InMemoryDocumentStore()
    store.write_documents([Document(content=f"{text} gamma") for text in TEXTS])
    out = run(pipeline(make_pruner(GRADES), InMemoryBM25Retriever(store)))
    assert [d.score is not None for d in out["pruner"]["documents"]] == [True] * 4


def test_a_pipeline_survives_yaml_with_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    dials = {"model": "openai:m", "threshold": 4, "keep_top_k": 0}
    secret = Secret.from_env_var("MY_KEY")
    made = pipeline(dials, InMemoryBM25Retriever(InMemoryDocumentStore()), api_key=secret)
    read = Pipeline.loads(made.dumps(), allowed_modules=ALLOWED)
    assert read.to_dict()["components"] == made.to_dict()["components"]
    assert sorted(map(str, read.to_dict()["connections"])) == sorted(map(str, made.to_dict()["connections"]))
    stored: Any = read.get_component("pruner")
    assert stored.api_key == secret
    monkeypatch.setenv("MY_KEY", "sk-mine")
    read.warm_up()
    config = stored._maker.make().config
    assert (config.model, config.threshold, config.keep_top_k) == ("openai:m", 4, 0)
    assert config.api_key.get_secret_value() == "sk-mine"


def test_a_stored_pipeline_runs(tmp_path: Path) -> None:
    replies = tmp_path / "replies"
    replies.write_text(GRADES)
    store = InMemoryDocumentStore()
    store.write_documents([Document(content=f"{text} gamma") for text in TEXTS])
    made = pipeline({"model": f"scripted:{replies}"}, InMemoryBM25Retriever(store))
    read = Pipeline.loads(made.dumps(), allowed_modules=ALLOWED)
    assert len(run(read)["pruner"]["documents"]) == 4


def test_a_stored_pipeline_is_read_only_by_those_who_trust_it() -> None:
    stored = pipeline({"model": "openai:m"}, InMemoryBM25Retriever(InMemoryDocumentStore())).dumps()
    with pytest.raises(DeserializationError):
        Pipeline.loads(stored)


@pytest.mark.parametrize(
    "given", [{"threshold": 4, "api_key": "sk-secret"}, PrunerConfig(threshold=4, api_key=SecretStr("sk-secret"))]
)
def test_a_stored_component_has_its_dials_and_no_key(given: Any) -> None:
    stored = PrunerComponent(given).to_dict()
    others: dict[str, Any] = {"api_key": None, "metadata_keys": {}, "fetch_parent": None}
    assert stored["init_parameters"] == {"pruner": {"threshold": 4.0}, **others}
    assert PrunerComponent.from_dict(stored).dials == {"threshold": 4.0}


def test_the_dials_of_a_pruner_that_was_given_are_stored() -> None:
    given = Pruner(PrunerConfig(threshold=4, api_key=SecretStr("sk-secret")))
    assert PrunerComponent(given).to_dict()["init_parameters"]["pruner"] == {"threshold": 4.0}


def test_a_key_given_as_token_is_never_stored() -> None:
    with pytest.raises(ValueError, match="token"):
        PrunerComponent({}, api_key=Secret.from_token("sk-secret")).to_dict()


def test_the_key_of_the_secret_is_the_one_sent() -> None:
    with serve(chat(GRADES)) as provider:
        dials = {"model": "openai:m", "base_url": provider.url}
        made = PrunerComponent(dials, api_key=Secret.from_token("sk-secret"))
        assert len(made.run(query="q", documents=Fixed().run("q")["documents"])["documents"]) == 4
    assert provider.headers[0]["authorization"] == "Bearer sk-secret"


def test_a_component_is_made_without_a_key_and_warmed_up_with_one() -> None:
    made = PrunerComponent({"model": "openai:m"})
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        made.warm_up()


def test_a_secret_that_is_not_set_is_refused_at_warm_up_in_one_line() -> None:
    component = PrunerComponent({}, api_key=Secret.from_env_var("NO_SUCH_KEY"))
    with pytest.raises(ConfigError, match=r"^api_key: .*NO_SUCH_KEY.*$"):
        component.warm_up()


@pytest.mark.parametrize("wrong", [{"treshold": 4}, {"threshold": 9}, 3])
def test_a_wrong_dial_is_refused_when_the_component_is_made(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        PrunerComponent(wrong)


def test_a_picture_without_text_stays_one() -> None:
    pruner = make_pruner(pairs(5, 5, 5))
    pictures = [Document(blob=ByteStream(b"x", mime_type="image/png"), id=str(n)) for n in range(3)]
    kept = PrunerComponent(pruner).run(query="q", documents=pictures)["documents"]
    assert [(d.content, d.blob.data) for d in kept] == [(None, b"x")] * 3


def test_closing_a_pipeline_leaves_a_pruner_of_the_callers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Pruner] = []

    async def close(pruner: Pruner) -> None:
        closed.append(pruner)

    monkeypatch.setattr(Pruner, "aclose", close)
    asyncio.run(pipeline(make_pruner()).close_async())
    assert closed == []
    own = pipeline({"model": "openai:m", "api_key": "k"})
    own.warm_up()
    asyncio.run(own.close_async())
    assert len(closed) == 1


def test_a_pipeline_can_be_run_again_after_it_was_closed(tmp_path: Path) -> None:
    replies = tmp_path / "replies"
    replies.write_text(GRADES)
    made = pipeline({"model": f"scripted:{replies}"})
    run(made)
    asyncio.run(made.close_async())
    assert len(run(made)["pruner"]["documents"]) == 4


def test_a_key_for_a_pruner_that_has_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="has its key already"):
        PrunerComponent(make_pruner(), api_key=Secret.from_token("k"))


def test_the_tests_do_not_phone_home() -> None:
    assert haystack.telemetry._telemetry.telemetry is None


def test_one_call_for_one_list() -> None:
    pruner = make_pruner(GRADES)
    run(pipeline(pruner))
    assert len(requests_of(pruner)) == 1
