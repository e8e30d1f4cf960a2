"""Many clients at once by the two-party protocol: are all answered rightly, and how near does the rate come
to what the processors could do?
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.runs.service.processes import cpu_seconds, resident_gb
from tacita.cli.service.started import Started
from tacita.client.connect import connect
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import threads as cores

CONNECTING = 600.0  # seconds for all clients together


@dataclass(frozen=True)
class Crowd:
    """clients: in this process, each with a connection of its own. texts: of each client."""

    url: str
    certificate: str
    token: str
    data: str
    clients: int
    texts: Sequence[str]


def measure_many(
    server: Started, texts: Sequence[str], labels: Sequence[str], *, clients: int
) -> dict[str, Any]:
    """Each client asks every text; labels: what float says of each. Processes as there are cores, half of
    which the server has: both sides run here."""
    token = server.token("crowd", per_minute=100_000)
    alone = _alone(server, token, texts)
    answers, wall, peak = _together(server, token, texts, clients)
    seconds = sorted(each for _, each in answers)
    bound = cores() / alone["cpu_seconds"]
    rate = len(answers) / wall
    return {
        "clients": clients,
        "texts": len(answers),
        "right": sum(label == labels[n % len(texts)] for n, (label, _) in enumerate(answers)),
        "cpu_seconds_a_text": alone["cpu_seconds"],
        "seconds_a_text_alone": alone["seconds"],
        "texts_a_second": rate,
        "bound_texts_a_second": bound,
        "of_bound": rate / bound,
        "p50": statistics.median(seconds),
        "p99": seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))],
        "server_gb": peak,
    }


def _alone(server: Started, token: str, texts: Sequence[str]) -> dict[str, float]:
    """Measures one connected client: seconds and processor seconds of both sides a text."""
    with connect(server.url, token=token, trust=server.certificate, data=server.data / "client-alone") as one:
        one.classify(texts[0], scheme=BUMBLEBEE)
        began, cpu = time.monotonic(), _cpu(server)
        for text in texts:
            one.classify(text, scheme=BUMBLEBEE)
        each = len(texts)
        return {"seconds": (time.monotonic() - began) / each, "cpu_seconds": (_cpu(server) - cpu) / each}


def _cpu(server: Started) -> float:
    return cpu_seconds(server.process.pid) + sum(os.times()[:2])


def _together(
    server: Started, token: str, texts: Sequence[str], clients: int
) -> tuple[list[tuple[str, float]], float, float]:
    """(label and seconds of each text, seconds in all, GB of the server)."""
    context, parts = multiprocessing.get_context("spawn"), max(1, cores())
    sizes = [clients // parts + (n < clients % parts) for n in range(parts)]
    gate = context.Barrier(len(sizes) + 1)
    folder = server.data / "client-crowd"
    crowds = [
        Crowd(server.url, str(server.certificate), token, str(folder / str(n)), size, texts)
        for n, size in enumerate(sizes)
    ]
    with ThreadPoolExecutor(len(sizes)) as pool, context.Manager() as manager:
        found = manager.list()
        processes = [context.Process(target=_crowd, args=(crowd, gate, found)) for crowd in crowds]
        for process in processes:
            process.start()
        gate.wait(CONNECTING)
        began, over = time.monotonic(), threading.Event()
        peak = pool.submit(_peak, server, over)
        for process in processes:
            process.join()
        wall = time.monotonic() - began
        over.set()
        return list(found), wall, peak.result()


def _crowd(crowd: Crowd, gate: Any, found: Any) -> None:
    """In a process of its own."""
    with ThreadPoolExecutor(crowd.clients) as pool:
        ready = threading.Barrier(crowd.clients, action=lambda: gate.wait(CONNECTING) and None)
        done = [pool.submit(_client, crowd, number, ready) for number in range(crowd.clients)]
        for each in done:
            found.extend(each.result())


def _client(crowd: Crowd, number: int, ready: threading.Barrier) -> list[tuple[str, float]]:
    data = Path(crowd.data) / str(number)
    found: list[tuple[str, float]] = []
    with connect(crowd.url, token=crowd.token, trust=crowd.certificate, data=data, threads=1) as service:
        service.classify(crowd.texts[0], scheme=BUMBLEBEE)  # public part and set-up
        ready.wait(CONNECTING)
        for text in crowd.texts:
            began = time.monotonic()
            label = service.classify(text, scheme=BUMBLEBEE).label
            found.append((str(label), time.monotonic() - began))
    return found


def _peak(server: Started, over: threading.Event) -> float:
    """GB at the most, looked at four times a second."""
    most = 0.0
    while not over.wait(0.25):
        most = max(most, resident_gb(server.process.pid))
    return most
