import re
from pathlib import Path
from xml.etree import ElementTree

from pruner import PrunerConfig, Trace
from pruner.candidates import By, Chunk
from pruner.schema import Selected

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "selection.md").read_text(encoding="utf-8")
PICTURE = (DOCS / "selection.svg").read_text(encoding="utf-8")
KEEPING = {By.GRADE, By.KEEP_TOP_K, By.COVERAGE, By.UNGRADED, By.FALLBACK, By.SKIPPED}


def test_every_field_of_a_chunk_is_on_the_page() -> None:
    assert not [name for name in Chunk.model_fields if name != "text" and f"`{name}`" not in PAGE]


def test_every_selection_dial_is_on_the_page() -> None:
    elsewhere = {"scoring", "policy"}
    dials = PrunerConfig().selection_dials().keys() - elsewhere
    assert not [name for name in dials if f"`{name}`" not in PAGE]


def test_every_reason_to_drop_is_on_the_page() -> None:
    assert not [by for by in By if by not in KEEPING and f"`{by}`" not in PAGE]


def test_the_trace_on_the_page_is_the_trace() -> None:
    section = PAGE[PAGE.index("## Trace") : PAGE.index("## Measured")]
    fields = Trace.model_fields.keys() | Selected.model_fields.keys()
    named = set(re.findall(r"`([a-z_0-9]+)`", section)) - {"reason", "of", "rejected"}
    assert named <= fields, named - fields


def test_the_picture_is_well_formed_and_on_the_page() -> None:
    ElementTree.fromstring(PICTURE)
    assert "](selection.svg)" in PAGE


def test_every_reason_in_the_picture_exists() -> None:
    red = re.findall(r'fill="#b03a2e">([^<]+)<', PICTURE)
    assert red
    assert not [name for line in red for name in line.split(", ") if name not in set(By)]


def test_every_file_the_page_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", PAGE)
    assert not [link for link in links if not (DOCS / link).exists()]
