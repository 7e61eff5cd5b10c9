"""The page as it is served; what it does is in test_page_browser.py."""

import re
from importlib.resources import files

import pytest

from tests.service.served import KEYS, app_of, client

pytestmark = pytest.mark.anyio
FILES = {file.name: file.read_text("utf-8") for file in files("pruner.service").joinpath("page").iterdir()}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
STYLE = FILES["page.css"]


@pytest.mark.parametrize("name", FILES)
async def test_every_file_is_served_with_its_type_under_a_policy_that_lets_in_nothing_else(name: str) -> None:
    kind = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[name.split(".")[1]]
    async with client(app_of()) as http:
        response = await http.get("/" if name == "index.html" else f"/static/{name}")
    assert response.text == FILES[name]
    assert response.headers["content-type"] == f"{kind}; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy


async def test_the_page_needs_no_key_as_it_asks_for_one() -> None:
    async with client(app_of(api_keys=KEYS)) as http:
        assert (await http.get("/")).status_code == 200


@pytest.mark.parametrize("name", ["app.py", "..%2fapp.py", "%2e%2e/app.py", "page.css/", ""])
async def test_nothing_but_its_files_is_served(name: str) -> None:
    async with client(app_of()) as http:
        response = await http.get(f"/static/{name}")
    assert response.status_code in (307, 404)
    assert "import" not in response.text


async def test_the_document_of_the_interface_does_not_list_it() -> None:
    async with client(app_of()) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    assert not {path for path in paths if path == "/" or "static" in path}


def test_every_file_a_file_names_is_there_and_none_is_elsewhere() -> None:
    named = re.findall(r"(?:href|src)=\"([^#\"]+)\"", FILES["index.html"])
    imported = [name for text in SCRIPTS.values() for name in re.findall(r'from "\./(.+)"', text)]
    assert {name.removeprefix("static/") for name in named} | set(imported) <= FILES.keys()
    text = "".join(FILES.values()).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text)


def test_no_script_writes_markup() -> None:
    for text in SCRIPTS.values():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc", text)


def test_no_script_keeps_anything() -> None:
    assert not any(re.search(r"localStorage|sessionStorage|cookie|indexedDB", text) for text in SCRIPTS.values())


def colours(scheme: str) -> dict[str, str]:
    light, dark = STYLE.split("prefers-color-scheme: dark")
    return dict(re.findall(r"--([\w-]+): (#\w{6});", {"light": light, "dark": dark}[scheme]))


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, by WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_bars_stand_out_from_what_they_are_on(scheme: str) -> None:
    known = colours(scheme)
    texts = [(ink, on) for ink in ("ink", "quiet") for on in ("ground", "panel", "differs")]
    texts += [("on-accent", "accent"), ("fault", "fault-ground")]
    shapes = [(shape, on) for shape in ("g1", "g2", "g3", "g4", "g5", "control") for on in ("panel", "differs")]
    faint = [(a, b) for a, b in texts if contrast(known[a], known[b]) < 4.5]
    faint += [(a, b) for a, b in shapes if contrast(known[a], known[b]) < 3]
    assert not faint
