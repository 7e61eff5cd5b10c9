"""The format of chat completions, which OpenAI, its imitators and litellm share."""

from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from pruner.backends.dialect import Dialect
from pruner.backends.faults import from_status, status_in
from pruner.backends.wire import as_int, as_str, as_text
from pruner.errors import BackendError, Reason
from pruner.schema import THOUGHTS, GradingRequest, RawGrading, Token, Usage

__all__ = ["body_of", "dialect_with", "read"]

_TOP_LOGPROBS = 10
_SIGNS = {
    "schema": r"\b(response_format|json_schema|output_format)\b|\boutput_config\b(?!\.effort)",
    "json_object": r"\b(response_format|json_object)\b",
    "reasoning_effort": r"\b(reasoning_effort|effort|output_config)\b",
    "system": r"(?i)\bsystem.{1,2}(role|turn|message|prompt|instruction)|\brole\b.{1,40}\bsystem\b"
    r"|\broles must alternate|\buser and assistant roles|\bdeveloper instruction",
}
# What a cache held of a prompt, and what it took of it.
_READ = ("cached_tokens", "prompt_cache_hit_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
# Why an answer ended, beside `stop` and what calls of tools are named; what is not here is as good as these.
_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS", "model_length")
_BROKEN_OFF = ("error", "network_error", "insufficient_system_resource")
_REFUSALS = (
    "content_filter",
    "sensitive",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "refusal",
)


def dialect_with(cap: str, other_cap: str) -> Dialect:
    """Return the dialect to begin with: what the output cap is called, and what else it may be called."""
    optional = (cap, "temperature", "reasoning_effort", "logprobs", "top_logprobs", "system")
    return Dialect(("schema", "json_object", "plain"), optional, {cap: other_cap}, _SIGNS)


def body_of(
    model: str, request: GradingRequest, dialect: Dialect, *, temperature: float | None, reasons: bool
) -> dict[str, Any]:
    """Return what is sent.

    Args:
        model: the provider's name of the model.
        request: what is asked.
        dialect: what the model takes.
        temperature: sent only if given.
        reasons: whether the model thinks before it answers: then little effort is asked for, and room left for it.
    """
    cap = request.max_output_tokens + (THOUGHTS if reasons else 0)
    optional = {
        "max_completion_tokens": cap,
        "max_tokens": cap,
        "temperature": temperature,
        "reasoning_effort": "low" if reasons else None,
        "logprobs": request.logprobs or None,
        "top_logprobs": _TOP_LOGPROBS if request.logprobs else None,
    }
    sent = [dialect.name_of(parameter) for parameter in dialect.optional]
    if "logprobs" not in sent:  # The one is refused without the other.
        del optional["top_logprobs"]
    body = {"model": model, "messages": _turns(request, dialect), **_form(dialect.form, request.schema)}
    return body | {name: optional[name] for name in sent if name and optional.get(name) is not None}


def _turns(request: GradingRequest, dialect: Dialect) -> list[dict[str, str]]:
    """Return the messages; where a model's template knows no system turn, the user's begins with its text."""
    if dialect.name_of("system") is None:
        return [{"role": "user", "content": f"{request.system}\n\n{request.user}"}]
    return [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]


def _form(form: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    if schema is None or form == "plain":
        return {}
    if form == "json_object":
        return {"response_format": {"type": "json_object"}}
    strict = {"name": "grades", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": strict}}


def read(body: object) -> RawGrading:
    """Take from an answer what is there, whatever shape it has.

    Raises:
        BackendError: the answer holds no choice.
    """
    match body:
        case {"choices": [{"error": {} as error}, *_]}:
            raise from_status(status_in(error) or 500, error)
        case {"choices": [{"message": {} as message, **choice}, *_], **rest}:
            return _grading(message, choice, rest.get("usage"))
        case {"choices": [{"finish_reason": reason}, *_]} if _refuses(reason):
            return RawGrading(finish="refused")
        case {"choices": [], "prompt_filter_results": [*results]} if any(map(_filtered, results)):
            return RawGrading(finish="refused")
        case {"error": {} as error} if (status := status_in(error)) is not None:
            raise from_status(status, error)
    raise BackendError(Reason.PROVIDER_ERROR, "the answer holds no choice", retryable=True)


def _grading(message: Mapping[str, Any], choice: Mapping[Any, Any], usage: object) -> RawGrading:
    text, reason = _text(message), choice.get("finish_reason")
    if text is None and reason in _BROKEN_OFF:
        raise BackendError(Reason.PROVIDER_ERROR, "the server broke the answer off", retryable=True)
    return RawGrading(
        text=text,
        reasoning=as_str(message.get("reasoning_content")) or as_str(message.get("reasoning")),
        finish=_finish(message, reason),
        tokens=_tokens(choice.get("logprobs")),
        usage=_usage(usage),
    )


def _text(message: Mapping[str, Any]) -> str | None:
    """Return the content, whole or in parts, and what tools were called with: the reader finds the grades in it."""
    match message.get("content"):
        case [*parts]:
            content = "".join(filter(None, (as_str(part.get("text")) for part in parts if isinstance(part, dict))))
        case other:
            content = as_str(other) or ""
    return "\n".join(filter(None, [content, *_arguments(message)])) or None


def _arguments(message: Mapping[str, Any]) -> list[str]:
    """Return what tools were called with, the older way too: a text, or with some servers what it says."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    functions.append(message.get("function_call"))
    given = [function.get("arguments") for function in functions if isinstance(function, dict)]
    return [as_str(one) or as_text(one) for one in given if one]


def _finish(message: Mapping[str, Any], reason: object) -> Any:
    if message.get("refusal") or _refuses(reason):
        return "refused"
    return "length" if reason in _CUT_OFF or reason in _BROKEN_OFF else "stop"


def _refuses(reason: object) -> bool:
    """Whether a reason to stop is that of a filter; one may say more after a colon."""
    return isinstance(reason, str) and reason.partition(":")[0].lower() in _REFUSALS


def _filtered(result: object) -> bool:
    """Whether Azure says that a filter holds a prompt back."""
    match result:
        case {"content_filter_results": {} as kinds}:
            return any(isinstance(kind, Mapping) and kind.get("filtered") is True for kind in kinds.values())
    return False


def _tokens(logprobs: object) -> tuple[Token, ...]:
    match logprobs:
        case {"content": [*entries]}:
            told = [entry for entry in entries if _is_token(entry)]
            texts = _whole(told)
            return tuple(Token(text, _top(e.get("top_logprobs"))) for text, e in zip(texts, told, strict=True))
    return ()


def _whole(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the texts of tokens, which together are the text of the reply.

    A character that is spread over tokens stands in the last of them: alone, its parts are no text. Servers write
    something else for those, and give the bytes.
    """
    decode = getincrementaldecoder("utf-8")("replace").decode
    for entry in entries:
        given = entry.get("bytes")
        yield decode(bytes(given)) if given and _is_bytes(given) else entry["token"]


def _is_bytes(given: object) -> TypeGuard[list[int]]:
    return isinstance(given, list) and all(type(byte) is int and 0 <= byte < 256 for byte in given)


def _top(alternatives: object) -> tuple[tuple[str, float], ...]:
    entries = alternatives if isinstance(alternatives, Sequence) else ()
    return tuple((entry["token"], _bounded(entry["logprob"])) for entry in entries if _is_token(entry))


def _bounded(logprob: float) -> float:
    """Bring a number of any size, which JSON may hold, to one that a float can be."""
    return float(max(min(logprob, 0), -1_000))


def _is_token(entry: object) -> bool:
    match entry:
        case {"token": str(), "logprob": int() | float()}:
            return True
    return False


def _usage(usage: object) -> Usage:
    """Count what servers count, by any of the names that they have for what a cache held and took."""
    given: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    details = given.get("prompt_tokens_details")
    named = {**given, **details} if isinstance(details, Mapping) else given
    cached, written = (max(as_int(named.get(name)) for name in names) for names in (_READ, _WRITTEN))
    sent, said = as_int(given.get("prompt_tokens")), as_int(given.get("completion_tokens"))
    return Usage(sent, said, cached, calls=1, written_tokens=written)
