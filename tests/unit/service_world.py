"""The HTTP service in this process, its workers played by the test: what it says, keeps and refuses."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import envelopes
import httpx2
import pytest

import tacita
from tacita.data import DEFAULT_MODEL
from tacita.errors import RefusedError
from tacita.planning.request import PlanRequest
from tacita.plans import files, wire
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.schemes.base import silent
from tacita.server.core import service as core
from tacita.server.core.offers import Offers, offers_of
from tacita.server.core.settings import Settings
from tacita.server.http.app import app_of
from tacita.server.jobs.evaluator import SPILL_WRITTEN, STAGE
from tacita.server.jobs.messages import Done, Failed, WorkerSpec
from tacita.server.jobs.pool import Job, Listener
from tacita.server.store import tokens
from tacita.server.store.tables import Quota

TEXTS = ["a film of quiet beauty", "a waste of time"]
MODEL, SCHEME, KEY, KEYS = "sst2-tiny", "thor", "ab" * 16, b"evaluation keys" * 1000
ASKED = {"model": MODEL, "scheme": SCHEME}


class Clock:
    """Unix seconds that go on as the test says, and a millisecond with each look."""

    now = 1.8e9

    def __call__(self) -> float:
        self.now += 1e-3
        return self.now


class PlayedPool:
    """Takes jobs and does nothing with them: the test calls the listener."""

    resident = ends = 0
    looked = 0.0  # seconds

    def __init__(
        self,
        spec: WorkerSpec,
        listener: Listener,
        *,
        waiting: int,
        clock: Callable[[], float],
        planned: Sequence[float],
    ) -> None:
        self.spec, self.listener, self.most, self.planned = spec, listener, waiting, planned
        self.jobs: dict[str, Job] = {}
        self.cancelled: list[str] = []
        self.there = True

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def drain(self, seconds: float) -> list[str]:
        return list(self.jobs)

    def submit(self, job: Job, *, resumed: bool = False) -> int:
        if len(self.jobs) >= self.most and not resumed:
            raise RefusedError("the queue is full", hint="later")
        self.jobs[job.id] = job
        return len(self.jobs) - 1

    def cancel(self, id: str) -> bool:
        self.cancelled.append(id)
        return self.jobs.pop(id, None) is not None

    def look(self, seconds: float) -> None:
        self.looked += seconds

    def place(self, id: str) -> int | None:
        return list(self.jobs).index(id) if id in self.jobs else None

    def works(self, id: str) -> bool:
        return False

    async def wait_ended(self, id: str) -> None:
        pass

    @property
    def pids(self) -> list[int]:
        return [1] * self.there

    def fail(self, id: str, *why: str) -> None:
        """Tells the listener that a job has no answer. why: code, detail, hint."""
        self.listener(id, Failed(id, *why, resident=0))  # type: ignore[call-arg, arg-type, misc]

    def answer(self, id: str, response: bytes = b"an answer") -> None:
        """Writes the answer of a job and tells the listener, as a worker does."""
        Workdir(self.jobs.pop(id).order.folder).response.write_bytes(response)
        first = plan().stages[0].name
        figures = {"evaluate_seconds": 1.5, SPILL_WRITTEN: 0.5, STAGE + first: 1.0}
        self.listener(id, Done(id, 1.5, figures, 1))


@cache
def offers() -> Offers:
    """Of the default model on a toy ring; its plan is made once. Its keys are said to be as large as KEYS."""
    request = PlanRequest(tokens=16, preset="insecure_toy_n11", texts=TEXTS)
    folder = Path(mkdtemp(prefix="tacita-offers-"))
    found = offers_of(tacita.load(), DEFAULT_MODEL, [SCHEME], request, folder, silent, insecure=True)
    only = found.named[MODEL, SCHEME]
    only = replace(only, offer=only.offer.model_copy(update={"keys_bytes": len(KEYS)}))
    return replace(found, named={(MODEL, SCHEME): only})


def plan() -> Plan:
    """Its one plan."""
    return offers().named[MODEL, SCHEME].files


def request_bytes(folder: Path, key: str = KEY, content: bytes = b"ciphertext") -> bytes:
    """A request with an envelope's head, and nothing that an engine would take."""
    path = folder / "request.ct"
    envelopes.write(path, "request", plan().hash, key, {"x": [content]})
    return path.read_bytes()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def problem(response: httpx2.Response, status: int, code: str) -> wire.Problem:
    """The body of an answer that is no success."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == wire.PROBLEM
    found = wire.Problem.model_validate_json(response.content)
    assert (found.status, found.code) == (status, code)
    return found


@dataclass
class World:
    """A service and its callers. token: of the one who calls unless another is named."""

    service: core.Service
    pool: PlayedPool
    runner: asyncio.Runner
    folder: Path
    token: str
    app: Any = field(init=False)

    def __post_init__(self) -> None:
        self.app = app_of(self.service)

    def call(self, method: str, path: str, *, token: str | None = None, **how: Any) -> httpx2.Response:
        """One call, whole."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"} if token != "" else {}
        how["headers"] = {**headers, **how.get("headers", {})}
        return self.runner.run(self._called(method, path, how))

    def client(self, name: str, quota: Quota | None = None, *, operator: bool = False) -> str:
        """A new client's token."""
        return tokens.add(self.service.ledger, name, quota or Quota(), operator=operator)

    def visitor(self) -> str:
        """The token that is offered to a caller without one."""
        return self.call("GET", "/v1/models", token="").headers[wire.VISITOR]

    def sweep(self, *, after: float = 0.0) -> None:
        """What the server does each minute, so many seconds from now."""
        clock = self.service.settings.clock
        assert isinstance(clock, Clock)
        clock.now += after
        self.runner.run(self.service.sweep.run())

    def put_keys(
        self,
        data: bytes = KEYS,
        id: str = KEY,
        *,
        begin: int = 0,
        end: int | None = None,
        token: str | None = None,
        **changed: str,
    ) -> httpx2.Response:
        """A piece of keys."""
        piece = data[begin:end]
        headers = {
            "Content-Range": f"bytes {begin}-{begin + len(piece) - 1}/{len(data)}",
            wire.SHA256: sha256(piece),
            wire.WHOLE_SHA256: sha256(data),
            wire.PLAN: plan().hash,
        } | changed
        return self.call("PUT", f"/v1/keys/{id}", token=token, params=ASKED, content=piece, headers=headers)

    def post(self, data: bytes | None = None, *, token: str | None = None, params: Mapping[str, Any] = {},
             **changed: str) -> httpx2.Response:  # fmt: skip
        """A request."""
        data = request_bytes(self.folder) if data is None else data
        asked = {**ASKED, "key": KEY, **params}
        headers = {wire.SHA256: sha256(data)} | changed
        return self.call("POST", "/v1/requests", token=token, params=asked, content=data, headers=headers)

    async def _called(self, method: str, path: str, how: Mapping[str, Any]) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self.app, client=("127.0.0.1", 5))
        async with httpx2.AsyncClient(transport=transport, base_url="https://test") as client:
            return await client.request(method, path, **how)


@contextmanager
def world(folder: Path, patch: pytest.MonkeyPatch, **settings: Any) -> Iterator[World]:
    """A service on this data folder, started; a second on the same folder goes on where the first ended. It
    takes any bytes for keys."""
    patch.setattr(core, "WorkerPool", PlayedPool)
    patch.setattr(files, "require_keys_of", lambda *_, **__: None)
    settings = {"data": folder, "allow_insecure": True, "clock": Clock(), **settings}
    with asyncio.Runner() as runner:
        service = core.Service(offers(), Settings(**settings))
        runner.run(service.start())
        pool: Any = service.jobs.pools[MODEL, SCHEME]
        yield World(
            service,
            pool,
            runner,
            folder,
            tokens.add(service.ledger, f"c{len(tokens.everyone(service.ledger))}", Quota()),
        )
        runner.run(service.stop())
