"""The liveness, readiness and metrics of the service. Nothing here waits for parsing."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from parser.service.admission import Admission
from parser.service.metrics import Metrics
from parser.service.processes.joined_metrics import JoinedMetrics

LIVE, READY, METRICS = "/live", "/ready", "/metrics"
HEALTH = {LIVE, READY}


def operation_routes(admission: Admission, metrics: Metrics | JoinedMetrics) -> APIRouter:
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get(LIVE, summary="Whether the process responds")
    async def live() -> str:
        return "live"

    @router.get(READY, summary="Whether the service accepts requests; 503 if it is being stopped")
    async def ready() -> PlainTextResponse:
        if admission.drains:
            return PlainTextResponse("the service is being stopped", HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainTextResponse("ready")

    @router.get(METRICS, summary="Metrics for Prometheus")
    async def prometheus() -> Response:
        return Response(await metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router
