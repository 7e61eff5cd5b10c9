"""The environment's variables that are ours: named `PRUNER_…`, and not set by Kubernetes."""

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

__all__ = ["of_kubernetes", "our_variables"]

_UNPRIVILEGED = 1024
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def our_variables() -> dict[str, str]:
    """Return ours with their values, without blanks around them."""
    theirs = set(of_kubernetes())
    return {name: value for name, value in _named_like_ours().items() if name not in theirs}


def of_kubernetes() -> list[str]:
    """Return the names of those that Kubernetes sets in each container for a Service called `pruner` or `pruner-…`.

    A host or a port that is not the Service's was set by somebody else, and is ours. So is an equal port beside a host
    of ours, unless only the system may listen to it: that is the Service's, which takes 80 for 8000.
    """
    found = _named_like_ours()
    return sorted({theirs for name in found for theirs in _of_service(name, found)})


def _named_like_ours() -> dict[str, str]:
    return {name: value.strip() for name, value in os.environ.items() if name.startswith("PRUNER_")}


def _of_service(variable: str, found: Mapping[str, str]) -> Iterator[str]:
    """Return all that belongs to a Service, if `variable` is its `…_PORT=tcp://10.0.0.1:80`."""
    if not (variable.endswith("_PORT") and _ADDRESS.match(found[variable])):
        return
    service = variable.removesuffix("_PORT")
    host, _, port = urlsplit(found[variable]).netloc.rpartition(":")
    name_of_host = f"{service}_SERVICE_HOST"
    address = {name_of_host: host.strip("[]"), f"{service}_SERVICE_PORT": port}
    ours = name_of_host in found and found[name_of_host] != address[name_of_host]
    if ours and port.isdecimal() and int(port) >= _UNPRIVILEGED:
        del address[f"{service}_SERVICE_PORT"]
    for name, value in found.items():
        named = name == variable or name.startswith((f"{variable}_", f"{service}_SERVICE_PORT_"))
        if named or address.get(name) == value:
            yield name
