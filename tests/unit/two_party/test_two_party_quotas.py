"""What sessions of two parties take of a quota: texts that are broken off, tokens, seconds in parallel, and
the end of a client that is revoked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hosted_world import SECONDS, run
from service import TEXTS, hosting, make_server
from test_decoders_fixed import MODELS, plan_of
from test_writing import PROMPT

from tacita.client.store import PublicCache
from tacita.errors import GoneError, RefusedError
from tacita.server.core.accounts import Account
from tacita.server.core.jobs import Jobs
from tacita.server.metrics import Metrics
from tacita.server.sessions.messages import SessionSpec, Used
from tacita.server.sessions.supervisor import Sessions
from tacita.server.store import tokens, usage
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import Quota, Who
from tacita.two_party.client import GenerationClient, TwoPartyClient
from tacita.two_party.protocol.party import over_socket
from tacita.two_party.protocol.refusal import Reason
from tacita.two_party.server import TwoPartyServer

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoPartyArrival"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

METRICS, HOUR = Metrics(), 3600.0


CLASSIFIER = make_server()
WRITER = TwoPartyServer(plan_of(MODELS["two"]), MODELS["two"])
SPEC = SessionSpec("m", Path("model"), Path("plan"), 1, 5, "0" * 64)


@dataclass
class Stage:
    """Sessions of one client under a ledger. now: of the clock of both."""

    folder: Path
    quota: Quota
    now: float = 10 * 86400.0
    who: Who = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.folder, lambda: self.now)
        self.jobs = Jobs(self.ledger, None, None, None, METRICS, None)  # type: ignore[arg-type]
        found = tokens.client_of(self.ledger, tokens.add(self.ledger, "eve", self.quota, seconds=HOUR))
        assert found is not None
        self.who = found

    @property
    def used(self) -> Used:
        return usage.today(self.ledger, self.who.id)

    async def greeted(self, sessions: Sessions, cache: str = "cache") -> TwoPartyClient:
        """A client of a new session."""
        end = await sessions.open(Account(self.jobs, self.who, "m"))
        party = over_socket(end, client=True, timeout=SECONDS, threads=1)
        return await asyncio.to_thread(TwoPartyClient, party, PublicCache(self.folder / cache))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                await asyncio.sleep(0.01)

    def play(self, server: TwoPartyServer, test: Callable[[Sessions], Awaitable[None]]) -> None:
        async def work() -> None:
            sessions = Sessions(SPEC, lambda: self.now)
            await sessions.start()
            try:
                await test(sessions)
                await self.until(lambda: not sessions.count())
            finally:
                await sessions.stop()
                self.ledger.close()

        with hosting(server):
            run(work)


@contextmanager
def refused(reason: Reason) -> Iterator[None]:
    with pytest.raises(RefusedError) as caught:
        yield
    assert caught.value.reason == reason


def written(client: TwoPartyClient, count: int, most: int = 8) -> None:
    """So many tokens of a text of more, and then the client hangs up."""
    try:
        text = GenerationClient(client, most)
        token = text.next(PROMPT)
        for _ in range(count - 1):
            token = text.next([token])
    finally:
        client.party.close()


def test_a_text_that_is_broken_off_is_a_text_and_its_tokens_are_counted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Quota(texts=2))

    async def test(sessions: Sessions) -> None:
        for _ in range(2):
            await asyncio.to_thread(written, await stage.greeted(sessions), 3)
        client = await stage.greeted(sessions)
        with refused(Reason.CLIENT):
            await asyncio.to_thread(written, client, 3)
        await stage.until(lambda: sessions.count() == 0)
        assert (stage.used.texts, stage.used.tokens) == (2, 6) and stage.used.bytes > 1_000_000

    stage.play(WRITER, test)


def test_tokens_are_reserved_and_given_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Quota(tokens=9))

    async def test(sessions: Sessions) -> None:
        first, second = [await stage.greeted(sessions) for _ in range(2)]
        text = GenerationClient(first, 8)
        token = await asyncio.to_thread(text.next, PROMPT)
        assert stage.used.tokens == 8, "as many as it may have"
        with refused(Reason.QUOTA):
            await asyncio.to_thread(written, second, 1, 2)
        await asyncio.to_thread(text.next, [token])
        await asyncio.to_thread(text.end)
        await stage.until(lambda: stage.used.tokens == 2)
        await asyncio.to_thread(written, await stage.greeted(sessions), 1, 7)
        for client in (first, second):
            client.party.close()

    stage.play(WRITER, test)


def test_sessions_side_by_side_do_not_take_more_seconds_than_there_are(tmp_path: Path) -> None:
    """Of four with a quota for two and a half texts, two are admitted; they end when it is used up."""
    planned = CLASSIFIER.plan.predicted_seconds()
    stage, begun, go = (
        Stage(tmp_path, Quota(seconds=2.5 * planned)),
        threading.Semaphore(0),
        threading.Event(),
    )

    def asked(client: TwoPartyClient) -> str:
        def watch(step: str) -> None:
            if step.startswith("layer0"):
                begun.release()
                go.wait(SECONDS)

        try:
            client.classify(TEXTS[0], watch)
        except RefusedError as error:
            return Reason(error.reason).name
        except GoneError:
            return "gone"
        finally:
            client.party.close()
        return "answered"

    async def test(sessions: Sessions) -> None:
        clients = [await stage.greeted(sessions) for _ in range(4)]
        asking = [asyncio.create_task(asyncio.to_thread(asked, client)) for client in clients]
        for _ in range(2):
            assert await asyncio.to_thread(begun.acquire, timeout=SECONDS)
        await stage.until(lambda: sum(task.done() for task in asking) == 2)
        stage.now += planned / 2
        sessions.look()
        assert sessions.count() == 2 and stage.used.seconds == pytest.approx(2 * planned)
        stage.now += planned
        sessions.look()  # with the second the quota is passed; the first ends at the next look
        sessions.look()
        await stage.until(lambda: sessions.count() == 0)
        go.set()
        assert sorted([await task for task in asking]) == ["QUOTA", "QUOTA", "gone", "gone"]
        assert stage.used.seconds == pytest.approx(3 * planned) and stage.used.texts == 2

    stage.play(CLASSIFIER, test)


def test_bytes_of_the_public_part_are_reserved_before_it_is_sent(tmp_path: Path) -> None:
    size = len(CLASSIFIER._publisher.current().data)
    stage = Stage(tmp_path, Quota(bytes=2 * size))

    async def test(sessions: Sessions) -> None:
        first = await stage.greeted(sessions)
        assert size <= stage.used.bytes < 2 * size, "also while the session goes on"
        with pytest.raises(GoneError):
            await stage.greeted(sessions, "another")
        with refused(Reason.QUOTA):
            await asyncio.to_thread(first.classify, TEXTS[0])
        first.party.close()
        await stage.until(lambda: sessions.count() == 0)
        assert size < stage.used.bytes < 2 * size

    stage.play(CLASSIFIER, test)


@pytest.mark.parametrize("ends", ["revoked", "expired"])
def test_a_client_that_is_no_more_has_no_further_text(tmp_path: Path, ends: str) -> None:
    stage = Stage(tmp_path, Quota())

    async def test(sessions: Sessions) -> None:
        client = await stage.greeted(sessions)
        other = await stage.greeted(sessions)
        for _ in range(2):
            await asyncio.to_thread(client.classify, TEXTS[0])
        if ends == "revoked":
            tokens.revoke(stage.ledger, "eve")
        else:
            stage.now += HOUR
        with refused(Reason.CLIENT):
            await asyncio.to_thread(other.classify, TEXTS[0])
        other.party.close()
        sessions.look()
        await stage.until(lambda: sessions.count() == 0)
        with pytest.raises(GoneError):
            await asyncio.to_thread(client.classify, TEXTS[0])
        client.party.close()
        assert stage.used.texts == 2

    stage.play(CLASSIFIER, test)
