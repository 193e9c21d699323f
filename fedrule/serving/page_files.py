"""The page at /, its style and its scripts, and the reference at /docs: files of ours only, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request, Response

from fedrule.serving.reference import reference

FOLDER = Path(__file__).parent
PAGE = FOLDER / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
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
    parts = {f"/page/{path.name}": path for path in sorted(PAGE.iterdir()) if path.suffix in (".js", ".css", ".svg")}
    for route, path in {"/": PAGE / "index.html", "/docs.css": FOLDER / "reference.css", **parts}.items():
        app.add_api_route(route, _file(path), include_in_schema=False)

    @app.get("/docs", include_in_schema=False)
    async def docs(_: Request) -> Response:
        return Response(reference(app.openapi()), headers=HEADERS, media_type=KINDS[".html"])


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def file(_: Request) -> Response:
        return Response(path.read_bytes(), headers=HEADERS, media_type=KINDS[path.suffix])

    return file
