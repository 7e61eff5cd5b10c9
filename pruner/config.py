"""Every dial, validated, and where its value comes from."""

import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from pruner.candidates import Grade
from pruner.dialtypes import (
    PREFIXES,
    BudgetPick,
    Cap,
    Count,
    Dedup,
    Expand,
    Key,
    Level,
    OrderPolicy,
    RevisionPolicy,
    Scoring,
    Share,
    SourcePolicy,
    endpoint_of,
    http_url,
    known_prefix,
    no_bool,
)
from pruner.errors import ConfigError
from pruner.variables import our_variables

__all__ = [
    "KEY_VARIABLES",
    "PREFIXES",
    "PrunerConfig",
    "Sources",
    "check_variables",
    "explain",
    "find_table",
    "gather",
    "http_url",
]

# litellm reads the variables of its many vendors itself.
KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_SELECTION_DIALS = frozenset(
    [
        "threshold",
        "keep_top_k",
        "min_score",
        "max_chunks",
        "token_cap",
        "fallback_top_n",
        "scoring",
        "policy",
        "revision_policy",
        "dedup",
        "dedup_overlap",
        "dedup_jaccard",
        "dedup_cosine",
        "dedup_across_sources",
        "mmr_lambda",
        "max_per_parent",
        "max_per_source",
        "source_policy",
        "expand",
        "expand_sentences",
        "token_budget",
        "budget_pick",
        "extract",
        "evidence_order",
    ]
)

_SERVICE, _SERVICE_VARIABLE = "service", "PRUNER_SERVICE_"
_OTHER_VARIABLES = ("PRUNER_CACHE_DIR", "PRUNER_TEST_FORBID_SKIPS")

Sources = dict[str, str]


class PrunerConfig(BaseModel):
    """All dials of a pruner. Immutable; a wrong or unknown one raises `ConfigError` in one line.

    The constructor reads nothing but its arguments; `PrunerConfig.load()` also reads environment and file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: Annotated[str, BeforeValidator(known_prefix)] = Field(
        default="openai:gpt-4o-mini", description="which LLM grades, as prefix:name"
    )
    base_url: Annotated[str, AfterValidator(http_url)] | None = Field(
        default=None, description="an OpenAI-compatible server instead of the vendor's own"
    )
    api_key: Key = Field(
        default=None, validate_default=True, description="key of the provider; not needed with a base_url"
    )
    timeout: Annotated[float, BeforeValidator(no_bool), Field(gt=0)] = Field(
        default=5.0, description="seconds for the whole grading, retries included (local models: 180)"
    )
    threshold: Level = Field(
        default=float(Grade.SUPPORTING), validate_default=True, description="lowest level kept, 1..5 or its name"
    )
    keep_top_k: Count = Field(default=2, description="the reranker's best few stay whatever their grade")
    min_score: Annotated[float, BeforeValidator(no_bool)] | None = Field(
        default=None, description="drop chunks scored lower before grading, and on fallback; the first keep_top_k stay"
    )
    max_chunks: Cap | None = Field(default=None, description="keep at most this many, on every path")
    token_cap: Cap | None = Field(default=None, description="keep at most this many tokens of text, on every path")
    min_chunks: Count = Field(default=0, description="no call for fewer chunks than this")
    min_tokens: Count = Field(default=0, description="no call when the chunks hold fewer tokens than this")
    max_input_tokens: Cap | None = Field(
        default=None, description="size of the prompt; longer lists are cut to fit (default: the model's, where known)"
    )
    max_output_tokens: Cap | None = Field(
        default=None,
        description="cap on the reply (default: by the number of chunks); a model that thinks gets 4,096 more",
    )
    chunk_order: Literal["reranker", "shuffle"] = Field(
        default="reranker", description="order in the prompt; shuffle shows whether a model favours places"
    )
    seed: Count = Field(default=0, description="of the shuffle")
    fallback_top_n: Cap | None = Field(
        default=None, description="on fallback keep this many instead of all; replaces threshold and keep_top_k there"
    )
    temperature: Annotated[float, BeforeValidator(no_bool), Field(ge=0)] | None = Field(
        default=None, description="sampling temperature; sent only if set"
    )
    reasons: bool = Field(default=False, description="ask for a few words per grade (debugging; costs output tokens)")
    prompt: str = Field(default="grade.v1", description="name of a shipped prompt, or path of a .jinja file")
    instructions: str = Field(default="", description="hints about the domain, added to the prompt")
    readout: Literal["json", "probe"] = Field(default="json", description="how grades are read (local models: probe)")
    reply_format: Literal["pairs", "listed", "keyed"] = Field(
        default="pairs", description="the JSON asked for by readout json"
    )
    scoring: Scoring = Field(
        default="grade", description="judge by the written grade, or by the mean level from token probabilities"
    )

    policy: str = Field(default="default", description="your name for these selection dials, for the trace")
    revision_policy: RevisionPolicy = Field(
        default="all", description="active: drop chunks whose status says that their revision is not in force"
    )
    dedup: Dedup = Field(default="off", description="drop copies: of one id; also of one span; also of nearly one text")
    dedup_overlap: Share = Field(default=0.8, description="overlap, as a share of the shorter span, that makes a copy")
    dedup_jaccard: Share = Field(default=0.8, description="share of common shingles that makes texts nearly the same")
    dedup_cosine: Share = Field(default=0.98, description="cosine of embeddings that makes texts nearly the same")
    dedup_across_sources: bool = Field(
        default=True, description="false: near-equal texts of different sources corroborate each other and stay"
    )
    mmr_lambda: Annotated[float, BeforeValidator(no_bool), Field(ge=0, le=1)] = Field(
        default=1.0, description="below 1: take what is relevant and not redundant; 1: by relevance alone"
    )
    max_per_parent: Cap | None = Field(default=None, description="keep at most this many of one parent")
    max_per_source: Cap | None = Field(default=None, description="keep at most this many of one source")
    source_policy: SourcePolicy = Field(
        default="comparative",
        description="hold the cap for all sources; official ones first, without it; or of copies keep the official one",
    )
    expand: Expand = Field(
        default="off", description="show more of the parent: headings, paragraph, sentences around, table, all of it"
    )
    expand_sentences: Cap = Field(default=1, description="how many sentences around, for expand=sentences")
    parent_timeout: Annotated[float, BeforeValidator(no_bool), Field(gt=0)] = Field(
        default=2.0, description="seconds for fetching all parents; what is not here by then stays as it is"
    )
    token_budget: Cap | None = Field(
        default=None, description="tokens of all evidence blocks together, headers included, on every path"
    )
    budget_pick: BudgetPick = Field(
        default="greedy", description="fill the budget in the order of selection, or by relevance per token"
    )
    extract: bool = Field(default=False, description="show only the sentences that the query is about")
    evidence_order: OrderPolicy = Field(
        default="reranker", description="order of the kept chunks; edges puts the best at both ends"
    )

    @property
    def prefix(self) -> str:
        """The provider part of `model`."""
        return self.model.partition(":")[0]

    @property
    def model_name(self) -> str:
        """The provider's own name of the model."""
        return self.model.partition(":")[2]

    def with_dials(self, **dials: Any) -> Self:
        """Return a copy with other selection dials; any other name is refused."""
        _refuse_others(dials.keys() - _SELECTION_DIALS)
        return self._with(dials)

    def for_call(self, **dials: Any) -> Self:
        """Return a copy for one call: with other selection dials, or another `timeout`; any other name is refused."""
        _refuse_others(dials.keys() - _SELECTION_DIALS - {"timeout"})
        return self._with(dials)

    def _with(self, dials: Mapping[str, Any]) -> Self:
        return type(self)(**{**self.model_dump(exclude_unset=True), **dials}) if dials else self

    def for_grading(self) -> Self:
        """Return a copy in which what a call may set, selection dials and timeout, is at its default."""
        return type(self)(**self.model_dump(exclude_unset=True, exclude={*_SELECTION_DIALS, "timeout"}))

    def selection_dials(self) -> dict[str, Any]:
        """The dials that `assemble()` goes by."""
        return self.model_dump(include=set(_SELECTION_DIALS))

    @cached_property
    def policy_sha256(self) -> str:
        """Hash of the selection dials without their name: equal hashes, equal rules."""
        rules = {name: value for name, value in self.selection_dials().items() if name != "policy"}
        return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()

    @classmethod
    def load(cls, *, file: str | Path | None = None, **dials: Any) -> Self:
        """Make a config from explicit dials, then the environment, then a TOML file, then defaults.

        Args:
            file: a TOML file with the dials; by default `pruner.toml`, else `[tool.pruner]` of `pyproject.toml`, in
                the current folder.
            dials: explicit values; they win.

        Raises:
            ConfigError: a value is wrong, whatever its source, or the file cannot be read.
        """
        return cls(**gather(file, **dials)[0])

    @field_validator("api_key", "base_url", mode="before")
    @classmethod
    def _blank_is_none(cls, value: Any) -> Any:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        return None if isinstance(text, str) and not text.strip() else value

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_local(cls, data: Any) -> Any:
        if isinstance(data, dict) and str(data.get("model", "")).lstrip().startswith("local:"):
            data = {"timeout": 180.0, "readout": "probe", **data}
            data = {"prompt": "probe.v1", **data} if data["readout"] == "probe" else data
        if isinstance(data, dict) and data.get("readout") == "probe":
            data = {"prompt": "levels.v1", **data}
        return data

    @model_validator(mode="after")
    def _dials_agree(self) -> Self:
        for name in ("fallback_top_n", "max_chunks"):
            value = getattr(self, name)
            if value is not None and value < self.keep_top_k:
                raise ValueError(f"{name}={value} is below keep_top_k={self.keep_top_k}; raise it or lower keep_top_k")
        if self.source_policy == "syndicated" and self.dedup != "texts":
            raise ValueError("source_policy='syndicated' needs dedup='texts': it chooses among copies")
        if self.base_url and self.prefix in KEY_VARIABLES and (path := endpoint_of(self.base_url)):
            raise ValueError(f"base_url: leave out {path!r} at its end: the paths of the API are put behind it")
        if self.readout == "probe" and self.reasons:
            raise ValueError("reasons=True needs readout='json': a probe is answered with one digit")
        if self.readout == "probe" and self.prefix == "anthropic":
            raise ValueError("readout='probe' needs token probabilities, which Anthropic does not give")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _one_line(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise ConfigError(explain(error, "dial", cls.model_fields)) from None


def _refuse_others(wrong: Collection[str]) -> None:
    if wrong:
        raise ConfigError(f"{min(wrong)!r} is not a selection dial; use one of {', '.join(sorted(_SELECTION_DIALS))}")


def explain(error: ValidationError, kind: str, known: Iterable[str]) -> str:
    """Say in one line what is wrong, and for an unknown name which of the known ones was perhaps meant."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        return _unknown(kind, name, known)
    message = first["msg"].removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


def check_variables(ours: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a variable that carries our name and means nothing, so that a slip does not go unnoticed.

    Raises:
        ConfigError: one is unknown; the message names the one that was perhaps meant.
    """
    if unknown := sorted(set(ours) - set(known)):
        raise ConfigError(_unknown("variable", unknown[0], known))


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"unknown {kind} {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def gather(file: str | Path | None = None, **dials: Any) -> tuple[dict[str, Any], Sources]:
    """Collect dials from all sources, and say where each came from (`argument`, a variable or a file).

    An empty variable counts as unset, and blanks around a value are not of it. The vendor's own key variable is used
    only for the vendor's own address: a key is never sent to a `base_url` it was not meant for.
    """
    values, sources = _from_file(file)
    for layer, origins in (_from_environment(), (dials, dict.fromkeys(dials, "argument"))):
        values |= layer
        sources |= origins
    prefix = str(values.get("model", PrunerConfig.model_fields["model"].default)).strip().partition(":")[0]
    variable = KEY_VARIABLES.get(prefix, "")
    unset = not values.get("api_key") or sources["api_key"] not in ("argument", "PRUNER_API_KEY")
    if unset and not values.get("base_url") and (key := os.environ.get(variable, "").strip()):
        values["api_key"], sources["api_key"] = key, variable
    return values, sources


def _from_environment() -> tuple[dict[str, Any], Sources]:
    variables = {name: f"PRUNER_{name.upper()}" for name in PrunerConfig.model_fields}
    known = {*variables.values(), *_OTHER_VARIABLES}
    ours = our_variables()
    check_variables((v for v in ours if not v.startswith(_SERVICE_VARIABLE)), known)
    found = {name: ours[v] for name, v in variables.items() if ours.get(v)}
    return dict(found), {name: variables[name] for name in found}


def _from_file(file: str | Path | None) -> tuple[dict[str, Any], Sources]:
    table, path = find_table(file)
    dials = {name: value for name, value in table.items() if name != _SERVICE}
    return dials, dict.fromkeys(dials, path)


def find_table(file: str | Path | None = None) -> tuple[dict[str, Any], str]:
    """Read the dials' table, which may hold one named `service`, from the first file that has it, and its name.

    Raises:
        ConfigError: a file cannot be read, or holds the table elsewhere.
    """
    if not isinstance(file, str | os.PathLike | None):
        raise ConfigError(f"file must be a path, not {type(file).__name__}")
    for path in [Path(file)] if file else [Path("pruner.toml"), Path("pyproject.toml")]:
        if (file or path.is_file()) and (table := _table_of(path)):
            return dict(table), str(path)
    return {}, ""


def _table_of(path: Path) -> Mapping[str, Any]:
    table = _read_toml(path)
    if path.name != "pyproject.toml":
        for name, header in (("tool", "[tool.pruner]"), ("pruner", "[pruner]")):
            if name in table:
                raise ConfigError(f"{path}: leave out the header {header}: here the dials stand at the top of the file")
        return table
    for key in ("tool", "pruner"):
        table = table.get(key, {})
        if not isinstance(table, Mapping):
            raise ConfigError(f"{path}: [tool.pruner] must be a table")
    return table


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
