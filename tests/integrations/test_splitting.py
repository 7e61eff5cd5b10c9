import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.errors import RequestError
from pruner.integrations.splitting import Split, split_list, split_text

LOG = """\
2026-01-31 12:00:00 INFO started
2026-01-31 12:00:01 ERROR it broke
Traceback (most recent call last):
  File "a.py", line 1
ValueError
2026-01-31 12:00:02 INFO stopped"""
PAGE = """\
Before any heading.

# Guide

## Install
Run it.

```sh
# not a heading
```

### On Windows
Differently.

## Use
So."""


def split(text: str) -> Split:
    return split_text(text, lambda prose: [prose])


def texts(text: str) -> list[str]:
    return [part.text for part in split(text).parts]


@pytest.mark.parametrize("path", [[], ["results"], ["data", "page", "items"]])
def test_json_is_cut_into_the_items_of_its_array(path: list[str]) -> None:
    value: Any = [{"n": n, "tags": ["a", "b", "c", "d", "e"]} for n in range(3)]
    for key in reversed(path):
        value = {key: value, "short": [1, 2], "total": 3}
    found = split(json.dumps(value, indent=2))
    assert (found.unit, [json.loads(part.text)["n"] for part in found.parts]) == ("results", [0, 1, 2])
    kept = json.loads(found.join([0, 2]))
    for key in path:
        assert kept["total"] == 3
        kept = kept[key]
    assert [item["n"] for item in kept] == [0, 2]


@pytest.mark.parametrize("aside", [list(range(100)), [0.25] * 1536, [f"id{n}" for n in range(9)], ["a" * 900], []])
def test_an_array_of_ids_or_of_numbers_does_not_stand_for_the_results(aside: list[Any]) -> None:
    hits = [{"title": f"title {n}", "text": "Backups are kept for 14 days."} for n in range(4)]
    found = split(json.dumps({"aside": aside, "results": hits}))
    assert [json.loads(part.text) for part in found.parts] == hits
    assert json.loads(found.join([1])) == {"aside": aside, "results": [hits[1]]}


def test_an_array_of_numbers_is_cut_where_there_is_no_other() -> None:
    assert texts('{"short": [1, 2], "long": [1, 2, 3]}') == ["1", "2", "3"]


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0c"])
def test_a_line_separator_within_a_json_line_does_not_end_it(odd: str) -> None:
    lines = [json.dumps({"n": n, "text": f"a{odd}b"}, ensure_ascii=False) for n in range(4)]
    assert texts("\n".join(lines)) == texts("\r\n".join(lines)) == lines


def test_the_last_json_line_may_be_cut_off() -> None:
    assert texts('{"a": 1}\n{"a": 2}\n{"a": "thr') == ['{"a": 1}', '{"a": 2}', '{"a": "thr']


def test_json_lines_are_records() -> None:
    found = split('{"a": 1}\n{"a": 2}\n\n{"a": 3}\n')
    assert (found.unit, len(found.parts), found.join([0, 2])) == ("records", 3, '{"a": 1}\n{"a": 3}')


@pytest.mark.parametrize("text", ["{", "[1, 2", '{"a": 1}', "[" * 100_000, '"[1, 2]"', "[]", "[1]", "{" * 9])
def test_json_with_nothing_to_cut_stays_whole(text: str) -> None:
    assert texts(text) == [text]


def test_markdown_is_cut_at_headings_outside_of_fences() -> None:
    found = split(PAGE)
    assert found.unit == "sections"
    assert [part.text.split("\n")[0] for part in found.parts] == [
        "Before any heading.",
        "# Guide",
        "### On Windows",
        "## Use",
    ]
    assert "# not a heading" in found.parts[1].text
    assert [part.headings for part in found.parts] == [(), (), ("Guide", "Install"), ("Guide",)]


@pytest.mark.parametrize(
    "block",
    [
        "````md\n```\n# inside\n```\n# inside\n````",
        "~~~\n```\n# inside\n~~~",
        "```\n~~~\n# inside\n```",
        "```\n```python\n# inside\n```",
        "```sh\n# inside\n`````",
        "   ```\n# inside\n   ```",
    ],
)
def test_a_fence_ends_only_at_its_own_mark(block: str) -> None:
    assert texts(f"# A\n{block}\n# B\nb") == [f"# A\n{block}", "# B\nb"]


@pytest.mark.parametrize("heading", ["# A", "# A #", "# A ##  ", "#\tA", "# A" + " " * 9])
def test_a_heading_is_named_without_its_marks(heading: str) -> None:
    assert [part.headings for part in split(f"{heading}\na\n## B\nb").parts] == [(), ("A",)]


@pytest.mark.parametrize(
    "line",
    [
        "# a" + " " * 50_000 + "b",
        "# a" + " #" * 50_000 + "b",
        "#" * 50_000,
        " " * 50_000 + "```",
        "`" * 50_000 + "x",
        "- " * 50_000 + "x",
        "-" + " " * 50_000 + "-" + " " * 50_000 + "x",
        "Jan" + " " * 50_000 + "x",
        "a" * 50_000,
        "Title" + ":" * 50_000,
        "a " * 50_000,
    ],
    ids=lambda line: repr(line[:6]),
)
def test_no_line_takes_long_to_read(line: str) -> None:
    started = time.process_time()
    split(f"# x\n{line}\ny\n# z\nz\n" * 3)
    assert time.process_time() - started < 5


def test_a_heading_without_text_opens_the_next_section() -> None:
    assert texts("# A\n## B\nb\n## C\nc")[0] == "# A\n## B\nb"


def test_log_records_keep_the_lines_that_belong_to_them() -> None:
    found = split(LOG)
    assert (found.unit, len(found.parts)) == ("records", 3)
    assert found.parts[1].text.endswith("ValueError")
    assert found.join([1]).startswith("2026-01-31 12:00:01 ERROR")


@pytest.mark.parametrize(
    "start",
    [
        "2026-01-31T12:00:00.000Z x",
        "2026/01/31 12:00:00 x",
        '127.0.0.1 - frank [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 12',
        "Jan 31 12:00:00 host x",
        "12:00:00 x",
        "[12:00:00] x",
        "ERROR x",
        "[INFO] x",
        "a.py:1: x",
    ],
)
def test_log_records_begin_in_many_ways(start: str) -> None:
    assert len(texts("\n".join([start] * 4))) == 4


@pytest.mark.parametrize("mark", ["{}. ", "[{}] ", "{}) ", "**{}.** "])
def test_numbered_hits_are_cut_at_their_numbers(mark: str) -> None:
    lines = [mark.format(n) + f"Title {n}\n   https://example.org/{n}\n   snippet" for n in (1, 2, 3)]
    found = split("Found 3 pages:\n" + "\n\n".join(lines))
    assert (found.unit, len(found.parts)) == ("results", 3)
    assert "Found 3 pages" in found.parts[0].text


def test_hits_are_cut_at_a_label_that_recurs() -> None:
    assert len(texts("\n".join(f"Title: T{n}\nURL: u{n}\nText {n}" for n in range(4)))) == 4


def test_hits_are_cut_at_rules() -> None:
    assert len(texts("one\n---\ntwo\n---\nthree")) == 3


@pytest.mark.parametrize(
    "text", ["Prose. It was 12:00 and 3. was next.", "1. one\n3. three\n7. seven", "# Only one\nx"]
)
def test_what_has_no_structure_is_prose(text: str) -> None:
    found = split(text)
    assert (found.unit, [part.text for part in found.parts]) == ("passages", [text])


def test_a_list_of_strings_is_its_entries() -> None:
    found = split_list(["a", "b", "c"])
    assert (found.unit, found.join([0, 2])) == ("results", "a\n\nc")


def test_blank_entries_of_a_list_are_no_results() -> None:
    assert [part.text for part in split_list(["a", "", " \n", "b"]).parts] == ["a", "b"]


def _within_itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("entry", [{(1, 2): 3}, _within_itself()], ids=["key", "within itself"])
def test_an_entry_that_cannot_be_json_is_refused_in_one_line(entry: Any) -> None:
    with pytest.raises(RequestError) as caught:
        split_list([entry, {"a": 1}])
    assert "cannot be written as JSON" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_list_of_anything_else_is_json() -> None:
    found = split_list([{"a": 1}, "b", None, object])
    assert found.parts[0].text == '{"a": 1}'
    assert json.loads(found.join([0, 1, 2])) == [{"a": 1}, "b", None]


LINES = st.sampled_from(
    ["# A", "## B", "text", "", "---", "1. x", "2. y", "3. z", "12:00:00 x", "Title: a", "```", "{}"]
)


@given(st.lists(LINES, max_size=20).map("\n".join))
def test_no_word_of_a_text_is_lost_or_moved(text: str) -> None:
    found = split(text)
    assert found.join(range(len(found.parts))).split() == text.split()


@given(st.text(max_size=200))
def test_any_text_can_be_cut(text: str) -> None:
    assert all(part.text.strip() for part in split(text).parts)
