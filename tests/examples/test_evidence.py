import contextlib
import io
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "evidence.py"


@pytest.fixture(scope="module")
def shown() -> str:
    """Return what the example writes."""
    with contextlib.redirect_stdout(io.StringIO()) as written:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    return written.getvalue()


def test_the_example_renders_one_merged_block_of_the_parent_and_one_of_the_old_revision(shown: str) -> None:
    blocks = ElementTree.fromstring(
        f"<all>{shown[shown.index('<evidence id') : shown.rindex('</evidence>') + 11]}</all>"
    )
    assert [(b.get("id"), b.get("revision")) for b in blocks] == [("E1", "2025"), ("E2", "2023")]
    current, old = (b.text or "" for b in blocks)
    assert "Terms / Backups" in current
    assert "for 90 days" in current
    assert "Except on Pro: there they stay for another 30 days." in current  # completed from the parent
    assert "for 60 days" in old


def test_the_example_names_the_conflict_of_the_revisions(shown: str) -> None:
    assert "- E1 and E2 say nearly the same, but contradict each other." in shown


def test_the_example_says_why_each_other_chunk_is_not_there(shown: str) -> None:
    assert "terms:25-106, span_duplicate of terms:0-106" in shown
    assert "terms:153-204, merged of terms:0-106" in shown
    assert "prices, below_threshold" in shown
    assert "choir, below_threshold" in shown


def test_the_example_covers_every_sub_query(shown: str) -> None:
    assert "uncovered: nothing" in shown


def test_the_example_passes_the_good_answer_and_finds_what_is_wrong_with_the_other(shown: str) -> None:
    assert shown.count("-> in order") == 1
    assert "-> unknown ('E7',), uncited ['Pro keeps them for ever.']" in shown
