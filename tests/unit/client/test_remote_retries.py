"""What is tried again, when, and what becomes of the rest: statuses, broken connections, Retry-After."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from fake_service import TEXTS, Fake, Fault, connected, expected, patient

import tacita
from tacita.client.http.channel import (
    AbsentPeerError,
    Call,
    Channel,
    Meter,
    RetryPolicy,
    refused,
    seconds_of,
    server_failure,
)
from tacita.client.http.trust import address_of
from tacita.client.keys import Owner
from tacita.client.requests import Ciphertexts
from tacita.errors import InputError, PeerError, RefusedError, TacitaError

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_passes_is_waited_for(status: int, fake: Fake, tmp_path: Path) -> None:
    waits: list[float] = []
    fake.faults = [Fault("GET", "/models", status, times=3)]
    with connected(fake, tmp_path, patience=patient(waits)) as service:
        assert service.models().models
    assert waits == [0.5, 1.0, 2.0] and fake.count("GET", "models") == 4


def test_the_server_says_how_long(fake: Fake, tmp_path: Path) -> None:
    waits: list[float] = []
    fake.faults = [Fault("GET", "/models", 503, {"Retry-After": "7"})]
    with connected(fake, tmp_path, patience=patient(waits)) as service:
        service.models()
        assert waits == [7.0]
        fake.faults = [Fault("GET", "/models", 503, {"Retry-After": "100000"})]
        with pytest.raises(RefusedError, match="a fault"):
            service.models()
    assert waits == [7.0], "nobody waits for a day"


def test_there_is_an_end_to_it(fake: Fake, tmp_path: Path) -> None:
    waits: list[float] = []
    fake.faults = [Fault("GET", "/models", 503, times=99)]
    with connected(fake, tmp_path, patience=patient(waits)) as service, pytest.raises(RefusedError):
        service.models()
    assert fake.count("GET", "models") == 4 and len(waits) == 3


def test_delays_grow_are_capped_and_differ() -> None:
    middle = RetryPolicy(attempts=99, chance=lambda: 0.5)
    assert [middle.delay(attempt) for attempt in (1, 2, 3)] == [0.375, 0.75, 1.5]
    assert middle.delay(40) == 0.75 * middle.longest
    assert middle.delay(1, 60.0) == 60.0 and middle.delay(1, 301.0) is None and middle.delay(99) is None
    real = RetryPolicy()
    delays = [found for _ in range(100) if (found := real.delay(3)) is not None]
    assert len(set(delays)) > 50 and min(delays) >= 1.0 and max(delays) <= 2.0


def test_headers_that_are_no_seconds_change_nothing() -> None:
    assert [seconds_of(text) for text in ("3", " 4 ")] == [3.0, 4.0]
    for text in (None, "", "-1", "1e9", "Wed, 21 Oct 2015 07:28:00 GMT", "9" * 99, "٣"):
        assert seconds_of(text) is None


def test_an_address_where_nobody_was_met_is_not_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    waits: list[float] = []
    with (
        tacita.connect(f"https://127.0.0.1:{port}", data=tmp_path, patience=patient(waits)) as service,
        pytest.raises(PeerError, match="no connection"),
    ):
        service.models()
    assert not waits


def test_a_server_that_was_met_is_waited_for() -> None:
    address = address_of("https://127.0.0.1:1", allow_insecure=True)
    channel = Channel(address, None, patient([]), Meter())  # type: ignore[arg-type]
    outcome, call = AbsentPeerError("no connection"), Call("GET", "/models")
    assert channel._wait(call, outcome, 1) is None
    channel.met.set()
    assert channel._wait(call, outcome, 1) == 0.5


def test_a_request_is_sent_again_under_the_same_key_and_computed_once(fake: Fake, tmp_path: Path) -> None:
    """The first answer is lost behind a proxy, the second is too early."""
    jobs = len(fake.jobs)
    fake.faults = [Fault("POST", "/requests", 502, after=True), Fault("POST", "/requests", 503)]
    with connected(fake, tmp_path) as service:
        assert np.allclose(service.classify(TEXTS[0]).logits, expected(TEXTS[0]), atol=0.02)
        keys = [headers["idempotency-key"] for method, _, headers in fake.calls if method == "POST"]
        assert len(keys) == 3 and len(set(keys)) == 1 and len(fake.jobs) == jobs + 1
        service.classify(TEXTS[0])
    assert len({headers.get("idempotency-key") for _, _, headers in fake.calls} - {None}) == 2


def test_only_what_can_be_repeated_is() -> None:
    assert all(Call(method, "/").repeatable for method in ("GET", "PUT", "DELETE"))
    assert not Call("POST", "/").repeatable
    assert Call("POST", "/", headers={"Idempotency-Key": "1"}).repeatable


def test_a_text_is_begun_by_a_call_that_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose first answer may be lost: the server keeps one text for it."""
    calls: list[Call] = []

    async def ask(method: str, path: str, **how: Any) -> Any:
        calls.append(Call(method, path, **how))
        return SimpleNamespace(read=lambda kind: SimpleNamespace(id="handle"))

    async def ready(*_: Any) -> str:
        return "key"

    monkeypatch.setattr(Ciphertexts, "_ready", ready)
    channel = SimpleNamespace(metered=lambda meter: SimpleNamespace(ask=ask))
    client = SimpleNamespace(plan=None, public=SimpleNamespace(front=None))
    offer = SimpleNamespace(scheme="thor")
    owner = SimpleNamespace(model="m", offer=offer, channel=channel, client=client)
    session = Ciphertexts(cast(Owner, owner), signer="")
    for _ in range(2):
        assert asyncio.run(session._begin(Meter(), lambda now: None)) == ("handle", "key")
    assert [each.repeatable for each in calls] == [True, True] and calls[0].headers != calls[1].headers


def test_a_stream_that_breaks_is_opened_again(fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("GET", "/events", 200, {"Content-Type": "text/event-stream"}, b"data: ", times=1)]
    with connected(fake, tmp_path) as service:
        assert np.allclose(service.classify(TEXTS[1]).logits, expected(TEXTS[1]), atol=0.02)


@pytest.mark.parametrize("event", [b"data: {}\n", b'data: {"id": "' + b"f" * 32 + b'", "state": "done"}\n'])
def test_events_of_something_else_are_refused(event: bytes, fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("GET", "/events", 200, {"Content-Type": "text/event-stream"}, event)]
    with connected(fake, tmp_path) as service, pytest.raises(PeerError, match=r"no Status|another one"):
        service.classify(TEXTS[0])


def test_a_line_without_end_is_refused(fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("GET", "/events", 200, {"Content-Type": "text/event-stream"}, b"data:" * 20_000)]
    with connected(fake, tmp_path) as service, pytest.raises(PeerError, match="a line of over"):
        service.classify(TEXTS[0])


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InputError),
        (401, InputError),
        (403, RefusedError),
        (404, InputError),
        (409, RefusedError),
        (413, RefusedError),
        (429, RefusedError),
        (500, PeerError),
        (503, RefusedError),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[TacitaError], fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("GET", "/models", status)]
    with (
        connected(fake, tmp_path, patience=patient(attempts=1)) as service,
        pytest.raises(kind, match=rf"a fault: of a test \(status {status}\)") as caught,
    ):
        service.models()
    assert type(caught.value) is kind and caught.value.hint


def test_words_of_the_server_come_along_where_they_are_in_form() -> None:
    error = refused("GET x", 403, b'{"title": "no", "status": 403, "detail": "why", "hint": "do so"}')
    assert (str(error), error.hint) == ("GET x: no: why (status 403)", "do so")
    error = refused("GET x", 403, b"<html>")
    assert str(error) == "GET x: the server answers with status 403" and "ask the operator" in error.hint
    assert "failed at the server" in str(server_failure("request", None))
