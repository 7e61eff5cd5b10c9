"""The one error of the evaluation."""

from pruner.errors import PrunerError

__all__ = ["EvalError"]


class EvalError(PrunerError):
    """Data, records or arguments cannot be used; the message says in one line where, what, and what to do."""
