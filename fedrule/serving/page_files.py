"""The page at /, its style and its scripts, and the reference at /docs: files of ours only, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request, Response

from fedrule.serving.reference import reference
from fedrule.serving.refusals import Refused

FOLDER = Path(__file__).parent
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ROUTES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js", "/docs.css": "reference.css"}
# Scripts, styles and requests of this very service and nothing inline, so that a name which somebody gave a device
# can never become code.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


def add_page(app: FastAPI) -> None:
    """Add the routes that people open in a browser."""
    parts = {f"/{path.name}": path.name for path in sorted(FOLDER.glob("page*")) if path.suffix in (".js", ".svg")}
    for route, name in {**ROUTES, **parts}.items():
        app.add_api_route(route, _file(name), include_in_schema=False)

    @app.get("/docs", include_in_schema=False)
    async def docs(_: Request) -> Response:
        return Response(reference(app.openapi()), headers=HEADERS, media_type=KINDS[".html"])


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def file(_: Request) -> Response:
        path = FOLDER / name
        if not path.is_file():
            raise Refused(404, "no_such_page", f"{name} is missing from this installation")
        return Response(path.read_bytes(), headers=HEADERS, media_type=KINDS[path.suffix])

    return file
