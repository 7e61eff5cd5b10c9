"""OpenAI and every server that speaks its chat completions (`base_url`)."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import openai
from openai import AsyncOpenAI

from pruner.backends._loops import PerLoop
from pruner.backends.dialect import Dialect, Learner
from pruner.backends.faults import from_status
from pruner.config import KEY_VARIABLES, PrunerConfig
from pruner.errors import BackendError, ConfigError, Reason
from pruner.schema import GradingRequest, RawGrading, Token, Usage

__all__ = ["OpenAIBackend"]

_VENDOR_URL = "https://api.openai.com/v1"
_TOP_LOGPROBS = 10
_REASONING_TOKENS = 4_096
_MAX_BODY = 2_000_000


class OpenAIBackend:
    """Asks for grades by chat completions.

    Args:
        model: the provider's name of the model.
        api_key: key of the provider; servers of one's own need none.
        base_url: an OpenAI-compatible server; None is OpenAI itself.
        temperature: sent only if given.
        client: an `AsyncOpenAI` to use instead of one made here; its owner closes it.
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
        self._learner = Learner(_dialect(model, own_server=base_url is not None))
        self._given = client.with_options(max_retries=0) if client else None
        tls = httpx2.create_ssl_context()

        def make() -> AsyncOpenAI:
            http = httpx2.AsyncClient(verify=tls, timeout=None, limits=httpx2.Limits(max_connections=None))
            key, url = api_key or "none", base_url or _VENDOR_URL
            return AsyncOpenAI(api_key=key, base_url=url, max_retries=0, timeout=None, http_client=http)

        # The SDK imports the resource at first use; that is not to happen inside a call.
        _ = make().chat.completions.with_raw_response
        self._clients = PerLoop(make, AsyncOpenAI.close)

    @classmethod
    def from_config(cls, config: PrunerConfig) -> "OpenAIBackend":
        """Make one from the dials.

        Raises:
            ConfigError: no key for the vendor's own address.
        """
        if config.api_key is None and config.base_url is None:
            raise ConfigError(
                f"no API key for {config.model!r}: set {KEY_VARIABLES['openai']} and use PrunerConfig.load(), "
                "pass api_key, or pass base_url for a server of your own"
            )
        key = config.api_key.get_secret_value() if config.api_key else None
        return cls(config.model_name, api_key=key, base_url=config.base_url, temperature=config.temperature)

    async def grade(self, request: GradingRequest) -> RawGrading:
        """Ask once; see `Backend.grade`."""
        client = self._given or await self._clients.get()
        dialect = self._learner.dialect
        try:
            raw = await client.chat.completions.with_raw_response.create(**self._body(request, dialect))
            return _read(_parse(raw.content))
        except openai.APIStatusError as error:
            fault = from_status(error.status_code, error.body or error.message, error.response.headers)
            raise self._learner.learn(dialect, error.status_code, fault, str(error.body or error.message)) from error
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise BackendError(Reason.PROVIDER_ERROR, type(error).__name__, retryable=True) from error

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._clients.aclose()

    def _body(self, request: GradingRequest, dialect: Dialect) -> dict[str, Any]:
        room = _REASONING_TOKENS if _reasons(self._model) else 0
        optional = {
            "max_completion_tokens": request.max_output_tokens + room,
            "max_tokens": request.max_output_tokens + room,
            "temperature": self._temperature,
            "reasoning_effort": "low" if _reasons(self._model) else None,
            "logprobs": request.logprobs or None,
            "top_logprobs": _TOP_LOGPROBS if request.logprobs else None,
        }
        sent = [dialect.name_of(parameter) for parameter in dialect.optional]
        messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]
        body = {"model": self._model, "messages": messages, **_form(dialect.form, request.schema)}
        return body | {name: optional[name] for name in sent if name and optional[name] is not None}


def _dialect(model: str, *, own_server: bool) -> Dialect:
    """Begin with what a provider of this kind takes: servers of one's own know the older name of the output cap."""
    caps = ("max_tokens", "max_completion_tokens") if own_server else ("max_completion_tokens", "max_tokens")
    optional = (caps[0], "temperature", "reasoning_effort", "logprobs", "top_logprobs")
    return Dialect(("schema", "json_object", "plain"), optional, {caps[0]: caps[1]})


def _reasons(model: str) -> bool:
    """Whether a model of OpenAI's thinks before it answers, and takes `reasoning_effort`."""
    return re.match(r"(o\d|gpt-5(?!.*chat))", model) is not None


def _form(form: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    if schema is None or form == "plain":
        return {}
    if form == "json_object":
        return {"response_format": {"type": "json_object"}}
    strict = {"name": "grades", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": strict}}


def _parse(content: bytes) -> object:
    if len(content) > _MAX_BODY:
        raise BackendError(Reason.PROVIDER_ERROR, f"the answer has {len(content)} bytes", retryable=True)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BackendError(Reason.PROVIDER_ERROR, "the answer is no JSON", retryable=True) from error


def _read(body: object) -> RawGrading:
    """Take from an answer what is there, whatever shape it has."""
    match body:
        case {"choices": [{"message": {} as message, **choice}, *_], **rest}:
            return RawGrading(
                text=_text(message),
                reasoning=_str(message.get("reasoning_content")) or _str(message.get("reasoning")),
                finish=_finish(message, choice.get("finish_reason")),
                tokens=_tokens(choice.get("logprobs")),
                usage=_usage(rest.get("usage")),
            )
        case {"error": {"code": int(status), **rest}}:
            raise from_status(status, rest)
    raise BackendError(Reason.PROVIDER_ERROR, "the answer holds no choice", retryable=True)


def _str(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _text(message: Mapping[str, Any]) -> str | None:
    """Return the content, else the arguments of tool calls, else the text of content parts."""
    match message:
        case {"content": str(content)} if content.strip():
            return content
        case {"tool_calls": [*calls]} if calls:
            arguments = [call["function"]["arguments"] for call in calls if _has_arguments(call)]
            return "\n".join(arguments)
        case {"content": [*parts]}:
            return "".join(
                part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
            )
    return _str(message.get("content"))


def _has_arguments(call: object) -> bool:
    match call:
        case {"function": {"arguments": str()}}:
            return True
    return False


def _finish(message: Mapping[str, Any], reason: object) -> Any:
    if message.get("refusal") or reason == "content_filter":
        return "refused"
    return "length" if reason == "length" else "stop"


def _tokens(logprobs: object) -> tuple[Token, ...]:
    match logprobs:
        case {"content": [*entries]}:
            return tuple(
                Token(entry["token"], _top(entry.get("top_logprobs"))) for entry in entries if _is_token(entry)
            )
    return ()


def _top(alternatives: object) -> tuple[tuple[str, float], ...]:
    entries = alternatives if isinstance(alternatives, Sequence) else ()
    return tuple((entry["token"], float(entry["logprob"])) for entry in entries if _is_token(entry))


def _is_token(entry: object) -> bool:
    match entry:
        case {"token": str(), "logprob": int() | float()}:
            return True
    return False


def _usage(usage: object) -> Usage:
    given: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    details = given.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(_int(given.get("prompt_tokens")), _int(given.get("completion_tokens")), _int(cached), calls=1)


def _int(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
