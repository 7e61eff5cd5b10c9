"""The page in a real browser, before a real service on loopback."""

import asyncio
import json
import re
import shutil
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from pruner.backends.scripted import ScriptedBackend
from pruner.cli import main
from pruner.config import PrunerConfig
from pruner.decision_log import DecisionLog
from pruner.pipeline import Pruner
from pruner.rollout import Rollout
from pruner.schema import GradingRequest, RawGrading, Usage
from tests.service.served import KEY, KEYS, app_of, served

pytestmark = pytest.mark.browser

# Without a display, and without the browser's own calls home.
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
GRADES = [3, 2, 5, 3, 4, 1]
CHUNKS = [f"Chunk number {n} says {n * 'so and ' or 'nothing '}so." for n in range(6)]
CONFIG = PrunerConfig(model="openai:gpt-4o-mini", keep_top_k=1, base_url="http://127.0.0.1:9/v1")
QUESTION, LIST = "Question", "Chunks in reranker order, best first"


class Script:
    """A model that gives `GRADES`, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: GradingRequest) -> RawGrading:
        self.asked += 1
        grades = [[label, GRADES[(label - 1) % len(GRADES)]] for label in range(1, request.n + 1)]
        return RawGrading(text=json.dumps({"grades": grades}), usage=Usage(900, 40, 0, 1))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def model() -> Script:
    return Script()


@pytest.fixture
def url(model: Script) -> Iterator[str]:
    with served(app_of(model, config=CONFIG)) as url:
        yield url


@pytest.fixture
def faults() -> list[str]:
    """What the page did that it must not: errors, breaches of its policy, requests to another host."""
    return []


@pytest.fixture
def page(browser: Browser, url: str, faults: list[str]) -> Iterator[Page]:
    page = browser.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda r: None if r.url.startswith((url, "blob:")) else faults.append(r.url))
    page.set_default_timeout(20_000)
    page.goto(url)
    yield page
    page.close()
    assert faults == []


def grade(page: Page, chunks: list[str] = CHUNKS) -> None:
    page.get_by_label(QUESTION).fill("which?")
    page.get_by_label(LIST).fill("\n".join(chunks))
    page.get_by_role("button", name="Grade").click()
    expect(page.get_by_role("status")).to_contain_text("kept.")


def open_file(page: Page, text: str) -> None:
    page.get_by_label("Open a file").set_input_files({"name": "f", "mimeType": "text/plain", "buffer": text.encode()})


def kept(page: Page, column: str = "Decision") -> list[int]:
    """The ranks, from 0, of the rows that say `kept`."""
    cells = page.locator(f'td[data-name="{column}"]').all_inner_texts()
    return [rank for rank, text in enumerate(cells) if text.startswith("✓ kept")]


def cell(page: Page, rank: int, name: str) -> str:
    return page.locator("tbody tr").nth(rank).locator(f'[data-name="{name}"]').inner_text()


def move(page: Page, dial: str, value: int) -> None:
    page.locator(dial).fill(str(value))


def test_a_list_is_graded_and_every_chunk_shown_with_its_grade_and_why(page: Page, model: Script) -> None:
    grade(page)
    assert kept(page) == [0, 2, 3, 4]
    assert cell(page, 2, "Grade") == "5 ESSENTIAL"
    assert page.locator("tbody tr").nth(4).locator(".steps i.on").count() == 4
    assert "its grade reaches the threshold" in cell(page, 2, "Decision")
    assert "its grade is below the threshold" in cell(page, 5, "Decision")
    assert cell(page, 1, "Chunk") == CHUNKS[1]
    assert model.asked == 1
    expect(page.locator("#about")).to_contain_text("Status ok · openai:gpt-4o-mini · 900 tokens in, 40 out")


def test_tokens_are_shown_and_run_up_over_what_is_kept(page: Page) -> None:
    grade(page)
    tokens = [int(cell(page, rank, "Tokens")) for rank in range(6)]
    running = [re.search(r"(\d+) so far", cell(page, rank, "Decision")) for rank in range(6)]
    totals = [int(found[1]) if found else None for found in running]
    assert totals == [
        tokens[0],
        None,
        sum(tokens[i] for i in (0, 2)),
        sum(tokens[i] for i in (0, 2, 3)),
        totals[4],
        None,
    ]
    said = f"4 of 6 chunks, {totals[4]} of {sum(tokens)} tokens kept."
    expect(page.get_by_role("status")).to_have_text(said)


@pytest.mark.parametrize(
    ("dial", "value", "left"),
    [
        ("#threshold-A", 4, [0, 2, 4]),
        ("#threshold-A", 1, [0, 1, 2, 3, 4, 5]),
        ("#keep_top_k-A", 2, [0, 1, 2, 3, 4]),
        ("#keep_top_k-A", 0, [0, 2, 3, 4]),
    ],
)
def test_a_moved_dial_changes_the_selection_without_asking_the_model(
    page: Page, model: Script, dial: str, value: int, left: list[int]
) -> None:
    grade(page)
    move(page, dial, value)
    expect(page.get_by_role("status")).to_contain_text(f"{len(left)} of 6 chunks")
    assert kept(page) == left
    assert model.asked == 1


def test_a_budget_drops_the_least_graded_and_none_takes_it_away(page: Page) -> None:
    grade(page)
    total = sum(int(cell(page, rank, "Tokens")) for rank in (0, 2, 3, 4))
    dial = page.locator("#token_cap-A")
    move(page, "#token_cap-A", total - 5)
    expect(page.locator("tbody")).to_contain_text("no room in the budget")
    assert kept(page) == [0, 2, 4]
    dial.press("End")
    expect(page.get_by_role("status")).to_contain_text("4 of 6 chunks")
    assert dial.get_attribute("aria-valuetext") == "no limit"


def test_two_settings_stand_side_by_side_and_where_they_differ_is_said(page: Page) -> None:
    grade(page)
    page.get_by_label("Compare with a second setting").check()
    expect(page.get_by_role("columnheader", name="Setting B")).to_be_visible()
    move(page, "#threshold-B", 5)
    expect(page.get_by_role("status")).to_contain_text("The settings differ in 2 chunks.")
    assert (kept(page, "Setting A"), kept(page, "Setting B")) == ([0, 2, 3, 4], [0, 2])
    assert page.locator("tr.differs").count() == page.get_by_role("img", name="the settings differ").count() == 2
    page.get_by_label("Compare with a second setting").uncheck()
    expect(page.get_by_role("columnheader", name="Setting B")).to_be_hidden()
    assert page.locator("tr.differs").count() == 0


def test_the_settings_are_copied_in_the_form_of_each_place_they_are_kept_in(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    grade(page)
    move(page, "#threshold-A", 4)
    expect(page.get_by_role("status")).to_contain_text("3 of 6 chunks")
    page.get_by_text("Copy these settings").click()

    def copied(form: str) -> str:
        page.get_by_label("Form").select_option(form)
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        expect(page.get_by_role("button", name="Copy", exact=True)).to_be_visible()
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text

    wanted = CONFIG.with_dials(threshold=4)
    (tmp_path / "pruner.toml").write_text(copied("toml"), encoding="utf-8")
    assert PrunerConfig.load(file=tmp_path / "pruner.toml", base_url=CONFIG.base_url) == wanted
    assert PrunerConfig(**json.loads(copied("json"))["dials"], base_url=CONFIG.base_url) == wanted
    for line in copied("env").splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    assert PrunerConfig.load(base_url=CONFIG.base_url) == wanted
    assert tomllib.loads((tmp_path / "pruner.toml").read_text(encoding="utf-8"))["keep_top_k"] == 1


def test_it_is_used_by_keyboard_alone(page: Page, model: Script) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the decisions"
    page.keyboard.press("Tab")
    page.keyboard.type("which?")
    page.keyboard.press("Tab")
    page.keyboard.insert_text("\n".join(CHUNKS))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("4 of 6 chunks")
    expect(page.locator("#results")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "threshold-A"
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("status")).to_contain_text("3 of 6 chunks")
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "4 CONTRIBUTING"
    for stop in ("keep_top_k-A", "token_cap-A", "BUTTON", "SUMMARY", "compare", "save"):
        page.keyboard.press("Tab")
        assert stop in page.evaluate("[document.activeElement.id, document.activeElement.tagName]")


def test_every_control_has_a_name_and_the_table_is_one_at_any_width(page: Page) -> None:
    grade(page)
    page.get_by_label("Compare with a second setting").check()
    page.get_by_text("Copy these settings").first.click()
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        tree = page.locator("body").aria_snapshot()
        unnamed = re.findall(r"- (?:textbox|slider|combobox|checkbox|button)(?!s)(?: \[.*\])?:?$", tree, re.MULTILINE)
        assert not unnamed
        assert 'table "Every chunk in reranker order' in tree
        assert 'rowheader "1"' in tree
        assert page.get_by_role("row").count() == 7
        assert page.get_by_role("cell", name=re.compile("^5 ESSENTIAL")).count() == 1


def test_nothing_is_wider_than_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    grade(page, ["word" * 200, "a b " * 200, *CHUNKS])
    page.get_by_label("Compare with a second setting").check()
    expect(page.locator("#setting-B")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_what_a_chunk_holds_is_text_wherever_it_is_shown(page: Page, faults: list[str]) -> None:
    hostile = "<script>document.title='hit'</script><img src=x onerror=\"document.title='hit'\"><b>bold</b>"
    chunks = [{"text": hostile, "id": hostile, "title": hostile}, "b", "c"]
    page.get_by_label(QUESTION).fill(hostile)
    page.get_by_label(LIST).fill(json.dumps(chunks))
    page.get_by_role("button", name="Grade").click()
    expect(page.locator("tbody")).to_contain_text(hostile)
    assert page.locator("tbody script, tbody img, tbody b").count() == 0
    open_file(page, "\n".join(json.dumps(line_of(request_id=hostile, ids=[hostile] * 6)) for _ in range(2)))
    expect(page.get_by_label("Record of the file")).to_contain_text(hostile)
    assert page.title() == "pruner"


def test_the_policy_stops_a_script_that_would_write_markup_or_call_elsewhere(page: Page, faults: list[str]) -> None:
    stopped = page.evaluate("(() => { try { document.body.innerHTML = '<b>' } catch (e) { return e.name } })()")
    assert stopped == "TypeError"
    with page.expect_event("requestfailed") as failed:
        page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.2:9/x'}))")
    assert failed.value.failure == "csp"
    faults.clear()


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("one\ntwo\n", "2 lines"),
        ("one\nstill one\n\ntwo", "2 paragraphs"),
        ("[1] as was noted\nand so on", "2 lines"),
        ('["a", {"text": "b", "unknown": 1}]', "2 chunks of JSON"),
        ('"a"\n{"text": "b"}\n', "2 chunks of JSON"),
        ('{"query": "q", "chunks": ["a"]}', "1 chunk of JSON"),
        ('{"text": "a"}\n{"text":', "2 lines"),
        ('{"grades": [1]}\n{"grades": [1', "1 record, beside 1 broken line"),
        (
            '{"results": [{"index": 1, "relevance_score": 0.5}], "documents": ["a", {"text": "b"}]}',
            "1 result of a reranker",
        ),
    ],
)
def test_it_says_how_a_pasted_text_is_read(page: Page, text: str, form: str) -> None:
    page.get_by_label(LIST).fill(text)
    expect(page.locator("#found")).to_have_text(f"Read as {form}.")


def test_an_entry_without_a_text_is_named(page: Page) -> None:
    page.get_by_label(LIST).fill('["a", {"body": "b"}]')
    expect(page.locator("#found")).to_contain_text("Entry 2 holds no text")


def test_the_example_is_graded(page: Page) -> None:
    page.get_by_role("button", name="Take the example").click()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("of 9 chunks")


@pytest.mark.parametrize(("query", "chunks", "fault"), [("", "a", "Ask a question"), ("q", " ", "Give some chunks")])
def test_a_missing_half_is_asked_for_and_gets_the_focus(page: Page, query: str, chunks: str, fault: str) -> None:
    page.get_by_label(QUESTION).fill(query)
    page.get_by_label(LIST).fill(chunks)
    page.get_by_role("button", name="Grade").click()
    expect(page.get_by_role("alert")).to_contain_text(fault)
    assert page.evaluate("document.activeElement.id") == ("chunks" if query else "query")


def line_of(**changes: Any) -> dict[str, Any]:
    """A line of the decision log, without texts."""
    kept = [0, 2, 4]
    by = ["keep_top_k", "below_threshold", "grade", "below_threshold", "grade", "below_threshold"]
    line: dict[str, Any] = {
        "time": "2026-11-30T08:00:00.000+00:00",
        "request_id": "r-1",
        "mode": "on",
        "arm": "pruner",
        "status": "ok",
    }
    line |= {"reason": None, "n": 6, "kept": kept, "baseline": [0, 1], "ids": list("abcdef"), "grades": GRADES}
    line |= {"expected": [None] * 6, "tokens": [10, 20, 30, 40, 50, 60], "by": by, "model": "openai:m"}
    return line | {"dials": {"threshold": 4.0, "keep_top_k": 1, "token_cap": None, "scoring": "grade"}} | changes


def test_a_line_of_the_decision_log_is_shown_as_it_was_decided_and_its_dials_move(page: Page, model: Script) -> None:
    page.get_by_label(LIST).fill(json.dumps(line_of()))
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status")).to_have_text("3 of 6 chunks, 90 of 210 tokens kept.")
    assert kept(page) == [0, 2, 4]
    move(page, "#threshold-A", 3)
    expect(page.get_by_role("status")).to_have_text("4 of 6 chunks, 130 of 210 tokens kept.")
    expect(page.locator("#token_cap-A")).to_be_disabled()
    assert model.asked == 0


def test_a_log_that_rollout_wrote_is_opened_and_its_lines_are_chosen_from(page: Page, tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", "what is first?", "what is second?")
    open_file(page, (tmp_path / "log.jsonl").read_text(encoding="utf-8"))
    expect(page.get_by_role("status")).to_contain_text("4 of 6 chunks")
    page.get_by_label("Record of the file").select_option(label="2: what is second? (6 chunks, ok)")
    expect(page.locator("tbody")).to_contain_text(CHUNKS[1])
    expect(page.locator("#token_cap-A")).to_be_enabled()


def write_log(path: Path, *queries: str) -> None:
    async def write() -> None:
        pruner = Pruner(CONFIG, backend=ScriptedBackend(Script()))
        with DecisionLog(path) as log:
            for query in queries:
                await Rollout(pruner, "on", log=log, log_content=True).prune(query, CHUNKS)

    run_elsewhere(lambda: asyncio.run(write()))


def run_elsewhere(work: Callable[[], object]) -> None:
    """Run what needs an event loop; in this thread runs the browser's."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_an_answer_of_the_service_is_opened(page: Page, url: str) -> None:
    body = {"query": "q", "chunks": CHUNKS, "tokens": True, "trace": True, "dials": {"threshold": 5}}
    answer = page.request.post(f"{url}/v1/prune", data=body).json()
    open_file(page, json.dumps(answer, indent=1))
    expect(page.get_by_role("status")).to_contain_text("2 of 6 chunks")
    assert kept(page) == [0, 2]


def test_a_trace_is_shown_as_it_was_without_dials_as_it_holds_no_grades(page: Page, url: str) -> None:
    body = {"query": "q", "chunks": CHUNKS, "trace": True}
    trace = page.request.post(f"{url}/v1/prune", data=body).json()["trace"]
    open_file(page, json.dumps(trace))
    expect(page.get_by_role("status")).to_have_text("4 of 6 chunks were kept.")
    assert kept(page) == [0, 2, 3, 4]
    assert "below the threshold" in cell(page, 1, "Decision")
    expect(page.locator("#settings")).to_be_hidden()


def test_what_is_shown_is_saved_and_opened_again(page: Page, model: Script, tmp_path: Path) -> None:
    grade(page)
    move(page, "#threshold-A", 5)
    expect(page.get_by_role("status")).to_contain_text("2 of 6 chunks")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a file").click()
    download.value.save_as(tmp_path / "record.json")
    page.reload()
    page.get_by_label("Open a file").set_input_files(tmp_path / "record.json")
    expect(page.get_by_role("status")).to_contain_text("2 of 6 chunks")
    assert cell(page, 1, "Chunk") == CHUNKS[1]
    assert model.asked == 1


def test_a_record_without_texts_is_saved_and_opened_again(page: Page, tmp_path: Path) -> None:
    open_file(page, json.dumps(line_of()))
    expect(page.get_by_role("status")).to_contain_text("3 of 6 chunks")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a file").click()
    download.value.save_as(tmp_path / "record.json")
    page.reload()
    page.get_by_label("Open a file").set_input_files(tmp_path / "record.json")
    expect(page.get_by_role("status")).to_have_text("3 of 6 chunks, 90 of 210 tokens kept.")


def test_what_the_command_line_printed_is_opened_with_the_texts_it_kept(
    page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reply").write_text(json.dumps({"grades": [[1, 5], [2, 1], [3, 4]]}) + "\n", encoding="utf-8")
    (tmp_path / "chunks").write_text('"first"\n"second"\n"third"\n', encoding="utf-8")
    dials = ["--model", f"scripted:{tmp_path / 'reply'}", "--keep-top-k", "0"]
    run_elsewhere(lambda: main(["prune", "--query", "q", "--chunks", str(tmp_path / "chunks"), "--json", *dials]))
    open_file(page, capsys.readouterr().out)
    expect(page.get_by_role("status")).to_contain_text("2 of 3 chunks")
    assert [cell(page, rank, "Chunk") for rank in range(3)] == ["first", "The record holds no text.", "third"]


def test_chunks_that_found_no_room_in_the_prompt_are_selected_as_they_were(page: Page, url: str) -> None:
    grading = {"grades": [5, 4, None, None, None, None], "left_out": [2, 3, 4, 5], "status": "partial"}
    open_file(page, json.dumps(line_of(**grading, reason="missing_grades", dials={"fallback_top_n": 4})))
    expect(page.get_by_role("status")).to_contain_text("4 of 6 chunks")
    assert kept(page) == [0, 1, 2, 3]


def test_a_service_with_keys_is_given_one_which_is_kept_in_memory_only(browser: Browser, model: Script) -> None:
    with served(app_of(model, config=CONFIG, api_keys=KEYS)) as url:
        page = browser.new_page()
        page.goto(url)
        expect(page.get_by_label("API key")).to_be_hidden()
        page.get_by_label(QUESTION).fill("which?")
        page.get_by_label(LIST).fill("\n".join(CHUNKS))
        page.get_by_role("button", name="Grade").click()
        expect(page.get_by_role("alert")).to_contain_text("send a key this service knows")
        assert page.evaluate("document.activeElement.id") == "key"
        page.keyboard.type(KEY)
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("4 of 6 chunks")
        assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.search]") == [
            0,
            0,
            "",
            "",
        ]
        page.reload()
        assert page.locator("#key").input_value() == ""
        page.close()


def test_a_dial_that_is_not_open_is_said_at_its_setting_and_the_way_back_is_there(browser: Browser) -> None:
    with served(app_of(Script(), config=CONFIG, dials={"threshold": (2, 4)})) as url:
        page = browser.new_page()
        page.goto(url)
        grade(page)
        move(page, "#keep_top_k-A", 3)
        fault = page.locator("#setting-A").get_by_role("alert")
        expect(fault).to_have_text("dials.keep_top_k: the operator has not opened this dial to requests")
        page.get_by_role("button", name="Back to the service’s own").click()
        expect(fault).to_be_hidden()
        expect(page.locator("#keep_top_k-A")).to_have_value("1")
        page.close()


def test_a_failed_grading_is_shown_as_a_fallback(browser: Browser) -> None:
    with served(app_of(lambda _: RawGrading(text="no JSON"), config=CONFIG)) as url:
        page = browser.new_page()
        page.goto(url)
        grade(page)
        expect(page.locator("#about")).to_contain_text("Status fallback (unparseable) · nothing was graded")
        assert cell(page, 0, "Grade") == "ungraded"
        assert "by the reranker’s order" in cell(page, 0, "Decision")
        page.close()


def test_a_list_that_was_not_to_be_pruned_is_shown_as_the_baseline(browser: Browser) -> None:
    with served(app_of(Script(), config=CONFIG, mode="off")) as url:
        page = browser.new_page()
        page.goto(url)
        grade(page)
        expect(page.locator("#about")).to_contain_text("the baseline: this list was not to be pruned")
        assert kept(page) == list(range(6))
        page.close()


def test_a_service_that_is_gone_is_said(browser: Browser) -> None:
    with served(app_of(Script(), config=CONFIG)) as url:
        page = browser.new_page()
        page.goto(url)
        page.get_by_role("button", name="Take the example").click()
        page.context.set_offline(True)
        page.get_by_role("button", name="Grade").click()
        expect(page.get_by_role("alert")).to_have_text("The service cannot be reached.")
        page.close()


WHOLE = {
    "query": "How long are backups kept?",
    "chunks": [
        {"text": "Backups are kept for 14 days.", "id": "a", "source_id": "s", "parent_id": "p", "query_ids": ["one"]},
        {"text": "Backups are kept for 14 days.", "id": "b", "source_id": "s", "acl": ["staff"]},
        {"text": "Nobody may read this.", "id": "c", "acl": []},
        {"text": "Rice is boiled.", "id": "d", "source_id": "s", "page": 3, "metadata": {"x": 1}},
    ],
    "principals": ["staff"],
    "required_query_ids": ["one"],
    "parents": {"p": "Terms. Backups are kept for 14 days."},
}
DIALS = {"dedup": "texts", "expand": "section", "max_per_source": 1, "threshold": 1, "keep_top_k": 0}


def reasons(page: Page, url: str, **body: Any) -> tuple[list[int], list[int]]:
    """What the page keeps of a pasted request, and what the service does."""
    answer = httpx2.post(f"{url}/v1/prune", json=body).json()
    page.get_by_label(LIST).fill(json.dumps(body))
    page.get_by_role("button", name="Grade").click()
    expect(page.get_by_role("status")).to_contain_text("kept.")
    return kept(page), answer["kept"]


@pytest.mark.parametrize("dials", [{}, DIALS])
def test_a_pasted_request_is_graded_for_whom_and_what_it_is_for(page: Page, url: str, dials: dict[str, Any]) -> None:
    shown, answered = reasons(page, url, **WHOLE, dials=dials)
    assert shown == answered
    assert 2 not in shown


def test_a_line_of_the_decision_log_is_opened_with_every_dial_it_was_decided_by(page: Page, tmp_path: Path) -> None:
    async def write() -> None:
        pruner = Pruner(CONFIG, backend=ScriptedBackend(Script()))
        with DecisionLog(tmp_path / "log.jsonl") as log:
            dials = {"dedup": "texts", "threshold": 1, "mmr_lambda": 0.5}
            await Rollout(pruner, "on", log=log, log_content=True).prune(
                "q", ["one text here"] * 2 + CHUNKS, dials=dials
            )

    run_elsewhere(lambda: asyncio.run(write()))
    line = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    open_file(page, line)
    expect(page.get_by_role("status")).to_contain_text("kept.")
    assert kept(page) == json.loads(line)["kept"]
    assert 1 not in kept(page)


def test_without_its_texts_a_line_is_opened_without_the_dials_that_go_by_them(page: Page) -> None:
    dials = {**line_of()["dials"], "dedup": "texts", "mmr_lambda": 0.5, "expand": "section"}
    page.get_by_label(LIST).fill(json.dumps(line_of(dials=dials)))
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status")).to_have_text("3 of 6 chunks, 90 of 210 tokens kept.")
    assert kept(page) == [0, 2, 4]
