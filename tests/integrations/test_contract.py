import asyncio
import copy
import importlib
import sys
import traceback
from typing import Any

import pytest

from pruner import BackendError, ConfigError, Reason
from pruner.backends.scripted import Answer
from pruner.integrations.agents import prune_tool_output_sync
from pruner.integrations.functions import PrunedRetriever, pruned
from pruner.integrations.haystack import PrunerComponent
from pruner.integrations.langchain import PrunerCompressor
from pruner.integrations.llamaindex import PrunerPostprocessor
from pruner.schema import RawGrading
from tests.integrations.harness import HARNESSES, Harness
from tests.integrations.scripted import make_pruner, pairs, requests_of

FAULTS: list[Answer] = [
    BackendError(Reason.AUTH),
    BackendError(Reason.PROVIDER_ERROR),
    "I would rather not.",
    "[]",
    RawGrading(text="", finish="refused"),
]
EXTRAS = [
    ("langchain", "langchain_core", "langchain-core"),
    ("llamaindex", "llama_index", "llama-index-core"),
    ("haystack", "haystack", "haystack-ai"),
    ("agents", "semchunk", "semchunk"),
]


class _Store:
    def search(self, query: str) -> list[str]:
        return []


each = pytest.mark.parametrize("harness", [pytest.param(harness, id=harness.name) for harness in HARNESSES])


@each
def test_keeps_what_the_answer_needs_in_the_order_given(harness: Harness) -> None:
    out = harness.prune(make_pruner(pairs(1, 1, 5, 2, 3)), "q", harness.docs())
    assert [harness.id(d) for d in harness.kept(out)] == ["id0", "id1", "id2", "id4"]


@each
def test_the_documents_given_stay_as_they_were(harness: Harness) -> None:
    docs = harness.docs()
    before = copy.deepcopy(docs)
    out = harness.prune(make_pruner(pairs(1, 1, 5, 2, 3)), "q", docs)
    assert docs == before
    assert not any(kept is given for kept in harness.kept(out) for given in docs)


@each
def test_kept_documents_have_all_their_metadata(harness: Harness) -> None:
    docs = harness.docs()
    out = harness.prune(make_pruner(pairs(5, 5, 5, 5, 5)), "q", docs)
    for given, kept in zip(docs, harness.kept(out), strict=True):
        assert harness.metadata(given).items() <= harness.metadata(kept).items()


@each
def test_grade_decision_and_status_can_be_read_afterwards(harness: Harness) -> None:
    out = harness.prune(make_pruner(pairs(1, 2, 5, 2, 3)), "q", harness.docs())
    marks = harness.marks(out)
    assert [mark["grade"] for mark in marks] == [1, 2, 5, 3]
    assert [mark["by"] for mark in marks] == ["keep_top_k", "keep_top_k", "grade", "grade"]
    assert {(mark["status"], mark["reason"], mark["expected"]) for mark in marks} == {("ok", None, None)}


@each
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_of_the_provider_keeps_the_list_and_says_so(harness: Harness, fault: Answer) -> None:
    out = harness.prune(make_pruner(fault, timeout=0.3), "q", harness.docs())
    assert [harness.id(d) for d in harness.kept(out)] == ["id0", "id1", "id2", "id3", "id4"]
    marks = harness.marks(out)
    assert {(mark["status"], mark["grade"], mark["by"]) for mark in marks} == {("fallback", None, "fallback")}
    assert all(mark["reason"] for mark in marks)


@each
def test_a_partial_reply_keeps_what_it_left_out(harness: Harness) -> None:
    out = harness.prune(make_pruner(pairs(1, 1, 1)), "q", harness.docs())
    assert [harness.id(d) for d in harness.kept(out)] == ["id0", "id1", "id3", "id4"]
    assert {mark["status"] for mark in harness.marks(out)} == {"partial"}


@each
@pytest.mark.parametrize("keep_top_k", [0, 2])
def test_nothing_given_makes_no_call(harness: Harness, keep_top_k: int) -> None:
    pruner = make_pruner(keep_top_k=keep_top_k)
    assert harness.kept(harness.prune(pruner, "q", [])) == []
    assert requests_of(pruner) == []


@each
def test_awaited_it_gives_the_same(harness: Harness) -> None:
    async def run() -> Any:
        return await harness.aprune(make_pruner(pairs(1, 1, 5, 2, 3)), "q", harness.docs())

    assert harness.kept(asyncio.run(run())) == harness.kept(
        harness.prune(make_pruner(pairs(1, 1, 5, 2, 3)), "q", harness.docs())
    )


@each
def test_synchronous_use_works_under_a_running_loop(harness: Harness) -> None:
    async def run() -> Any:
        return harness.prune(make_pruner(pairs(1, 1, 5, 2, 3)), "q", harness.docs())

    assert len(harness.kept(asyncio.run(run()))) == 4


@each
def test_one_pruner_serves_many_calls_at_once(harness: Harness) -> None:
    pruner = make_pruner(*[pairs(1, 1, 5, 2, 3)] * 8)

    async def run() -> list[Any]:
        return await asyncio.gather(*(harness.aprune(pruner, "q", harness.docs()) for _ in range(8)))

    assert [len(harness.kept(out)) for out in asyncio.run(run())] == [4] * 8


@each
def test_the_model_reads_the_texts(harness: Harness) -> None:
    pruner = make_pruner(pairs(5, 5, 5, 5, 5))
    harness.prune(pruner, "where is gamma?", harness.docs())
    (request,) = requests_of(pruner)
    assert "where is gamma?" in request.user
    assert all(text in request.user for text in ("alpha", "epsilon"))


@each
def test_a_kept_document_survives_its_own_serialisation(harness: Harness) -> None:
    out = harness.prune(make_pruner(pairs(5, 5, 5, 5, 5)), "q", harness.docs())
    for document in harness.kept(out):
        assert harness.stored(document) == document


@each
def test_cancelling_the_caller_is_not_a_fault(harness: Harness) -> None:
    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await harness.aprune(make_pruner(asyncio.CancelledError()), "q", harness.docs())

    asyncio.run(run())


@each
def test_a_bug_is_not_a_fault(harness: Harness) -> None:
    with pytest.raises(ZeroDivisionError):
        harness.prune(make_pruner(ZeroDivisionError()), "q", harness.docs())


@pytest.mark.parametrize("name", ["metadata_key", "principal", "acl", "top_n"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **given: PrunerCompressor(make_pruner(), **given),
        lambda **given: PrunerCompressor.model_validate({"pruner": make_pruner(), **given}),
        lambda **given: PrunerPostprocessor(make_pruner(), **given),
        lambda **given: PrunerPostprocessor.from_dict({"pruner": make_pruner(), **given}),
        lambda **given: PrunerPostprocessor.model_validate({"pruner": make_pruner(), **given}),
        lambda **given: PrunerComponent(make_pruner(), **given),
        lambda **given: PrunerComponent(make_pruner()).run(query="q", documents=[], **given),
        lambda **given: pruned(pruner=make_pruner(), **given),
        lambda **given: PrunedRetriever(_Store(), make_pruner(), **given),
        lambda **given: prune_tool_output_sync("q", [], pruner=make_pruner(), **given),
    ],
)
def test_an_argument_that_there_is_not_is_refused_in_one_line(make: Any, name: str) -> None:
    with pytest.raises(TypeError, match=name) as caught:
        make(**{name: ["staff"]})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [ConfigError, ImportError])
@pytest.mark.parametrize(("module", "root", "package"), EXTRAS)
def test_without_its_extra_the_import_says_what_to_install(
    module: str, root: str, package: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [root, *sys.modules]:
        if name.partition(".")[0] == root:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"pruner.integrations.{module}")
    with pytest.raises(kind) as caught:
        importlib.import_module(f"pruner.integrations.{module}")
    message = f'pruner.integrations.{module} needs {package}: pip install "listwise-pruner[{module}]"'
    assert str(caught.value) == message
    assert len(traceback.format_exception(caught.value)) == len(traceback.format_exception(caught.value, chain=False))
