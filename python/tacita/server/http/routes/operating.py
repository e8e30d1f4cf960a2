"""Paths for those who run the server: is it there, is it ready, what does it do."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from tacita.server.http.auth import At, Operator
from tacita.server.http.problems import Fault

router = APIRouter(tags=["operating"])


@router.get("/healthz", summary="200 while the process answers")
async def health() -> PlainTextResponse:
    return PlainTextResponse("ok\n")


@router.get("/readyz", summary="200 while requests are taken and workers and disk allow it, else 503")
async def ready(service: At) -> PlainTextResponse:
    if not (service.ready and all(pool.pids for pool in service.pools)):
        raise Fault(
            503, "not-ready", "the server or a worker of it starts or ends", "ask again", {"Retry-After": "1"}
        )
    if not service.layout.has_room(0):
        raise Fault(503, "no-room", "the server's disk is full", "ask later", {"Retry-After": "60"})
    return PlainTextResponse("ready\n")


@router.get("/metrics", summary="Figures for Prometheus, for operators")
async def metrics(service: At, who: Operator) -> Response:
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
