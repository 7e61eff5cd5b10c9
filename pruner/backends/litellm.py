"""Every other vendor, by litellm (`litellm:vendor/model`; an extra).

The one backend that reads the environment: litellm looks for each vendor's own variables (GROQ_API_KEY, AWS_PROFILE, …)
itself, and no list of ours could keep up with it.
"""

import asyncio
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import openai

from pruner.backends._litellm import Answered, Library, module, noting_answers
from pruner.backends._loops import PerLoop
from pruner.backends.anthropic import thinks
from pruner.backends.chat import body_of, dialect_with, read
from pruner.backends.dialect import Asked, Dialect, Learner
from pruner.backends.faults import behind, broken_off, from_connection, from_status
from pruner.backends.probing import probe
from pruner.backends.wire import environment_read, parse
from pruner.config import PrunerConfig
from pruner.errors import BackendError, ConfigError, Reason
from pruner.schema import GradingRequest, RawGrading

__all__ = ["LiteLLMBackend"]

_NOWHERE = "http://127.0.0.1:1"

Wrap = Callable[[Any], Any]


class LiteLLMBackend:
    """Asks for grades through litellm, over connections of its own, without litellm's retries and callbacks.

    Args:
        model: vendor and model as litellm names them, `groq/llama-3.1-8b-instant`.
        api_key: key of the vendor; None leaves it to litellm to find one.
        base_url: a server that speaks the vendor's format; None is the vendor itself.
        temperature: sent only if given.

    Raises:
        ConfigError: the extra `litellm` is not installed, or it does not know the vendor.
    """

    def __init__(
        self, model: str, *, api_key: str | None = None, base_url: str | None = None, temperature: float | None = None
    ) -> None:
        self._library = Library()
        from pruner.backends._litellm_http import http_maker

        self._model, self._temperature, self._url = model, temperature, base_url
        # A server of one's own is never sent the vendor's key, which litellm would find by itself.
        self._key = api_key or ("none" if base_url else None)
        self._learner = Learner(dialect_with("max_tokens", "max_completion_tokens"), self._body)
        self._vendor, self._found_key, self._found_url = self._look_up()
        claude = "claude" in model
        self._reasons = thinks(model) if claude else bool(self._library.litellm.supports_reasoning(model))
        make_http = http_maker()
        with environment_read():  # litellm makes clients of its own on the way.
            wrap = self._wrapping()
            # The first client loads what it needs; that is not to happen inside a call.
            _Client(make_http(), wrap)
        self._clients = PerLoop(lambda: _Client(make_http(), wrap), _Client.aclose)

    @classmethod
    def from_config(cls, config: PrunerConfig) -> "LiteLLMBackend":
        """Make one from the dials.

        Raises:
            ConfigError: no key for the vendor's own address.
        """
        key = config.api_key.get_secret_value() if config.api_key else None
        if key is None and config.base_url is None and (missing := Library().missing_keys(config.model_name)):
            raise ConfigError(
                f"no API key for {config.model!r}: set {' or '.join(missing)}, which litellm reads itself, "
                "pass api_key, or pass base_url for a server of your own"
            )
        return cls(config.model_name, api_key=key, base_url=config.base_url, temperature=config.temperature)

    async def grade(self, request: GradingRequest) -> RawGrading:
        """Ask once, or for a probe once per chunk; see `Backend.grade`."""
        if request.probe is not None:
            return await probe(self._ask, request, request.probe)
        return await self._ask(request)

    async def _ask(self, request: GradingRequest) -> RawGrading:
        client = await self._clients.get()
        asked = self._learner.asking(request)
        with noting_answers() as answers:
            try:
                body: object = await self._complete(*asked, client.wrapped)
            except self._library.faults as error:
                body = None
                if _in_our_format(answers) is None:
                    raise self._fault(error, asked, answers) from error
        # litellm leaves out what it does not know, such as the error of a choice.
        grading = read(_in_our_format(answers) or body)
        self._learner.took(asked)
        return grading

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._clients.aclose()
        await self._library.settle()

    async def _complete(
        self, request: GradingRequest, dialect: Dialect, client: object, **access: Any
    ) -> dict[str, Any]:
        access = {"api_key": self._key, "api_base": self._url, **access}
        return await self._library.complete(**self._body(request, dialect), **access, client=client)

    def _body(self, request: GradingRequest, dialect: Dialect) -> dict[str, Any]:
        return body_of(self._model, request, dialect, temperature=self._temperature, reasons=self._reasons)

    def _fault(self, error: Exception, asked: Asked, answers: Sequence[Answered]) -> BackendError:
        kind = type(error).__name__
        if broken_off(error):  # litellm gives it a status nobody sent.
            return from_connection(error)
        if answers and answers[-1].status < 300:
            why = f"HTTP {answers[-1].status}, but litellm cannot read the answer: {type(behind(error)[-1]).__name__}"
            return BackendError(Reason.PROVIDER_ERROR, why, retryable=True)
        status, said, headers = _refusal(error, answers)
        if status is None:
            return BackendError(Reason.PROVIDER_ERROR, kind, retryable=isinstance(error, openai.OpenAIError))
        fault = from_status(status, said, headers)
        if fault.reason is Reason.BAD_REQUEST and (reason := self._reason_by_class(error)):
            return BackendError(reason, kind)
        return self._learner.learn(asked, status, fault, str(said))

    def _reason_by_class(self, error: Exception) -> Reason | None:
        if isinstance(error, self._library.litellm.ContextWindowExceededError):
            return Reason.CONTEXT_OVERFLOW
        refused = isinstance(error, self._library.litellm.ContentPolicyViolationError)
        return Reason.REFUSED if refused else None

    def _look_up(self) -> tuple[str, str | None, str | None]:
        """Return the vendor, and the key and address that litellm has for it."""
        look_up = self._library.litellm.get_llm_provider
        try:
            _, vendor, key, url = look_up(self._model, api_base=self._url, api_key=self._key)
        except self._library.faults as error:
            raise ConfigError(f"litellm knows no vendor of {self._model!r}; write litellm:vendor/model") from error
        return vendor, key, url

    def _wrapping(self) -> Wrap:
        """Find out how the vendor's code takes an HTTP client, which also loads that code; off the network.

        Where it takes none, litellm uses its own, and that is closed with the event loop.
        """
        # Azure's code would take any client of OpenAI's SDK, but not ask Azure with it.
        wrappings = [_as_handler] if self._vendor == "azure" else [_as_handler, self._as_sdk]
        with ThreadPoolExecutor(1) as thread, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            taken = (wrap for wrap in wrappings if thread.submit(asyncio.run, self._takes(wrap)).result())
            return next(taken, lambda http: None)

    async def _takes(self, wrap: Wrap) -> bool:
        import httpx

        asked = []

        def refuse(request: Any) -> Any:
            asked.append(request)
            return httpx.Response(500)

        request = GradingRequest("s", "u", 1)
        async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
            with suppress(BackendError, *self._library.faults):
                await self._complete(request, self._learner.dialect, wrap(http), api_base=_NOWHERE, api_key="none")
        return bool(asked)

    def _as_sdk(self, http: Any) -> openai.AsyncOpenAI:
        key, url = self._key or self._found_key, self._url or self._found_url
        return _Unretried(api_key=key, base_url=url, http_client=http, timeout=None)


class _Client:
    """One event loop's connections, and the form in which the vendor's code takes them."""

    def __init__(self, http: Any, wrap: Wrap) -> None:
        self._http = http
        self.wrapped = wrap(http)

    async def aclose(self) -> None:
        await self._http.aclose()


class _Unretried(openai.AsyncOpenAI):
    """An SDK client whose retries litellm cannot turn on again, as it does for some vendors."""

    max_retries = property(lambda self: 0, lambda self, value: None)


def _in_our_format(answers: Sequence[Answered]) -> object:
    """Return the last answer as it came where it is a chat completion, or tells of an error; None for any other."""
    if not answers or answers[-1].status >= 300:
        return None
    body = parse(answers[-1].content)
    match body:
        case {"choices": [*_]} | {"error": {}}:
            return body
    return None


def _refusal(error: Exception, answers: Sequence[Answered]) -> tuple[int | None, object, Mapping[str, str]]:
    """Return status, body and headers as the server sent them, else those that the first of the errors speaks of."""
    if answers:
        status, content, headers = answers[-1]
        return status, _as_json(content), headers
    first = [one for one in behind(error) if isinstance(one, openai.APIStatusError)][-1:]
    told = first[0] if first else error
    code, said = getattr(told, "status_code", None), getattr(told, "body", None) or str(told)
    sent = getattr(getattr(told, "response", None), "headers", None)
    return code if isinstance(code, int) else None, said, sent or getattr(error, "litellm_response_headers", None) or {}


def _as_json(content: bytes) -> object:
    try:
        return parse(content)
    except BackendError:
        return content.decode(errors="replace")


def _as_handler(http: Any) -> Any:
    handler = module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler()
    handler.client = http
    return handler
