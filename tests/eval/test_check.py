"""No proof is claimed for a dial that was not measured."""

import random
from typing import Any

import pytest

from eval.check import in_use
from eval.errors import EvalError
from eval.setups import grading_config, setup_of
from eval.strategies import STRATEGIES
from pruner import Chunk, Grade, Grading, Pruner, PrunerConfig, Status
from pruner.backends.scripted import ScriptedBackend
from tests.made_cases import made_case, made_record

# Of every dial a value that is not its default, with what it needs beside it.
OTHER: dict[str, dict[str, Any]] = {
    "model": {"model": "openai:other"},
    "base_url": {"base_url": "http://localhost:1"},
    "api_key": {"api_key": "key"},
    "timeout": {"timeout": 9.0},
    "threshold": {"threshold": 4},
    "keep_top_k": {"keep_top_k": 4},
    "min_score": {"min_score": 5.0},
    "max_chunks": {"max_chunks": 3},
    "token_cap": {"token_cap": 20},
    "min_chunks": {"min_chunks": 99},
    "min_tokens": {"min_tokens": 9999},
    "max_input_tokens": {"max_input_tokens": 900},
    "max_output_tokens": {"max_output_tokens": 900},
    "chunk_order": {"chunk_order": "shuffle"},
    "seed": {"seed": 3},
    "fallback_top_n": {"fallback_top_n": 3},
    "temperature": {"temperature": 0.5},
    "reasons": {"reasons": True},
    "prompt": {"prompt": "levels.v1"},
    "instructions": {"instructions": "short"},
    "readout": {"readout": "probe"},
    "reply_format": {"reply_format": "keyed"},
    "scoring": {"scoring": "expected"},
    "policy": {"policy": "mine"},
    "revision_policy": {"revision_policy": "active"},
    "dedup": {"dedup": "texts"},
    "dedup_overlap": {"dedup_overlap": 0.5},
    "dedup_jaccard": {"dedup_jaccard": 0.5},
    "dedup_cosine": {"dedup_cosine": 0.5},
    "dedup_across_sources": {"dedup_across_sources": False},
    "mmr_lambda": {"mmr_lambda": 0.5},
    "max_per_parent": {"max_per_parent": 1},
    "max_per_source": {"max_per_source": 1},
    "source_policy": {"source_policy": "syndicated", "dedup": "texts"},
    "expand": {"expand": "heading"},
    "expand_sentences": {"expand_sentences": 2},
    "parent_timeout": {"parent_timeout": 3.0},
    "token_budget": {"token_budget": 50},
    "budget_pick": {"budget_pick": "density"},
    "extract": {"extract": True},
    "evidence_order": {"evidence_order": "edges"},
}
MEASURED = {"threshold", "keep_top_k", "scoring"}
TEXTS = [f"Pump {n // 2} of the plant is checked in week {n // 2}, and its seal is changed." for n in range(12)]
CHUNKS = [
    Chunk(text=text, id=f"c{n}", score=12.0 - n, source_id=f"s{n % 3}", parent_id=f"p{n % 4}")
    for n, text in enumerate(TEXTS)
]
ASKED = made_record("q", [None], **{n: v for n, v in vars(setup_of(grading_config())).items() if n != "strategy"})


def test_every_dial_has_another_value_to_be_tried() -> None:
    assert OTHER.keys() == PrunerConfig.model_fields.keys()
    usual = PrunerConfig()
    assert [name for name, dials in OTHER.items() if dials[name] == getattr(usual, name)] == []


def refused(name: str) -> str | None:
    try:
        in_use(PrunerConfig(**OTHER[name]), [ASKED])
    except EvalError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", [name for name in OTHER if not refused(name)])
def test_what_a_check_measures_is_what_the_product_keeps(name: str) -> None:
    config = PrunerConfig(**OTHER[name])
    pruner = Pruner(config, backend=ScriptedBackend([]))
    for grades in _graded():
        case = made_case("q", tuple(map(int, grades)), [])
        result = pruner.assemble("which seal?", CHUNKS, Grading(grades, (None,) * len(grades), Status.OK))
        kept = STRATEGIES["listwise"].keep(case, in_use(config, [ASKED]))
        assert kept == frozenset(d.index for d in result.decisions if d.kept)


@pytest.mark.parametrize("name", [name for name in OTHER if refused(name)])
def test_any_other_dial_is_refused_by_name_in_one_line(name: str) -> None:
    said = refused(name) or ""
    assert "\n" not in said
    assert any(dial in said for dial in OTHER[name]) or "the lists were graded with" in said


def test_the_dials_that_are_measured_are_not_refused() -> None:
    assert [name for name in MEASURED if refused(name)] == []


def _graded() -> list[tuple[Grade, ...]]:
    dice = random.Random(4)
    return [(Grade.ESSENTIAL,) * len(CHUNKS), *(tuple(Grade(dice.randint(1, 5)) for _ in CHUNKS) for _ in range(20))]


@pytest.mark.parametrize("name", OTHER)
def test_lists_are_graded_without_any_selection(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for dial, value in OTHER[name].items():
        monkeypatch.setenv(f"PRUNER_{dial.upper()}", str(value))
    told, usual = (config.selection_dials() for config in (grading_config(), PrunerConfig()))
    changed = {dial for dial in told if told[dial] != usual[dial]}
    assert changed <= {"scoring", "keep_top_k"}
    assert told["keep_top_k"] == 0
