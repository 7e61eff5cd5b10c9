from eval.lists import LabelledList, overlapping, plain

STEPS = [{"question": "Who sings it?", "answer": "Ann Lee"}, {"question": "#1 >> born in", "answer": "Leeds"}]
ROW = {
    "id": "l",
    "query": "Where was the singer born?",
    "gold": ["b"],
    "answer": "Leeds",
    "meta": {"decomposition": STEPS},
    "chunks": [
        {"id": "a", "title": "Rice", "text": "Rice is boiled.", "source": "w"},
        {"id": "b", "title": "Ann Lee", "text": "Ann Lee was born in Leeds.", "source": "w"},
        {"id": "c", "title": "Song", "text": "Ann Lee sings it.", "source": "w"},
    ],
}
TEXT = "".join(f"Sentence {n} of a long document about backups. " for n in range(100))


def cut(start: int, end: int) -> dict[str, object]:
    return {"id": f"d-{start}", "source": f"d.md[{start}:{end}]", "text": TEXT[start:end].rstrip()}


def recut() -> LabelledList:
    rows = [
        {
            "id": "x",
            "query": "Sentence 40",
            "chunks": [cut(0, 1000), cut(1000, 2500), cut(3000, 4000)],
            "meta": {"references": [TEXT[1200:1300]]},
        }
    ]
    [found] = overlapping(rows)
    return found


def test_a_list_is_cut_and_its_needed_chunks_are_places() -> None:
    assert plain("musique", ROW, 3).needed == {1}
    assert plain("musique", ROW, 1).needed == frozenset()


def test_a_step_of_a_question_names_the_answer_of_an_earlier_one_and_finds_its_chunks() -> None:
    found = plain("musique", ROW, 3)
    assert found.required == ("q1", "q2")
    assert "q2" in found.chunks[1].query_ids
    assert found.chunks[0].query_ids == ()


def test_offsets_in_an_id_are_believed_when_they_are_as_long_as_the_text() -> None:
    chunks = [{"id": "d-10-13", "text": "abc", "source": "m"}, {"id": "d-10-99", "text": "abc", "source": "m"}]
    a, b = plain("mtrag", {**ROW, "meta": {}, "chunks": chunks}, 2).chunks
    assert (a.source_id, a.start_char, a.end_char) == ("d", 10, 13)
    assert (b.source_id, b.start_char) == ("d", None)


def test_documents_are_cut_with_half_overlap_and_true_offsets() -> None:
    found = recut()
    spans = sorted((c.start_char, c.end_char) for c in found.chunks if c.source_id == "d.md@0")
    assert spans == [(0, 1000), (500, 1500), (1000, 2000), (1500, 2500)]
    assert all(found.sources[str(c.source_id)][c.start_char : c.end_char] == c.text for c in found.chunks)


def test_what_lies_behind_a_gap_is_another_source() -> None:
    assert set(recut().sources) == {"d.md@0", "d.md@3000"}


def test_each_window_lies_in_its_parent() -> None:
    found = recut()
    for chunk in found.chunks:
        parent = found.parents[str(chunk.parent_id)]
        at = (chunk.start_char or 0) - (parent.start_char or 0)
        assert parent.text.startswith(chunk.text, at)


def test_a_needed_passage_is_found_in_the_sources() -> None:
    assert recut().references == (("d.md@0", 1200, 1300),)


def test_what_shows_a_part_of_a_needed_passage_touches_it() -> None:
    found = recut()
    touching = {found.chunks[place].start_char for place in found.touching}
    assert touching == {500, 1000}
