import pytest

from pruner import ConfigError, PrunerConfig
from pruner.service.settings import ServiceSettings
from pruner.variables import of_kubernetes, our_variables


def set_service(monkeypatch: pytest.MonkeyPatch, name: str, host: str = "10.96.12.7", port: str = "80") -> list[str]:
    """Set what Kubernetes sets for a Service."""
    at = f"[{host}]" if ":" in host else host
    variables = {
        "PORT": f"tcp://{at}:{port}",
        "PORT_80_TCP": f"tcp://{at}:{port}",
        "PORT_80_TCP_ADDR": host,
        "PORT_80_TCP_PORT": port,
        "PORT_80_TCP_PROTO": "tcp",
        "SERVICE_HOST": host,
        "SERVICE_PORT": port,
        "SERVICE_PORT_HTTP": port,
    }
    for variable, value in variables.items():
        monkeypatch.setenv(f"{name}_{variable}", value)
    return sorted(f"{name}_{variable}" for variable in variables)


@pytest.mark.parametrize("name", ["PRUNER", "PRUNER_CACHE", "PRUNER_SERVICE", "PRUNER_0_1"])
@pytest.mark.parametrize("host", ["10.96.12.7", "fd00::7"])
def test_what_kubernetes_sets_for_a_service_of_our_name_is_not_ours(
    name: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = set_service(monkeypatch, name, host)
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "4")
    monkeypatch.setenv("PRUNER_SERVICE_WORKERS", "2")
    assert of_kubernetes() == theirs
    assert PrunerConfig.load() == PrunerConfig(keep_top_k=4)
    assert ServiceSettings.load() == ServiceSettings(workers=2)


def test_a_host_and_a_port_that_are_not_the_services_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    set_service(monkeypatch, "PRUNER")
    monkeypatch.setenv("PRUNER_SERVICE_HOST", "::1")
    monkeypatch.setenv("PRUNER_SERVICE_PORT", "8080")
    settings = ServiceSettings.load()
    assert (settings.host, settings.port) == ("::1", 8080)


@pytest.mark.parametrize(
    ("own_host", "port", "listening"),
    [("0.0.0.0", "9000", 9000), ("0.0.0.0", "80", 8000), (None, "9000", 8000)],
)
def test_a_port_equal_to_the_services_is_ours_beside_a_host_of_ours(
    own_host: str | None, port: str, listening: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_service(monkeypatch, "PRUNER", port=port)
    if own_host:
        monkeypatch.setenv("PRUNER_SERVICE_HOST", own_host)
    assert ServiceSettings.load(allow_unauthenticated=True).port == listening


def test_a_mistyped_variable_is_refused_beside_a_service_of_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    set_service(monkeypatch, "PRUNER")
    monkeypatch.setenv("PRUNER_TRESHOLD", "4")
    with pytest.raises(ConfigError, match="PRUNER_TRESHOLD"):
        PrunerConfig.load()


def test_a_port_that_is_no_address_is_not_taken_for_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_PORT", "80")
    assert of_kubernetes() == []
    with pytest.raises(ConfigError, match="PRUNER_PORT"):
        PrunerConfig.load()


def test_blanks_around_a_value_are_not_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "REASONS": " true ",
        "KEEP_TOP_K": "\t3 ",
        "DEDUP": " texts",
        "MODEL": " openai: gpt-4o ",
        "API_KEY": "k\n",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"PRUNER_{name}", value)
    monkeypatch.setenv("PRUNER_SERVICE_HOST", " ::1 ")
    assert our_variables()["PRUNER_DEDUP"] == "texts"
    config = PrunerConfig.load()
    assert (config.reasons, config.keep_top_k, config.dedup, config.model) == (True, 3, "texts", "openai:gpt-4o")
    assert config.api_key is not None
    assert config.api_key.get_secret_value() == "k"
    assert ServiceSettings.load().host == "::1"


def test_blanks_around_the_vendors_key_are_not_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " k\n")
    key = PrunerConfig.load().api_key
    assert key is not None
    assert key.get_secret_value() == "k"
