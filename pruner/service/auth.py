"""Who may call: named keys of which only hashes are known, and the names this service answers to."""

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping

from pruner.errors import RequestError

__all__ = ["ANYONE", "Keys", "allowed_host", "hash_key", "host_name", "is_hash", "is_loopback", "new_key"]

ANYONE = "-"
_SHORTEST = 20


def new_key() -> str:
    """Make a key that nobody can guess."""
    return secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """Return what the settings hold of a key. A plain SHA-256 will do, as no key is short enough to be tried out.

    Raises:
        RequestError: it is short, or cannot be sent in a header.
    """
    if len(key) < _SHORTEST or not (key.isascii() and key.isprintable()) or " " in key:
        raise RequestError(f"a key has at least {_SHORTEST} characters, all printable ASCII without spaces")
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def is_hash(text: str) -> bool:
    """Tell whether a text is of the form `hash_key` returns."""
    return re.fullmatch(r"sha256:[0-9a-f]{64}", text) is not None


class Keys:
    """The keys that may call.

    Args:
        hashes: name → hash; empty lets anyone in.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = {name: bytes.fromhex(text.removeprefix("sha256:")) for name, text in hashes.items()}

    def name_of(self, authorization: str) -> str | None:
        """Return whose key an Authorization header holds; None if it is nobody's.

        Every hash is compared, each in constant time, so that the time taken tells nothing.
        """
        if not self._hashes:
            return ANYONE
        scheme, _, key = authorization.partition(" ")
        given = hashlib.sha256(key.strip().encode("latin-1")).digest()
        names = [name for name, known in self._hashes.items() if hmac.compare_digest(given, known)]
        return names[0] if names and scheme.lower() == "bearer" else None


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(header: str) -> str:
    """Return a Host header without its port."""
    return re.sub(r":\d*$", "", header.strip()).lower()


def allowed_host(text: str) -> str:
    """Return a name that an operator allows as `host_name` returns it from a header; a port is left out.

    Raises:
        ValueError: no Host header can have this name.
    """
    name = f"[{text.lower()}]" if text.count(":") > 1 and not text.startswith("[") else host_name(text)
    if not re.fullmatch(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]", name):
        raise ValueError(
            f"{text!r} is no name of a host, such as pruner.example.com, and patterns are not read; "
            "to answer to any, set api_keys alone"
        )
    return name
