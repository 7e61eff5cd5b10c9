"""What a single dial may hold, checked where it is set; each message says what to do."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from pruner.candidates import Grade

__all__ = [
    "PREFIXES",
    "BudgetPick",
    "Cap",
    "Count",
    "Dedup",
    "Expand",
    "Key",
    "Level",
    "OrderPolicy",
    "RevisionPolicy",
    "Scoring",
    "Share",
    "SourcePolicy",
    "endpoint_of",
    "http_url",
    "known_prefix",
    "level",
    "no_bool",
    "sendable",
]

R = TypeVar("R")
G = TypeVar("G")

_LONGEST_URL = 2_000
_ENDPOINT = re.compile(r"(/chat)?/completions$|/messages$|/responses$", re.IGNORECASE)
PREFIXES = ("openai", "anthropic", "litellm", "local", "scripted")


def no_bool(value: Any) -> Any:
    """Refuse True and False, which would pass for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not a bool")
    return value


def level(value: Any) -> Any:
    """Take a level by name in any case, as people write it in an environment variable."""
    if not isinstance(value, str):
        return no_bool(value)
    name = value.strip().upper()
    if name in Grade.__members__:
        return Grade[name]
    try:
        return float(name)
    except ValueError:
        raise ValueError(f"{value!r} is neither 1..5 nor one of {', '.join(Grade.__members__)}") from None


def known_prefix(value: Any) -> Any:
    """Check the form `prefix:name` of a model; blanks around both are not of them."""
    if not isinstance(value, str):
        return value
    prefix, _, name = value.strip().partition(":")
    name = name.strip()
    if prefix not in PREFIXES or not name or not name.isprintable():
        raise ValueError(f"must be 'prefix:name' with one of the prefixes {', '.join(PREFIXES)}; got {value!r}")
    return f"{prefix}:{name}"


def sendable(value: SecretStr) -> SecretStr:
    """Check that a key can stand in a header."""
    key = value.get_secret_value()
    if not (key.isascii() and key.isprintable()) or key != key.strip():
        raise ValueError("holds characters that no header takes; was it copied whole and clean?")
    return value


def http_url(value: str) -> str:
    """Check the address of a server, as the HTTP client will read it; it may hold no password."""
    value = value.strip()
    try:
        parts = urlsplit(value)
        _ = parts.port, _encoded(parts.hostname or "")
    except ValueError:
        raise ValueError("is no URL") from None
    if not value.isprintable() or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must begin with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise ValueError("holds a user or password, which logs would show; give the key as api_key")
    if parts.query or " " in value or len(value) > _LONGEST_URL:
        raise ValueError("must be short and without a blank or a `?`: the paths of the API are put behind it")
    return value


def endpoint_of(url: str) -> str | None:
    """Return the path of a chat API that an address ends with, if it does."""
    found = _ENDPOINT.search(url.rstrip("/"))
    return found[0] if found else None


def _encoded(host: str) -> bytes:
    """Return a host's name as it is asked for; by the older rules for its length, and as HTTP clients by the newer."""
    short = host.encode("idna")
    if host.isascii():
        return short
    import idna  # Comes with the HTTP clients, and takes long to load.

    return idna.encode(host)


if TYPE_CHECKING:

    class _Read(Generic[R, G]):
        """To a type checker, a dial that may be given in another form than it is read."""

        def __get__(self, config: object, kind: object) -> R:
            """Read it."""

        def __set__(self, config: object, given: G) -> None:
            """Take it."""

    Level: TypeAlias = _Read[float, float | str]
    Key: TypeAlias = _Read[SecretStr | None, SecretStr | str | None]
else:
    Level = Annotated[float, BeforeValidator(level), Field(ge=1, le=5)]
    Key = Annotated[SecretStr, AfterValidator(sendable)] | None

Count = Annotated[int, BeforeValidator(no_bool), Field(ge=0)]
Cap = Annotated[int, BeforeValidator(no_bool), Field(ge=1)]
Share = Annotated[float, BeforeValidator(no_bool), Field(gt=0, le=1)]
BudgetPick: TypeAlias = Literal["greedy", "density"]
Dedup: TypeAlias = Literal["off", "ids", "spans", "texts"]
Expand: TypeAlias = Literal["off", "heading", "paragraph", "sentences", "table", "section"]
OrderPolicy: TypeAlias = Literal["reranker", "relevance", "edges", "query", "source", "time"]
RevisionPolicy: TypeAlias = Literal["all", "active"]
Scoring: TypeAlias = Literal["grade", "expected"]
SourcePolicy: TypeAlias = Literal["comparative", "authoritative", "syndicated"]
