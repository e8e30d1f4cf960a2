"""Figures for Prometheus: a registry of this service's own, read at `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tacita.plans.plan import Plan
from tacita.resources import GB
from tacita.server.jobs.evaluator import SPILL_WRITTEN, STAGE
from tacita.server.jobs.pool import WorkerPool

SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
LABELS = ("model", "scheme")


class Metrics:
    """Counts events; a state is looked up when the metrics are read (`watch`)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        named: dict[str, Any] = {"registry": self.registry, "namespace": "tacita"}
        self._requests = Counter("requests", "Requests by how they ended.", [*LABELS, "state"], **named)
        self._seconds = Histogram("evaluate_seconds", "Of a request.", LABELS, buckets=SECONDS, **named)
        self._estimate = Counter("evaluate_estimated_seconds", "As planned.", LABELS, **named)
        self._stage = Counter("stage_seconds", "By stage, summed.", [*LABELS, "stage"], **named)
        stages = ("stage_estimated_seconds", "As planned, of the same.", [*LABELS, "stage"])
        self._stage_estimate = Counter(*stages, **named)
        self._spilled = Counter("spilled_bytes", "Written to disk for want of memory.", LABELS, **named)
        self._bytes = Counter("bytes", "Of keys, requests, responses, sessions.", ["what", "way"], **named)
        self._texts = Counter("two_party_texts", "Admitted in sessions.", ["model"], **named)
        self._session = Histogram(
            "two_party_session_seconds", "Of a session.", ["model"], buckets=SECONDS, **named
        )
        self._refused = Counter("refused", "Calls by why they were refused.", ["why"], **named)
        self._queue = Gauge("queue", "Requests that wait.", LABELS, **named)
        self._resident = Gauge("keys_resident", "Clients' keys in memory, once a worker.", LABELS, **named)
        self._workers = Gauge("workers", "Ready, or at work.", LABELS, **named)
        self._kept = Gauge("keys_kept", "Clients' keys on disk.", **named)
        self._free = Gauge("disk_free_bytes", "Of the disk of the data folder.", **named)
        self._ends = Gauge("worker_ends", "Of worker processes, since the start.", LABELS, **named)
        self._expires = Gauge("certificate_expires_seconds", "Unix time of its end.", **named)
        self._sessions = Gauge("two_party_sessions", "Open ones.", ["model"], **named)

    def ended(self, model: str, scheme: str, state: str) -> None:
        self._requests.labels(model, scheme, state).inc()

    def evaluated(
        self, labels: tuple[str, str], seconds: float, figures: Mapping[str, float], plan: Plan
    ) -> None:
        """Counts an answered request. labels: (model, scheme). figures: see `JobEvaluator`."""
        self._seconds.labels(*labels).observe(seconds)
        self._estimate.labels(*labels).inc(plan.predicted_seconds())
        self._spilled.labels(*labels).inc(max(0.0, figures[SPILL_WRITTEN]) * GB)
        planned = zip(plan.stages, plan.prediction.stage_seconds, strict=True)
        estimates = {stage.name: estimate for stage, estimate in planned}
        for name, value in figures.items():
            if name.startswith(STAGE) and (stage := name.removeprefix(STAGE)) in estimates:
                self._stage.labels(*labels, stage).inc(max(0.0, value))
                self._stage_estimate.labels(*labels, stage).inc(estimates[stage])

    def carried(self, what: str, way: str, count: int) -> None:
        """Counts bytes of one kind, "in" or "out"."""
        self._bytes.labels(what, way).inc(count)

    def session(self, model: str, texts: int, seconds: float) -> None:
        self._texts.labels(model).inc(texts)
        self._session.labels(model).observe(seconds)

    def refused(self, why: str) -> None:
        self._refused.labels(why).inc()

    def watch_queue(self, model: str, scheme: str, waiting: Callable[[], int], pool: WorkerPool) -> None:
        self._queue.labels(model, scheme).set_function(waiting)
        self._resident.labels(model, scheme).set_function(lambda: pool.resident)
        self._workers.labels(model, scheme).set_function(lambda: len(pool.pids))
        self._ends.labels(model, scheme).set_function(lambda: pool.ends)

    def watch_certificate(self, expires: Callable[[], float]) -> None:
        """Watches when the certificate that is shown ends, in Unix seconds."""
        self._expires.set_function(expires)

    def watch(
        self, kept: Callable[[], int], free: Callable[[], int], sessions: Mapping[str, Callable[[], int]]
    ) -> None:
        """Watches the rest of the state: keys, bytes of the disk, sessions by model."""
        self._kept.set_function(kept)
        self._free.set_function(free)
        for model, count in sessions.items():
            self._sessions.labels(model).set_function(count)

    def text(self) -> bytes:
        """Returns the metrics as Prometheus reads them."""
        return generate_latest(self.registry)
