"""A service as the API says, small and honest: it keeps keys, evaluates on a toy ring and signs receipts.

Its API is in `fake_api`. Tests tell it where to fail.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from random_checkpoint import make_random_checkpoint

import tacita
from tacita.client.blocking import Service
from tacita.client.http.channel import RetryPolicy
from tacita.plans import wire
from tacita.plans.plan import Plan
from tacita.plans.public_folder import MANIFEST
from tacita.plans.wire import Offer, State, Status
from tacita.progress import Progress
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import fingerprint

TOKEN = "token-of-a-test-0123456789abcdef"
TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
CALIBRATION = [*TEXTS, "good", "the film is a very fine film"]
PRESET = "insecure_toy_n10"
CHECKPOINT = make_random_checkpoint(layers=1)
SECONDS = 900.0  # after which a test gives up
HOSTS = ["127.0.0.1", "localhost"]


@lru_cache
def plan_of(scheme: str = "thor") -> Plan | TwoPartyPlan:
    """A toy's, made once."""
    return tacita.plan(CHECKPOINT, scheme=scheme, tokens=16, preset=PRESET, texts=CALIBRATION)


def expected(text: str, scheme: str = "thor") -> tuple[float, ...]:
    """What the plan's circuit means, in the clear."""
    return tacita.api.classify_locally(plan_of(scheme), CHECKPOINT, text).logits


@dataclass
class Fault:
    """Answers a request in the service's place. method, path: of those that it is for. times: as often.
    after: whether the service does what is asked first. cut: bytes after which the connection breaks."""

    method: str
    path: str
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    times: int = 1
    after: bool = False
    cut: int | None = None


@dataclass
class Job:
    """A request. told: each status that it had."""

    folder: Path
    told: list[Status]
    changed: threading.Condition = field(default_factory=threading.Condition)

    def tell(self, **change: Any) -> None:
        with self.changed:
            self.told.append(self.told[-1].model_copy(update=change))
            self.changed.notify_all()

    def since(self, index: int) -> list[Status]:
        """Those after so many, once there are any."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told) > index, SECONDS)
            return self.told[index:]


class Fake:
    """folder: of everything. schemes: offered of the one model, the first first."""

    def __init__(self, folder: Path, schemes: tuple[str, ...] = ("thor",)) -> None:
        self.folder, self.schemes, self.token, self.visitors = folder, schemes, TOKEN, False
        self.signer = Ed25519PrivateKey.generate()
        self.url = ""
        self.calls: list[tuple[str, str, dict[str, str]]] = []
        self.faults: list[Fault] = []
        self.offered: dict[str, Any] = {}  # changes of each offer
        self.streams = True  # of events
        self.go = threading.Event()  # evaluations begin
        self.go.set()
        self.watched = threading.Event()  # somebody waits for a request
        self.spoil: Callable[[Path], None] = lambda response: None  # what happens to a response
        self.totals: dict[str, int] = {}  # key -> bytes that are sent of it
        self.complete: set[str] = set()  # keys
        self.jobs: dict[str, Job] = {}
        self.repeated: dict[str, str] = {}  # idempotency key -> request
        self.evaluating = threading.Lock()
        self.numbers = itertools.count(1)
        for scheme in schemes:
            plan = plan_of(scheme)
            if isinstance(plan, Plan):
                tacita.publish(plan, CHECKPOINT, folder / "public" / scheme)

    @property
    def certificate(self) -> Path:
        """PEM."""
        return self.folder / "identity" / "certificate.pem"

    @property
    def fingerprint(self) -> str:
        """Of the certificate."""
        return fingerprint(self.certificate)

    def count(self, method: str, path: str) -> int:
        """Requests that came, of a method and a pattern of paths."""
        return sum(found == method and bool(re.search(path, where)) for found, where, _ in self.calls)

    def offers(self) -> tuple[Offer, ...]:
        return tuple(Offer(**{**self._offer(scheme), **self.offered}) for scheme in self.schemes)

    def _offer(self, scheme: str) -> dict[str, Any]:
        plan = plan_of(scheme)
        told = {
            "scheme": scheme,
            "plan": plan.hash,
            "batch": plan.batch,
            "tokens": plan.tokens,
            "seconds": 1.0,
        }
        if not isinstance(plan, Plan):
            return {**told, "connected": True, "traffic_bytes": plan.predicted_bytes()}
        manifest = json.loads((self.folder / "public" / scheme / MANIFEST).read_text())
        sizes = {"keys_bytes": 30 << 20, "request_bytes": 1 << 20, "response_bytes": 1 << 17}
        return {**told, "connected": False, "public": manifest["sha256"], "keygen_seconds": 0.2, **sizes}

    def evaluate(self, name: str, key: str) -> None:
        """In a thread: waits for `go`, evaluates, signs."""
        job = self.jobs[name]
        assert self.go.wait(SECONDS)
        with self.evaluating:
            if job.told[-1].state.final:
                return
            shutil.copy(self.folder / "keys" / key, job.folder / "evaluation.keys")
            job.tell(state=State.running)

            def progress(now: Progress) -> None:
                job.tell(stage=now.stage[:200], done=now.index, total=now.total, seconds_left=now.left)

            plan = plan_of(self.schemes[0])
            server = tacita.Server(plan, CHECKPOINT, job.folder, threads=1, allow_insecure=True)
            response = server.evaluate(progress)
        hashes = [hashlib.sha256((job.folder / each).read_bytes()).hexdigest() for each in FILES]
        signed = wire.signed(self.signer, plan.hash, *hashes)
        self.spoil(response)
        job.tell(
            state=State.done, receipt=signed, seconds=1.0, response_bytes=response.stat().st_size, stage=None
        )


FILES = ("request.ct", "response.ct")


def patient(waits: list[float] | None = None, attempts: int = 4) -> RetryPolicy:
    """That waits for nothing, and notes how long it would have."""

    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)
        await asyncio.sleep(0)

    return RetryPolicy(attempts=attempts, sleep=sleep, chance=lambda: 1.0)


def connected(fake: Fake, data: Path, **how: Any) -> Service:
    """A client of it, with a folder of its own."""
    usual = {"token": fake.token, "trust": fake.certificate, "patience": patient(), "timeout": SECONDS}
    return tacita.connect(fake.url, **{**usual, "data": data, "allow_insecure": True, **how})
