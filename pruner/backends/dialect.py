"""What a model takes: learnt from its refusals, one step a refusal, and remembered once a call got through with it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pruner.backends.faults import MAX_TEXT
from pruner.errors import BackendError, Reason
from pruner.schema import GradingRequest

__all__ = ["Asked", "Dialect", "Learner"]

_REFUSALS = (400, 422)
# A refusal where it names what was sent, else a matter of the key.
_FORBIDDEN = 403
_BROKEN = (500, 501)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is asked of a model.

    Attributes:
        forms: how the reply's form is asked for, the strictest first; the first one is in use.
        optional: what the model may refuse beside the form: parameters, mostly.
        renames: parameter → another name of it, to be tried before it is dropped.
        signs: form or parameter → a pattern of what names it in a refusal, where that is not its name alone.
        dropped: parameters that are no longer sent.
    """

    forms: tuple[str, ...]
    optional: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    signs: Mapping[str, str] = field(default_factory=dict)
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

    def named_in(self, text: str) -> list[str]:
        """Return what could be given up of what is asked, as far as a text names it: the form first."""
        forms = self.forms[:1] if len(self.forms) > 1 else ()
        given = [*forms, *filter(None, map(self.name_of, self.optional))]
        return [name for name in given if re.search(self.signs.get(name, rf"\b{re.escape(name)}\b"), text)]

    def without(self, name: str) -> "Dialect":
        """Return the one that lacks a form or a parameter."""
        if name in self.forms:
            return replace(self, forms=tuple(form for form in self.forms if form != name))
        return replace(self, dropped=self.dropped | {name})

    def laxer(self) -> "Dialect | None":
        """Return the one with the next form, after the last form the bare minimum; None when this is that."""
        if len(self.forms) > 1:
            return replace(self, forms=self.forms[1:])
        bare = replace(self, dropped=self.dropped.union(self.optional, self.renames.values()))
        return None if bare == self else bare


class Asked(NamedTuple):
    """A request, and the dialect that it was put in."""

    request: GradingRequest
    dialect: Dialect


@dataclass(slots=True)
class _Call:
    """Where a call stands, from its first attempt to its last.

    Attributes:
        dialect: what to ask in next.
        full: begun with all that is known to be taken, or not known not to be.
        guessing: something was given up that no refusal had named.
        broken: how often the server broke down.
    """

    dialect: Dialect
    full: bool
    guessing: bool = False
    broken: int = 0


class Learner:
    """Remembers what a model takes.

    A refusal that has a way out is raised as retryable at once, so that the one retry loop, inside the deadline, asks
    again in the call's next dialect; the backend itself never asks twice. Each call goes its own way down, noted with
    its request, whatever others learn meanwhile.

    What a refusal names is known from then on. What was given up on a guess counts when the call then succeeds, and is
    doubted: the next call asks in full again, then one after 1, 2, 4, 8, … others, until it is answered. So neither a
    stray refusal nor a text that provokes one has a lasting effect.

    Args:
        dialect: what to begin with.
        body_of: what is sent for a request in a dialect: one that changes nothing is not tried.
    """

    def __init__(self, dialect: Dialect, body_of: Callable[[GradingRequest, Dialect], object]) -> None:
        self.dialect = dialect
        self._body_of = body_of
        self._guess: Dialect | None = None
        self._pause = self._rest = 0

    def asking(self, request: GradingRequest) -> Asked:
        """Return how to put a request at this attempt."""
        return Asked(request, self._call(request).dialect)

    def took(self, asked: Asked) -> None:
        """Learn from an answer."""
        call = self._call(asked.request)
        if call.dialect is not asked.dialect:  # Another question of the same call was refused meanwhile.
            return
        if call.guessing:
            if self._guess is None:
                self._pause, self._rest = 1, 0
            self._guess = asked.dialect
        elif call.full:
            self._guess = None

    def learn(self, asked: Asked, status: int, error: BackendError, refusal: str) -> BackendError:
        """Return the error to raise when a server answers with an error status to what was asked.

        Args:
            asked: what was asked.
            status: the answer's status.
            error: what it means in itself.
            refusal: what the answer says.
        """
        call = self._call(asked.request)
        if status in _BROKEN:
            self._step_down(asked, call, status)
        refused = status in _REFUSALS and error.reason is Reason.BAD_REQUEST
        named = self._named(asked, refusal[:MAX_TEXT]) if refused or status == _FORBIDDEN else None
        if not refused and not named:
            return error
        after = asked.dialect.without(named) if named else self._laxer(asked, call)
        if after is None:
            asked.request.notes.pop(self, None)
            return error
        if call.dialect is asked.dialect:  # Else another question of the same call was refused as well.
            call.dialect = after
            call.guessing |= not self._know(asked, named)
        return BackendError(Reason.BAD_REQUEST, f"{error}; asking again in another form", retryable=True, retry_after=0)

    def _call(self, request: GradingRequest) -> _Call:
        call: _Call | None = request.notes.get(self)
        if call is None:
            call = request.notes[self] = self._begun()
        return call

    def _begun(self) -> _Call:
        if self._guess is None:
            return _Call(self.dialect, full=True)
        if self._rest:
            self._rest -= 1
            return _Call(self._guess, full=False)
        self._rest, self._pause = self._pause, 2 * self._pause
        return _Call(self.dialect, full=True)

    def _named(self, asked: Asked, refusal: str) -> str | None:
        """Return what of the body a refusal names."""
        named = asked.dialect.named_in(refusal)
        return next((name for name in named if self._differs(asked, asked.dialect.without(name))), None)

    def _laxer(self, asked: Asked, call: _Call) -> Dialect | None:
        """Return what to try next: where a guess was doubted, that."""
        doubted = self._guess if call.full and not call.guessing else None
        after = doubted or asked.dialect.laxer()
        while after and not self._differs(asked, after):
            after = after.laxer()
        return after

    def _differs(self, asked: Asked, dialect: Dialect) -> bool:
        return self._body_of(asked.request, dialect) != self._body_of(*asked)

    def _know(self, asked: Asked, named: str | None) -> bool:
        """Remember what a refusal names, unless it may have the name from the texts, which servers quote."""
        if named is None or named in asked.dialect.named_in(asked.request.system + asked.request.user):
            return False
        self.dialect = self.dialect.without(named)
        self._guess = self._guess and self._guess.without(named)
        return True

    def _step_down(self, asked: Asked, call: _Call, status: int) -> None:
        """Some servers break down over a form they lack: do without it when that happens again, at once on a 501."""
        call.broken += 1
        lesser = self._laxer(asked, call) if len(asked.dialect.forms) > 1 and asked.request.schema is not None else None
        if lesser and call.dialect is asked.dialect and (call.broken > 1 or status == 501):
            call.dialect, call.guessing = lesser, True
