"""Two parties of the compiled engine: connections, messages, and the operations on shares against plain
arithmetic."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import interrupts

native = pytest.importorskip("tacita._native", reason="the native engine is not built")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoParty"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

Step = Callable[[Any], Any]
WAIT = 180.0


def both(parties: tuple[Any, Any], client: Step, server: Step | None = None) -> tuple[Any, Any]:
    """Runs a step on both sides at once; an error of either is raised."""
    with ThreadPoolExecutor(2) as pool:
        running = [
            pool.submit(step, party) for step, party in zip((client, server or client), parties, strict=True)
        ]
        first, second = (future.result() for future in running)
    return first, second


def failing(parties: tuple[Any, Any], client: Step, server: Step | None = None) -> list[str]:
    """The texts of the PeerErrors of both sides."""

    def text(step: Step, party: Any) -> str:
        with pytest.raises(native.PeerError) as caught:
            step(party)
        return str(caught.value)

    return list(both(parties, lambda p: text(client, p), lambda p: text(server or client, p)))


@pytest.fixture
def pair() -> tuple[Any, Any]:
    client, server = native.two_party_pair(timeout=WAIT)
    return client, server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    made: tuple[str, str] = native.generate_certificate(str(tmp_path_factory.mktemp("tls")), ["localhost"])
    return made


def connected(listener: Any, timeout: float = WAIT, **how: Any) -> tuple[Any, Any]:
    """(client, server) over loopback."""
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(listener.accept, WAIT, timeout=timeout)
        client = native.TwoParty.dial("localhost", listener.port, timeout=timeout, **how)
        return client, accepting.result()


def exchange(parties: tuple[Any, Any]) -> None:
    """A greeting and a message each way."""
    both(parties, lambda p: p.handshake(b"p" * 32))
    client, server = parties
    client.send(b"to the server")
    server.send(b"")
    assert server.receive(13) == b"to the server"
    assert client.receive(0) == b""


def test_roles_greeting_messages_and_counters(pair: tuple[Any, Any]) -> None:
    client, server = pair
    exchange(pair)
    assert (client.role, server.role, client.is_client, server.is_client) == ("client", "server", True, False)
    assert (
        (client.bytes_sent, client.bytes_received) == (server.bytes_received, server.bytes_sent) == (61, 48)
    )
    assert (client.rounds, client.skipped_seconds) == (2, 0.0)
    assert repr(client) == "TwoParty(client)"


def test_different_plans_are_an_error_on_both_sides(pair: tuple[Any, Any]) -> None:
    texts = failing(pair, lambda p: p.handshake(b"\1" * 32), lambda p: p.handshake(b"\2" * 32))
    assert all("010101010101" in text and "020202020202" in text for text in texts)


def test_arguments_are_checked(pair: tuple[Any, Any]) -> None:
    client, _ = pair
    x = np.arange(6, dtype=np.uint64)
    with pytest.raises(native.TacitaError, match="32 are needed"):
        client.handshake(b"short")
    with pytest.raises(native.TacitaError, match="not contiguous"):
        client.negative(x[::2], 64)
    with pytest.raises(native.TacitaError, match="not contiguous"):
        client.negative(np.asfortranarray(x.reshape(2, 3)), 64)
    with pytest.raises(native.TacitaError, match="65 bits"):
        client.negative(x, 65)
    with pytest.raises(native.TacitaError, match="hint: reduce them"):
        client.extend(x, 2, 64)
    with pytest.raises(native.TacitaError, match="shift by 8"):
        client.truncate(x, 8, 8)
    with pytest.raises(native.TacitaError, match="differ"):
        client.select(np.zeros(5, np.uint8), x, 64)
    with pytest.raises(native.TacitaError, match="0 and 1"):
        client.select(np.full(6, 2, np.uint8), x, 64)
    with pytest.raises(TypeError):
        client.negative(x.astype(np.float64), 64)


def test_a_peer_that_leaves_or_is_silent_is_a_peer_error() -> None:
    client, server = native.two_party_pair(timeout=0.05)
    with pytest.raises(native.PeerError, match="silent"):
        client.receive(1)
    server.send(b"x")
    server.close()
    server.close()
    assert client.receive(1) == b"x"
    with pytest.raises(native.PeerError, match="closed"):
        client.receive(1)
    with pytest.raises(native.PeerError):
        server.send(b"y")
    assert server.bytes_sent == 1
    assert issubclass(native.PeerError, native.TacitaError)


def test_messages_of_another_length_are_refused(pair: tuple[Any, Any]) -> None:
    client, server = pair
    client.send(b"four")
    with pytest.raises(native.PeerError, match="4 bytes where 5"):
        server.receive(5)


def test_a_waiting_call_leaves_the_interpreter_free(pair: tuple[Any, Any]) -> None:
    client, server = pair
    got: list[bytes] = []
    waiting = threading.Thread(target=lambda: got.append(client.receive(3)))
    waiting.start()
    server.send(b"now")  # would hang if receive held the interpreter
    waiting.join(WAIT)
    assert got == [b"now"]


def test_simulated_links_are_counted_not_slept() -> None:
    client, server = native.two_party_pair(link=(1e6, 10.0), simulate=True)
    client.send(bytes(125_000 - 16))
    server.begin("wait")
    server.receive(125_000 - 16)
    server.end()
    assert 5.9 < server.skipped_seconds < 6.1
    (cost,) = server.profile()
    assert cost["path"] == "wait"
    assert cost["calls"] == cost["rounds"] == 1
    assert cost["received"] == 125_000 - 16
    assert 5.9 < cost["wall"] < 11.9  # which would be 12 if it slept, too
    for wrong in ("moon", (0.0, 1.0), (1e9, -1.0)):
        with pytest.raises(native.TacitaError):
            native.two_party_pair(link=wrong)


def test_an_interrupt_ends_a_call_that_waits() -> None:
    script = """
import sys
from tacita import _native
listener = _native.TwoPartyListener("localhost", 0, insecure_plain=True)
client = _native.TwoParty.dial("localhost", listener.port, insecure_plain=True, timeout=60.0)
server = listener.accept(10.0, timeout=60.0)
try:
    print("waiting", flush=True)
    server.receive(1)
except KeyboardInterrupt:
    sys.exit(7)
"""
    with interrupts(), subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 7


class TestConnections:
    @pytest.fixture
    def listener(self, certificate: tuple[str, str]) -> Iterator[Any]:
        yield native.TwoPartyListener("localhost", 0, certificate=certificate[0], key=certificate[1])

    def test_a_trusted_file_or_a_fingerprint(self, listener: Any, certificate: tuple[str, str]) -> None:
        exchange(connected(listener, ca=certificate[0]))
        pin = native.certificate_fingerprint(certificate[0])
        assert len(pin) == 64
        exchange(connected(listener, fingerprint=pin.upper()))

    def test_a_waiting_call_can_be_aborted(self, listener: Any, certificate: tuple[str, str]) -> None:
        client, _server = connected(listener, ca=certificate[0])
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.receive, 1)
            time.sleep(0.05)
            client.abort()
            with pytest.raises(native.PeerError, match="closed"):
                waiting.result(WAIT)

    def test_nobody_comes(self, listener: Any) -> None:
        assert listener.accept(0.01) is None

    def test_a_refused_client_leaves_the_listener_usable(
        self, listener: Any, certificate: tuple[str, str]
    ) -> None:
        with ThreadPoolExecutor(1) as pool:
            accepting = pool.submit(listener.accept, WAIT)
            with pytest.raises(native.PeerError, match="fingerprint"):
                native.TwoParty.dial("localhost", listener.port, fingerprint="00" * 32)
            with pytest.raises(native.PeerError):
                accepting.result()
        exchange(connected(listener, ca=certificate[0]))

    def test_clients_may_have_to_show_a_certificate(
        self, certificate: tuple[str, str], tmp_path: Path
    ) -> None:
        shown = native.generate_certificate(str(tmp_path), ["a client"])
        listener = native.TwoPartyListener(
            "localhost", 0, certificate=certificate[0], key=certificate[1], client_ca=shown[0]
        )
        exchange(connected(listener, ca=certificate[0], certificate=shown[0], key=shown[1]))
        with pytest.raises(native.PeerError):
            connected(listener, ca=certificate[0])

    def test_plain_tcp_only_when_asked_for(self, certificate: tuple[str, str]) -> None:
        exchange(connected(native.TwoPartyListener("localhost", 0, insecure_plain=True), insecure_plain=True))
        with pytest.raises(native.TacitaError, match="insecure_plain"):
            native.TwoPartyListener("localhost", 0)
        with pytest.raises(native.TacitaError, match="insecure_plain"):
            native.TwoPartyListener(
                "localhost", 0, certificate=certificate[0], key=certificate[1], insecure_plain=True
            )
        for how in (
            {},
            {"ca": certificate[0], "insecure_plain": True},
            {"ca": certificate[0], "fingerprint": "00" * 32},
        ):
            with pytest.raises(native.TacitaError, match="exactly one"):
                native.TwoParty.dial("localhost", 1, **how)

    def test_plain_and_tls_do_not_mix(self, listener: Any) -> None:
        with ThreadPoolExecutor(1) as pool:
            accepting = pool.submit(listener.accept, WAIT, timeout=WAIT)
            client = native.TwoParty.dial("localhost", listener.port, insecure_plain=True, timeout=WAIT)
            client.send(b"secret words")
            with pytest.raises(native.PeerError, match="plain TCP") as caught:
                accepting.result()
            assert "secret" not in str(caught.value)
            with pytest.raises(native.PeerError):
                client.receive(1)

    def test_files_that_do_not_fit_are_named(self, certificate: tuple[str, str], tmp_path: Path) -> None:
        with pytest.raises(native.PeerError, match=r"missing\.pem"):
            native.TwoPartyListener(
                "localhost", 0, certificate=str(tmp_path / "missing.pem"), key=certificate[1]
            )
        with pytest.raises(native.TacitaError, match="belong together"):
            native.TwoPartyListener("localhost", 0, certificate=certificate[0])
        with pytest.raises(native.PeerError, match=r"key\.pem"):
            native.generate_certificate(str(Path(certificate[0]).parent), ["localhost"])
