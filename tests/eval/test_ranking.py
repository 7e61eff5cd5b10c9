import random

import bm25s
import pytest

from eval.ranking import Bm25

RNG = random.Random(7)
WORDS = ["gate", "porter", "night", "blue", "east", "plate", "staff", "class", "open", "orchard"]
TEXTS = [" ".join(RNG.choices(WORDS, k=RNG.randint(3, 30))) for _ in range(40)]


def test_scores_are_those_of_a_well_kept_library() -> None:
    index = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    index.index([text.split() for text in TEXTS], show_progress=False)
    theirs = index.get_scores(["night", "gate", "gate", "nowhere"])
    assert Bm25(TEXTS).scores("night gate Gate nowhere", TEXTS) == pytest.approx(theirs.tolist(), rel=1e-5)


def test_a_text_that_is_not_indexed_is_scored_on_the_same_scale() -> None:
    assert Bm25(TEXTS).scores("night gate", [TEXTS[3].upper()]) == Bm25(TEXTS).scores("night gate", [TEXTS[3]])


def test_scripts_without_spaces_match_by_character() -> None:
    near, far = Bm25(["东门涂成蓝色", "果园很大"]).scores("东门开吗", ["东门涂成蓝色", "果园很大"])
    assert near > far == 0
