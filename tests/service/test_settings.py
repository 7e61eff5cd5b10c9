import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from pruner.config import PrunerConfig
from pruner.errors import ConfigError, RequestError
from pruner.service.auth import Keys, hash_key, is_loopback, new_key
from pruner.service.dials import Dials
from pruner.service.settings import ServiceSettings, variable_of
from tests.service.served import KEY, KEYS


def test_an_argument_wins_over_a_variable_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pruner.toml").write_text("threshold = 4\n[service]\nport = 1\nmax_body = 2\nchunk_limit = 3\n")
    monkeypatch.setenv("PRUNER_SERVICE_PORT", "10")
    monkeypatch.setenv("PRUNER_SERVICE_MAX_BODY", "20")
    settings = ServiceSettings.load(port=100)
    assert (settings.port, settings.max_body, settings.chunk_limit, settings.workers) == (100, 20, 3, 1)
    assert PrunerConfig.load().threshold == 4


def test_the_table_may_stand_in_pyproject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[tool.pruner]\nthreshold = 4\n[tool.pruner.service]\nport = 1\n")
    assert (ServiceSettings.load().port, PrunerConfig.load().threshold) == (1, 4)


def test_mappings_and_lists_are_json_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_SERVICE_API_KEYS", f'{{"a": "{hash_key(KEY)}"}}')
    monkeypatch.setenv("PRUNER_SERVICE_CORS_ORIGINS", '["https://a.example"]')
    monkeypatch.setenv("PRUNER_SERVICE_DIALS", '{"threshold": [2, 4]}')
    settings = ServiceSettings.load()
    assert settings.api_keys == {"a": hash_key(KEY)}
    assert (settings.cors_origins, settings.dials) == (("https://a.example",), {"threshold": (2, 4)})


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ServiceSettings.model_fields:
        monkeypatch.setenv(variable_of(name), "")
    assert ServiceSettings.load() == ServiceSettings()


def test_the_otlp_endpoint_may_come_from_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    assert ServiceSettings.load().otlp_endpoint == "http://collector:4318"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PRUNER_SERVICE_PROT", "1", "unknown variable 'PRUNER_SERVICE_PROT'; did you mean 'PRUNER_SERVICE_PORT'?"),
        ("PRUNER_SERVICE_PORT", "http", "service: port: "),
        ("PRUNER_SERVICE_API_KEYS", "{", "PRUNER_SERVICE_API_KEYS is not JSON: "),
    ],
)
def test_a_wrong_variable_is_refused_in_one_line(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as refused:
        ServiceSettings.load()
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"prot": 1}, "service: unknown setting 'prot'; did you mean 'port'?"),
        ({"port": 70_000}, "service: port: "),
        ({"workers": 0}, "service: workers: "),
        ({"body_timeout": float("inf")}, "service: body_timeout: "),
        ({"api_keys": {"a": KEY}}, "service: api_keys: 'a' is not followed by sha256:"),
        ({"dials": {"model": ["a"]}}, "service: dials: 'model' is not a selection dial"),
        ({"dials": {"threshold": [4, 2]}}, "service: dials: 'threshold' needs its lowest and its highest value"),
        ({"dials": {"threshold": []}}, "service: dials: 'threshold' needs its lowest and its highest value"),
        ({"upstream": "api.example.com"}, "service: upstream: must begin with http"),
        *(
            ({"allowed_hosts": [name]}, f"service: allowed_hosts: {name!r} is no name of a host")
            for name in ("*", "*.prod", "", "https://pruner.prod", "pruner.prod/", "a.example, b.example", "10.0.0.0/8")
        ),
        ({"mode": "both"}, "service: mode: "),
        ({"mode": "shadow"}, "service: mode 'shadow' pays for gradings that only the log of decisions shows"),
        ({"ab_share": 1.5}, "service: ab_share: "),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ServiceSettings(**setting)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "pruner.internal"])
def test_a_host_that_others_reach_needs_keys_or_a_plain_word(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^service: host .* no key is set: set api_keys"):
        ServiceSettings(host=host)
    assert ServiceSettings(host=host, api_keys=KEYS).host == host
    assert ServiceSettings(host=host, allow_unauthenticated=True).host == host


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("127.0.0.1.x", False), ("", False)],
)
def test_loopback_hosts_are_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_the_key_itself_is_in_no_setting() -> None:
    assert KEY not in repr(ServiceSettings(api_keys=KEYS, upstream_key=SecretStr("secret-of-upstream")))
    assert "secret-of-upstream" not in repr(ServiceSettings(upstream_key=SecretStr("secret-of-upstream")))


@pytest.mark.parametrize("key", ["", "short", "with spaces in it is no key", "schlüssel-mit-umlauten"])
def test_a_key_that_can_be_guessed_or_not_be_sent_gets_no_hash(key: str) -> None:
    with pytest.raises(RequestError):
        hash_key(key)


def test_a_new_key_is_let_in_by_its_hash_only() -> None:
    key = new_key()
    keys = Keys({"new": hash_key(key)})
    assert (keys.name_of(f"Bearer {key}"), keys.name_of(f"bearer  {key}"), keys.name_of(f"Bearer {key}x")) == (
        "new",
        "new",
        None,
    )


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def compare(a: bytes, b: bytes) -> bool:
        seen.append(len(b))
        return a == b

    monkeypatch.setattr("pruner.service.auth.hmac.compare_digest", compare)
    assert Keys(KEYS).name_of(f"Bearer {KEY}") == "team-a"
    assert seen == [32, 32]  # The first one fits, and the second is compared all the same.


def test_every_dial_that_is_open_by_default_can_be_sent() -> None:
    assert ServiceSettings().dials.keys() == Dials.model_fields.keys()


def test_settings_reach_a_worker() -> None:
    settings = ServiceSettings(api_keys=KEYS, upstream_key=SecretStr("s"), dials={"threshold": (2, 4)})
    assert pickle.loads(pickle.dumps(settings)) == settings
