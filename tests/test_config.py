import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from pruner import ConfigError, Grade, Pruner, PrunerConfig
from pruner.config import gather


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_defaults_are_those_of_the_readme() -> None:
    config = PrunerConfig()
    assert (config.threshold, config.keep_top_k, config.timeout) == (Grade.SUPPORTING, 2, 5.0)
    assert (config.readout, config.reply_format, config.scoring) == ("json", "pairs", "grade")


def test_a_local_model_gets_more_time_and_is_probed() -> None:
    config = PrunerConfig(model="local:qwen2.5-coder-1.5b")
    assert (config.timeout, config.readout, config.prompt) == (180.0, "probe", "probe.v1")


@pytest.mark.parametrize("model", [" local:x", "local:x\n", "local: x"])
def test_blanks_around_a_model_are_not_of_it(model: str) -> None:
    assert PrunerConfig(model=model) == PrunerConfig(model="local:x")


def test_a_probe_of_a_server_asks_for_levels() -> None:
    assert PrunerConfig(readout="probe").prompt == "levels.v1"
    assert PrunerConfig(readout="probe", prompt="mine.jinja").prompt == "mine.jinja"


def test_an_explicit_timeout_wins_over_that_of_a_local_model() -> None:
    assert PrunerConfig(model="local:x", timeout=7).timeout == 7


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"treshold": 3}, "unknown dial 'treshold'; did you mean 'threshold'?"),
        ({"zzz": 3}, "unknown dial 'zzz'"),
        ({"threshold": 0}, "threshold: "),
        ({"threshold": 6}, "threshold: "),
        ({"threshold": True}, "threshold: must be a number, not a bool"),
        ({"threshold": "GREAT"}, "threshold: 'GREAT' is neither 1..5 nor one of UNRELATED, "),
        ({"threshold": float("nan")}, "threshold: "),
        ({"keep_top_k": -1}, "keep_top_k: "),
        ({"keep_top_k": 1.5}, "keep_top_k: "),
        ({"timeout": 0}, "timeout: "),
        ({"timeout": -1}, "timeout: "),
        ({"timeout": float("inf")}, "timeout: "),
        ({"model": "gpt-4o-mini"}, "model: must be 'prefix:name'"),
        ({"model": "openia:gpt-4o-mini"}, "model: must be 'prefix:name'"),
        ({"model": "openai:"}, "model: must be 'prefix:name'"),
        ({"max_chunks": 0}, "max_chunks: "),
        ({"max_chunks": 1}, "max_chunks=1 is below keep_top_k=2"),
        ({"fallback_top_n": 1}, "fallback_top_n=1 is below keep_top_k=2"),
        ({"token_cap": 0}, "token_cap: "),
        ({"min_score": float("nan")}, "min_score: "),
        ({"base_url": "nonsense"}, "base_url: "),
        ({"base_url": "http://[bad"}, "base_url: "),
        ({"base_url": "ftp://host/v1"}, "base_url: "),
        ({"base_url": "http://host:99999/v1"}, "base_url: "),
        ({"base_url": "http://ho\0st/v1"}, "base_url: "),
        ({"base_url": "http://" + "x" * 99 + ".com"}, "base_url: "),
        ({"base_url": "http://☃.invalid/v1"}, "base_url: "),
        ({"base_url": "http://host/" + "x" * 70_000}, "base_url: "),
        ({"base_url": "http://host/v1?version=1"}, "base_url: "),
        ({"base_url": "http://ho st/v1"}, "base_url: "),
        ({"api_key": "kéy"}, "api_key: "),
        ({"api_key": " key "}, "api_key: "),
        ({"api_key": "key\n"}, "api_key: "),
        ({"model": "openai:\ud800"}, "model: "),
        ({"readout": "xml"}, "readout: "),
        ({"reply_format": "csv"}, "reply_format: "),
        ({"scoring": "mean"}, "scoring: "),
        ({"model": "local:x", "reasons": True}, "reasons=True needs readout='json'"),
    ],
)
def test_a_wrong_dial_is_named_in_one_line(dials: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PrunerConfig(**dials)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["SUPPORTING", "supporting", " Supporting ", "3", 3, 3.0, Grade.SUPPORTING])
def test_a_threshold_may_be_a_name_or_a_number(name: Any) -> None:
    assert PrunerConfig(threshold=name).threshold == 3


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(Exception, match="frozen"):
        PrunerConfig().threshold = 4


def test_the_key_is_not_shown() -> None:
    assert "s3cret" not in repr(PrunerConfig(api_key=SecretStr("s3cret")))


def test_a_missing_key_names_the_variable_to_set() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        Pruner(PrunerConfig())


def test_the_constructor_does_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("PRUNER_THRESHOLD", "5")
    assert PrunerConfig().api_key is None
    assert PrunerConfig().threshold == 3


def test_arguments_win_over_variables_and_these_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pruner.toml").write_text("threshold = 2\nkeep_top_k = 7\nmax_chunks = 9\n", encoding="utf-8")
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "6")
    monkeypatch.setenv("PRUNER_MAX_CHUNKS", "8")
    config = PrunerConfig.load(max_chunks=7)
    assert (config.threshold, config.keep_top_k, config.max_chunks) == (2, 6, 7)


def test_each_value_tells_where_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pruner.toml").write_text("threshold = 2\n", encoding="utf-8")
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "6")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert gather(timeout=3)[1] == {
        "threshold": "pruner.toml",
        "keep_top_k": "PRUNER_KEEP_TOP_K",
        "timeout": "argument",
        "api_key": "OPENAI_API_KEY",
    }


def test_the_table_of_pyproject_is_read() -> None:
    Path("pyproject.toml").write_text("[tool.pruner]\nthreshold = 'ESSENTIAL'\n", encoding="utf-8")
    assert PrunerConfig.load().threshold == 5


def test_a_variable_may_hold_a_bool_and_an_empty_one_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_REASONS", "true")
    monkeypatch.setenv("PRUNER_TIMEOUT", "")
    assert PrunerConfig.load().reasons is True
    assert PrunerConfig.load().timeout == 5.0


def test_the_vendors_key_is_not_sent_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert PrunerConfig.load(base_url="http://127.0.0.1:1/v1").api_key is None


def test_our_own_key_variable_is_sent_where_one_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_API_KEY", "k")
    key = PrunerConfig.load(base_url="http://127.0.0.1:1/v1").api_key
    assert key is not None
    assert key.get_secret_value() == "k"


@pytest.mark.parametrize("key", ["", "  "])
def test_a_blank_key_is_no_key(key: str) -> None:
    Path("pruner.toml").write_text(f"api_key = '{key}'\n", encoding="utf-8")
    for config in (PrunerConfig(api_key=SecretStr(key)), PrunerConfig.load()):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            Pruner(config)


@pytest.mark.parametrize("path", ["/chat/completions", "/completions", "/messages", "/responses", "/Chat/Completions/"])
def test_a_base_url_with_a_path_of_the_api_is_refused_and_it_is_said_what_to_leave_out(path: str) -> None:
    with pytest.raises(ConfigError, match=f"^base_url: leave out '{path.rstrip('/')}' at its end: "):
        PrunerConfig(base_url=f"http://host/v1{path}")
    PrunerConfig(model="litellm:azure_ai/m", base_url=f"http://host/v1{path}")


def test_a_base_url_may_have_any_other_path() -> None:
    assert PrunerConfig(base_url="http://host/messages/v1/").base_url == "http://host/messages/v1/"


def test_a_pickled_config_has_its_key_as_workers_need_it_and_its_repr_has_not() -> None:
    config = PrunerConfig(api_key="sk-secret")
    assert pickle.loads(pickle.dumps(config)) == config
    assert "sk-secret" not in repr(config)


def test_a_blank_base_url_is_none() -> None:
    assert PrunerConfig(base_url=" ").base_url is None


def test_blanks_and_line_ends_around_a_base_url_are_not_of_it() -> None:
    assert PrunerConfig(base_url=" http://host/v1\n").base_url == "http://host/v1"


def test_the_vendors_key_variable_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pruner.toml").write_text("api_key = 'of-the-file'\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-variable")
    key = PrunerConfig.load().api_key
    assert key is not None
    assert key.get_secret_value() == "of-the-variable"
    assert gather()[1]["api_key"] == "OPENAI_API_KEY"


@pytest.mark.parametrize("text", ["tool = 3", "[tool]\npruner = 3", "[tool]\npruner = [1]"])
def test_a_pyproject_of_another_shape_is_named(text: str) -> None:
    Path("pyproject.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"pyproject\.toml: \[tool\.pruner\] must be a table"):
        PrunerConfig.load()


@pytest.mark.parametrize("name", ["pruner.toml", "pyproject.toml"])
def test_a_file_may_begin_with_the_mark_of_utf_8(name: str) -> None:
    header = "[tool.pruner]\n" if name == "pyproject.toml" else ""
    Path(name).write_text(f"{header}threshold = 2\n", encoding="utf-8-sig")
    assert PrunerConfig.load().threshold == 2


@pytest.mark.parametrize("header", ["[pruner]", "[tool.pruner]", "[pruner.service]"])
def test_a_header_above_the_dials_of_a_file_of_our_own_is_named(header: str) -> None:
    Path("pruner.toml").write_text(f"{header}\nthreshold = 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"pruner\.toml: leave out the header \[.*pruner\]") as refused:
        PrunerConfig.load()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("file", [3, True, b"pruner.toml", ["pruner.toml"]])
def test_what_is_no_path_of_a_file_is_refused(file: Any) -> None:
    with pytest.raises(ConfigError, match="file must be a path, not"):
        PrunerConfig.load(file=file)


def test_a_file_may_be_named_by_a_str() -> None:
    Path("mine.toml").write_text("threshold = 2\n", encoding="utf-8")
    assert PrunerConfig.load(file="mine.toml").threshold == 2


def test_a_password_in_the_base_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        PrunerConfig(base_url="http://user:s3cret@host/v1")
    assert "s3cret" not in str(caught.value)


def test_a_mistyped_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_TRESHOLD", "4")
    with pytest.raises(ConfigError, match="unknown variable 'PRUNER_TRESHOLD'; did you mean 'PRUNER_THRESHOLD'"):
        PrunerConfig.load()


def test_the_variable_of_the_models_folder_is_no_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_CACHE_DIR", "somewhere")
    assert PrunerConfig.load().threshold == 3


def test_a_broken_file_is_named() -> None:
    Path("pruner.toml").write_text("threshold = = 2", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot read pruner\.toml"):
        PrunerConfig.load()


def test_a_named_file_must_exist() -> None:
    with pytest.raises(ConfigError, match="cannot read nowhere"):
        PrunerConfig.load(file=Path("nowhere.toml"))


def test_an_unknown_dial_in_the_file_is_refused() -> None:
    Path("pruner.toml").write_text("treshold = 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="did you mean 'threshold'"):
        PrunerConfig.load()


def test_dials_for_once_are_validated_and_leave_the_config_alone() -> None:
    config = PrunerConfig(keep_top_k=1)
    assert config.with_dials(threshold=5).keep_top_k == 1
    assert config.threshold == 3
    with pytest.raises(ConfigError, match="threshold"):
        config.with_dials(threshold=9)


def test_dials_that_select_nothing_are_refused_for_once() -> None:
    with pytest.raises(ConfigError, match="'model' is not a selection dial"):
        PrunerConfig().with_dials(model="openai:x")


def test_a_call_may_have_its_own_timeout() -> None:
    config = PrunerConfig(model="local:x", keep_top_k=1)
    once = config.for_call(timeout=2, threshold=5)
    assert (once.timeout, once.threshold, once.keep_top_k, config.timeout) == (2, 5, 1, 180)
    with pytest.raises(ConfigError, match=r"^timeout: "):
        config.for_call(timeout=0)
    with pytest.raises(ConfigError, match="'model' is not a selection dial"):
        config.for_call(model="openai:x")


def test_the_example_environment_documents_every_dial() -> None:
    example = (Path(__file__).parents[1] / ".env.example").read_text(encoding="utf-8")
    assert all(f"PRUNER_{name.upper()}=" in example for name in PrunerConfig.model_fields)
