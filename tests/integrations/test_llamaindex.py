import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import ImageNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from pydantic import SecretStr

from pruner import BackendError, PrunerConfig, Reason, RequestError
from pruner.backends.scripted import Answer
from pruner.integrations.llamaindex import PruneEndEvent, PrunerPostprocessor
from tests.integrations.scripted import TEXTS, make_pruner, pairs, requests_of

GRADES = pairs(1, 1, 5, 2, 3)


class Fixed(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=t, id_=t), score=1 - i / 10) for i, t in enumerate(TEXTS)]


class Listener(BaseEventHandler):
    seen: list[Any]

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.seen.append(event)


@pytest.fixture
def listener() -> Iterator[Listener]:
    root, heard = get_dispatcher(), Listener(seen=[])
    root.add_event_handler(heard)
    yield heard
    root.event_handlers.remove(heard)


def engine(answer: Answer = GRADES) -> RetrieverQueryEngine:
    postprocessor = PrunerPostprocessor(pruner=make_pruner(answer))
    return RetrieverQueryEngine.from_args(Fixed(), llm=MockLLM(), node_postprocessors=[postprocessor])


@pytest.mark.parametrize("use_async", [False, True])
def test_it_works_in_a_query_engine(use_async: bool) -> None:
    response = asyncio.run(engine().aquery("q")) if use_async else engine().query("q")
    assert [node.node.node_id for node in response.source_nodes] == ["alpha", "beta", "gamma", "epsilon"]
    assert [node.score for node in response.source_nodes] == [1, 0.9, 0.8, 0.6]
    # The mock repeats its prompt, which is what the generator reads.
    assert "gamma" in str(response)
    assert "delta" not in str(response)


def test_the_generator_does_not_read_the_grades() -> None:
    assert "grade" not in str(engine().query("q"))
    kept = PrunerPostprocessor(pruner=make_pruner(GRADES)).postprocess_nodes(Fixed().retrieve("q"), query_str="q")
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert all(node.get_content(mode) == node.node.node_id for node in kept)


def test_a_fault_does_not_stop_a_query_engine() -> None:
    assert len(engine(BackendError(Reason.AUTH)).query("q").source_nodes) == 5


def test_listeners_to_rerankers_hear_the_start_and_the_end(listener: Listener) -> None:
    engine().query("q")
    start, end = (e for e in listener.seen if isinstance(e, ReRankStartEvent | ReRankEndEvent))
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(start.query, QueryBundle)
    assert (start.query.query_str, len(start.nodes), start.model_name) == ("q", 5, "ScriptedBackend")
    assert isinstance(end, PruneEndEvent)
    assert [node.node.node_id for node in end.nodes] == ["alpha", "beta", "gamma", "epsilon"]
    assert (end.status, end.reason) == ("ok", None)
    assert [d["kept"] for d in end.decisions] == [True, True, True, False, True]
    assert json.loads(end.model_dump_json())["decisions"] == end.decisions


def test_an_event_says_why_it_fell_back(listener: Listener) -> None:
    asyncio.run(engine(BackendError(Reason.AUTH)).aquery("q"))
    (end,) = (e for e in listener.seen if isinstance(e, PruneEndEvent))
    assert (end.status, end.reason) == ("fallback", "auth")


def test_without_a_query_there_is_nothing_to_prune_by() -> None:
    with pytest.raises(RequestError, match="query_str"):
        PrunerPostprocessor(pruner=make_pruner()).postprocess_nodes(Fixed().retrieve("q"))


def test_the_kind_of_a_node_stays() -> None:
    nodes = [NodeWithScore(node=ImageNode(text=text, image="YQ==")) for text in TEXTS]
    kept = PrunerPostprocessor(pruner=make_pruner(GRADES)).postprocess_nodes(nodes, query_str="q")
    assert {type(node.node) for node in kept} == {ImageNode}


@pytest.mark.parametrize("dials", [{"extract": True}, {"expand": "section"}], ids=["extract", "expand"])
def test_the_offsets_of_another_text_are_not_kept(dials: dict[str, Any]) -> None:
    text = "Rice is boiled. Backups are kept for 14 days. The choir meets on Tuesday."
    node = TextNode(text=text, start_char_idx=10, end_char_idx=10 + len(text), metadata={"parent_id": "p"})
    made = PrunerPostprocessor(make_pruner(pairs(5), keep_top_k=0, **dials), fetch_parent=lambda name: f"More. {text}")
    (kept,) = made.postprocess_nodes([NodeWithScore(node=node)], query_str="How long are backups kept?")
    assert isinstance(kept.node, TextNode)
    assert kept.node.text != text
    assert (kept.node.start_char_idx, kept.node.end_char_idx) == (None, None)
    assert (node.start_char_idx, node.end_char_idx) == (10, 10 + len(text))


def test_metadata_for_the_generator_is_not_text_of_the_chunk() -> None:
    pruner = make_pruner(GRADES)
    nodes = [NodeWithScore(node=TextNode(text=text, metadata={"file_path": "/srv/x"})) for text in TEXTS]
    PrunerPostprocessor(pruner=pruner).postprocess_nodes(nodes, query_str="q")
    assert "/srv/x" not in requests_of(pruner)[0].user


def test_a_stored_postprocessor_has_its_dials_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    given = PrunerPostprocessor(pruner=PrunerConfig(threshold=4, api_key=SecretStr("sk-secret")))
    assert "sk-secret" not in given.to_json()
    for read in (PrunerPostprocessor.from_dict(given.to_dict()), PrunerPostprocessor.from_json(given.to_json())):
        assert read.pruner.config.threshold == 4
        assert read.class_name() == "PrunerPostprocessor"


def test_what_the_framework_gives_every_postprocessor_is_taken() -> None:
    manager = CallbackManager()
    made = PrunerPostprocessor(make_pruner(), callback_manager=manager)
    assert made.callback_manager is manager


def test_pruned_twice_the_grade_is_hidden_once() -> None:
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in TEXTS]
    once = PrunerPostprocessor(pruner=make_pruner(GRADES)).postprocess_nodes(nodes, query_str="q")
    twice = PrunerPostprocessor(pruner=make_pruner(pairs(5, 5, 5, 5))).postprocess_nodes(once, query_str="q")
    for scored in twice:
        assert scored.node.excluded_llm_metadata_keys == ["pruner"]
        assert scored.node.excluded_embed_metadata_keys == ["pruner"]
