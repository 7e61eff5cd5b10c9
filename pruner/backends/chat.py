"""The format of chat completions, which OpenAI, its imitators and litellm share."""

from collections.abc import Mapping, Sequence
from typing import Any

from pruner.backends.dialect import Dialect
from pruner.backends.faults import from_status, status_in
from pruner.backends.wire import as_int, as_str, as_text
from pruner.errors import BackendError, Reason
from pruner.schema import GradingRequest, RawGrading, Token, Usage

__all__ = ["body_of", "dialect_with", "read"]

_TOP_LOGPROBS = 10
_REASONING_TOKENS = 4_096
_SIGNS = {
    "schema": r"\b(response_format|json_schema|output_format)\b|\boutput_config\b(?!\.effort)",
    "json_object": r"\b(response_format|json_object)\b",
    "reasoning_effort": r"\b(reasoning_effort|effort|output_config)\b",
    "system": r"(?i)\bsystem.{1,2}(role|turn|message|prompt|instruction)|\brole\b.{1,40}\bsystem\b"
    r"|\broles must alternate|\buser and assistant roles|\bdeveloper instruction",
}


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
    cap = request.max_output_tokens + (_REASONING_TOKENS if reasons else 0)
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
        case {"choices": [{"message": {} as message, **choice}, *_], **rest}:
            return RawGrading(
                text=_text(message),
                reasoning=as_str(message.get("reasoning_content")) or as_str(message.get("reasoning")),
                finish=_finish(message, choice.get("finish_reason")),
                tokens=_tokens(choice.get("logprobs")),
                usage=_usage(rest.get("usage")),
            )
        case {"error": {} as error} if (status := status_in(error)) is not None:
            raise from_status(status, error)
    raise BackendError(Reason.PROVIDER_ERROR, "the answer holds no choice", retryable=True)


def _text(message: Mapping[str, Any]) -> str | None:
    """Return the content, whole or in parts, and what tools were called with: the reader finds the grades in it."""
    match message.get("content"):
        case [*parts]:
            content = "".join(filter(None, (as_str(part.get("text")) for part in parts if isinstance(part, dict))))
        case other:
            content = as_str(other) or ""
    return "\n".join(filter(None, [content, *_arguments(message.get("tool_calls"))])) or None


def _arguments(calls: object) -> list[str]:
    """Return what tools were called with: a text, or with some servers what it says."""
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    given = [function.get("arguments") for function in functions if isinstance(function, dict)]
    return [as_str(one) or as_text(one) for one in given if one]


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
    given: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    details = given.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(as_int(given.get("prompt_tokens")), as_int(given.get("completion_tokens")), as_int(cached), calls=1)
