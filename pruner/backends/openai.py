"""OpenAI and every server that speaks its chat completions (`base_url`)."""

import os
import re
from collections.abc import Mapping
from typing import Any

import httpx2
import openai
from openai import AsyncOpenAI, Omit

from pruner.backends._loops import PerLoop
from pruner.backends.chat import body_of, dialect_with, read
from pruner.backends.dialect import Dialect, Learner
from pruner.backends.faults import from_connection, from_status
from pruner.backends.probing import probe
from pruner.backends.wire import http_maker, key_of, parse
from pruner.config import PrunerConfig
from pruner.errors import ConfigError
from pruner.schema import GradingRequest, RawGrading

__all__ = ["OpenAIBackend", "thinks"]

_VENDOR_URL = "https://api.openai.com/v1"
_PATH = "/chat/completions"
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)

Headers = Mapping[str, str | Omit]


class OpenAIBackend:
    """Asks for grades by chat completions.

    Args:
        model: the provider's name of the model.
        api_key: key of the provider; servers of one's own need none.
        base_url: an OpenAI-compatible server; None is OpenAI itself.
        temperature: sent only if given.
        client: an `AsyncOpenAI` to use instead of one made here; its owner closes it. What watches its
            `chat.completions.create` does not see the call, what watches HTTP does.

    Raises:
        ConfigError: the SDK's own variables hold what cannot be sent.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        temperature: float | None = None,
        client: AsyncOpenAI | None = None,
    ) -> None:
        self._model = model
        self._temperature = temperature
        self._learner = Learner(_dialect(model, own_server=base_url is not None), self._body)
        self._given = client.with_options(max_retries=0) if client else None
        make_http, key = http_maker(), api_key or "none"

        def make() -> AsyncOpenAI:
            url = base_url or _VENDOR_URL
            return AsyncOpenAI(api_key=key, base_url=url, max_retries=0, timeout=None, http_client=make_http())

        self._headers = {} if client else _headers(make().default_headers, key, own_server=base_url is not None)
        self._clients = PerLoop(make, AsyncOpenAI.close)

    @classmethod
    def from_config(cls, config: PrunerConfig) -> "OpenAIBackend":
        """Make one from the dials.

        Raises:
            ConfigError: no key for the vendor's own address.
        """
        return cls(config.model_name, api_key=key_of(config), base_url=config.base_url, temperature=config.temperature)

    async def grade(self, request: GradingRequest) -> RawGrading:
        """Ask once, or for a probe once per chunk; see `Backend.grade`."""
        if request.probe is not None:
            return await probe(self._ask, request, request.probe)
        return await self._ask(request)

    async def _ask(self, request: GradingRequest) -> RawGrading:
        client = self._given or await self._clients.get()
        asked = self._learner.asking(request)
        try:
            body = self._body(*asked)
            # Not `chat.completions.create`: it looks at each value by its type, which takes longer than all we do.
            raw = await client.post(
                _PATH,
                cast_to=httpx2.Response,
                body=body,
                options={"headers": self._headers, "security": {"bearer_auth": True}},
            )
            grading = read(parse(raw.content))
        except openai.APIStatusError as error:
            fault = from_status(error.status_code, error.body or error.message, error.response.headers)
            raise self._learner.learn(asked, error.status_code, fault, str(error.body or error.message)) from error
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, RuntimeError) as error:
            # A client that was closed meanwhile raises RuntimeError.
            raise from_connection(error) from error
        self._learner.took(asked)
        return grading

    def _body(self, request: GradingRequest, dialect: Dialect) -> dict[str, Any]:
        return body_of(self._model, request, dialect, temperature=self._temperature, reasons=thinks(self._model))

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._clients.aclose()


def _headers(given: Headers, key: str, *, own_server: bool) -> Headers:
    """Return what to set on each request, whatever the SDK has read from variables of its own.

    They may name organization and project and add headers for the vendor, but do not replace the key. A server of
    one's own gets nothing of them.

    Raises:
        ConfigError: they hold what cannot be sent.
    """
    named = {"openai-organization", "openai-project", *_custom()}
    values = {name.lower(): value for name, value in given.items() if isinstance(value, str)}
    sent = {} if own_server else {name: values[name] for name in named if values.get(name, "").strip()}
    for name, value in sent.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()) or value != value.strip():
            raise ConfigError(
                f"the header {name!r} of OPENAI_ORG_ID, OPENAI_PROJECT_ID or OPENAI_CUSTOM_HEADERS holds characters "
                "that no header takes: set it anew or unset it"
            )
    return {**dict.fromkeys(named - sent.keys(), openai.omit), "authorization": f"Bearer {key}"}


def _custom() -> list[str]:
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    return [line.partition(":")[0].strip().lower() for line in lines if ":" in line]


def _dialect(model: str, *, own_server: bool) -> Dialect:
    """Begin with what a provider of this kind takes: servers of one's own know the older name of the output cap."""
    caps = ("max_tokens", "max_completion_tokens") if own_server else ("max_completion_tokens", "max_tokens")
    return dialect_with(*caps)


def thinks(model: str) -> bool:
    """Whether a model of OpenAI's thinks before it answers, and takes `reasoning_effort`.

    All do since gpt-5 but those for chat, and those before it that are called o and a digit; and of the open ones,
    gpt-oss. Another name for the vendor may stand before a slash.
    """
    return re.search(r"(^|/)(o[1-9]|gpt-([5-9]|[12]\d)|gpt-oss)(?![\da-z])(?!.*chat)", model) is not None
