"""Spans of requests and sessions for OpenTelemetry, by the extra `tracing`: off unless an operator names a
collector, and free then. An attribute is an id, a size, a name of model, scheme or stage, or a state.

    request    from its call until its answer; its trace id is the request's own id
      receive  its bytes, as far as the disk
      queue    until a worker has it, once more after a worker that ended
      evaluate
        STAGE  each stage of the plan
    session    of two parties
"""

from __future__ import annotations

import time
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import set_span_in_context

from tacita.version import __version__

MOST = 10_000  # requests whose spans are open; further ones have none


class _Ids(RandomIdGenerator):
    """Gives a request's own id to its trace."""

    trace = 0

    def generate_trace_id(self) -> int:
        return self.trace or super().generate_trace_id()


class Tracing:
    """The spans that are open, for the event loop's thread. processor: what they are given to."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._ids, self._open = _Ids(), dict[str, list[Span]]()
        resource = Resource.create({"service.name": "tacita", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer: Any = self._provider.get_tracer("tacita.server")

    def begin(self, id: str, **attributes: str | int) -> None:
        """Opens the spans of a request that comes, or is taken up after a restart."""
        if len(self._open) < MOST:
            self._ids.trace = int(id, 16)
            self._open[id] = [self._tracer.start_span("request", attributes={"id": id, **attributes})]
            self._ids.trace = 0
            self.enter(id, "receive", 1)

    def enter(self, id: str, name: str, depth: int) -> None:
        """Ends what a request did from this depth on, and opens a span there."""
        if spans := self._open.get(id):
            self._leave(spans, depth)
            spans.append(self._tracer.start_span(name, set_span_in_context(spans[-1])))

    def ended(self, id: str, **attributes: str | int | float) -> None:
        if spans := self._open.pop(id, None):
            spans[0].set_attributes(attributes)
            self._leave(spans, 0)

    def session(self, seconds: float, **attributes: Any) -> None:
        """Writes down a session that is over now."""
        now = time.time_ns()
        began = now - int(seconds * 1e9)
        self._tracer.start_span("session", start_time=began, attributes=attributes).end(now)

    def close(self) -> None:
        """Sends what was not sent; waits some seconds for a collector that does not answer."""
        self._provider.shutdown()

    def _leave(self, spans: list[Span], depth: int) -> None:
        while len(spans) > depth:
            spans.pop().end()


def to_collector(url: str) -> Tracing:
    """Returns spans that go to an OTLP collector over HTTP, in batches, by a thread of their own. url: whole,
    as http://localhost:4318/v1/traces; OTEL_EXPORTER_OTLP_HEADERS may hold a token of the collector."""
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=5.0)))
