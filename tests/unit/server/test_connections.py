"""Who is served, and what happens when there are too many: without any connection."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from dataclasses import dataclass
from io import StringIO

import pytest

from tacita.server import connections, logs
from tacita.server.connections import Acceptor, PendingConnections, network
from tacita.server.sessions.listener import AddressClient, AddressClients, SessionLimits
from tacita.server.sessions.messages import Ended, Used
from tacita.server.sessions.process import Places
from tacita.two_party.protocol.refusal import Reason, Refusal

HERE, THERE = "127.0.0.1", "192.0.2.1"
TEXT, NOTHING = Used(1), Used()


def test_places_are_taken_and_given_back() -> None:
    places = Places(2)
    assert places.take(THERE, 2) is None and places.take(THERE, 2) is None
    assert places.refusal(THERE, 2) == places.take(HERE, 2) == Refusal(Reason.FULL, 2)
    places.give_back(THERE)
    assert places.refusal(HERE, 2) is None
    assert places.take(THERE, 1) == Refusal(Reason.ADDRESS, 1)


def test_places_are_never_more_than_there_are_whatever_threads_do() -> None:
    places, inside = Places(3), []

    def come() -> None:
        if places.take(THERE, 3) is None:
            inside.append(1)

    threads = [threading.Thread(target=come) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inside) == 3


@pytest.mark.parametrize(
    ("limits", "address", "most"),
    [
        (SessionLimits(4), THERE, 3),
        (SessionLimits(4), HERE, 4),
        (SessionLimits(4), "::1", 4),
        (SessionLimits(1), THERE, 1),
        (SessionLimits(4, 1), HERE, 1),
        (SessionLimits(4, 2), THERE, 2),
    ],
)
def test_an_address_leaves_a_place_to_others(limits: SessionLimits, address: str, most: int) -> None:
    client = AddressClients("m", limits).client(address, None)
    assert client.places(limits.sessions) == most


def test_addresses_of_one_subscriber_are_one() -> None:
    assert network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9") != network("2001:db8:1:3::1")
    assert network("::ffff:192.0.2.1") == network("192.0.2.1") != network("192.0.2.2")
    assert network("fe80::1%eth0") == network("fe80::2")
    with pytest.raises(ValueError, match="IPv4 or IPv6"):
        network("somewhere")


def test_texts_are_counted_by_certificate_or_address_over_sessions() -> None:
    clients = AddressClients("m", SessionLimits(4, texts=2))
    for _ in range(2):
        assert clients.client(THERE, None).admit(NOTHING, TEXT) is None
    spent = clients.client(THERE, None)
    assert spent.admit(NOTHING, NOTHING) == spent.admit(NOTHING, TEXT) == Refusal(Reason.CLIENT, 2)
    known = clients.client(THERE, "ab" * 32)
    assert known.admit(NOTHING, TEXT) is None and known.admit(TEXT, TEXT) is None
    assert known.admit(Used(2), TEXT) == Refusal(Reason.CLIENT, 2)


def test_a_client_s_last_text_may_be_prepared_before_it_is_asked() -> None:
    """Maps of a text, and its answer, are asked for one by one: only the first is a text more."""
    clients = AddressClients("m", SessionLimits(4, texts=1))
    first = clients.client(THERE, None)
    assert first.admit(NOTHING, TEXT) is None and first.admit(TEXT, NOTHING) is None
    assert first.admit(TEXT, TEXT) == Refusal(Reason.CLIENT, 1)
    assert clients.client(THERE, None).admit(NOTHING, NOTHING) == Refusal(Reason.CLIENT, 1)


def test_a_text_that_found_no_place_is_given_back() -> None:
    clients = AddressClients("m", SessionLimits(4, texts=1))
    first: AddressClient = clients.client(THERE, None)
    assert first.admit(NOTHING, TEXT) is None
    first.settle(NOTHING)
    assert clients.client(THERE, None).admit(NOTHING, TEXT) is None


def test_the_log_has_a_line_for_a_session_and_few_for_connections_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, clients = StringIO(), AddressClients("m", SessionLimits())
    handler = logs.Handler(written, clock=lambda: 1.0)
    logger = logging.getLogger(logs.NAME)
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)
    logger.setLevel(logging.INFO)
    for port in range(25):
        clients.client(f"192.0.2.{port}", None).ended(Ended("", 0, 0.1 * port, port, port, "not let in"))
    clients.client(THERE, None).ended(Ended("", 3, 1.0, 1, 2, "answered"))
    handler.close()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["ending"] for line in lines] == ["not let in", "answered", "not let in"]
    assert (lines[2]["times"], lines[1]["texts"], lines[1]["bytes"]) == (24, 3, 3)
    assert lines[1]["client"] == f"{THERE}/32"


@dataclass(eq=False)
class Caller:
    address: str
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def test_the_oldest_of_the_largest_crowd_makes_room() -> None:
    pending = PendingConnections(4)
    crowd, honest, late = [Caller(HERE) for _ in range(3)], Caller(THERE), Caller("198.51.100.1")
    assert all(pending.enter(caller) for caller in (honest, *crowd, late))
    assert [caller.closed for caller in (honest, *crowd, late)] == [False, True, False, False, False]
    pending.leave(crowd[1])  # admitted: no longer to be sent away
    assert pending.enter(Caller(HERE))
    assert not crowd[1].closed and not crowd[2].closed


def test_threads_that_do_not_end_are_bounded() -> None:
    pending, callers = PendingConnections(2), [Caller(HERE) for _ in range(5)]
    assert [pending.enter(caller) for caller in callers] == [True, True, True, True, False]
    assert callers[4].closed and not callers[3].closed
    pending.ended(callers[0])
    assert pending.enter(Caller(HERE))


def test_connections_of_one_address_are_bounded() -> None:
    pending, crowd = (
        PendingConnections(4, per_address=2, shared=["198.51.100.1"]),
        [Caller(HERE) for _ in range(5)],
    )
    assert all(pending.enter(caller) for caller in crowd[:3])
    assert [caller.closed for caller in crowd[:3]] == [True, False, False]  # its own oldest makes room
    for caller in crowd[1:3]:
        pending.leave(caller)
    assert not pending.enter(crowd[3]) and crowd[3].closed  # both are admitted: none can be sent away
    assert pending.enter(Caller(THERE)) and all(pending.enter(Caller("198.51.100.1")) for _ in range(3))
    pending.reenter(crowd[1])
    assert pending.enter(crowd[4]) and crowd[1].closed


class Failing:
    """A listening socket that fails to accept a number of times, and then has nobody."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def setblocking(self, flag: bool) -> None:
        assert not flag


def test_a_failure_to_accept_pauses_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Failing(3)
    monkeypatch.setattr(connections, "PAUSE", 0.0)

    async def accept(sock: Failing) -> None:
        sock.calls += 1
        if sock.calls <= sock.failures:
            raise OSError(24, "Too many open files")
        await asyncio.Event().wait()

    async def work() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", accept)
        acceptor = Acceptor(listener, PendingConnections(1), None, pytest.fail)  # type: ignore[arg-type]
        acceptor.start()
        async with asyncio.timeout(60.0):
            while listener.calls <= listener.failures:
                await asyncio.sleep(0)
        acceptor.close()
        await acceptor.wait_closed()

    asyncio.run(work())
