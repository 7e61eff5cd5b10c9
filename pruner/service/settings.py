"""Every setting of the service, validated, and where its value comes from."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from pruner.config import check_variables, explain, find_table, http_url
from pruner.errors import ConfigError
from pruner.service.auth import allowed_host, is_hash, is_loopback
from pruner.service.dials import WIDEST, Limits, check_limits
from pruner.variables import our_variables

__all__ = ["ServiceSettings", "variable_of"]

_Count = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Url = Annotated[str, AfterValidator(http_url)]
_Host = Annotated[str, AfterValidator(allowed_host)]


class ServiceSettings(BaseModel):
    """All settings of the service. Immutable; a wrong or unknown one raises `ConfigError` in one line.

    The constructor reads nothing but its arguments; `ServiceSettings.load()` also reads environment and file.
    Limits hold for each worker.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8000, description="port to listen on; 0 takes a free one"
    )
    workers: _Count = Field(default=1, description="processes; a local model is loaded by each")
    api_keys: Mapping[str, str] = Field(
        default_factory=dict, description="name → `sha256:…` of a key that may call (`pruner serve --hash-key`)"
    )
    allow_unauthenticated: bool = Field(
        default=False, description="listen on a non-loopback host without any key; whoever reaches it spends your money"
    )
    allowed_hosts: tuple[_Host, ...] = Field(
        default=(), description="names a request may have in its Host header (default: any, without keys loopback ones)"
    )
    cors_origins: tuple[str, ...] = Field(default=(), description="origins whose pages may call from a browser")
    metrics_public: bool = Field(default=False, description="`/metrics` needs no key")
    max_body: _Count = Field(default=2_097_152, description="bytes of a request's body")
    body_timeout: _Seconds = Field(default=10.0, description="seconds in which a body must have arrived")
    chunk_limit: _Count = Field(default=1000, description="chunks of one request")
    max_concurrent: _Count = Field(
        default=100, description="gradings at the same time; beyond it the reranker's order answers, `overloaded`"
    )
    max_in_flight: _Count = Field(default=400, description="requests at the same time; beyond it 503")
    max_per_key: _Count | None = Field(default=None, description="requests of one key at the same time; beyond it 429")
    dials: Limits = Field(
        default=WIDEST, description="dials a request may set: lowest and highest value, or the values there are"
    )
    upstream: _Url | None = Field(default=None, description="rerank URL that `/v1/rerank` asks first")
    upstream_key: SecretStr | None = Field(default=None, description="key of the upstream")
    upstream_model: str | None = Field(default=None, description="model the upstream is asked for")
    upstream_timeout: _Seconds = Field(default=5.0, description="seconds for the upstream's answer")
    mode: Literal["off", "shadow", "ab", "on"] = Field(
        default="on",
        description="who gets the pruned list: nobody, nobody while gradings are logged, a share, everyone",
    )
    ab_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5, description="share of the keys that get the pruned list in mode `ab`"
    )
    ab_salt: str = Field(default="", description="changes who is in which arm")
    decision_log: Path | None = Field(
        default=None, description="file to which each decision is appended, as JSON lines"
    )
    log_content: bool = Field(default=False, description="write queries and chunks into logs")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="least level logged")
    otlp_endpoint: _Url | None = Field(
        default=None, description="where spans go (default: `OTEL_EXPORTER_OTLP_ENDPOINT`, else nowhere)"
    )

    @classmethod
    def load(cls, *, file: str | Path | None = None, **settings: Any) -> Self:
        """Make settings from explicit ones, then the environment, then the table `service` of the TOML file.

        Args:
            file: as for `PrunerConfig.load()`.
            settings: explicit values; they win.

        Raises:
            ConfigError: a value is wrong, whatever its source, or the file cannot be read.
        """
        table = find_table(file)[0].get("service", {})
        if not isinstance(table, Mapping):
            raise ConfigError("[service] must be a table")
        return cls(**{**table, **_from_environment(), **settings})

    @field_validator("api_keys")
    @classmethod
    def _are_hashes(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, digest in value.items():
            if not name.isprintable() or not is_hash(digest):
                raise ValueError(
                    f"{name!r} is not followed by sha256:<64 hex digits>; make one by pruner serve --hash-key"
                )
        return value

    @field_validator("dials")
    @classmethod
    def _are_limits(cls, value: Limits) -> Limits:
        check_limits(value)
        return value

    @model_validator(mode="after")
    def _not_open_by_accident(self) -> Self:
        if not (self.api_keys or self.allow_unauthenticated or is_loopback(self.host)):
            raise ValueError(
                f"host {self.host!r} can be reached by others and no key is set: set api_keys (see pruner serve "
                "--hash-key), or say allow_unauthenticated"
            )
        return self

    @model_validator(mode="after")
    def _not_watched_in_vain(self) -> Self:
        if self.mode == "shadow" and not self.decision_log:
            raise ValueError("mode 'shadow' pays for gradings that only the log of decisions shows: set decision_log")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _one_line(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise ConfigError(f"service: {explain(error, 'setting', cls.model_fields)}") from None


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"PRUNER_SERVICE_{name.upper()}"


def _from_environment() -> dict[str, Any]:
    variables = {variable_of(name): name for name in ServiceSettings.model_fields}
    ours = our_variables()
    check_variables((v for v in ours if v.startswith("PRUNER_SERVICE_")), variables)
    found = {name: _value(v, ours[v]) for v, name in variables.items() if ours.get(v)}
    if endpoint := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip():
        found.setdefault("otlp_endpoint", endpoint)
    return found


def _value(variable: str, text: str) -> Any:
    """Read mappings and lists as JSON."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{variable} is not JSON: {error}") from None
