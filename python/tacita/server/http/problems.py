"""Errors as problem+json (RFC 9457). What is told is our own words: never what a caller sent, a path of this
machine, or the text of an error that is not ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tacita.errors import (
    FileError,
    GoneError,
    InputError,
    LateError,
    PlanError,
    RefusedError,
    ResourceError,
    TacitaError,
)
from tacita.plans.wire import MOST_TEXT, PROBLEM, Problem

RETRY_SECONDS = 5
STATUS: tuple[tuple[type[TacitaError], int, str], ...] = (
    (RefusedError, 429, "busy"),
    (ResourceError, 507, "no-room"),
    (LateError, 408, "too-slow"),
    (GoneError, 400, "gone"),
    (FileError, 422, "bad-file"),
    (PlanError, 422, "bad-plan"),
    (InputError, 400, "bad-call"),
)


@dataclass
class Fault(Exception):
    """An answer that is no success."""

    status: int
    code: str
    detail: str = ""
    hint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def problem(self) -> Problem:
        title = HTTPStatus(self.status).phrase
        detail, hint = self.detail[:MOST_TEXT], self.hint[:MOST_TEXT]
        return Problem(title=title, status=self.status, detail=detail, hint=hint, code=self.code)


def not_found(what: str) -> Fault:
    """Returns a 404: there is no such thing, or it is another client's."""
    return Fault(404, "not-found", f"no such {what}", "GET /v1/models lists what there is")


def fault_of(error: Exception) -> Fault:
    for kind, status, code in STATUS:
        if isinstance(error, kind):
            headers = {"Retry-After": str(RETRY_SECONDS)} if status in (429, 507) else {}
            return Fault(status, code, str(error), error.hint, headers)
    return Fault(500, "internal", "the server failed", "its operator sees why in the log")


def install(app: FastAPI) -> None:
    """Answers every error of the app in this form."""
    for kind in (Fault, TacitaError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _answer)


def response(fault: Fault) -> JSONResponse:
    body = fault.problem().model_dump(exclude_defaults=False)
    return JSONResponse(body, fault.status, dict(fault.headers), media_type=PROBLEM)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    match error:
        case Fault():
            return response(error)
        case HTTPException():
            code = {404: "not-found", 405: "bad-call"}.get(error.status_code, "refused")
            hint = "GET /openapi.json lists what there is"
            return response(Fault(error.status_code, code, "", hint, error.headers or {}))
        case RequestValidationError():  # which fields are wrong, and not what they hold
            fields = sorted({".".join(str(part) for part in each["loc"][:2]) for each in error.errors()})
            detail = f"not as it must be: {', '.join(fields)}"
            return response(Fault(422, "bad-call", detail, "GET /openapi.json"))
    fault, root = fault_of(error), request.app.state.service.layout.root
    detail, hint = (_without_paths(text, root) for text in (fault.detail, fault.hint))
    return response(replace(fault, detail=detail, hint=hint))


def _without_paths(text: str, root: Path) -> str:
    """Removes the folders from paths below the data folder, so that the file's name alone is left."""
    for folder in {str(root.resolve()), str(root.absolute()), str(root)}:
        text = re.sub(rf"{re.escape(folder)}/([^\s:/]*/)*", "", text)
    return text
