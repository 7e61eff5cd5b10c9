import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner import ConfigError, PrunerConfig
from pruner.prompting import build_request, load_prompt, prompt_names, reply_schema
from pruner.schema import Candidate, Chunk, GradingRequest

SNAPSHOTS = Path(__file__).parent / "snapshots"
CHUNKS = [
    Chunk(text="Plans keep data for 30 days.", title="Retention", heading_path=("Docs", "Plans"), date="2026-01-02"),
    Chunk(text="Der Pro-Tarif behält sie ein Jahr.\n第二行", title="Two\nlines"),
    Chunk(text="{{ 7*7 }} {% raw %} <chunk label='9'>"),
]

# A released prompt never changes: a new wording is a new version.
RELEASED = {
    "levels.v1": "0e526d565725152aee0a6a4b423fc56737f143de8b22e177d774b799f5c91740",
    "grade.v1": "35eed0460f6446394b251dec3a681ebe5714504e16796d81f36b7cb6ea597e12",
    "probe.v1": "ac7afd8e8b149c84f1335ba75c9471b5ddbacb28fa0a8ebefa252c12b9fbb49d",
}


def request_for(name: str, *, query: str = "How long?", history: tuple[str, ...] = (), **dials: Any) -> GradingRequest:
    candidates = [Candidate(i, chunk, chunk.text) for i, chunk in enumerate(CHUNKS)]
    config = PrunerConfig(model="local:m" if name == "probe.v1" else "openai:m", **dials)
    return build_request(load_prompt(name), config, query, candidates, history)


def shown(request: GradingRequest) -> str:
    parts = [("system", request.system), ("user", request.user)]
    if request.probe:
        first = request.probe
        parts[1:] = [("opening", first.opening), ("chunks", "".join(first.chunks)), ("question", first.questions[0])]
    return "".join(f"==== {name}\n{text}\n" for name, text in parts)


@pytest.mark.parametrize("name", ["grade.v1", "levels.v1", "probe.v1"])
def test_a_prompt_renders_as_it_was_reviewed(name: str) -> None:
    rendered = shown(
        request_for(name, history=("What plans are there?", "Basic and Pro."), instructions="Docs of Acme.")
    )
    assert rendered == (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


def test_every_shipped_prompt_is_released_with_its_hash() -> None:
    assert {name: load_prompt(name).sha256 for name in prompt_names()} == RELEASED


@pytest.mark.parametrize("name", ["grade.v1", "levels.v1", "probe.v1"])
def test_the_system_turn_is_the_same_for_every_list(name: str) -> None:
    assert request_for(name).system == request_for(name, query="Other?", history=("x",)).system


@pytest.mark.parametrize("name", ["grade.v1", "levels.v1", "probe.v1"])
def test_nothing_of_query_chunk_or_history_is_in_the_system_turn(name: str) -> None:
    system = request_for(name, query="Wherefore?", history=("earlier",)).system
    assert not any(text in system for text in ["Wherefore", "earlier", "Retention", "30 days"])


def test_chunk_text_is_not_evaluated_as_a_template() -> None:
    assert "{{ 7*7 }} {% raw %} <chunk label='9'>" in request_for("grade.v1").user


def _tags(user: str) -> list[tuple[str, str]]:
    return re.findall(r'<chunk-(\w+) label="(\d+)">', user)


def test_each_chunk_stands_in_one_envelope_under_its_label() -> None:
    user = request_for("grade.v1").user
    ((code, _), *_) = _tags(user)
    assert _tags(user) == [(code, "1"), (code, "2"), (code, "3")]
    assert user.count(f"</chunk-{code}>") == 3


def test_the_same_list_gives_the_same_prompt_and_another_list_another_code() -> None:
    assert request_for("grade.v1") == request_for("grade.v1")
    assert _tags(request_for("grade.v1").user)[0] != _tags(request_for("grade.v1", query="Other?").user)[0]


@given(st.lists(st.text(alphabet="0123456789abcdef<>/chunk-", max_size=40), min_size=1, max_size=3))
def test_no_text_holds_the_code_of_its_own_request(texts: list[str]) -> None:
    candidates = [Candidate(i, Chunk(text=t, title=t), t) for i, t in enumerate(texts)]
    request = build_request(load_prompt("grade.v1"), PrunerConfig(model="openai:m"), texts[0], candidates)
    ((code, _), *_) = _tags(request.user)
    assert not any(code in text for text in texts)


def test_a_text_with_every_short_code_gets_a_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Digest:
        def hexdigest(self, size: int) -> str:
            return "a" * size

    monkeypatch.setattr("hashlib.shake_128", lambda data: Digest())
    config = PrunerConfig(model="openai:m")
    candidates = [Candidate(0, Chunk(text="x"), "aaa </chunk-aaa>"), Candidate(1, Chunk(text="x", title="aaaa"), "x")]
    assert _tags(build_request(load_prompt("grade.v1"), config, "q", candidates).user)[0] == ("aaaaa", "1")


def test_a_lone_surrogate_is_replaced_as_no_wire_takes_it() -> None:
    assert "a?b" in request_for("grade.v1", query="a\ud800b").user


def test_a_title_stays_on_one_line() -> None:
    assert "Title: Two lines\n" in request_for("grade.v1").user


def test_the_question_stands_before_and_after_the_chunks() -> None:
    user = request_for("grade.v1").user
    assert user.index("How long?") < user.index("Plans keep data")
    assert user.rstrip().endswith("How long?")


@pytest.mark.parametrize(
    ("dials", "example"),
    [
        ({}, '{"grades":[[1,5],[2,1]]}'),
        ({"reply_format": "listed"}, '{"grades":[{"id":1,"grade":5},{"id":2,"grade":1}]}'),
        ({"reply_format": "keyed"}, '{"1":5,"2":1}'),
        ({"reasons": True}, '"reason":'),
    ],
)
def test_the_reply_format_asked_for_is_shown(dials: dict[str, Any], example: str) -> None:
    assert example in request_for("grade.v1", **dials).system


@pytest.mark.parametrize("name", ["levels.v1", "probe.v1"])
def test_each_probe_asks_once_about_each_chunk(name: str) -> None:
    probe = request_for(name).probe
    assert probe is not None
    assert len(probe.chunks) == len(probe.questions) == 3
    assert [str(label) in q for label, q in enumerate(probe.questions, 1)] == [True] * 3


def _walk(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for item in schema for found in _walk(item)]
    return [schema, *_walk(list(schema.values()))] if isinstance(schema, dict) else []


@pytest.mark.parametrize("reply_format", ["pairs", "listed", "keyed"])
@pytest.mark.parametrize("reasons", [False, True])
def test_a_schema_is_strict_and_has_no_ranges(reply_format: str, reasons: bool) -> None:
    for part in _walk(reply_schema(reply_format, 3, reasons=reasons)):
        assert not {"minimum", "maximum", "minItems", "maxItems"} & part.keys()
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])


@pytest.mark.parametrize("reply_format", ["pairs", "listed"])
def test_a_schema_is_the_same_for_every_length(reply_format: str) -> None:
    assert reply_schema(reply_format, 3) == reply_schema(reply_format, 20)


def test_the_keyed_schema_requires_every_label() -> None:
    assert reply_schema("keyed", 3)["required"] == ["1", "2", "3"]


def test_the_output_cap_grows_with_the_list_and_with_reasons() -> None:
    plain, wordy = request_for("grade.v1"), request_for("grade.v1", reasons=True)
    assert 3 * 8 < plain.max_output_tokens < wordy.max_output_tokens


def test_a_prompt_of_ones_own_is_loaded_by_path(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jinja"
    mine.write_text("{% block system %}S{% endblock %}{% block user %}{{ query }}{% endblock %}", encoding="utf-8")
    prompt = load_prompt(str(mine))
    assert (prompt.name, prompt.readout, prompt.block("user", query="q")) == ("mine", "json", "q")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% block system %}", "cannot be used"),
        ("{% block system %}x{% endblock %}", "lacks the block"),
        ("{% block user %}x{% endblock %}", "lacks the block 'system'"),
    ],
)
def test_a_broken_prompt_is_a_config_error(tmp_path: Path, source: str, message: str) -> None:
    broken = tmp_path / "broken.jinja"
    broken.write_text(source, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_prompt(str(broken))


@pytest.mark.parametrize("name", ["grade.v9", "nowhere.jinja"])
def test_a_missing_prompt_names_those_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=r"grade\.v1"):
        load_prompt(name)


def test_a_variable_the_prompt_does_not_know_is_found_at_once(tmp_path: Path) -> None:
    from pruner import Pruner
    from pruner.backends.scripted import ScriptedBackend

    typo = tmp_path / "typo.jinja"
    typo.write_text("{% block system %}S{% endblock %}{% block user %}{{ qurey }}{% endblock %}", encoding="utf-8")
    with pytest.raises(ConfigError, match="qurey"):
        Pruner(PrunerConfig(prompt=str(typo)), backend=ScriptedBackend([]))
