"""Strategies that need a question of their own; asked through the product's backends, deadline and retries.

- `direct_select`: which chunks are to be kept.
- `budget_select`: which few are to be added to the reranker's first two, most needed first.
- `anchors`: a passage for each level, written for the query without seeing the chunks; passages and chunks are then
  scored by BM25 with the frequencies of the whole set, since the lists come in BM25's order. A fixed passage would
  not do: no word of it would be in the query.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from eval.answers import LEVELS, read_passages, read_selection
from eval.datasets import Row
from eval.errors import EvalError
from eval.graders import make_record, pricer_of
from eval.ranking import Bm25
from eval.records import Record
from eval.setups import setup_of
from pruner.backends import Backend
from pruner.config import PrunerConfig
from pruner.grading import ask_for
from pruner.prompting import build_request, load_prompt
from pruner.schema import Candidate, RawGrading
from pruner.tokens import TokenCounter

__all__ = ["QUESTIONS", "Question", "make_question"]

_PROMPTS = Path(__file__).parent / "prompts"
_ROOM_FOR_PASSAGES = 4_000

T = TypeVar("T")


def _schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_SELECTION = _schema({"keep": {"type": "array", "items": {"type": "integer"}}})
_PASSAGES = _schema({name: {"type": "string"} for name in LEVELS})


@dataclass(frozen=True)
class Question(Generic[T]):
    """What is asked, and what becomes of the answer.

    Attributes:
        prompt: name of the file below `eval/prompts`.
        schema: of the reply.
        room: number of chunks → cap on the reply's tokens.
        read: reply and number of chunks → what was answered, or `ReplyError`.
        found: answer and row → fields of the record.
    """

    prompt: str
    schema: dict[str, Any]
    room: Callable[[int], int]
    read: Callable[[RawGrading, int], T]
    found: Callable[[T, Row], dict[str, Any]]


class _Asker(Generic[T]):
    """Asks one question about each list."""

    def __init__(self, name: str, question: Question[T], config: PrunerConfig, backend: Backend) -> None:
        if config.readout != "json" or config.chunk_order != "reranker":
            raise EvalError(f"{name} needs a JSON reply over the reranker's order: readout=json, chunk_order=reranker")
        self._config = config.model_copy(update={"prompt": str(_PROMPTS / f"{question.prompt}.jinja")})
        self.setup = replace(setup_of(self._config), strategy=name, reply_format="")
        self._prompt = load_prompt(self._config.prompt)
        self._question, self._backend = question, backend
        self._price = pricer_of(config)
        self._counter = TokenCounter()

    async def __call__(self, row: Row) -> Record:
        """Ask about one list."""
        clock = asyncio.get_running_loop().time
        started = clock()
        n = len(row.chunks)
        candidates = [Candidate(place, chunk, chunk.text) for place, chunk in enumerate(row.chunks)]
        request = replace(
            build_request(self._prompt, self._config, row.query, candidates),
            schema=self._question.schema,
            max_output_tokens=self._question.room(n),
            logprobs=False,
        )
        deadline = started + self._config.timeout
        answer = await ask_for(self._backend, request, deadline, lambda raw: self._question.read(raw, n))
        usage = answer.usage
        if usage.input_tokens or usage.output_tokens:
            usage = replace(usage, cost=self._price(usage))
        return make_record(
            row,
            self.setup,
            self._counter,
            status=answer.status,
            reason=answer.reason,
            usage=usage,
            latency=clock() - started,
            reply=answer.raw.text if answer.raw else None,
            **({} if answer.sheet is None else self._question.found(answer.sheet, row)),
        )


def make_question(name: str, config: PrunerConfig, backend: Backend, rows: Iterable[Row]) -> _Asker[Any]:
    """Make the grader of a strategy.

    Args:
        name: of the strategy.
        config: whom to ask, and how long to wait.
        backend: whom to ask.
        rows: the whole set; `anchors` takes the frequencies of words from it.
    """
    return _Asker(name, QUESTIONS[name](rows), config, backend)


def _selecting(prompt: str) -> Callable[[Iterable[Row]], Question[tuple[int, ...]]]:
    question = Question(
        prompt=prompt,
        schema=_SELECTION,
        room=lambda n: 64 + 8 * n,
        read=read_selection,
        found=lambda selected, row: {"selected": selected},
    )
    return lambda rows: question


def _anchoring(rows: Iterable[Row]) -> Question[dict[str, str]]:
    texts = {chunk.id: _text(chunk.title, chunk.text) for row in rows for chunk in row.chunks}
    ranking = Bm25(texts.values())

    def found(passages: dict[str, str], row: Row) -> dict[str, Any]:
        ranked = ranking.scores(row.query, [_text(chunk.title, chunk.text) for chunk in row.chunks])
        anchors = ranking.scores(row.query, list(passages.values()))
        levels = dict(zip(passages, (round(score, 4) for score in anchors), strict=True))
        return {"anchors": levels, "ranked": tuple(round(score, 4) for score in ranked)}

    return Question("anchors.v1", _PASSAGES, lambda n: _ROOM_FOR_PASSAGES, read_passages, found)


def _text(title: str | None, text: str) -> str:
    return f"{title}\n{text}" if title else text


QUESTIONS: dict[str, Callable[[Iterable[Row]], Question[Any]]] = {
    "direct_select": _selecting("direct_select.v1"),
    "budget_select": _selecting("budget_select.v1"),
    "anchors": _anchoring,
}
