"""What `/openapi.json` says beyond the types of the paths: every error as a problem, who may call, what is
sent as bytes. FastAPI takes the rest from the functions of the paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from tacita.plans.wire import BYTES, PLAN, PROBLEM, SHA256, WHOLE_SHA256, Problem

BEARER, NAMED = "bearer", "#/components/schemas/Problem"
DIGEST, RANGE = "^[0-9a-f]{64}$", r"^bytes [0-9]{1,15}-[0-9]{1,15}/[0-9]{1,15}$"
OPEN = frozenset({"/healthz", "/readyz"})
ERROR = {"description": "what went wrong", "content": {PROBLEM: {"schema": {"$ref": NAMED}}}}
Document = dict[str, Any]
TEXT, EVENTS = "text/plain", "text/event-stream"
PUBLIC = "/v1/models/{model}/public"
FILES = (PUBLIC, f"{PUBLIC}/{{file}}")
ANSWER = "/v1/requests/{id}/response"
# What is sent that is no JSON of a type.
SENT = dict.fromkeys((*FILES, ANSWER), BYTES) | dict.fromkeys(("/healthz", "/readyz", "/metrics"), TEXT)
SENT["/v1/requests/{id}/events"] = EVENTS
PARTS = {"206": {"description": "the range that was asked for", "content": {BYTES: {}}}}
KNOWN = {"304": {"description": "the caller has it, by its ETag"}}
AGAIN = ("Idempotency-Key", "^[!-~]{1,64}$", False)
# Headers of a call: name, pattern, whether it must be there. Whoever sends bytes sends their hash.
HEADERS: dict[tuple[str, str], tuple[tuple[str, str, bool], ...]] = {
    ("/v1/keys/{id}", "put"): (
        ("Content-Range", RANGE, True),
        (SHA256, DIGEST, True),
        (WHOLE_SHA256, DIGEST, False),  # with the last piece at least
        (PLAN, DIGEST, True),
    ),
    ("/v1/requests", "post"): ((SHA256, DIGEST, True), AGAIN),
    ("/v1/texts", "post"): (AGAIN,),
}


def install(app: FastAPI) -> None:
    """Completes the app's OpenAPI description, once."""
    make = app.openapi

    def described() -> Document:
        if app.openapi_schema is None:
            _complete(make())
        return make()

    app.openapi = described  # type: ignore[method-assign]


def _complete(document: Document) -> None:
    parts = document["components"]
    schemas = parts["schemas"]
    schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own form, which is never sent
        schemas.pop(unused, None)
    parts["securitySchemes"] = {BEARER: {"type": "http", "scheme": "bearer"}}
    for path, method, operation in _operations(document):
        operation["responses"].pop("422", None)
        operation["responses"]["default"] = ERROR
        if path not in OPEN:  # a server of `--anybody` answers without a token
            operation["security"] = [{BEARER: []}, {}]
        if method == "get" and path in SENT:
            operation["responses"] |= _sent(path)
        _takes(operation, HEADERS.get((path, method), ()))


def _operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _sent(path: str) -> Document:
    kind = SENT[path]
    form = {"type": "string", "format": "binary"} if kind == BYTES else {"type": "string"}
    whole = {"200": {"description": "whole", "content": {kind: {"schema": form}}}}
    return whole | (PARTS if kind == BYTES else {}) | (KNOWN if path in FILES else {})


def _takes(operation: Document, headers: tuple[tuple[str, str, bool], ...]) -> None:
    for name, pattern, required in headers:
        schema = {"type": "string", "pattern": pattern}
        if name == SHA256:
            body = {"schema": {"type": "string", "format": "binary"}}
            operation["requestBody"] = {"required": True, "content": {BYTES: body}}
        operation["parameters"].append({"name": name, "in": "header", "required": required, "schema": schema})


# The API as a page: made here from the OpenAPI description, without scripts and without other servers.

router = APIRouter(include_in_schema=False)
STYLE = """body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #767676; padding: .4rem .6rem; text-align: left; vertical-align: top }
code { font-family: ui-monospace, monospace }
"""
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tacita's API</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/docs/style.css"></head>
<body><main><h1>Tacita's API</h1>
<p>The same for programs: <a href="/openapi.json"><code>/openapi.json</code></a>. All paths below
<code>/v1</code> take <code>Authorization: Bearer TOKEN</code>; errors are
<code>application/problem+json</code> with a hint.</p>
<table><thead><tr><th scope="col">Call</th><th scope="col">What it does</th>
<th scope="col">Parameters</th></tr></thead><tbody>
"""
FOOT = "</tbody></table></main></body></html>\n"


@router.get("/docs")
async def page(request: Request) -> HTMLResponse:
    return HTMLResponse(HEAD + "".join(_rows(request.app.openapi())) + FOOT)


@router.get("/docs/style.css")
async def style() -> Response:
    return Response(STYLE, media_type="text/css")


def _rows(description: dict[str, Any]) -> Iterator[str]:
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            sent = call.get("requestBody", {}).get("content", ())
            takes = escape("; ".join([*map(_words, call.get("parameters", ())), *sent]))
            does = escape(call.get("summary", ""))
            what = f"<code>{method.upper()} {escape(path)}</code>"
            yield f"<tr><td>{what}</td><td>{does}</td><td>{takes}</td></tr>\n"


def _words(parameter: dict[str, Any]) -> str:
    """Returns where a parameter stands, and its type and form."""
    schema = parameter["schema"].get("anyOf", [parameter["schema"]])[0]
    form = " ".join(str(schema[key]) for key in ("type", "enum", "pattern") if key in schema)
    return f"{parameter['name']} in {parameter['in']}{'' if parameter['required'] else ', optional'}: {form}"
