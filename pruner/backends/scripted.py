"""A backend that answers what it was told to: for tests, examples and dry runs."""

from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

from pruner.config import PrunerConfig
from pruner.errors import ConfigError
from pruner.schema import GradingRequest, RawGrading, Usage

__all__ = ["Answer", "ScriptedBackend"]

Answer: TypeAlias = str | RawGrading | BaseException


class ScriptedBackend:
    """Gives its answers in turn, and keeps the requests it saw.

    Args:
        answers: reply texts, raw gradings, exceptions to raise, or a function from request to any of these. When they
            are used up, a further call raises `RuntimeError`: a call that was not meant to be made is a bug.

    Attributes:
        requests: what was asked so far.
    """

    def __init__(self, answers: Iterable[Answer] | Callable[[GradingRequest], Answer]) -> None:
        self.requests: list[GradingRequest] = []
        self._answer = answers if callable(answers) else _in_turn(answers)

    @classmethod
    def from_config(cls, config: PrunerConfig) -> "ScriptedBackend":
        """Read one reply a line from the file that `scripted:FILE` names; after the last comes the first again."""
        try:
            lines = Path(config.model_name).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the replies {config.model_name!r}: {error}") from None
        replies = [line for line in lines if line.strip()]
        if not replies:
            raise ConfigError(f"no replies in {config.model_name!r}: write one a line")
        return cls(cycle(replies))

    async def grade(self, request: GradingRequest) -> RawGrading:
        """Give the next answer."""
        self.requests.append(request)
        answer = self._answer(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, RawGrading) else RawGrading(text=answer, usage=Usage(calls=1))


def _in_turn(answers: Iterable[Answer]) -> Callable[[GradingRequest], Answer]:
    left = iter(answers)

    def next_answer(_: GradingRequest) -> Answer:
        try:
            return next(left)
        except StopIteration:
            raise RuntimeError("the scripted backend has no answer left: nobody expected this call") from None

    return next_answer
