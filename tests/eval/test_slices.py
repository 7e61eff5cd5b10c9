import pytest

from eval.errors import EvalError
from eval.slices import slices
from tests.made_cases import made_case

CASES = [
    made_case("a", [5] * 4, [0], meta={"hops": 2, "lang": ["de"], "nested": {"x": 1}}),
    made_case("b", [5] * 12, [0, 1, 2], dataset="other", missing=1, meta={"hops": 10, "lang": ["zh"]}),
    made_case("c", [5] * 12, [], meta={"hops": 2, "lang": ["de"]}),
]


def test_questions_are_sliced_by_set_length_gold_and_plain_meta_values() -> None:
    found = {name: mask.tolist() for name, mask in slices(CASES).items()}
    assert found == {
        "all": [True, True, True],
        "dataset = made": [True, False, True],
        "dataset = other": [False, True, False],
        "chunks = 1 to 10": [True, False, False],
        "chunks = 11 to 15": [False, True, True],
        "gold = 0": [False, False, True],
        "gold = 1": [True, False, False],
        "gold = 4 or more": [False, True, False],
        "hops = 2": [True, False, True],
        "hops = 10": [False, True, False],
        "lang = de": [True, False, True],
        "lang = zh": [False, True, False],
    }


def test_a_slice_that_is_everything_is_left_out() -> None:
    assert list(slices(CASES[:1])) == ["all"]


def test_keys_can_be_chosen() -> None:
    assert list(slices(CASES, ["hops"])) == ["all", "hops = 2", "hops = 10"]


@pytest.mark.parametrize("key", ["nested", "absent"])
def test_a_key_without_plain_values_is_refused_in_one_line(key: str) -> None:
    with pytest.raises(
        EvalError, match=rf"no question has a plain value for '{key}' in 'meta'; there are hops, lang, nes"
    ):
        slices(CASES, [key])


def test_a_key_with_a_value_for_nearly_every_question_is_no_slice() -> None:
    cases = [made_case(str(q), [5], [0], meta={"number": q}) for q in range(13)]
    assert list(slices(cases)) == ["all"]


def test_a_value_of_its_own_for_each_question_makes_no_slice() -> None:
    cases = [made_case(f"q{i}", [5, 1], [0], meta={"words": f"text {i}"}) for i in range(5)]
    assert not [name for name in slices(cases) if name.startswith("words")]
