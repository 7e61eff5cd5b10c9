"""The page as it is served; what it does is in test_page_browser.py."""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from pruner.service.chunks import GivenChunk
from pruner.service.dials import WIDEST
from pruner.service.models import PruneRequest
from tests.service.served import KEYS, app_of, client

pytestmark = pytest.mark.anyio
FILES = {file.name: file.read_text("utf-8") for file in files("pruner.service").joinpath("page").iterdir()}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
STYLE = FILES["page.css"]
Vector = NDArray[np.float64]

# How linear sRGB looks to the colour-blind: Machado, Oliveira and Fernandes 2009, severity 1.
SIGHT = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


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


def linear(colour: str) -> Vector:
    """Linear sRGB of a written colour, by WCAG 2.2."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ (0.2126, 0.7152, 0.0722))


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


def lab(linear_rgb: Vector) -> Vector:
    """CIE 1976 L*a*b* under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ np.clip(linear_rgb, 0, 1) / (0.9505, 1, 1.089)
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_the_colours_of_the_grades_differ_for_the_colour_blind(scheme: str, sight: str) -> None:
    known = colours(scheme)
    seen = [lab(np.array(SIGHT[sight]) @ linear(known[f"g{grade}"])) for grade in range(1, 6)]
    nearest = min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))
    assert nearest > 15  # One is the least that can be seen at all.


def test_the_page_knows_every_field_and_every_dial_of_a_request() -> None:
    lists = re.findall(r"const (\w+) = \[(.*?)\];", SCRIPTS["read.js"], re.DOTALL)
    named = {name: set(re.findall(r'"(\w+)"', text)) for name, text in lists}
    assert named["KNOWN"] == GivenChunk.model_fields.keys()
    assert named["SELECTION"] == WIDEST.keys()
    assert (
        named["ASKED"] == {"history", "principals", "required_query_ids", "parents"} <= PruneRequest.model_fields.keys()
    )
