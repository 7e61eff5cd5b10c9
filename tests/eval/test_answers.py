import pytest

from eval.answers import read_passages, read_selection
from pruner.errors import ReplyError
from pruner.schema import RawGrading

PASSAGES = '{"essential":"e","contributing":"c","supporting":"s","tangential":"t","unrelated":"u"}'


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"keep":[2,5]}', (1, 4)),
        ('{"keep":[5,2,5]}', (4, 1)),
        ('{"keep":[]}', ()),
        ("[3]", (2,)),
        ('Sure!\n```json\n{"keep": ["chunk 2", "3"]}\n```', (1, 2)),
        ('{"keep":[1]} No, rather {"keep":[2]}', (1,)),
        ('<think>maybe [1,2]</think>{"keep":[4]}', (3,)),
        ('{"keep":[0,2,9,-1]}', (1,)),
        ('{"reasons":["a"],"keep":[2]}', (1,)),
    ],
)
def test_a_selection_is_read_whatever_stands_around_it(text: str, places: tuple[int, ...]) -> None:
    assert read_selection(RawGrading(text=text), 5) == places


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (RawGrading(text="I would keep the second."), "unparseable"),
        (RawGrading(text='{"keep":[1, 2'), "unparseable"),
        (RawGrading(text='{"keep":[1, 2', finish="length"), "truncated"),
        (RawGrading(text='{"keep":["the second"]}'), "unparseable"),
        (RawGrading(text=None), "unparseable"),
        (RawGrading(text='{"keep":[1]}', finish="refused"), "refused"),
    ],
)
def test_half_a_selection_is_none(raw: RawGrading, reason: str) -> None:
    with pytest.raises(ReplyError) as caught:
        read_selection(raw, 5)
    assert caught.value.reason == reason


def test_a_selection_from_the_reasoning_channel_counts_when_there_is_no_other() -> None:
    assert read_selection(RawGrading(text="", reasoning='{"keep":[1]}'), 5) == (0,)


def test_passages_are_read_by_level_best_first() -> None:
    assert list(read_passages(RawGrading(text=f"Here: {PASSAGES}"), 5).items()) == [*zip("54321", "ecstu", strict=True)]


@pytest.mark.parametrize(
    "text", ["", "{}", PASSAGES.replace('"u"', '" "'), PASSAGES.replace('"u"', "3"), PASSAGES[:40]]
)
def test_a_passage_for_each_level_is_wanted(text: str) -> None:
    with pytest.raises(ReplyError) as caught:
        read_passages(RawGrading(text=text), 5)
    assert caught.value.reason == "schema_mismatch"
