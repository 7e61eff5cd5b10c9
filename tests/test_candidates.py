from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from pruner.candidates import By, Candidate, Chunk, Grade

CHUNK = Chunk(text="text", query_ids=("q",))


def test_a_chunk_sets_out_as_a_candidate_with_its_text_and_its_sub_queries() -> None:
    assert Candidate.given(3, CHUNK) == Candidate(3, CHUNK, "text", query_ids=("q",))


@pytest.mark.parametrize("candidate", [Candidate.given(3, CHUNK), Candidate(3, CHUNK, "text", Grade.ESSENTIAL)])
@pytest.mark.parametrize("values", [{}, {"by": By.GRADE}, {"text": "other", "order": 1, "merged": (1, 2)}])
def test_a_changed_candidate_is_what_replace_makes(candidate: Candidate, values: dict[str, Any]) -> None:
    changed, wanted = candidate.changed(**values), replace(candidate, **values)
    assert (changed, repr(changed)) == (wanted, repr(wanted))


def test_changing_leaves_the_candidate_as_it_was() -> None:
    candidate = Candidate.given(3, CHUNK)
    candidate.changed(by=By.GRADE)
    assert candidate.by is None


def test_a_field_that_no_candidate_has_is_refused() -> None:
    with pytest.raises(TypeError, match="has no 'odrer'"):
        Candidate.given(3, CHUNK).changed(odrer=1)


def test_a_changed_candidate_is_frozen() -> None:
    changed = Candidate.given(3, CHUNK).changed(order=1)
    with pytest.raises(FrozenInstanceError):
        changed.order = 2  # type: ignore[misc]
