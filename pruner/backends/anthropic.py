"""Anthropic's Messages API, and every server that speaks it (`base_url`)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import anthropic
import httpx2
from anthropic import AsyncAnthropic, Omit

from pruner.backends._loops import PerLoop
from pruner.backends.dialect import Dialect, Learner
from pruner.backends.faults import from_connection, from_status, status_in
from pruner.backends.wire import as_int, as_str, as_text, http_maker, key_of, parse
from pruner.config import PrunerConfig
from pruner.errors import BackendError, Reason
from pruner.schema import THOUGHTS, GradingRequest, RawGrading, Usage

__all__ = ["AnthropicBackend", "thinks"]

_VENDOR_URL = "https://api.anthropic.com"
_PATH = "/v1/messages"
_TOOL = "grade_chunks"
# The last version of the API that takes a temperature; 2026-10-21, the SDK's own, refuses it for every model.
_SAMPLING = {"anthropic-version": "2023-06-01"}
_DIALECT = Dialect(
    ("schema", "tool", "plain"),
    ("temperature", "effort"),
    signs={
        "schema": r"\boutput_config\b(?!\.effort)|\b(output_format|json_schema)\b",
        "tool": r"\b(tools|tool_choice)\b",
        "effort": r"\b(effort|output_config)\b",
    },
)


class AnthropicBackend:
    """Asks for grades by messages.

    Args:
        model: the provider's name of the model.
        api_key: key of the provider; servers of one's own need none.
        base_url: a server with the same API, without the `/v1`; None is Anthropic itself.
        temperature: sent only if given, in the version of the API that takes it.
        client: an `AsyncAnthropic` to use instead of one made here; its owner closes it.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        temperature: float | None = None,
        client: AsyncAnthropic | None = None,
    ) -> None:
        self._model = model
        self._temperature = temperature
        self._learner = Learner(_DIALECT, self._body)
        self._given = client.with_options(max_retries=0) if client else None
        key, url = api_key or "none", (base_url or _VENDOR_URL).removesuffix("/").removesuffix("/v1")
        # Set on each request, as the SDK lets ANTHROPIC_CUSTOM_HEADERS win over the key it was given.
        self._headers: dict[str, str | Omit] = (
            {} if client else {"authorization": f"Bearer {key}", "x-api-key": anthropic.omit}
        )
        make_http = http_maker()

        def make() -> AsyncAnthropic:
            return AsyncAnthropic(
                api_key=key, base_url=url, max_retries=0, timeout=None, http_client=make_http(), open_telemetry=False
            )

        self._clients = PerLoop(make, AsyncAnthropic.close)

    @classmethod
    def from_config(cls, config: PrunerConfig) -> "AnthropicBackend":
        """Make one from the dials.

        Raises:
            ConfigError: no key for the vendor's own address.
        """
        return cls(config.model_name, api_key=key_of(config), base_url=config.base_url, temperature=config.temperature)

    async def grade(self, request: GradingRequest) -> RawGrading:
        """Ask once; see `Backend.grade`."""
        client = self._given or await self._clients.get()
        asked = self._learner.asking(request)
        body = self._body(*asked)
        headers = {**self._headers, **(_SAMPLING if "temperature" in body else {})}
        try:
            # Not `messages.create`: it has no temperature, and warns of models that are to be retired.
            raw = await client.post(_PATH, cast_to=httpx2.Response, body=body, options={"headers": headers})
            grading = _read(parse(raw.content))
        except anthropic.APIStatusError as error:
            fault = from_status(error.status_code, error.body or error.message, error.response.headers)
            raise self._learner.learn(asked, error.status_code, fault, str(error.body or error.message)) from error
        except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise from_connection(error) from error
        self._learner.took(asked)
        return grading

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._clients.aclose()

    def _body(self, request: GradingRequest, dialect: Dialect) -> dict[str, Any]:
        sent = {dialect.name_of(parameter) for parameter in dialect.optional}
        thinking = thinks(self._model)
        output: dict[str, Any] = {"effort": "low"} if thinking and "effort" in sent else {}
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_output_tokens + (THOUGHTS if thinking else 0),
            "messages": [{"role": "user", "content": request.user}],
        }
        if request.system.strip():
            body["system"] = _cached(request.system)
        if self._temperature is not None and "temperature" in sent:
            body["temperature"] = self._temperature
        if request.schema is not None and dialect.form == "schema":
            output["format"] = {"type": "json_schema", "schema": request.schema}
        if request.schema is not None and dialect.form == "tool":
            body |= _forced(request.schema)
        return body | ({"output_config": output} if output else {})


def thinks(model: str) -> bool:
    """Whether a model of Anthropic's may think before it answers, and takes `effort`: all since 4.6, and Opus 4.5."""
    return re.search(r"claude-(fable|mythos|opus-4-[5-9]|sonnet-4-[6-9]|[a-z]+-([5-9]|\d\d)(?!\d))", model) is not None


def _cached(system: str) -> list[dict[str, Any]]:
    """Mark the instructions, the same for every call, to be remembered for five minutes.

    Models of the fifth generation remember from 512 tokens on, older ones from 1,024 to 4,096, and ignore the mark on
    less. To write costs a quarter more than to read anew, to read what was written a tenth.
    """
    return [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]


def _forced(schema: Mapping[str, Any]) -> dict[str, Any]:
    tool = {"name": _TOOL, "description": "Hand in the grades of all chunks.", "input_schema": schema}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}


def _read(body: object) -> RawGrading:
    """Take from an answer what is there, whatever shape it has."""
    match body:
        case {"content": [*blocks], **rest}:
            return RawGrading(
                text="\n".join(filter(None, ["".join(_texts(blocks, "text")), *_inputs(blocks)])) or None,
                reasoning="".join(_texts(blocks, "thinking")) or None,
                finish=_finish(rest.get("stop_reason")),
                usage=_usage(rest.get("usage")),
            )
        case {"error": {"type": str()} as error}:
            raise from_status(status_in(error) or 500, error)
    raise BackendError(Reason.PROVIDER_ERROR, "the answer holds no content", retryable=True)


def _texts(blocks: Sequence[object], kind: str) -> list[str]:
    found = (block.get(kind) for block in blocks if isinstance(block, dict) and block.get("type") == kind)
    return list(filter(None, map(as_str, found)))


def _inputs(blocks: Sequence[object]) -> list[str]:
    """Return what tools were called with, as text."""
    inputs = [block["input"] for block in blocks if isinstance(block, dict) and isinstance(block.get("input"), dict)]
    return list(map(as_text, inputs))


def _finish(reason: object) -> Any:
    if reason == "refusal":
        return "refused"
    return "length" if reason in ("max_tokens", "model_context_window_exceeded") else "stop"


def _usage(usage: object) -> Usage:
    """Count as the others do: what was read from the cache or written to it is input too."""
    given: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    anew, written, cached = (
        as_int(given.get(name)) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    return Usage(anew + written + cached, as_int(given.get("output_tokens")), cached, 1, written_tokens=written)
