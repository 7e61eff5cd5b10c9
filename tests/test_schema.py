import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from pruner import Pruner, PrunerConfig, PruneResult
from pruner.backends.scripted import ScriptedBackend
from pruner.schema import Counter
from pruner.tokens import TokenCounter

CHUNKS = [f"Chunk {n} says what it says." for n in range(6)]
REPLY = str([[n, 5 if n < 4 else 1] for n in range(1, 7)])


class Unpicklable:
    """Counts words, by a function that no pickle can hold."""

    def __init__(self) -> None:
        self._count: Callable[[str], int] = lambda text: len(text.split())

    def count(self, text: str) -> int:
        return self._count(text)


def pruned(counter: Counter | None = None, **dials: Any) -> PruneResult[str]:
    config = PrunerConfig(api_key=SecretStr("sk-secret"), **dials)
    return Pruner(config, backend=ScriptedBackend([REPLY]), counter=counter).prune_sync("q", CHUNKS)


def repickled(result: Any) -> Any:
    return pickle.loads(pickle.dumps(result))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, repickled])
@pytest.mark.parametrize("counter", [None, TokenCounter(), Unpicklable()], ids=["none", "ours", "unpicklable"])
def test_a_copy_of_a_result_says_the_same_whatever_counted(
    copied: Callable[[Any], Any], counter: Counter | None
) -> None:
    result = pruned(counter, token_budget=500)
    for found in (copied(result), copied(copied(result)), replace(copied(result), arm=None)):
        assert found == result
        assert (found.trace, found.given_texts) == (result.trace, result.given_texts)
        assert (found.tokens, found.tokens_before, found.tokens_after) == (
            *(result.tokens, result.tokens_before, result.tokens_after),
        )


@pytest.mark.parametrize("counter", [TokenCounter(), Unpicklable()])
def test_a_stored_result_has_no_key_and_nothing_of_other_results(counter: Counter) -> None:
    alone = pickle.dumps(pruned(counter))
    for n in range(1000):
        counter.count(f"Another text, number {n}. It is remembered.")
    later = pickle.dumps(pruned(counter))
    assert b"sk-secret" not in later
    assert abs(len(later) - len(alone)) < 100  # Their latencies differ.
