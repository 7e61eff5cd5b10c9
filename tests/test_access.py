from typing import Any

import pytest

from pruner.access import Access, Revision
from pruner.candidates import By, Candidate, Chunk


def candidate(index: int, acl: Any = None, status: str | None = None, parent: Chunk | None = None) -> Candidate:
    return Candidate(index, Chunk(text="t", acl=acl, status=status), "t", parent=parent)


@pytest.mark.parametrize(
    ("acl", "principals", "seen"),
    [
        (None, (), True),
        ((), ("a",), False),
        (("a",), (), False),
        (("a", "b"), ("b", "c"), True),
        ("ab", ("a",), False),
        ({"a"}, ("a",), True),
        ((7,), ("7",), True),
    ],
)
def test_one_of_the_principals_must_be_on_the_list(acl: Any, principals: tuple[str, ...], seen: bool) -> None:
    result = Access(frozenset(principals))([candidate(0, acl)])
    assert result.dropped == ({} if seen else {0: By.ACCESS})


def test_a_text_taken_from_a_parent_is_seen_only_by_who_may_see_the_parent() -> None:
    parent = Chunk(text="t", acl=("boss",))
    assert Access(frozenset({"staff"}))([candidate(0, ["staff"], parent=parent)]).dropped == {0: By.ACCESS}


@pytest.mark.parametrize(
    ("status", "stale"),
    [(None, False), ("", False), ("Active ", False), ("published", False), ("superseded", True), ("draft", True)],
)
def test_only_a_status_that_is_in_force_passes(status: str | None, stale: bool) -> None:
    result = Revision()([candidate(0, status=status)])
    assert result.dropped == ({0: By.STALE_REVISION} if stale else {})
