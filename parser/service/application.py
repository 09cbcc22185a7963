"""The application that a server runs: its routes, and the middleware that each request passes first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from http import HTTPStatus
from logging import Logger
from pathlib import PurePath

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from parser.pages.service_page import interface_page, service_page, service_page_files
from parser.service.limits import BodyLimit, RefusedError
from parser.service.middleware import (
    AbsoluteTargets,
    BearerTokens,
    ContentCodings,
    HeadRequests,
    Recording,
    refusal,
)
from parser.service.operation import LIVE, READY, JoinedMetrics, Metrics, operation_routes
from parser.service.request_record import IDENTIFIER_HEADER
from parser.service.service import Service
from parser.service.typed_protocol import typed_routes
from parser.service.udpipe_protocol import udpipe_routes
from parser.system.console import shortened
from parser.system.settings import FAULTS_SHOWN, MAX_KEY, more_faults
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
) -> FastAPI:
    """Return the application. tokens: if there are any, each request needs one of them. origins: the origins
    of pages that may use the service. joined: the metrics joined with those of other processes.
    """
    metrics = Metrics(service.models, service.admission)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with joined.told(metrics.text) if joined else nullcontext():
            yield
        service.close()

    application = FastAPI(
        title="stack-parser",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=udpipe_routes(service),
    )
    application.include_router(operation_routes(service.admission, joined or metrics))
    application.include_router(typed_routes(service))
    application.include_router(page_routes())
    docs = interface_page(application.openapi())
    application.add_api_route(DOCS, lambda: HTMLResponse(docs), include_in_schema=False)
    application.add_exception_handler(HTTPException, _refusal)
    application.add_exception_handler(RequestValidationError, _invalid)
    # A request passes the middleware that is added last first.
    application.add_middleware(BodyLimit, limits=service.limits, admission=service.admission)
    application.add_middleware(ContentCodings)
    if tokens:
        application.add_middleware(BearerTokens, tokens=tokens, is_public=is_public)
    if origins:
        application.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Authorization", "Content-Type", IDENTIFIER_HEADER.decode()],
            expose_headers=[IDENTIFIER_HEADER.decode()],
        )
    application.add_middleware(Recording, metrics=metrics, logger=logger)
    application.add_middleware(HeadRequests)
    application.add_middleware(AbsoluteTargets)
    return application


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


async def _invalid(request: Request, error: Exception) -> Response:
    """Return an answer that says what is wrong and where, without quoting the text."""
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    faults = [
        f"{shortened('.'.join(map(str, fault['loc'])), MAX_KEY)}: {fault['msg']}"
        for fault in errors[:FAULTS_SHOWN]
    ]
    detail = "; ".join([*faults, *more_faults(len(errors) - len(faults))])
    return JSONResponse({"detail": detail}, HTTPStatus.UNPROCESSABLE_ENTITY)
