"""The API as a page: made here from the OpenAPI description, without scripts and without other servers."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

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
            parameters = ", ".join(each["name"] for each in call.get("parameters", ()))
            cells = (f"<code>{method.upper()} {escape(path)}</code>", call.get("summary", ""), parameters)
            first, *rest = cells
            yield f"<tr><td>{first}</td>" + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>\n"
