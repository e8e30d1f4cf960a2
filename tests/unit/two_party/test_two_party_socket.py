"""A party over a local socket: the same session as over TCP, for whoever carries the bytes."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from service import CHECKPOINT, TEXTS, make_server

from tacita.client.store import PublicCache
from tacita.errors import GoneError, InputError, LateError, PeerError
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol.party import Party, over_socket
from tacita.two_party.server import Served, TwoPartyServer

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoPartyArrival"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

SECONDS = 900.0


def ends(timeout: float = SECONDS) -> tuple[Party, Party]:
    """(client, server)."""
    here, there = socket.socketpair()
    client = over_socket(here, client=True, timeout=timeout, threads=1)
    server = over_socket(there, client=False, timeout=timeout, threads=None)
    assert here.fileno() == there.fileno() == -1, "they are the parties' now"
    return client, server


def served(server: TwoPartyServer, party: Party) -> Served:
    try:
        return server.session(party)
    finally:
        party.close()


def test_texts_are_answered_and_counted(tmp_path: Path) -> None:
    server, (mine, theirs) = make_server(), ends()
    assert mine.peer is None and theirs.peer is None
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(served, server, theirs)
        client = TwoPartyClient(mine, PublicCache(tmp_path))
        labels = [client.classify(text).label for text in TEXTS[:2]]
        client.end()
        mine.close()
        result = serving.result(SECONDS)
    assert set(labels) <= set(CHECKPOINT.config.labels)
    assert (result.texts, result.problem) == (2, None)
    assert mine.cost["bytes_sent"] == theirs.cost["bytes_received"] > 0


def test_a_client_that_leaves_ends_the_session() -> None:
    server, (mine, theirs) = make_server(), ends()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(served, server, theirs)
        mine.close()
        result = serving.result(SECONDS)
    assert isinstance(result.problem, GoneError) and result.ending == "broken off"


def test_a_client_that_refuses_its_own_text_is_no_error(tmp_path: Path) -> None:
    """It hangs up without a word where the server waits for a plan request."""
    server, (mine, theirs) = make_server(), ends()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(served, server, theirs)
        client = TwoPartyClient(mine, PublicCache(tmp_path))
        with pytest.raises(InputError, match="tokens"):
            client.classify("dull " * 40)
        mine.close()
        result = serving.result(SECONDS)
    assert (result.problem, result.ending) == (None, "asked nothing")


def test_a_client_that_is_silent_is_late() -> None:
    server, (mine, theirs) = make_server(), ends()
    theirs.limit(0.05)
    result = served(server, theirs)
    assert isinstance(result.problem, LateError) and result.ending == "too late"
    mine.close()


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
def test_other_sockets_are_refused_and_closed(kind: int) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, kind)
    with there, pytest.raises(PeerError, match="a stream is needed"):
        over_socket(here, client=True)
    assert here.fileno() == -1
    with socket.socket() as unconnected, pytest.raises(PeerError, match="Unix socket is needed"):
        over_socket(unconnected, client=True)
