"""What the examples share: a question to the documentation of the standard library, and a pruner by `--backend`."""

import argparse
import json
from functools import lru_cache

from pruner import Pruner, PrunerConfig
from pruner.backends.scripted import ScriptedBackend
from pruner.demo.corpus import DEFAULT_QUESTION, Corpus
from pruner.schema import GradingRequest
from pruner.tokens import TokenCounter

__all__ = ["DEFAULT_QUESTION", "corpus", "pruner_from_arguments"]

# What the embedded model said to the default question on Python 3.11.
GRADES = (4, 5, 4, 5, 5, 5, 3, 2, 2, 4, 3, 2, 3, 3, 2)


@lru_cache(maxsize=1)
def corpus() -> Corpus:
    """Read and index the documentation of the running Python; `corpus().search(question, k)` is the retriever."""
    return Corpus.build(TokenCounter())


def pruner_from_arguments(description: str | None) -> Pruner:
    """Make the pruner that the command line asks for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--backend",
        choices=["scripted", "local"],
        default="scripted",
        help="scripted: fixed grades; local: the embedded model, after `pruner model pull` (default: %(default)s)",
    )
    if parser.parse_args().backend == "local":
        # A minute on an idle machine; a busy one may take many times that.
        return Pruner(PrunerConfig(model="local:qwen2.5-coder-1.5b", timeout=900))
    return Pruner(PrunerConfig(), backend=ScriptedBackend(_grade))


def _grade(request: GradingRequest) -> str:
    return json.dumps({"grades": [[label, GRADES[(label - 1) % len(GRADES)]] for label in range(1, request.n + 1)]})
