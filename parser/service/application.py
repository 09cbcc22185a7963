"""The application that a server runs: its routes, and the middleware that each request passes first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from http import HTTPStatus
from logging import Logger
from pathlib import PurePath

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from parser.pages.service_page import interface_page, service_page, service_page_files
from parser.service.limits import RefusedError
from parser.service.middleware import (
    DIGEST_HEADER,
    VERSION_HEADER,
    Dispatcher,
    Handler,
    Recording,
    invalid,
    refusal,
)
from parser.service.operation import LIVE, READY, JoinedMetrics, Metrics, operation_routes
from parser.service.request_record import IDENTIFIER_HEADER
from parser.service.service import Service
from parser.service.typed_protocol import typed_routes
from parser.service.udpipe_protocol import udpipe_routes
from parser.system.version import __version__

DOCS, PAGE, FILES = "/docs", "/", "/page/"
PUBLIC = {LIVE, READY, PAGE}
"""Paths that need no token. The page at `/`, to try the service, contains nothing of the models."""
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def make_application(
    service: Service,
    logger: Logger,
    tokens: Sequence[bytes] = (),
    origins: Sequence[str] = (),
    joined: JoinedMetrics | None = None,
) -> ASGIApp:
    """Return the application. tokens: if there are any, each request needs one of them. origins: the origins
    of pages that may use the service. joined: the metrics joined with those of other processes.
    """
    metrics = Metrics(service.models, service.admission)
    udpipe, typed = udpipe_routes(service), typed_routes(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with metrics.watches_loop(), joined.told(metrics.text) if joined else nullcontext():
            yield
        service.close()

    application = FastAPI(
        title="stack-parser",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=udpipe,
    )
    application.include_router(operation_routes(service.admission, joined or metrics))
    application.include_router(typed)
    application.include_router(page_routes())
    docs = interface_page(application.openapi())
    application.add_api_route(DOCS, lambda: HTMLResponse(docs), include_in_schema=False)
    application.add_exception_handler(HTTPException, _refusal)
    application.add_exception_handler(RequestValidationError, _invalid)
    handlers = handlers_of(udpipe) | handlers_of(typed.routes)
    passed: ASGIApp = Dispatcher(application, service, handlers, tokens, is_public)
    if origins:
        identifier = IDENTIFIER_HEADER.decode()
        passed = CORSMiddleware(
            passed,
            allow_origins=origins,
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Authorization", "Content-Type", identifier],
            expose_headers=[identifier, DIGEST_HEADER.decode(), VERSION_HEADER.decode()],
        )
    return Recording(passed, metrics, logger, {model.name: model.digest for model in service.models})


def handlers_of(routes: Sequence[BaseRoute]) -> dict[tuple[str, str], Handler]:
    """Return what answers the requests of these routes, by method and path."""
    handlers: dict[tuple[str, str], Handler] = {}
    for route in routes:
        assert isinstance(route, Route)
        handler = route.get_route_handler() if isinstance(route, APIRoute) else route.endpoint
        handlers |= {(method, route.path): handler for method in route.methods or ()}
    return handlers


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


def is_public(path: str) -> bool:
    return path in PUBLIC or path.startswith(FILES)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(request.url.path, error.status_code, error.detail, error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid(error)
