"""Who may use the gateway: names, pages, keys, sizes, numbers of calls; what a defect shows."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tacita.errors import CheckpointError, GoneError, InputError, LateError, PeerError, RefusedError
from tacita.gateway.guard import BODY, Guard, fault_of

KEY = "a key of our own"
OWN = {"Authorization": f"Bearer {KEY}"}


class World:
    """A guard before an app that answers when `go` is set."""

    def __init__(self, **limits: Any) -> None:
        self.go, self.entered, self.log = asyncio.Event(), asyncio.Event(), list[str]()
        routes = [Route(path, self.answer, methods=["GET", "POST"]) for path in ("/v1/x", "/health", "/bad")]
        self.app = Starlette(routes=[*routes, Route("/v1/models/{name:path}", self.answer)])
        self.app.add_middleware(Guard, log=self.log.append, **{"calls": 1, **limits})

    async def answer(self, request: Request) -> JSONResponse:
        if request.url.path == "/bad":
            raise ValueError("with a secret in it")
        if request.method == "POST":
            self.entered.set()
            await self.go.wait()
        return JSONResponse({"sent": (await request.body()).decode()})

    async def call(self, method: str = "GET", path: str = "/v1/x", **how: Any) -> httpx2.Response:
        base = how.pop("base", "http://127.0.0.1:8117")
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **how)


def error_of(answer: httpx2.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    return answer.status_code, error["code"]


def call(world: World, **how: Any) -> httpx2.Response:
    return asyncio.run(world.call(**how))


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost:8117", "[::1]:8117", "LOCALHOST"])
def test_this_machine_is_answered_by_its_names(name: str) -> None:
    assert call(World(), headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8117", "", "[", "x:y"]
)
def test_a_name_that_was_bound_to_this_machine_is_refused(name: str) -> None:
    assert error_of(call(World(), headers={"Host": name})) == (421, "wrong_host")
    if name not in ("", "[", "x:y"):  # an address for others demands a key and TLS instead
        assert call(World(local=False), headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8117"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_pages_are_refused(headers: dict[str, str], method: str) -> None:
    answer = call(World(), method=method, headers=headers)
    assert error_of(answer) == (403, "foreign_origin")
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_gateway_with_a_key_takes_that_key_alone() -> None:
    world = World(key=KEY)
    assert call(world, headers=OWN).status_code == call(world, path="/health").status_code == 200
    for given in (
        {},
        {"Authorization": "Bearer other"},
        {"Authorization": KEY},
        {"Authorization": b"Bearer \xe9"},
    ):
        assert error_of(call(world, headers=given)) == (401, "invalid_api_key")
    assert call(World(), headers={"Authorization": "Bearer any"}).status_code == 200
    call(world, path="/secret%0aGET /v1/models 200, 0.1 s")  # whose line break would forge a call
    assert all(line.count("\n") == 0 and "secret" not in line for line in world.log)


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("POST", 405)])
def test_a_name_of_a_model_is_not_logged(method: str, status: int) -> None:
    """Whatever the status: it may be anything, as what steers a terminal."""
    world = World()
    assert call(world, method=method, path="/v1/models/secret%0d%1b[2K").status_code == status
    assert [line.partition(",")[0] for line in world.log] == [f"{method} (no path) {status}"]


def test_bodies_have_a_length_and_a_most() -> None:
    async def chunks() -> Any:
        yield b"{}"

    for how in (
        {"content": b"x" * (BODY + 1)},
        {"content": chunks()},
        {"headers": {"Content-Length": "9" * 20}},
        {"headers": {"Content-Length": "2", "Transfer-Encoding": "chunked"}},
    ):
        assert error_of(call(World(), method="POST", **how)) == (413, "too_large")


def test_more_calls_than_it_takes_are_told_to_come_back() -> None:
    async def called() -> None:
        world = World(calls=1)
        first = asyncio.ensure_future(world.call("POST", content=b"first"))
        await world.entered.wait()
        second = await world.call("POST", content=b"second")
        assert error_of(second) == (429, "rate_limit_exceeded") and second.headers["retry-after"] == "2"
        assert (await world.call()).status_code == 200  # what computes nothing is answered meanwhile
        world.go.set()
        assert (await first).json() == {"sent": "first"}
        assert (await world.call("POST", content=b"third")).json() == {"sent": "third"}

    asyncio.run(called())


def test_a_defect_tells_its_kind_and_nothing_of_what_was_sent() -> None:
    world = World()
    assert error_of(call(world, path="/bad", params={"q": "secret"})) == (500, "internal")
    assert world.log[0].startswith("defect: ValueError in answer, line ")
    assert not [line for line in world.log if "secret" in line]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InputError("x: y", hint="z"), 400, "invalid_request_error"),
        (RefusedError("x: y", hint="z"), 429, "rate_limit_error"),
        (LateError("x: y", hint="z"), 502, "server_error"),
        (GoneError("x: y", hint="z"), 502, "server_error"),
        (PeerError("x: y", hint="z"), 502, "server_error"),
        (CheckpointError("x: y", hint="z"), 500, "server_error"),
    ],
)
def test_errors_have_a_status_and_a_kind(error: Any, status: int, kind: str) -> None:
    fault = fault_of(error)
    assert (fault.status, fault.body()["error"]["type"], fault.message) == (status, kind, "x: y (z)")
