"""Who is served, how long a client may take, and what happens when there are too many: without any
connection."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from random_checkpoint import make_random_checkpoint

from tacita.cli.console import err, out
from tacita.cli.two_party.identity import MOST, ServeLog
from tacita.errors import PeerError
from tacita.planning.request import PlanRequest
from tacita.two_party.admission import Guest, Lobby, SessionLimiter, SessionLimits, network
from tacita.two_party.limits import LONGEST_SAFE, limits_of, texts_of_a_key
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.refusal import Reason, Refusal
from tacita.two_party.reception import LAST_PAUSE, Visit, accept_until
from tacita.two_party.server import Served

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
HERE, THERE = "127.0.0.1", "192.0.2.1"


def admitted(admission: SessionLimiter, address: str = THERE, certificate: str | None = None) -> Guest:
    guest = admission.guest(address, certificate)
    assert guest.refusal() is None and guest.admit() is None
    return guest


def test_places_are_taken_by_texts_and_given_back() -> None:
    admission = SessionLimiter(SessionLimits(sessions=2, per_address=2))
    first, second = admitted(admission), admitted(admission)
    idle = admission.guest(THERE, None)
    assert idle.refusal() == idle.admit() == Refusal(Reason.FULL, 2)
    assert first.admit() is None  # a second text of a session that is inside
    second.leave()
    second.leave()
    assert idle.admit() is None
    assert admission.guest(HERE, None).refusal() == Refusal(Reason.FULL, 2)


@pytest.mark.parametrize(
    ("caps", "address", "most"),
    [
        (SessionLimits(4), THERE, 3),
        (SessionLimits(4), HERE, 4),
        (SessionLimits(4), "::1", 4),
        (SessionLimits(1), THERE, 1),
        (SessionLimits(4, 1), HERE, 1),
        (SessionLimits(4, 2), THERE, 2),
    ],
)
def test_an_address_leaves_a_place_to_others(caps: SessionLimits, address: str, most: int) -> None:
    admission = SessionLimiter(caps)
    for _ in range(most):
        admitted(admission, address)
    refusal = admission.guest(address, None).refusal()
    assert refusal is not None and refusal.number == most
    assert (admission.guest("198.51.100.1", None).refusal() is None) == (most < caps.sessions)


def test_addresses_of_one_subscriber_are_one() -> None:
    assert network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9") != network("2001:db8:1:3::1")
    assert network("::ffff:192.0.2.1") == network("192.0.2.1") != network("192.0.2.2")
    assert network("fe80::1%eth0") == network("fe80::2")
    with pytest.raises(ValueError, match="IPv4 or IPv6"):
        network("somewhere")


def test_texts_are_counted_by_certificate_or_address_over_sessions() -> None:
    admission = SessionLimiter(SessionLimits(4, texts=2))
    for _ in range(2):
        admitted(admission).leave()
    spent = admission.guest(THERE, None)
    assert spent.refusal() == spent.admit() == Refusal(Reason.CLIENT, 2)
    known = admitted(admission, THERE, "ab" * 32)
    assert known.admit() is None
    assert known.admit() == Refusal(Reason.CLIENT, 2)


def test_places_are_never_more_than_there_are_whatever_threads_do() -> None:
    admission, inside = SessionLimiter(SessionLimits(3, per_address=3)), []

    def come() -> None:
        guest = admission.guest(THERE, None)
        if guest.admit() is None:
            inside.append(guest)

    threads = [threading.Thread(target=come) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inside) == 3


def test_refusals_are_words_of_our_own() -> None:
    assert str(Refusal(Reason.FULL, 4).error()) == "the server is full (4 sessions)"
    assert "1 text of one client" in str(Refusal(Reason.CLIENT, 1).error())
    assert Refusal(99, 1).error().reason == 0


@dataclass(eq=False)
class Caller:
    address: str
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def test_the_oldest_of_the_largest_crowd_makes_room() -> None:
    lobby = Lobby(4)
    crowd, honest, late = [Caller(HERE) for _ in range(3)], Caller(THERE), Caller("198.51.100.1")
    assert all(lobby.enter(caller) for caller in (honest, *crowd, late))
    assert [caller.closed for caller in (honest, *crowd, late)] == [False, True, False, False, False]
    lobby.leave(crowd[1])  # admitted: no longer to be sent away
    assert lobby.enter(Caller(HERE))
    assert not crowd[1].closed and not crowd[2].closed


def test_threads_that_do_not_end_are_bounded() -> None:
    lobby, callers = Lobby(2), [Caller(HERE) for _ in range(5)]
    assert [lobby.enter(caller) for caller in callers] == [True, True, True, True, False]
    assert callers[4].closed and not callers[3].closed
    lobby.ended(callers[0])
    assert lobby.enter(Caller(HERE))


def test_connections_of_one_address_are_bounded() -> None:
    lobby, crowd = Lobby(4, per_address=2, shared=["198.51.100.1"]), [Caller(HERE) for _ in range(5)]
    assert all(lobby.enter(caller) for caller in crowd[:3])
    assert [caller.closed for caller in crowd[:3]] == [True, False, False]  # its own oldest makes room
    for caller in crowd[1:3]:
        lobby.leave(caller)
    assert not lobby.enter(crowd[3]) and crowd[3].closed  # both are admitted: none can be sent away
    assert lobby.enter(Caller(THERE)) and all(lobby.enter(Caller("198.51.100.1")) for _ in range(3))
    lobby.reenter(crowd[1])
    assert lobby.enter(crowd[4]) and crowd[1].closed


def test_limits_follow_the_estimate() -> None:
    small, large = (
        make_two_party_plan(make_random_checkpoint(), PlanRequest(tokens=tokens, texts=TEXTS))
        for tokens in (16, 64)
    )
    usual, longer = (limits_of(plan, bits_per_second=1e9) for plan in (small, large))
    assert usual.text < longer.text
    assert limits_of(small, bits_per_second=1e6).text - usual.text == pytest.approx(
        10 * 8 * small.predicted_bytes() * (1e-6 - 1e-9)
    )
    assert limits_of(small, bits_per_second=1e9, crowding=8.0).text - 60 == pytest.approx(
        8 * (usual.text - 60)
    )
    assert usual.queue >= small.predicted_bytes() / small.config.layers
    assert usual.part(10**8) == usual.handshake + 100.0
    assert limits_of(small, bits_per_second=8e6).part(10**8) == pytest.approx(1010.0)


def test_a_key_serves_fewer_texts_the_more_an_answer_carries() -> None:
    assert [texts_of_a_key(outputs) for outputs in (1, 2, LONGEST_SAFE, 384)] == [127, 63, 1, 1]
    bits, coefficients = 32 * 2 * texts_of_a_key(2), 8192 * 147 / 214
    assert bits / 1.585 + coefficients <= 8192  # what answers may carry, and what must stay unknown


class Failing:
    """Fails to accept a number of times, then has nobody, then is over."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def next(self, wait: float) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise PeerError("listen: accept: Too many open files")


def test_a_failure_to_accept_pauses_and_is_told_once() -> None:
    listener, pauses, changes = Failing(12), [], []
    accept_until(lambda: listener.calls > 13, listener, pytest.fail, changes.append, pauses.append)
    assert len(pauses) == 12 and pauses[:3] == [0.01, 0.02, 0.04] and pauses[-1] == LAST_PAUSE
    assert [type(change) for change in changes] == [PeerError, type(None)]


def test_the_log_has_a_line_for_a_session_and_few_for_connections_without() -> None:
    now = [0.0]
    log = ServeLog(clock=lambda: now[0])
    bad = Served(0, PeerError("the client asked for '\x1b[31m'"))
    with out.capture() as told, err.capture() as failed:
        for port in range(MOST + 5):
            log.visit(Visit(f"192.0.2.1:{port}", "not let in", bad, 0.1))
        cost = {"bytes_sent": 1e6, "bytes_received": 2e6, "rounds": 7}
        log.visit(Visit("[2001:db8::1]:9", "answered", Served(3, None), 1.0, admitted=True, cost=cost))
        now[0] = 61.0
        log.visit(Visit("192.0.2.1:99", "not let in", bad, 0.1))
    lines, errors = told.get().splitlines(), failed.get()
    assert len(lines) == MOST + 3 and "\x1b" not in errors
    assert lines[0].startswith("session of 0 texts, not let in, 192.0.2.1:0: 0.1 s")
    assert lines[MOST].startswith("session of 3 texts, answered, [2001:db8::1]:9: 1.0 s, 3.0 MB")
    assert lines[MOST + 1].startswith("5 more connections")
