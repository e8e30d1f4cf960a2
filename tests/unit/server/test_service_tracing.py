"""Spans of requests and sessions: which there are, and that no text, token or key is in them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from service_world import KEYS, World, plan, request_bytes, world

from tacita.errors import InputError
from tacita.plans.wire import State
from tacita.progress import Progress
from tacita.server import tracing
from tacita.server.core.accounts import Account
from tacita.server.jobs.messages import Passed
from tacita.server.sessions.messages import Ended
from tacita.server.store import tokens
from tacita.server.tracing import Tracing

STAGES = [stage.name for stage in plan().stages[:2]]


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: InMemorySpanExporter
) -> Iterator[World]:
    with world(tmp_path, monkeypatch) as served:
        served.service.jobs.tracing = Tracing(SimpleSpanProcessor(exported))
        served.put_keys()
        yield served


def run_one(served: World, id: str) -> None:
    """Plays a worker that loses the request once, and then answers it."""
    served.pool.listener(id, State.running)
    served.pool.listener(id, State.waiting)
    served.pool.listener(id, State.running)
    for index, stage in enumerate([*STAGES, "done"]):
        served.pool.listener(id, Passed(id, Progress(stage, index, len(STAGES), 0.0, 0.0)))
    served.pool.answer(id)


def test_a_request_has_a_span_for_each_thing_that_it_waits_for(
    served: World, exported: InMemorySpanExporter
) -> None:
    id = served.post().json()["id"]
    run_one(served, id)
    spans = exported.get_finished_spans()
    names = [span.name for span in sorted(spans, key=lambda span: span.start_time or 0)]
    assert names == ["request", "receive", "queue", "evaluate", "queue", "evaluate", *STAGES]
    assert {span.context.trace_id for span in spans} == {int(id, 16)}, "a log's id finds the trace"
    by_id = {span.context.span_id: span for span in spans}
    above = [(span.name, by_id[span.parent.span_id].name) for span in spans if span.parent]
    assert sorted(above) == sorted(
        [("receive", "request"), *[("queue", "request"), ("evaluate", "request")] * 2]
        + [(stage, "evaluate") for stage in STAGES]
    )
    (whole,) = (span for span in spans if span.name == "request")
    assert whole.attributes is not None and set(whole.attributes) == {
        "id", "client", "model", "scheme", "bytes", "state"
    }  # fmt: skip
    assert whole.attributes["state"] == "done"
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in spans)


@pytest.mark.parametrize("end", ["failed", "cancelled", "refused"])
def test_every_end_closes_the_spans(end: str, served: World, exported: InMemorySpanExporter) -> None:
    if end == "refused":
        served.pool.most = 0
        assert served.post().status_code == 429
    else:
        id = served.post().json()["id"]
        if end == "cancelled":
            served.call("DELETE", f"/v1/requests/{id}")
        else:
            served.pool.fail(id, "refused", "no", "hint")
    assert served.service.jobs.tracing is not None and not served.service.jobs.tracing._open
    (whole,) = (span for span in exported.get_finished_spans() if span.name == "request")
    assert whole.attributes is not None and whole.attributes["state"] == end


def test_nothing_that_a_client_keeps_secret_is_in_a_span(
    served: World, exported: InMemorySpanExporter
) -> None:
    run_one(served, served.post().json()["id"])
    who = tokens.client_of(served.service.ledger, served.token)
    assert who is not None
    Account(served.service.jobs, who, "sst2-tiny").ended(Ended("clinic", 2, 1.5, 10, 20, "over"))
    spans = exported.get_finished_spans()
    assert "session" in {span.name for span in spans}
    text = "".join(span.to_json() for span in spans)
    secrets = [served.token, tokens.hashed(served.token), "clinic", str(served.folder)]
    secrets += [KEYS.decode()[:15], request_bytes(served.folder)[-10:].decode("latin-1"), "answer"]
    assert not [each for each in secrets if each in text]
    known = {"id", "client", "model", "scheme", "bytes", "state", "texts", "ending"}
    assert {key for span in spans for key in span.attributes or {}} <= known


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An OTLP collector: its URL, and the bodies that it got."""
    bodies = list[bytes]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies
        finally:
            server.shutdown()
            thread.join()


def test_spans_go_to_the_collector_that_the_operator_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector() as (url, bodies), world(tmp_path, monkeypatch, traces=url) as served:
        served.put_keys()
        run_one(served, served.post().json()["id"])
        token = served.token
        served.runner.run(served.service.stop())
        sent = b"".join(bodies)
    assert all(name.encode() in sent for name in ("request", "queue", "evaluate", *STAGES, "tacita"))
    assert token.encode() not in sent and b"ciphertext" not in sent


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, tracing.__name__)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with (
        pytest.raises(InputError, match="is not installed"),
        world(tmp_path, monkeypatch, traces="http://x/v1/traces"),
    ):
        pass


def test_the_end_of_the_certificate_is_a_metric(served: World) -> None:
    served.service.metrics.watch_certificate(lambda: 2e9)
    text = served.service.metrics.text().decode()
    assert "tacita_certificate_expires_seconds 2e+09" in text
    assert 'tacita_worker_ends{model="sst2-tiny",scheme="thor"} 0.0' in text


def test_off_it_is_not_even_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, tracing.__name__)
    with world(tmp_path, monkeypatch) as served:
        served.put_keys()
        run_one(served, served.post().json()["id"])
        assert served.service.jobs.tracing is None and tracing.__name__ not in sys.modules
