"""Figures for Prometheus: a registry of this service's own, read at `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
LANE = ("model", "scheme")


class Metrics:
    """Counted here; what is a state is asked for when it is read (`watch`)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        named: dict[str, Any] = {"registry": self.registry, "namespace": "tacita"}
        self._requests = Counter("requests", "Requests by how they ended.", [*LANE, "state"], **named)
        self._seconds = Histogram("evaluate_seconds", "Of a request.", LANE, buckets=SECONDS, **named)
        self._estimate = Counter("evaluate_estimated_seconds", "As planned.", LANE, **named)
        self._stage = Counter("stage_seconds", "By stage, summed.", [*LANE, "stage"], **named)
        self._spilled = Counter("spilled_bytes", "Written to disk for want of memory.", LANE, **named)
        self._bytes = Counter("bytes", "Of keys, requests, responses, sessions.", ["what", "way"], **named)
        self._texts = Counter("two_party_texts", "Answered in sessions.", ["model"], **named)
        self._session = Histogram(
            "two_party_session_seconds", "Of a session.", ["model"], buckets=SECONDS, **named
        )
        self._refused = Counter("refused", "Calls by why they were refused.", ["why"], **named)
        self._queue = Gauge("queue", "Requests that wait.", LANE, **named)
        self._resident = Gauge("keys_resident", "Clients' keys in memory.", LANE, **named)
        self._kept = Gauge("keys_kept", "Clients' keys on disk.", **named)
        self._sessions = Gauge("two_party_sessions", "Open ones.", ["model"], **named)

    def ended(self, model: str, scheme: str, state: str) -> None:
        """A request is final."""
        self._requests.labels(model, scheme, state).inc()

    def evaluated(
        self, model: str, scheme: str, seconds: float, planned: float, figures: Mapping[str, float]
    ) -> None:
        """One that was answered. figures: of the worker; names with "stage " in front are stages' seconds."""
        self._seconds.labels(model, scheme).observe(seconds)
        self._estimate.labels(model, scheme).inc(planned)
        self._spilled.labels(model, scheme).inc(max(0.0, figures.get("spilled_gb", 0.0)) * 1e9)
        for name, value in figures.items():
            if name.startswith("stage "):
                self._stage.labels(model, scheme, name.removeprefix("stage ")).inc(max(0.0, value))

    def carried(self, what: str, way: str, count: int) -> None:
        """Bytes of one kind, "in" or "out"."""
        self._bytes.labels(what, way).inc(count)

    def session(self, model: str, texts: int, seconds: float) -> None:
        """One of two parties is over."""
        self._texts.labels(model).inc(texts)
        self._session.labels(model).observe(seconds)

    def refused(self, why: str) -> None:
        """A call that was not answered."""
        self._refused.labels(why).inc()

    def watch_lane(
        self, model: str, scheme: str, waiting: Callable[[], int], resident: Callable[[], int]
    ) -> None:
        """A queue's state."""
        self._queue.labels(model, scheme).set_function(waiting)
        self._resident.labels(model, scheme).set_function(resident)

    def watch(self, kept: Callable[[], int], sessions: Mapping[str, Callable[[], int]]) -> None:
        """The rest of the state."""
        self._kept.set_function(kept)
        for model, count in sessions.items():
            self._sessions.labels(model).set_function(count)

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)
