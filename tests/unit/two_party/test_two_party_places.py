"""Places of two-party sessions: taken by texts, shared by client."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import cast

import pytest
from hosted_world import SECONDS, asked, make_spec, run, running

from tacita.errors import RefusedError
from tacita.server.child import Channel
from tacita.server.sessions.messages import Answered, SessionSpec
from tacita.server.sessions.process import SHARE, HostedSession, SessionHost
from tacita.two_party.protocol.refusal import Reason
from tacita.two_party.server import TwoPartyServer

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoPartyArrival"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SessionSpec:
    return make_spec(tmp_path_factory.mktemp("spec"))


class Leaving(dict[int, HostedSession]):
    """Sessions that end behind a look whether they are there."""

    def __contains__(self, _: object) -> bool:
        return True


def test_an_answer_to_a_session_that_has_just_ended_is_nothing() -> None:
    """It would end the process, and the sessions of all others with it."""
    host = SessionHost(cast(TwoPartyServer, None), 1, SECONDS, cast(Channel, None))
    host._open = Leaving()
    host._on_message(Answered(id=1, reason=Reason.FULL, number=0))


def test_two_sessions_at_a_time_and_no_third(spec: SessionSpec, tmp_path: Path) -> None:
    """Of which one client has one."""
    meeting = threading.Barrier(3, timeout=SECONDS)

    def meet() -> None:
        meeting.wait()  # both hold a place
        meeting.wait()  # the third was refused

    async def work() -> None:
        async with running(spec) as (sessions, book):
            ends = [await sessions.open(book.client(name)) for name in ("alice", "bob")]
            asking = [asyncio.create_task(asyncio.to_thread(asked, end, tmp_path, meet)) for end in ends]
            await asyncio.to_thread(meeting.wait)
            end = await sessions.open(book.client("carol"))
            with pytest.raises(RefusedError, match=r"full \(2 sessions\)") as caught:
                await asyncio.to_thread(asked, end, tmp_path)
            assert caught.value.reason == Reason.FULL
            await asyncio.to_thread(meeting.wait)
            assert all(await asyncio.gather(*asking))
            ended = await book.wait(3)
        assert {(each.client, each.texts, each.ending) for each in ended} == {
            ("alice", 2, "answered"),
            ("bob", 2, "answered"),
            ("carol", 0, "refused"),
        }
        assert all(each.seconds > 0 and min(each.bytes_sent, each.bytes_received) > 0 for each in ended)

    run(work)


@pytest.mark.parametrize("count", [4, 40])
def test_sessions_that_say_nothing_keep_nobody_out(spec: SessionSpec, tmp_path: Path, count: int) -> None:
    """Of one client, whose own oldest make room beyond its share of the lobby."""

    async def work() -> None:
        async with running(spec) as (sessions, book):
            silent = [await sessions.open(book.client("alice")) for _ in range(count)]
            for name in ("bob", "carol"):
                assert await asyncio.to_thread(asked, await sessions.open(book.client(name)), tmp_path)
            ended = await book.wait(2 + max(0, count - SHARE))
            assert [each.client for each in ended if each.texts] == ["bob", "carol"]
        for end in silent:
            end.close()

    run(work)


def test_one_client_does_not_have_all_places(spec: SessionSpec, tmp_path: Path) -> None:
    async def work() -> None:
        async with running(spec) as (sessions, book):
            first, go = threading.Event(), threading.Event()
            meet = lambda: (first.set(), go.wait(SECONDS))  # noqa: E731
            end = await sessions.open(book.client("alice"))
            asking = asyncio.create_task(asyncio.to_thread(asked, end, tmp_path, meet))
            assert await asyncio.to_thread(first.wait, SECONDS)
            with pytest.raises(RefusedError, match="1 session of one address or client") as caught:
                await asyncio.to_thread(asked, await sessions.open(book.client("alice")), tmp_path)
            assert caught.value.reason == Reason.ADDRESS
            assert await asyncio.to_thread(asked, await sessions.open(book.client("bob")), tmp_path)
            go.set()
            assert await asking

    run(work)
