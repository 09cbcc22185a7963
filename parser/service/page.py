"""The page at `/`, to try the service in a browser. It needs no token: it contains nothing of the models."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import PurePath

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from parser.pages.service_page import service_page, service_page_files
from parser.service.limits import RefusedError

PAGE, FILES = "/", "/page/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript"}
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    page, files = service_page(), service_page_files()

    @router.get(PAGE)
    async def shown() -> HTMLResponse:
        return HTMLResponse(page, headers=HEADERS)

    @router.get(f"{FILES}{{name}}")
    async def file(name: str) -> Response:
        if name not in files:
            raise RefusedError(HTTPStatus.NOT_FOUND, "the page has no such file")
        return Response(files[name], media_type=MEDIA_TYPES[PurePath(name).suffix], headers=HEADERS)

    return router


def is_of_page(path: str) -> bool:
    return path == PAGE or path.startswith(FILES)
