import asyncio
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from pydantic import SecretStr

from pruner import ConfigError, PrunerConfig
from pruner.integrations.langchain import PrunerCompressor
from tests.integrations.scripted import TEXTS, make_pruner, pairs, requests_of

GRADES = pairs(1, 1, 5, 2, 3)


class Fixed(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(text) for text in TEXTS]


class Listener(BaseCallbackHandler):
    def __init__(self) -> None:
        self.runs: dict[UUID, tuple[str, UUID | None]] = {}
        self.outputs: list[Any] = []
        self.errors: list[BaseException] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.runs[kwargs["run_id"]] = (kwargs["name"], kwargs["parent_run_id"])

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        if self.runs[kwargs["run_id"]][0] == "PrunerCompressor":
            self.outputs.append(outputs)

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(error)


def compressor(**dials: Any) -> PrunerCompressor:
    return PrunerCompressor(pruner=make_pruner(GRADES, GRADES, **dials))


def retriever() -> ContextualCompressionRetriever:
    return ContextualCompressionRetriever(base_compressor=compressor(), base_retriever=Fixed())


def test_it_works_in_a_contextual_compression_retriever() -> None:
    assert [d.page_content for d in retriever().invoke("q")] == ["alpha", "beta", "gamma", "epsilon"]
    assert [d.page_content for d in asyncio.run(retriever().ainvoke("q"))] == ["alpha", "beta", "gamma", "epsilon"]


def test_it_works_in_a_chain() -> None:
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    seen: list[str] = []

    def look(value: Any) -> Any:
        seen.append(value.to_string())
        return value

    joined = retriever() | (lambda documents: " ".join(d.page_content for d in documents))
    model = FakeListChatModel(responses=["done"])
    given = {"context": joined, "question": RunnablePassthrough()}
    chain = given | prompt | RunnableLambda(look) | model | StrOutputParser()
    assert chain.invoke("q") == "done"
    assert asyncio.run(chain.ainvoke("q")) == "done"
    assert seen == ["Human: alpha beta gamma epsilon\nq"] * 2


def test_callbacks_see_a_run_with_every_decision_and_the_status() -> None:
    listener = Listener()
    compressor().compress_documents([Document(text) for text in TEXTS], "q", callbacks=[listener])
    (outputs,) = listener.outputs
    assert outputs["status"] == "ok"
    assert [d["kept"] for d in outputs["decisions"]] == [True, True, True, False, True]
    assert outputs["decisions"][3]["by"] == "below_threshold"


def test_callbacks_of_a_retriever_see_the_run_inside_their_own() -> None:
    for run in (retriever().invoke, lambda query, config: asyncio.run(retriever().ainvoke(query, config))):
        listener = Listener()
        run("q", {"callbacks": [listener]})
        (inside,) = [parent for name, parent in listener.runs.values() if name == "PrunerCompressor"]
        assert inside is not None
        assert len(listener.outputs) == 1


def test_in_a_lambda_the_run_stands_below_that_of_the_chain() -> None:
    listener = Listener()
    chain = Fixed() | RunnableLambda(lambda documents: compressor().compress_documents(documents, "q"))
    chain.invoke("q", {"callbacks": [listener]})
    names = {run: name for run, (name, _) in listener.runs.items()}
    (parent,) = [parent for name, parent in listener.runs.values() if name == "PrunerCompressor"]
    assert parent is not None
    assert names[parent] == "RunnableLambda"


def test_callbacks_see_an_error() -> None:
    listener = Listener()
    broken = PrunerCompressor(pruner=make_pruner(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        broken.compress_documents([Document(text) for text in TEXTS], "q", callbacks=[listener])
    assert [type(error) for error in listener.errors] == [ZeroDivisionError]


@pytest.mark.parametrize("score", [0.1, np.float32(0.1), 0, Decimal("0.1"), Fraction(1, 10), "0.1", " 1e-1 ", "-3"])
def test_the_score_is_read_from_the_named_key(score: Any) -> None:
    pruner = make_pruner(pairs(5, 5), min_score=0.5, keep_top_k=0)
    documents = [Document("low", metadata={"s": score}), Document("high", metadata={"s": 0.9}), Document("none")]
    kept = PrunerCompressor(pruner=pruner, score_key="s").compress_documents(documents, "q")
    assert [d.page_content for d in kept] == ["high", "none"]


@pytest.mark.parametrize("score", [None, "", "low", "0.1.2", True, [1], float("nan"), "nan", Decimal("sNaN"), 10**400])
def test_what_is_no_score_counts_as_none(score: Any) -> None:
    pruner = make_pruner(pairs(5), min_score=0.5, keep_top_k=0)
    documents = [Document("one", metadata={"relevance_score": score})]
    assert len(PrunerCompressor(pruner=pruner).compress_documents(documents, "q")) == 1


def test_title_and_date_are_shown_to_the_model_and_odd_ones_left_out() -> None:
    pruner = make_pruner(pairs(5, 5))
    documents = [
        Document("one", metadata={"title": "The Manual", "date": "2026-01-31"}),
        Document("two", metadata={"title": 7, "date": object(), 3: "no str"}),
        Document("three"),
    ]
    assert len(PrunerCompressor(pruner=pruner).compress_documents(documents, "q")) == 3
    assert "The Manual" in requests_of(pruner)[0].user


def test_a_stored_compressor_has_its_dials_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("PRUNER_THRESHOLD", "5")
    given = PrunerCompressor(pruner=PrunerConfig(threshold=4, api_key=SecretStr("sk-secret")), score_key="s")
    stored = given.model_dump_json()
    assert "sk-" not in stored
    read = PrunerCompressor.model_validate_json(stored)
    assert read.score_key == "s"
    assert read.pruner.config.threshold == 4
    assert read.pruner.config.keep_top_k == 2
    assert read.pruner.config.api_key is not None
    assert read.pruner.config.api_key.get_secret_value() == "sk-of-the-environment"


def test_only_the_key_of_stored_dials_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("PRUNER_THRESHOLD", "5")
    assert PrunerCompressor(pruner={}).pruner.config.threshold == 3


@pytest.mark.parametrize("wrong", [{"treshold": 4}, {"threshold": 9}, "openai:m", 3])
def test_a_wrong_dial_is_refused_in_one_line(wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        PrunerCompressor(pruner=wrong)
    assert "\n" not in str(caught.value)
