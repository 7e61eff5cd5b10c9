"""Any retrieval function or retriever object, without a framework."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import partial, wraps
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from pydantic import BaseModel

from pruner.errors import ConfigError, RequestError
from pruner.fetching import FetchParent
from pruner.integrations.adapter import MARK, Mark, Prunable, as_pruner, copies
from pruner.schema import Chunk, PruneResult
from pruner.shared import prune, prune_sync

__all__ = ["PrunedList", "PrunedRetriever", "pruned"]

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")
# Parameters that hold the question wherever they stand; without one of them the first parameter does.
_QUESTIONS = ("query", "question", "q")
ToChunk = Callable[[Any], str | Chunk | Mapping[str, Any]]


class PrunedList(list[T]):
    """The kept items, as a list, with how it came about.

    Attributes:
        result: the `PruneResult`: status, and a decision on each item that the function returned.
    """

    def __init__(self, items: Iterable[T], result: PruneResult[Any]) -> None:
        super().__init__(items)
        self.result = result


class _ListReturner(Protocol):
    """Decorates what returns the list itself."""

    @overload
    def __call__(
        self, function: Callable[P, Awaitable[Iterable[T]]], /
    ) -> Callable[P, Coroutine[Any, Any, PrunedList[T]]]: ...

    @overload
    def __call__(self, function: Callable[P, Iterable[T]], /) -> Callable[P, PrunedList[T]]: ...

    @overload
    def __call__(self, function: Callable[..., Any], /) -> Any: ...


class _Options(TypedDict, total=False):
    pruner: Prunable | None
    to_chunk: ToChunk | None
    principals: str | None
    fetch_parent: FetchParent | None


@overload
def pruned(query: str | None = None, chunks: None = None, **options: Unpack[_Options]) -> _ListReturner: ...


@overload
def pruned(query: str | None = None, chunks: str | None = None, **options: Unpack[_Options]) -> Callable[[F], F]: ...


def pruned(
    query: str | None = None,
    chunks: str | None = None,
    *,
    pruner: Prunable | None = None,
    to_chunk: ToChunk | None = None,
    principals: str | None = None,
    fetch_parent: FetchParent | None = None,
) -> Any:
    """Prune what a retrieval function returns, be it async or not.

    The kept items come as a `PrunedList`. A `Chunk` or mapping among them is a copy that carries its grade under
    `"pruner"` (a `Chunk` in its metadata); any other object is the function's own.

    Args:
        query: the parameter that holds the question; by default `query`, `question` or `q`, else the first, `self` and
            `cls` aside.
        chunks: where in the returned mapping, dataclass or pydantic model the list is; by default it is the list.
        pruner: a `Pruner`, a `PrunerConfig` or a mapping of dials; by default what `prune()` uses.
        to_chunk: says how to read an item that is no str, `Chunk` or mapping with a `text`.
        principals: the parameter that holds whom the caller speaks for; by default nobody, so that what has an `acl` is
            not returned.
        fetch_parent: returns the parent of a `parent_id`, as for `prune()`.

    Raises:
        ConfigError: a dial is wrong, the function has no such parameter, or it is an async generator.
    """
    if callable(query):
        raise ConfigError("@pruned needs its parentheses: write @pruned()")
    made = None if pruner is None else as_pruner(pruner)

    def decorate(function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(decorate(function.__func__))
        ask, ask_sync = (made.prune, made.prune_sync) if made else (prune, prune_sync)
        ways = partial(ask, fetch_parent=fetch_parent), partial(ask_sync, fetch_parent=fetch_parent)
        return _wrap(function, _asked_reader(function, query, principals), _Place(chunks), ways, to_chunk)

    return decorate


def _wrap(
    function: Callable[..., Any],
    read: Callable[..., dict[str, Any]],
    place: "_Place",
    ways: tuple[Callable[..., Any], Callable[..., Any]],
    to_chunk: ToChunk | None,
) -> Callable[..., Any]:
    ask, ask_sync = ways

    async def finish(awaited: Awaitable[Any], asked: dict[str, Any]) -> Any:
        returned = await awaited
        items, shown = place.get(returned, to_chunk)
        return place.put(returned, _kept(items, shown, await ask(chunks=shown, **asked)))

    @wraps(function)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        return await finish(function(*args, **kwargs), read(*args, **kwargs))

    @wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        returned = function(*args, **kwargs)
        if inspect.isawaitable(returned):  # An async function under a decorator that does not show it.
            return finish(returned, read(*args, **kwargs))
        items, shown = place.get(returned, to_chunk)
        return place.put(returned, _kept(items, shown, ask_sync(chunks=shown, **read(*args, **kwargs))))

    return asynchronous if _is_async(function) else synchronous


def _is_async(function: Callable[..., Any]) -> bool:
    # An object whose class has an async `__call__` is one too, which inspect does not see.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _asked_reader(
    function: Callable[..., Any], query: str | None, principals: str | None
) -> Callable[..., dict[str, Any]]:
    """Return what finds the question, and whom the caller speaks for, among the arguments of a call."""
    called = getattr(function, "__name__", type(function).__name__)
    if inspect.isasyncgenfunction(function):
        raise ConfigError(f"{called} is an async generator, which cannot be pruned; return a list from it")
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise ConfigError(f"{called} does not say what its parameters are; wrap it in a function that does") from None
    known = [name for name in signature.parameters if name not in ("self", "cls")]
    usual = next((name for name in (*_QUESTIONS, *known) if name in known), "")
    held = {"query": query or usual} | ({"principals": principals} if principals else {})
    for what, parameter in held.items():
        if parameter not in signature.parameters:
            raise ConfigError(f"{called} has no parameter {parameter!r} that could hold the {what}")

    def read(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        asked = {what: bound.arguments[parameter] for what, parameter in held.items()}
        return asked if asked.get("principals", ()) is not None else {**asked, "principals": ()}

    return read


class _Place:
    """Where the list is in what a function returns."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def get(self, returned: Any, to_chunk: ToChunk | None) -> tuple[Sequence[Any], list[Any]]:
        """Return the items, and each as the pruner reads it: objects of their own, so that each can be found again."""
        found = returned if self.name is None else self._named(returned, self.name)
        if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
            raise RequestError(f"the function returned a {type(found).__name__} where a list of chunks was expected")
        items = list(found)
        return items, [_shown(to_chunk(item) if to_chunk else item) for item in items]

    def _named(self, returned: Any, name: str) -> Any:
        try:
            return returned[name] if isinstance(returned, Mapping) else getattr(returned, name)
        except (KeyError, AttributeError):
            raise RequestError(f"the function returned a {type(returned).__name__} without {name!r}") from None

    def put(self, returned: Any, kept: PrunedList[Any]) -> Any:
        """Return the same with the kept items in place of the list; what was returned stays as it was."""
        if self.name is None:
            return kept
        if isinstance(returned, Mapping):
            return {**returned, self.name: kept}
        if isinstance(returned, BaseModel):
            return returned.model_copy(update={self.name: kept})
        if is_dataclass(returned) and not isinstance(returned, type):
            return replace(returned, **{self.name: kept})
        raise RequestError(
            f"a {type(returned).__name__} cannot be copied; return a mapping, dataclass or pydantic model"
        )


def _shown(item: Any) -> Any:
    if isinstance(item, str):
        return {"text": item}
    if isinstance(item, Chunk):
        return item.model_copy()
    return dict(item) if isinstance(item, Mapping) else item


def _kept(items: Sequence[Any], shown: Sequence[Any], result: PruneResult[Any]) -> PrunedList[Any]:
    return PrunedList(copies(items, shown, result, _copy), result)


def _copy(item: Any, text: str, mark: Mark) -> Any:
    if isinstance(item, str):
        return text
    if isinstance(item, Chunk):
        return item.model_copy(update={"text": text, "metadata": {**item.metadata, MARK: mark}})
    if isinstance(item, Mapping):
        return {**item, MARK: mark} | ({"text": text} if "text" in item else {})
    return item


class PrunedRetriever:
    """A retriever whose `retrieve`, `search` and their `a…` forms return pruned results; all else is as it was.

    Args:
        retriever: any object with such a method, async or not.
        pruner: a `Pruner`, a `PrunerConfig` or a mapping of dials; by default what `prune()` uses.
        query: the methods' parameter that holds the question; by default as in `pruned`.
        chunks: where in the returned value the list is, as in `pruned`.
        to_chunk: how to read an item, as in `pruned`.
        principals: the methods' parameter that holds whom the caller speaks for, as in `pruned`.
        fetch_parent: as in `pruned`.

    Raises:
        ConfigError: a dial is wrong, or the object has no such method, or one of them has no such parameter.
    """

    _METHODS = ("retrieve", "search", "aretrieve", "asearch")

    def __init__(
        self,
        retriever: Any,
        pruner: Prunable | None = None,
        *,
        query: str | None = None,
        chunks: str | None = None,
        to_chunk: ToChunk | None = None,
        principals: str | None = None,
        fetch_parent: FetchParent | None = None,
    ) -> None:
        methods = [name for name in self._METHODS if callable(getattr(retriever, name, None))]
        if not methods:
            raise ConfigError(f"a {type(retriever).__name__} has none of the methods {', '.join(self._METHODS)}")
        self._retriever = retriever
        self._options: dict[str, Any] = {
            "pruner": None if pruner is None else as_pruner(pruner),
            "query": query,
            "chunks": chunks,
            "to_chunk": to_chunk,
            "principals": principals,
            "fetch_parent": fetch_parent,
        }
        decorate = pruned(**self._options)
        self._pruned = {name: decorate(getattr(retriever, name)) for name in methods}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as what it was made from; the pruner is pickled as its dials without the key."""
        return partial(type(self), **self._options), (self._retriever,)

    def __getattr__(self, name: str) -> Any:
        """Return the pruned method, or what the retriever itself has."""
        if name.startswith("_"):  # Python itself asks for such.
            raise AttributeError(name)
        return self._pruned.get(name) or getattr(self._retriever, name)
