"""What a model takes: learnt from its refusals, one step a refusal, and remembered."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pruner.backends.faults import MAX_TEXT
from pruner.errors import BackendError, Reason

__all__ = ["Dialect", "Learner"]

_REFUSALS = (400, 422)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is asked of a model.

    Attributes:
        forms: how the reply's form is asked for, the strictest first; the first one is in use.
        optional: parameters the model may refuse.
        renames: parameter → another name of it, to be tried before it is dropped.
        dropped: parameters that are no longer sent.
    """

    forms: tuple[str, ...]
    optional: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    @property
    def form(self) -> str:
        """How the reply's form is asked for."""
        return self.forms[0]

    def name_of(self, parameter: str) -> str | None:
        """Return the name under which a parameter is sent; None when it no longer is."""
        if parameter not in self.dropped:
            return parameter
        other = self.renames.get(parameter)
        return None if other is None or other in self.dropped else other

    def after(self, refusal: str) -> "Dialect | None":
        """Return the next one to try: without a parameter that the refusal names, else with a laxer form.

        None when there is nothing left to give up.
        """
        sent = filter(None, map(self.name_of, self.optional))
        named = [name for name in sent if re.search(rf"\b{re.escape(name)}\b", refusal)]
        if named:
            return replace(self, dropped=self.dropped | {named[0]})
        return replace(self, forms=self.forms[1:]) if len(self.forms) > 1 else None


class Learner:
    """Remembers the dialect that a model took last.

    A refusal that teaches something is raised as retryable at once, so that the one retry loop, inside the deadline,
    asks again in the new dialect; the backend itself never asks twice.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._first = dialect
        self.dialect = dialect

    def learn(self, asked: Dialect, status: int, error: BackendError, refusal: str) -> BackendError:
        """Return the error to raise when a server answers with an error status to what was asked in that dialect.

        A request that is refused in every form was itself the matter: then nothing is remembered of it.
        """
        if error.reason is not Reason.BAD_REQUEST or status not in _REFUSALS:
            return error
        after = asked.after(refusal[:MAX_TEXT])
        if self.dialect is asked:
            self.dialect = after or self._first
        if after is None:
            return error
        return BackendError(error.reason, f"{error}; asking again in another form", retryable=True, retry_after=0)
