"""Small files in the form of each public set, with texts of our own, become labelled lists."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.converters import FORMATS
from eval.datasets import Row, read_rows

LAKES = [
    ["Lake Ostra", ["Lake Ostra lies in the Vale of Tarn.", " It is 40 m deep."]],
    ["Vale of Tarn", ["The Vale of Tarn is in Norland."]],
    ["Cheese", ["Cheese is made of milk."]],
]
HOTPOT = {
    "_id": "h1",
    "question": "In which country is Lake Ostra?",
    "answer": "Norland",
    "supporting_facts": [["Lake Ostra", 0], ["Vale of Tarn", 0]],
    "context": LAKES[::-1],
    "type": "bridge",
    "level": "hard",
}
PARAGRAPHS = [
    {"idx": i, "title": title, "paragraph_text": "".join(text), "is_supporting": i < 2}
    for i, (title, text) in enumerate(LAKES)
]
MUSIQUE = {
    "id": "2hop__1_2",
    "question": "In which country is Lake Ostra?",
    "answer": "Norland",
    "answer_aliases": ["the Northland"],
    "answerable": True,
    "question_decomposition": [{"question": "a"}, {"question": "b"}],
    "paragraphs": PARAGRAPHS,
}
CORPUS = [
    {"_id": "d1", "title": "Tides", "text": "The moon pulls the sea, and tides follow."},
    {"_id": "d2", "title": "", "text": "Spring tides come at full moon."},
    {"_id": "d3", "title": "Bread", "text": "Bread rises by yeast."},
]
QUERIES = [{"_id": "q1<::>2", "text": "|user|: what makes\n|user|: the tides?"}, {"_id": "q2", "text": "unjudged"}]
QRELS = "query-id\tcorpus-id\tscore\nq1<::>2\td1\t2\nq1<::>2\td2\t1\nq1<::>2\tgone\t2\n"
RUN = "q1<::>2 Q0 d3 1 9.5 mine\nq1<::>2 Q0 d1 2 7.25 mine\nq2 Q0 d1 1 1 mine\n"


def lines(entries: Sequence[object]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus.jsonl").write_text(lines(CORPUS))
    (tmp_path / "queries.jsonl").write_text(lines(QUERIES))
    (tmp_path / "test.tsv").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    (tmp_path / "hotpot.json").write_text(json.dumps([HOTPOT]))
    (tmp_path / "musique.jsonl").write_text(lines([MUSIQUE]))
    return tmp_path


def converted(folder: Path, name: str, *arguments: object) -> list[Row]:
    out = folder / "out.jsonl"
    assert main(["convert", name, *map(str, arguments), "--out", str(out)]) == 0
    return list(read_rows(out))


def judged(folder: Path, **files: str) -> list[str]:
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": "test.tsv"} | files
    return [part for flag, name in names.items() for part in (f"--{flag}", str(folder / name))]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["convert", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("name", ["hotpotqa", "2wiki"])
def test_paragraphs_of_the_supporting_facts_are_needed(folder: Path, name: str) -> None:
    [row] = converted(folder, name, folder / "hotpot.json")
    assert {row.chunks[place].title for place in row.needed} == {"Lake Ostra", "Vale of Tarn"}
    assert (row.id, row.dataset, row.answer) == ("h1", name, "Norland")
    assert (row.meta["hops"], row.meta["type"], row.meta["level"]) == (2, "bridge", "hard")


def test_sentences_are_joined_by_one_blank(folder: Path) -> None:
    [row] = converted(folder, "hotpotqa", folder / "hotpot.json")
    assert "Vale of Tarn. It is" in {chunk.title: chunk.text for chunk in row.chunks}["Lake Ostra"]


def test_lists_without_a_ranking_get_bm25_s_order_and_say_so(folder: Path) -> None:
    [row] = converted(folder, "hotpotqa", folder / "hotpot.json")
    scores = [chunk.score or 0.0 for chunk in row.chunks]
    assert (row.chunks[0].title, row.meta["order"]) == ("Lake Ostra", "bm25")
    assert scores == sorted(scores, reverse=True)


def test_the_original_order_can_be_kept(folder: Path) -> None:
    [row] = converted(folder, "hotpotqa", folder / "hotpot.json", "--order", "original")
    assert [chunk.title for chunk in row.chunks] == ["Cheese", "Vale of Tarn", "Lake Ostra"]
    assert (row.meta["order"], row.chunks[0].score) == ("original", None)


def test_yes_is_no_answer_whose_survival_could_be_seen(folder: Path) -> None:
    (folder / "yes.json").write_text(json.dumps([HOTPOT | {"answer": "yes"}]))
    [row] = converted(folder, "hotpotqa", folder / "yes.json")
    assert row.answer is None


def test_a_supporting_paragraph_that_was_not_retrieved_is_missing(folder: Path) -> None:
    facts = [*HOTPOT["supporting_facts"], ["Norland", 3]]
    (folder / "full.json").write_text(json.dumps([HOTPOT | {"supporting_facts": facts}]))
    [row] = converted(folder, "hotpotqa", folder / "full.json")
    assert (len(row.gold), len(row.needed)) == (3, 2)


def test_paragraphs_of_one_title_get_ids_of_their_own(folder: Path) -> None:
    (folder / "twin.json").write_text(json.dumps([HOTPOT | {"context": [*LAKES, LAKES[0]]}]))
    [row] = converted(folder, "hotpotqa", folder / "twin.json")
    assert {"Lake Ostra", "Lake Ostra#2"} < set(row.gold)


def test_musique_says_itself_which_paragraphs_support(folder: Path) -> None:
    [row] = converted(folder, "musique", folder / "musique.jsonl")
    assert set(row.gold) == {"0", "1"}
    assert (row.meta["hops"], row.meta["answer_aliases"]) == (2, ["the Northland"])


def test_an_unanswerable_question_of_musique_needs_nothing(folder: Path) -> None:
    (folder / "full.jsonl").write_text(lines([MUSIQUE | {"answerable": False}]))
    [row] = converted(folder, "musique", folder / "full.jsonl")
    assert (row.gold, row.answer, row.meta["answerable"]) == ((), None, False)


@pytest.mark.parametrize("name", ["beir", "mtrag"])
def test_without_a_run_bm25_ranks_the_corpus(folder: Path, name: str) -> None:
    [row] = converted(folder, name, *judged(folder))
    assert {chunk.id for chunk in row.chunks} == {"d1", "d2"}
    assert (row.meta["order"], set(row.needed)) == ("bm25", {0, 1})
    assert set(row.gold) == {"d1", "d2", "gone"}


def test_speakers_marks_are_no_part_of_the_query(folder: Path) -> None:
    [row] = converted(folder, "mtrag", *judged(folder))
    assert row.query == "what makes the tides?"


@pytest.mark.parametrize("name", ["trec", "beir"])
def test_a_run_gives_the_order_and_its_tag(folder: Path, name: str) -> None:
    [row] = converted(folder, name, *judged(folder, run="run.txt"))
    assert [(chunk.id, chunk.score) for chunk in row.chunks] == [("d3", 9.5), ("d1", 7.25)]
    assert (row.meta["order"], set(row.needed)) == ("run mine", {1})


def test_trec_judgements_have_a_column_more(folder: Path) -> None:
    (folder / "trec.qrels").write_text("q1<::>2 0 d1 1\nq1<::>2 0 d3 0\n")
    [row] = converted(folder, "trec", *judged(folder, run="run.txt", qrels="trec.qrels"))
    assert row.gold == ("d1",)


def test_queries_and_documents_may_be_lines_with_a_tab(folder: Path) -> None:
    (folder / "topics.tsv").write_text("q1<::>2\twhat makes the tides?\n")
    (folder / "docs.tsv").write_text("".join(f"{entry['_id']}\t{entry['text']}\n" for entry in CORPUS))
    [row] = converted(folder, "trec", *judged(folder, run="run.txt", queries="topics.tsv", corpus="docs.tsv"))
    assert row.chunks[0].text == "Bread rises by yeast."


def test_less_relevant_documents_are_helpful(folder: Path) -> None:
    [row] = converted(folder, "beir", *judged(folder), "--min-relevance", 2)
    assert (set(row.gold), row.helpful) == ({"d1", "gone"}, ("d2",))


def test_a_list_is_as_long_as_asked(folder: Path) -> None:
    [row] = converted(folder, "trec", *judged(folder, run="run.txt"), "--length", 1)
    assert [chunk.id for chunk in row.chunks] == ["d3"]


def test_a_run_is_sorted_by_score_whatever_its_lines_order(folder: Path) -> None:
    shuffled = "".join(f"q1<::>2 Q0 x{i} {i} {i % 97} mine\n" for i in range(500)) + RUN
    (folder / "long.txt").write_text(shuffled)
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(lines([{"_id": f"x{i}", "text": "x"} for i in range(500)]))
    [row] = converted(folder, "trec", *judged(folder, run="long.txt"), "--length", 5)
    assert [chunk.id for chunk in row.chunks] == ["x96", "x193", "x290", "x387", "x484"]


def test_gzip_is_read_and_written(folder: Path) -> None:
    (folder / "hotpot.json.gz").write_bytes(gzip.compress((folder / "hotpot.json").read_bytes()))
    out = folder / "out.jsonl.gz"
    assert main(["convert", "hotpotqa", str(folder / "hotpot.json.gz"), "--out", str(out)]) == 0
    assert gzip.decompress(out.read_bytes()).startswith(b'{"id": "h1"')


def test_several_files_become_one(folder: Path) -> None:
    (folder / "more.json").write_text(json.dumps([HOTPOT | {"_id": "h2"}]))
    rows = converted(folder, "hotpotqa", folder / "hotpot.json", folder / "more.json")
    assert [row.id for row in rows] == ["h1", "h2"]


def test_what_came_out_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    converted(folder, "trec", *judged(folder, run="run.txt"))
    out = capsys.readouterr().out
    assert out.endswith("1 rows, 0 no needed chunk in the list, 1 a needed chunk not retrieved\n")


@pytest.mark.parametrize(("count", "said"), [(1, "1 judged"), (5, "5 judged")])
def test_judged_queries_without_a_ranking_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], count: int, said: str
) -> None:
    more = [{"_id": f"u{n}", "text": "tides?"} for n in range(count)]
    (folder / "queries.jsonl").write_text(lines([*QUERIES, *more]))
    (folder / "test.tsv").write_text(QRELS + "".join(f"u{n}\td1\t1\n" for n in range(count)))
    converted(folder, "trec", *judged(folder, run="run.txt"))
    err = capsys.readouterr().err
    shown = "'u0'" if count == 1 else "'u0', 'u1', 'u2', …"
    assert err == f"convert: {said} queries have no ranking and are left out: {shown}\n"


@pytest.mark.parametrize("qrels", ["q1<::>2 0 d1 1.0\n", "q1<::>2 0 d1 1.\n", "q1<::>2\td1\t+1\n"])
def test_whole_numbers_may_be_written_with_a_point_from_the_first_line_on(folder: Path, qrels: str) -> None:
    (folder / "test.tsv").write_text(qrels + "q1<::>2 0 d3 2.0\n".replace(" ", "\t" if "\t" in qrels else " "))
    [row] = converted(folder, "trec", *judged(folder, run="run.txt"))
    assert row.gold == ("d1", "d3")


@pytest.mark.parametrize(
    "header", ["query-id\tcorpus-id\tscore", "qid docid relevance", "Topic iter document# rel", "query_id 0 doc_id r"]
)
def test_a_header_is_known_by_what_it_names(folder: Path, header: str) -> None:
    (folder / "test.tsv").write_text(f"{header}\nq1<::>2 0 d1 1\n")
    [row] = converted(folder, "trec", *judged(folder, run="run.txt"))
    assert row.gold == ("d1",)


def test_a_query_of_a_headers_name_is_judged(folder: Path) -> None:
    (folder / "queries.jsonl").write_text(lines([{"_id": "topic", "text": "tides?"}]))
    (folder / "test.tsv").write_text("topic 0 d1 1\n")
    (folder / "run.txt").write_text("topic Q0 d1 1 1 mine\n")
    [row] = converted(folder, "trec", *judged(folder, run="run.txt"))
    assert row.gold == ("d1",)


def test_a_set_can_be_named(folder: Path) -> None:
    [row] = converted(folder, "beir", *judged(folder), "--dataset", "seas")
    assert row.dataset == "seas"


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("hotpotqa", {"question": ""}, "question"),
    ("hotpotqa", {"context": [["a", "no list"]]}, "context.0.1"),
    ("hotpotqa", {"context": []}, "context"),
    ("hotpotqa", {"supporting_facts": None}, "supporting_facts"),
    ("musique", {"paragraphs": [{"idx": 0, "title": "a", "paragraph_text": "b"}]}, "paragraphs.0.is_supporting"),
    ("musique", {"paragraphs": PARAGRAPHS + PARAGRAPHS[:1]}, "chunks: id '0' stands there twice"),
]


@pytest.mark.parametrize(("name", "change", "message"), BROKEN)
def test_a_broken_entry_is_named_with_its_place_and_field(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, change: dict[str, Any], message: str
) -> None:
    path = folder / "broken"
    path.write_text(lines([MUSIQUE | change]) if name == "musique" else json.dumps([HOTPOT | change]))
    place = f"{path}:1" if name == "musique" else f"{path}: entry 1"
    assert f"{place}: {message}" in refused(capsys, name, path, "--out", folder / "out")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must be one JSON array"),
        ("{}", "must be one JSON array"),
        ("[]", "the array is empty"),
        ("[7]", "entry 1: must be an object"),
        ('[{"a": 1]', "entry 1: no JSON"),
        ('[{"a": 1}', "entry 1: _id"),
        ("[", "entry 1: the array breaks off here"),
    ],
)
def test_a_file_that_is_no_array_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    (folder / "odd.json").write_text(content)
    assert message in refused(capsys, "hotpotqa", folder / "odd.json", "--out", folder / "out")


def test_an_array_that_breaks_off_after_an_entry_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cut.json").write_text(json.dumps([HOTPOT])[:-1])
    assert "entry 2: the array breaks off" in refused(capsys, "hotpotqa", folder / "cut.json", "--out", folder / "out")


def test_a_question_that_comes_twice_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "hotpot.json"
    error = refused(capsys, "hotpotqa", path, path, "--out", folder / "out")
    assert f"'h1' stands in {path}: entry 1 already" in error


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("test.tsv", QRELS + "q1\td1\tmany\n", ":5: relevance: must be a whole number, got 'many'"),
        ("test.tsv", "q1<::>2 d1\n", ":1: must be `query document relevance`"),
        ("test.tsv", "q1\td1\tmany\n", ":1: relevance: must be a whole number, got 'many'"),
        ("test.tsv", "q1 0 d1 1.5\n", ":1: relevance: must be a whole number, got '1.5'"),
        ("test.tsv", "q1 0 d1 nan\n", ":1: relevance: must be a whole number, got 'nan'"),
        ("test.tsv", "q1<::>2 0 D-1 1\n", "test.tsv: no judged document is in the corpus, such as 'D-1'; are the ids"),
        ("test.tsv", QRELS + "q1<::>2\td1\t0\n", ":5: relevance: 'd1' was judged 2 before"),
        ("test.tsv", "query-id\tcorpus-id\tscore\n", "no judgement in it"),
        ("test.tsv", "q9\td1\t1\n", "no query 'q9'"),
        ("queries.jsonl", lines([QUERIES[0], QUERIES[0]]), ":2: id: 'q1<::>2' stands in the file already"),
        ("queries.jsonl", '{"_id": "q1<::>2"}\n', ":1: text: Field required"),
        ("queries.jsonl", "no tab\n", ":1: must be a JSON object, or an id and a text"),
        ("corpus.jsonl", lines([CORPUS[0], CORPUS[0]]), ":2: id: 'd1' stands in the corpus already"),
        ("corpus.jsonl", lines([CORPUS[0]]), "document 'd3' of query 'q1<::>2' is not in the corpus"),
        ("run.txt", "q1<::>2 Q0 d1 1 nan mine\n", ":1: score: must be a finite number, got 'nan'"),
        ("run.txt", "q1<::>2 Q0 d1 first 1 mine\n", ":1: rank: must be a finite number, got 'first'"),
        ("run.txt", "q1<::>2 d1 1\n", ":1: must be `query Q0 document rank score tag`, got 3 fields"),
        ("run.txt", RUN + "q1<::>2 Q0 d1 3 1 mine\n", "a document comes twice in the list of query 'q1<::>2'"),
        ("run.txt", "q2 Q0 d1 1 1 mine\n", "no list came out"),
    ],
)
def test_a_broken_line_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, content: str, message: str
) -> None:
    (folder / file).write_text(content)
    assert message in refused(capsys, "trec", *judged(folder, run="run.txt"), "--out", folder / "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hotpotqa"], "name the files of hotpotqa"),
        (["trec", "--corpus", "c"], "trec needs --queries and --qrels and --run"),
        (["beir", "file"], "no bare file: file"),
        (["beir", "--corpus", "c", "--queries", "q", "--qrels", "r", "--length", "0"], "--length must be at least 1"),
        (["hotpotqa", "nowhere.json"], "nowhere.json: No such file"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in refused(capsys, *arguments, "--out", tmp_path / "out")


def test_a_failed_conversion_leaves_the_old_file_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "out.jsonl"
    out.write_text("old")
    (folder / "half.json").write_text(json.dumps([HOTPOT, {}]))
    refused(capsys, "hotpotqa", folder / "half.json", "--out", out)
    assert out.read_text() == "old"
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_every_format_is_described_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in FORMATS)
