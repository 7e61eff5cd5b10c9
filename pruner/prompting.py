"""From query and chunks to what the model reads. Chunk text goes only where the model takes it for data."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pruner.config import PrunerConfig
from pruner.errors import ConfigError
from pruner.schema import Candidate, GradingRequest, ProbeRequest
from pruner.texts import without_surrogates

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

__all__ = ["PROMPTS", "Prompt", "build_request", "load_prompt", "prompt_names", "reply_schema"]

# Installed, the prompts sit inside the package; in a checkout, beside it. Either or: `prompts` may be anyone's.
_packaged = Path(__file__).parent / "prompts"
PROMPTS = _packaged if _packaged.is_dir() else _packaged.parent.parent / "prompts"

_BLOCKS = {"json": ("system", "user"), "probe": ("system", "opening", "chunk", "question")}
_TOKENS_PER_GRADE = {"pairs": 12, "listed": 24, "keyed": 12}
_TOKENS_PER_REASON = 40
_LINE = 300


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file, compiled.

    Attributes:
        name: the shipped name, or the file's name.
        sha256: of the file's bytes; the trace records it.
        readout: which readout its blocks are for.
        source: the file's text.
    """

    name: str
    sha256: str
    readout: str
    source: str
    _template: "Template"

    def block(self, name: str, **values: Any) -> str:
        """Render one block; values are not evaluated again, and a lone surrogate, which no wire takes, becomes `?`."""
        from jinja2 import TemplateError

        try:
            return without_surrogates("".join(self._template.blocks[name](self._template.new_context(values))))
        except TemplateError as error:
            raise ConfigError(f"prompt {self.name!r}, block {name!r}: {error}") from None


def prompt_names() -> list[str]:
    """List the shipped prompts."""
    return sorted(file.name.removesuffix(".jinja") for file in PROMPTS.glob("*.jinja"))


def load_prompt(name: str) -> Prompt:
    """Load a shipped prompt by name, or one's own by path. Such a file is text to be filled in: it cannot run code.

    Raises:
        ConfigError: there is none, it cannot be read or compiled, or it lacks a block.
    """
    from jinja2 import TemplateError

    path = Path(name) if name.endswith(".jinja") else PROMPTS / f"{name}.jinja"
    try:
        raw = path.read_bytes()
        template = _environment().from_string(raw.decode("utf-8"))
    except OSError:
        raise ConfigError(
            f"no prompt {name!r}; use one of {', '.join(prompt_names())}, or a path to a .jinja file"
        ) from None
    except (UnicodeDecodeError, TemplateError) as error:
        raise ConfigError(f"prompt {name!r} cannot be used: {error}") from None
    readout = "json" if "user" in template.blocks else "probe"
    if missing := set(_BLOCKS[readout]) - template.blocks.keys():
        raise ConfigError(f"prompt {name!r} lacks the block {min(missing)!r}")
    shown = path.name.removesuffix(".jinja")
    return Prompt(shown, hashlib.sha256(raw).hexdigest(), readout, raw.decode("utf-8"), template)


@cache
def _environment() -> "SandboxedEnvironment":
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            """Look into a dict first, as what we render is one; jinja2 looks for a method, and fails, each time."""
            return obj[attribute] if type(obj) is dict and attribute in obj else super().getattr(obj, attribute)

    return Environment(undefined=StrictUndefined, autoescape=False)


def build_request(
    prompt: Prompt,
    config: PrunerConfig,
    query: str,
    candidates: Sequence[Candidate],
    history: Sequence[str] = (),
) -> GradingRequest:
    """Render one request over all candidates, labelled 1..n in the order given."""
    chunks = [_shown(label, c) for label, c in enumerate(candidates, 1)]
    values = {
        "query": query,
        "history": list(history),
        "chunks": chunks,
        "instructions": config.instructions,
        "reply_format": config.reply_format,
        "reasons": config.reasons,
        "nonce": _code([query, *history, *(part for chunk in chunks for part in _texts(chunk))]),
    }
    system = prompt.block("system", **values)
    if prompt.readout == "probe":
        return GradingRequest(system, "", len(chunks), max_output_tokens=1, logprobs=True, probe=_probe(prompt, values))
    per_chunk = _TOKENS_PER_GRADE[config.reply_format] + (_TOKENS_PER_REASON if config.reasons else 0)
    return GradingRequest(
        system=system,
        user=prompt.block("user", **values),
        n=len(chunks),
        schema=reply_schema(config.reply_format, len(chunks), reasons=config.reasons),
        max_output_tokens=config.max_output_tokens or 64 + per_chunk * len(chunks),
        logprobs=config.scoring == "expected",
    )


def _probe(prompt: Prompt, values: dict[str, Any]) -> ProbeRequest:
    def each(block: str) -> tuple[str, ...]:
        return tuple(prompt.block(block, chunk=chunk, **values) for chunk in values["chunks"])

    return ProbeRequest(prompt.block("opening", **values), each("chunk"), each("question"))


def _shown(label: int, candidate: Candidate) -> dict[str, Any]:
    chunk = candidate.chunk
    return {
        "label": label,
        "text": candidate.text,
        "title": _line(chunk.title or ""),
        "date": _line(chunk.date or ""),
        "heading": _line(" > ".join(chunk.heading_path)),
    }


def _texts(shown: dict[str, Any]) -> list[str]:
    return [part for part in shown.values() if isinstance(part, str)]


def _line(text: str) -> str:
    """Bring a title or the like to one line of bearable length."""
    if not text:
        return ""
    line = " ".join(text[: 2 * _LINE].split())
    return line if len(line) <= _LINE else line[:_LINE] + "…"


def _code(texts: Sequence[str]) -> str:
    """Return a code that stands in none of the texts, so that none can forge a tag with it.

    It is a hash of the texts, so that the same list gives the same prompt, and short, as it costs tokens. Nobody has to
    keep it secret: a text that holds it gets another one, and a longer one, as no text can hold them all.
    """
    everything = "\n".join(texts)
    digest, in_any_case = hashlib.shake_128(everything.encode("utf-8", "surrogatepass")), everything.lower()
    return next(code for size in count(3) if (code := digest.hexdigest(size)) not in in_any_case)


def reply_schema(reply_format: str, n: int, *, reasons: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a reply; the same for every n, but for `keyed`.

    Only `enum`, never ranges; every key required; `additionalProperties` closed, as OpenAI's strict mode wants it.
    """
    level = {"type": "integer", "enum": [1, 2, 3, 4, 5]}
    if reasons:
        entry = _object({"id": {"type": "integer"}, "grade": level, "reason": {"type": "string"}})
    elif reply_format == "keyed":
        return _object({str(label): level for label in range(1, n + 1)})
    elif reply_format == "listed":
        entry = _object({"id": {"type": "integer"}, "grade": level})
    else:
        entry = {"type": "array", "items": {"type": "integer"}}
    return _object({"grades": {"type": "array", "items": entry}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
