"""The analysis over the large model's gradings of public lists, where those lie beside the project."""

from pathlib import Path

import numpy as np
import pytest

from eval.ab import arm_of, compare, cuts_like
from eval.cases import Case, load_cases
from eval.exports import export_large_llm
from eval.points import Draws, points
from eval.records import to_line
from eval.sources import read_configuration
from eval.sweep import sweep
from eval.tune import split, tune

SHARED = Path(__file__).parents[3] / "shared" / "data"
SETS = ("musique", "hotpotqa_pooled", "mtrag", "anthropic_docs", "xquad")

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the public lists are not beside the project")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    file = tmp_path_factory.mktemp("graded") / "records.jsonl"
    graded = SHARED / "graded"
    records = export_large_llm(graded / "large_llm.jsonl", graded / "large_llm.prompt.txt", SHARED)
    file.write_text("".join(map(to_line, records)), encoding="utf-8")
    return load_cases([SHARED / f"{name}.dev.jsonl.gz" for name in SETS], [file]).cases


@pytest.mark.parametrize(
    ("configuration", "recall", "compression"),
    [
        ("listwise threshold=2 keep_top_k=2 scoring=grade", 1.00, 0.62),
        ("listwise threshold=3 keep_top_k=2 scoring=grade", 0.99, 0.82),
        ("listwise threshold=4 keep_top_k=2 scoring=grade", 0.91, 0.86),
        ("top_n n=5", 0.51, 0.77),
        ("top_n n=8", 0.67, 0.63),
        ("top_n n=12", 0.81, 0.45),
    ],
)
def test_figures_known_of_these_lists_come_out(
    configuration: str, recall: float, compression: float, cases: list[Case]
) -> None:
    with_gold = np.array([bool(case.needed) for case in cases])
    [point] = points(sweep(cases, [read_configuration(configuration)]), Draws(100), with_gold)
    assert point.with_gold == 70
    assert point.recall.value == pytest.approx(recall, abs=0.006)
    assert point.compression.value == pytest.approx(compression, abs=0.006)


def test_the_ranking_cut_to_as_many_chunks_loses_far_more_questions(cases: list[Case]) -> None:
    swept = sweep(cases, [read_configuration("listwise threshold=3 keep_top_k=2 scoring=grade")])
    kept = [frozenset(np.flatnonzero(row).tolist()) for row in swept.kept[0]]
    cut = cuts_like(swept.cases, kept, seed=0)["the ranking cut to as many chunks"]
    sizes = [case.n for case in cases], [sum(case.tokens) for case in cases]
    found = compare(arm_of("a", cases, kept), arm_of("b", cases, cut), *sizes, Draws(200))
    assert len(found.wins) > 20
    assert found.losses == ()
    assert found.p_value < 1e-6
    assert found.recall[2].low > 0.3
    assert found.compression[2].value == pytest.approx(0, abs=1e-9)


def test_so_few_lists_show_90_percent_and_cannot_show_96(cases: list[Case]) -> None:
    names = [f"listwise threshold={t} keep_top_k={k} scoring=grade" for t in (2, 3, 4) for k in (0, 2, 5)]
    swept = sweep(cases, [read_configuration(name) for name in names])
    choosing = split(swept, 1 / 3, seed=0)
    assert tune(swept, 0.96, 0.95, choosing).best is None
    assert tune(swept, 0.90, 0.95, choosing).best is not None
