"""The API of `fake_service` on loopback with TLS, in a thread of this process."""

from __future__ import annotations

import asyncio
import hashlib
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fake_service import HOSTS, SECONDS, Fake, Job, plan_of
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse

from tacita.plans import wire
from tacita.plans.public_folder import MANIFEST
from tacita.plans.wire import (
    API,
    PLAN,
    PROBLEM,
    SHA256,
    VISITOR,
    WHOLE_SHA256,
    Keys,
    KeyState,
    Model,
    Models,
    State,
    Status,
)
from tacita.two_party.protocol.party import new_identity


def problem(status: int, title: str, **headers: str) -> Response:
    """As RFC 9457 says."""
    body = {"title": title, "status": status, "detail": "of a test", "code": "test"}
    return JSONResponse(body, status, headers, PROBLEM)


def app_of(fake: Fake) -> FastAPI:
    app = FastAPI()
    app.middleware("http")(lambda request, call_next: guarded(fake, request, call_next))

    @app.get(f"{API}/models")
    async def models() -> Response:
        model = Model(name="toy", task="text", labels=("negative", "positive"), offers=fake.offers())
        return told(Models(release="0", signer=wire.public_hex(fake.signer), models=(model,)))

    @app.get(f"{API}/models/toy/public")
    async def manifest(scheme: str) -> Response:
        return FileResponse(fake.folder / "public" / scheme / MANIFEST)

    @app.get(f"{API}/models/toy/public/{{name}}")
    async def public(name: str, scheme: str) -> Response:
        return FileResponse(fake.folder / "public" / scheme / name)

    @app.get(f"{API}/keys")
    async def keys() -> Response:
        return told(Keys(keys=tuple(state(fake, path.name) for path in (fake.folder / "keys").iterdir())))

    @app.get(f"{API}/keys/{{key}}")
    async def key(key: str) -> Response:
        there = (fake.folder / "keys" / key).exists()
        return told(state(fake, key)) if there else problem(404, "no such key")

    @app.delete(f"{API}/keys/{{key}}")
    async def drop(key: str) -> Response:
        if not (fake.folder / "keys" / key).exists():
            return problem(404, "no such key")
        (fake.folder / "keys" / key).unlink()
        fake.complete.discard(key)
        return Response(status_code=204)

    @app.put(f"{API}/keys/{{key}}")
    async def put(key: str, request: Request) -> Response:
        return taken(fake, key, request.headers, await request.body())

    @app.post(f"{API}/requests")
    async def post(request: Request, key: str) -> Response:
        return begun(fake, key, request.headers, await request.body())

    @app.get(f"{API}/requests/{{name}}")
    async def status(name: str) -> Response:
        return told(fake.jobs[name].told[-1])

    @app.get(f"{API}/requests/{{name}}/events")
    async def events(name: str) -> Response:
        if not fake.streams:
            return problem(404, "no streams here")
        fake.watched.set()
        return StreamingResponse(stream(fake.jobs[name]), media_type="text/event-stream")

    @app.get(f"{API}/requests/{{name}}/response")
    async def response(name: str) -> Response:
        return FileResponse(fake.jobs[name].folder / "response.ct")

    @app.delete(f"{API}/requests/{{name}}")
    async def cancel(name: str) -> Response:
        if not fake.jobs[name].told[-1].state.final:
            fake.jobs[name].tell(state=State.cancelled)
        return Response(status_code=204)

    return app


def told(body: Any, status: int = 200, **headers: str) -> Response:
    content = body.model_dump_json(exclude_none=True)
    return Response(content, status, headers, "application/json")


async def guarded(
    fake: Fake, request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Counts, asks for the token, fails where a test wants it."""
    path = request.url.path
    fake.calls.append((request.method, path, dict(request.headers)))
    if fake.visitors and "Authorization" not in request.headers and path == "/v1/models":
        response = await call_next(request)
        response.headers[VISITOR] = fake.token
        return response
    if request.headers.get("Authorization") != f"Bearer {fake.token}":
        return problem(401, "no such token")
    fault = next((f for f in fake.faults if f.times and f.method == request.method and f.path in path), None)
    if fault is None:
        return await call_next(request)
    fault.times -= 1
    if fault.cut is not None:
        return await broken(await call_next(request), fault.cut)
    if fault.after:
        await call_next(request)
    if fault.body:
        return Response(fault.body, fault.status, fault.headers)
    return problem(fault.status, "a fault", **fault.headers)


async def broken(whole: Any, cut: int) -> Response:
    """The head of an answer and its first bytes; the connection then ends."""
    content = b"".join([piece async for piece in whole.body_iterator])
    assert len(content) > cut

    async def pieces() -> AsyncIterator[bytes]:
        yield content[:cut]

    return StreamingResponse(pieces(), whole.status_code, dict(whole.headers))


def state(fake: Fake, key: str) -> KeyState:
    path = fake.folder / "keys" / key
    return KeyState(
        id=key, plan=plan_of(fake.schemes[0]).hash, bytes=fake.totals[key], received=path.stat().st_size,
        complete=key in fake.complete,
    )  # fmt: skip


def taken(fake: Fake, key: str, headers: Any, chunk: bytes) -> Response:
    """One chunk of keys."""
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", headers["Content-Range"])
    assert found and headers[SHA256] == hashlib.sha256(chunk).hexdigest()
    assert headers[PLAN] == plan_of(fake.schemes[0]).hash
    first, last, total = map(int, found.groups())
    assert last - first + 1 == len(chunk)
    path = fake.folder / "keys" / key
    path.touch()
    if first != path.stat().st_size:
        return problem(409, f"begin at {path.stat().st_size}")
    with path.open("ab") as file:
        file.write(chunk)
    fake.totals[key] = total
    if last + 1 == total:
        assert headers[WHOLE_SHA256] == hashlib.sha256(path.read_bytes()).hexdigest()
        fake.complete.add(key)
    return told(state(fake, key), 201 if key in fake.complete else 200)


def begun(fake: Fake, key: str, headers: Any, body: bytes) -> Response:
    """A request, or the same again."""
    if key not in fake.complete:
        return problem(404, "no such key")
    assert headers[SHA256] == hashlib.sha256(body).hexdigest()
    if headers["Idempotency-Key"] in fake.repeated:
        return told(fake.jobs[fake.repeated[headers["Idempotency-Key"]]].told[-1], 202)
    name = f"{next(fake.numbers):032x}"
    fake.repeated[headers["Idempotency-Key"]] = name
    folder = fake.folder / "jobs" / name
    folder.mkdir(parents=True)
    (folder / "request.ct").write_bytes(body)
    fake.jobs[name] = Job(folder, [Status(id=name, state=State.waiting, place=0)])
    threading.Thread(target=fake.evaluate, args=(name, key), daemon=True).start()
    return told(fake.jobs[name].told[-1], 202, Location=f"{API}/requests/{name}")


async def stream(job: Job) -> AsyncIterator[str]:
    """Server-sent events until the request is over."""
    index = 0
    yield ": a comment\n\n"
    while True:
        for status in await asyncio.to_thread(job.since, index):
            index += 1
            yield f"data: {status.model_dump_json(exclude_none=True)}\n\n"
            if status.state.final:
                return


class Announced(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@contextmanager
def fake_service(folder: Path, schemes: tuple[str, ...] = ("thor",)) -> Iterator[Fake]:
    """One that listens."""
    fake = Fake(folder, schemes)
    (folder / "keys").mkdir(parents=True)
    identity = new_identity(folder / "identity", HOSTS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fake.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            app_of(fake), log_config=None, log_level="critical", ws="none", lifespan="off",
            ssl_certfile=identity.certificate, ssl_keyfile=identity.key, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = Announced(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        assert server.listening.wait(SECONDS)
        try:
            yield fake
        finally:
            fake.go.set()
            server.should_exit = True
            thread.join()
