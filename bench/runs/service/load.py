"""`python -m bench service`: all of it, on servers of its own."""

from __future__ import annotations

import re
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from bench.runs.service.hostile import measure_hostile
from bench.runs.service.many import measure_many
from bench.runs.service.turns import measure_turns
from tacita.cli.options import Values
from tacita.cli.service.started import Started, started
from tacita.client.connect import connect
from tacita.plans.scheme import BUMBLEBEE

TOY: Values = {"plan": {"preset": "insecure_toy_n10", "tokens": 8}, "run": {"allow_insecure": True}}
REQUESTS = 5
Told = Callable[[str], None]


def measure_service(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    clients: int,
    callers: int,
    asked: int,
    waiting: int,
    thor: bool,
    told: Told,
) -> dict[str, Any]:
    """Figures by part. asked: texts of the honest client beside the callers. waiting: requests of three
    clients. thor: also requests at full security, which take minutes and 8 GB."""
    found: dict[str, Any] = {}
    with _server("--schemes", BUMBLEBEE, settings={"service": {"clients": clients + 2}}) as (server, folder):
        told(f"{clients} clients by {BUMBLEBEE}")
        found["many"] = measure_many(server, texts, labels, clients=clients)
        told(f"{callers} hostile callers")
        found["hostile"] = measure_hostile(server, texts, folder / "honest", count=callers, asked=asked)
    with _server("--schemes", "thor", settings=TOY) as (server, folder):
        told(f"{waiting} requests of 3 clients, on a toy ring")
        found["turns"] = measure_turns(server, "thor", texts, folder, waiting=waiting)
    if thor:
        with _server("--schemes", "thor") as (server, folder):
            told("requests by thor at full security")
            found["thor"] = measure_requests(server, texts, folder)
    return found


def measure_requests(server: Started, texts: Sequence[str], folder: Path) -> dict[str, Any]:
    """Seconds of a request as its client sees them, once keys are there, beside those of the engine."""
    token, operator = server.token("clinic"), server.token("operator", operator=True)
    with connect(server.url, token=token, trust=server.certificate, data=folder) as service:
        began = time.monotonic()
        service.classify(texts[0], scheme="thor")
        first, before = time.monotonic() - began, _evaluated(server, operator)
        walls = []
        for n in range(REQUESTS):
            began = time.monotonic()
            service.classify(texts[n % len(texts)], scheme="thor")
            walls.append(time.monotonic() - began)
        engine = (_evaluated(server, operator) - before) / REQUESTS
    mean = statistics.mean(walls)
    return {"first_seconds": first, "seconds": mean, "engine_seconds": engine, "ratio": mean / engine}


def _evaluated(server: Started, token: str) -> float:
    """Seconds that all requests were evaluated, by the server's own metrics."""
    headers = {"Authorization": f"Bearer {token}"}
    trust = ssl.create_default_context(cafile=server.certificate)
    text = httpx2.get(f"{server.url}/metrics", headers=headers, verify=trust).text
    found = re.findall(r"^tacita_evaluate_seconds_sum\{.*\} (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


@contextmanager
def _server(*options: str, settings: Values | None = None) -> Iterator[tuple[Started, Path]]:
    with tempfile.TemporaryDirectory(prefix="tacita-service-") as name:
        folder = Path(name)
        with started(folder, *options, settings=settings) as server:
            yield server, folder / "clients"
