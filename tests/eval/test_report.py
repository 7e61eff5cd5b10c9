import json
import re
from pathlib import Path

import pytest

from eval.__main__ import main
from tests.made_cases import write_lists

LISTS = {
    "near": ([5, 1, 1, 1], [0]),
    "far": ([1, 1, 1, 2], [0, 3]),
    "</script><img src=x onerror=alert(1)>": ([1, 3], [1]),
}


def write(tmp_path: Path, *more: str) -> Path:
    page = tmp_path / "report.html"
    assert main(["report", *write_lists(tmp_path, LISTS), "--resamples", "50", "--out", str(page), *more]) == 0
    return page


def data_of(page: Path) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found
    loaded: dict[str, object] = json.loads(found[1])
    return loaded


def test_the_page_names_no_host_and_forbids_every_connection(tmp_path: Path) -> None:
    html = write(tmp_path).read_text(encoding="utf-8")
    addresses = set(re.findall(r"""(?:https?:)?//[a-z0-9][^\s"'<>)]+""", html))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a namespace, which nothing fetches
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert not re.search(r"<(?:link|img|iframe|script)[^>]+(?:src|href)=", html)


def test_texts_of_the_data_cannot_become_markup(tmp_path: Path) -> None:
    html = write(tmp_path).read_text(encoding="utf-8")
    assert "<img" not in html
    assert html.count("<script") == html.count("</script>") == 2


def test_a_point_knows_the_questions_that_lost_a_chunk_and_the_chunk_with_its_grade(tmp_path: Path) -> None:
    data = data_of(write(tmp_path))
    points = {point["label"]: point for point in data["points"]}  # type: ignore[attr-defined]
    [[q, places]] = points["listwise threshold=3 keep_top_k=1 scoring=grade"]["lost"]
    assert places == [3]
    question = data["questions"][str(q)]  # type: ignore[index]
    assert (question["id"], question["query"], question["needed"]) == ("far", "what of far?", 2)
    assert question["chunks"]["3"] == {
        "id": "c3",
        "title": "title 3",
        "text": "text 3 of far </script><b>",
        "score": 6.0,
        "grade": 2,
        "expected": None,
    }
    assert points["oracle"]["lost"] == []


def test_a_page_to_be_shared_can_leave_all_texts_out(tmp_path: Path) -> None:
    html = write(tmp_path, "--no-text").read_text(encoding="utf-8")
    assert "what of" not in html
    assert "text 3" not in html
    assert "title 3" not in html


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", *write_lists(tmp_path, LISTS), "--resamples", "20", "--out", str(tmp_path)])
    assert code == 2
    assert capsys.readouterr().err == f"report: {tmp_path}: Is a directory\n"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_points_are_reached_by_keyboard_and_open_what_was_lost(scheme: str, tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    page_file = write(tmp_path)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(color_scheme=scheme)
        faults: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_file.as_uri())
        label = "listwise threshold=3 keep_top_k=1 scoring=grade"
        page.locator(f'.point[aria-label^="{label}:"]').hover()
        assert page.locator("#told").inner_text().startswith(label)
        page.locator('.point[tabindex="0"]').focus()
        seen = set()
        for _ in range(20):
            page.keyboard.press("ArrowRight")
            seen.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        assert len(seen) > 5
        page.locator(f'.point[aria-label^="{label}:"]').focus()
        page.keyboard.press("Enter")
        assert page.locator("#lost-title").inner_text() == f"{label}: 1 of 3 questions lost a needed chunk, 2 are whole"
        page.locator("#lost summary").focus()
        page.keyboard.press("Enter")
        lost = page.locator("#lost .chunk").inner_text()
        assert "rank 4 of 4, grade 2, score 6, id c3" in lost
        assert "text 3 of far </script><b>" in lost
        page.get_by_label("tokens dropped").check()
        assert "share of tokens dropped" in page.locator("#chart").inner_text()
        page.get_by_role("checkbox", name="oracle").uncheck()
        assert page.locator('.point[aria-label^="oracle"]').count() == 0
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 22, 22)"
        )
        browser.close()
    assert faults == []
    assert asked == [page_file.as_uri()]
