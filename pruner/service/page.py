"""`GET /`: a page to look at decisions. It is a client of `/v1/prune` and `/v1/assemble` like any other."""

from importlib.resources import files

from fastapi import APIRouter, Response

from pruner.service.errors import Code, Refusal

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = {file.name: file.read_bytes() for file in files("pruner.service").joinpath("page").iterdir() if file.is_file()}
# Nothing but its own files; and what a chunk holds cannot become markup, as no script may write any.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


@router.head("/")
@router.get("/")
async def _page() -> Response:
    return _answer("index.html")


@router.get("/static/{name}")
async def _static(name: str) -> Response:
    if name not in _FILES:
        raise Refusal(Code.NOT_FOUND, "there is no such file")
    return _answer(name)


def _answer(name: str) -> Response:
    kind = _TYPES["." + name.rpartition(".")[2]]
    return Response(_FILES[name], media_type=f"{kind}; charset=utf-8", headers={"content-security-policy": _POLICY})
