"""Who may use the gateway, and how much at a time: it holds plaintext and its owner's token, and every page
that a browser shows can call its port.

A page of another site shows an `Origin`, or, where its name was bound to this machine (DNS rebinding), its
own name as `Host`; both are refused. The log has paths, statuses and seconds, and nothing that was said.
"""

from __future__ import annotations

import hmac
import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacita.errors import InputError, PeerError, RefusedError, TacitaError

BODY = 16 << 20  # bytes of a call
NAMED = "/v1/models/"  # before a name that anybody may choose, as a path that there is not
LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)  # a `Host`
CODES = {InputError: (400, "invalid_value"), RefusedError: (429, "server_refused")}
CODES |= {PeerError: (502, "server_unreachable"), TacitaError: (500, "server_error")}  # the first that fits


@dataclass
class Fault(Exception):
    """An answer that is no success, in OpenAI's shape. param: the option that it is about."""

    status: int
    message: str
    code: str
    param: str | None = None

    def body(self) -> dict[str, Any]:
        kind = "rate_limit_error" if self.status == 429 else "invalid_request_error"
        kind = "server_error" if self.status >= 500 else kind
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """Returns the answer; one that is busy asks the caller to come back in two seconds."""
        return JSONResponse(self.body(), self.status, {"Retry-After": "2"} if self.status == 429 else {})


def fault_of(error: TacitaError) -> Fault:
    status, code = next(CODES[kind] for kind in CODES if isinstance(error, kind))
    return Fault(status, f"{error} ({error.hint})" if error.hint else str(error), code)


@dataclass
class Guard:
    """Lets `app` answer calls that may be answered. log: where a line for each call goes. calls: at the same
    time. key: that callers must send, None for any. local: whether it is this machine's alone."""

    app: ASGIApp
    log: Callable[[str], None]
    calls: int
    key: str | None = None
    local: bool = True
    busy: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call, and logs it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status, computes = time.monotonic(), 0, scope["method"] == "POST"

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        fault = self._fault(scope, Headers(scope=scope))
        self.busy += computes
        try:
            await (fault.response() if fault else self.app)(scope, receive, noting)
        except Exception as error:  # its message may hold what was sent
            at = traceback.extract_tb(error.__traceback__)[-1]
            self.log(f"defect: {type(error).__name__} in {at.name}, line {at.lineno}")
            if not status:
                await Fault(500, "the gateway failed", "internal").response()(scope, receive, noting)
        finally:
            self.busy -= computes
            path = "(no path)" if fault or status == 404 or NAMED in scope["path"] else scope["path"]
            self.log(f"{scope['method']} {path} {status}, {time.monotonic() - began:.1f} s")

    def _fault(self, scope: Scope, headers: Headers) -> Fault | None:
        if self.local and not LOOPBACK.fullmatch(headers.get("host", "")):
            return Fault(421, "the gateway has another name: call it by 127.0.0.1", "wrong_host")
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
            return Fault(403, "pages in a browser may not use the gateway", "foreign_origin")
        token = headers.get("authorization", "").encode()
        admitted = self.key is None or hmac.compare_digest(token, f"Bearer {self.key}".encode())
        if scope["path"] != "/health" and not admitted:
            return Fault(401, "this gateway has a key: send it as your API key", "invalid_api_key")
        if scope["method"] != "POST":
            return None
        length = "" if "transfer-encoding" in headers else headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 12 or int(length) > BODY:
            return Fault(413, f"a body over {BODY >> 20} MiB, or without its length", "too_large")
        if self.busy >= self.calls:
            return Fault(429, f"{self.calls} calls at a time: come back later", "rate_limit_exceeded")
        return None
