"""A server among clients that say nothing, too little, too slowly or too much: the others are answered."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from service import CHECKPOINT, TEXTS, Service, make_server, service

from tacita.client.connected import RenewableSession
from tacita.client.store import PublicCache
from tacita.errors import GoneError, RefusedError
from tacita.server.sessions.listener import SessionLimits
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.party import new_identity
from tacita.two_party.protocol.refusal import Reason

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoPartyArrival"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

SHORT = 0.4  # seconds of a limit that a test waits for


def answered(serving: Service) -> None:
    """A client comes and is answered."""
    with serving.client() as client:
        assert client.classify(TEXTS[0]).label in CHECKPOINT.config.labels
        client.end()


def refused(serving: Service) -> Reason:
    """Why a client that comes now is refused at once."""
    with pytest.raises(RefusedError) as caught, serving.client():
        pass
    return Reason(caught.value.reason)


def test_hundreds_of_silent_connections_keep_nobody_out(tmp_path: Path) -> None:
    identity = new_identity(tmp_path / "pem", ["127.0.0.1"])
    with (
        service(make_server(handshake=600.0), tmp_path, identity=identity) as serving,
        contextlib.ExitStack() as held,
    ):
        for _ in range(200):
            held.enter_context(serving.silent())
        answered(serving)
        assert not [session for session in serving.ended if not session.texts]
        for _ in range(200):  # more than the lobby holds: the oldest are sent away
            held.enter_context(serving.silent_tls())
        answered(serving)
        ended = serving.wait(lambda ended: sum(session.texts for session in ended) == 2)
        assert {session.ending for session in ended} - {"not let in", "broken off"} == {"answered"}


def test_whoever_says_nothing_is_given_up(tmp_path: Path) -> None:
    identity = new_identity(tmp_path / "pem", ["127.0.0.1"])
    serving_it = service(make_server(handshake=SHORT), tmp_path, identity=identity)
    with serving_it as serving, serving.silent() as one, serving.silent_tls() as other:
        (session,) = serving.wait(len)
        assert session.ending == "too late"
        assert one.recv(1) == b""
        with contextlib.suppress(OSError):
            assert other.recv(1) == b""


def test_a_byte_now_and_then_does_not_renew_the_limit(tmp_path: Path) -> None:
    with service(make_server(handshake=SHORT), tmp_path) as serving, serving.silent() as dripping:
        gone = threading.Event()  # set after the end alone: a limit that bytes renewed would never pass

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not gone.wait(SHORT / 10):
                    dripping.sendall(b"T" if not serving.ended else b"")

        thread = threading.Thread(target=drip)
        thread.start()
        (session,) = serving.wait(len)
        gone.set()
        thread.join()
        assert session.ending in ("too late", "damaged")  # damaged: sixteen bytes came in time


def test_who_asks_for_the_part_and_does_not_read_it_holds_little_for_a_short_time(tmp_path: Path) -> None:
    server = make_server(handshake=5 * SHORT, loading=0.0)  # the part is asked for within it
    publication = server._publisher.current()
    publication.data = bytes(100 << 20)
    with service(server, tmp_path) as serving:
        party = serving.party()
        party.send(handshake.CLIENT_HELLO.pack(handshake.MAGIC, handshake.VERSION))
        party.receive(handshake.SERVER_HELLO.size)
        party.send(handshake.SEND)
        (session,) = serving.wait(len)
        assert session.ending == "too late"
        assert session.bytes_sent < 20 << 20  # what sockets hold, and one chunk
        party.close()


def test_a_full_server_says_so_and_goes_on_when_it_is_not(tmp_path: Path) -> None:
    with service(make_server(), tmp_path, SessionLimits(sessions=1)) as serving:
        with serving.client() as early, serving.client() as late:
            handshake.ask(early.party)  # and then nothing: the place is taken
            with pytest.raises(RefusedError, match=r"full \(1 session\)"):
                late.classify(TEXTS[0])
            assert refused(serving) is Reason.FULL
        serving.wait(lambda ended: any(session.texts for session in ended))
        answered(serving)


def test_one_address_does_not_take_all_places_when_told_so(tmp_path: Path) -> None:
    with (
        service(make_server(), tmp_path, SessionLimits(sessions=4, per_address=1)) as serving,
        serving.client() as early,
    ):
        handshake.ask(early.party)
        assert refused(serving) is Reason.ADDRESS


def test_a_text_has_a_deadline_and_then_the_place_is_free(tmp_path: Path) -> None:
    with (
        service(make_server(handshake=600.0, text=SHORT), tmp_path, SessionLimits(sessions=1)) as serving,
        serving.client() as stalling,
    ):
        handshake.ask(stalling.party)
        (session,) = serving.wait(len)
        assert (session.texts, session.ending) == (1, "too late")
        with serving.client() as other:
            handshake.ask(other.party)  # admitted


def test_a_client_does_not_keep_its_place_between_texts(tmp_path: Path) -> None:
    with service(make_server(handshake=600.0, idle=SHORT), tmp_path) as serving, serving.client() as client:
        client.classify(TEXTS[0])
        (session,) = serving.wait(len)
        assert (session.texts, session.ending) == (1, "too late")
        with pytest.raises(GoneError):
            client.classify(TEXTS[1])


def test_every_address_has_its_number_of_texts(tmp_path: Path) -> None:
    with service(make_server(), tmp_path, SessionLimits(texts=2)) as serving:
        with serving.client() as client:
            for text in TEXTS[:2]:
                client.classify(text)
            with pytest.raises(RefusedError, match="2 texts of one client"):
                client.classify(TEXTS[2])
        assert refused(serving) is Reason.CLIENT


def test_clients_with_certificates_are_counted_by_them(tmp_path: Path) -> None:
    own, first, second = (new_identity(tmp_path / name, ["127.0.0.1"]) for name in ("own", "first", "second"))
    known = tmp_path / "known.pem"
    known.write_text(first.certificate.read_text() + second.certificate.read_text())
    with service(make_server(), tmp_path, SessionLimits(texts=1), identity=own, client_ca=known) as serving:
        for identity in (first, second):
            with serving.client(identity) as client:
                client.classify(TEXTS[0])
            with pytest.raises(RefusedError, match="1 text of one client"), serving.client(identity):
                pass


def test_a_spent_key_is_replaced_and_the_client_connects_again(tmp_path: Path) -> None:
    with service(make_server(embeddings="hidden", most=2), tmp_path) as serving:
        with serving.client() as client:
            old = client.part.encrypted
            client.classify(TEXTS[0])
            client.classify(TEXTS[1])
            with pytest.raises(RefusedError, match="has served its 2 texts"):
                client.classify(TEXTS[2])
        session = RenewableSession(
            serving.party, lambda party: TwoPartyClient(party, PublicCache(tmp_path / "other"))
        )
        assert session.client.part.encrypted != old
        before = session.client
        answers = [session.classify(text, lambda step: None) for text in TEXTS[:3]]
        assert len(answers) == 3 and session.client is not before
        assert session.cost["bytes_sent"] > session.client.party.cost["bytes_sent"]
        assert len({row["path"] for row in session.profile()}) == len(session.profile())
        session.close()
        counts = serving.wait(lambda ended: sum(session.texts for session in ended) == 5)
        assert max(session.texts for session in counts) == 2


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads and files are counted in /proc")
def test_a_session_costs_few_threads_and_one_file(tmp_path: Path) -> None:
    def counts() -> list[int]:
        return [len(list(Path("/proc/self", name).iterdir())) for name in ("task", "fd")]

    count = 20
    with (
        service(make_server(), tmp_path, SessionLimits(sessions=count)) as serving,
        contextlib.ExitStack() as held,
    ):
        answered(serving)  # which starts the threads that all sessions share
        before = counts()
        for _ in range(count):
            handshake.ask(held.enter_context(serving.client()).party)
        threads, files = (now - then for now, then in zip(counts(), before, strict=True))
    assert threads <= count * (
        2 + 2
    )  # the session's and its writer's; the client's of this test and its writer's
    assert files <= count * (1 + 3)  # the client's; the connection and both ends of its session


def test_a_client_of_an_older_release_is_noted(tmp_path: Path) -> None:
    with service(make_server(), tmp_path) as serving:
        party = serving.party()
        party.send(handshake.CLIENT_HELLO.pack(handshake.MAGIC, 1))
        (session,) = serving.wait(len)
        assert session.ending == "damaged"
        party.close()
