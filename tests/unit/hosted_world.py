"""Sessions in a process of their own, of a tiny model; their clients, and what was told of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from random_checkpoint import make_random_checkpoint, write_folder
from service import TEXTS
from websockets_world import Known

from tacita import checkpoint
from tacita.client.store import PublicCache
from tacita.planning.request import PlanRequest
from tacita.server.sessions.messages import Ended, SessionSpec
from tacita.server.sessions.supervisor import Sessions
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.party import Party, over_socket

SECONDS = 900.0


def make_spec(folder: Path) -> SessionSpec:
    """Of a random classifier, two sessions at a time."""
    write_folder(make_random_checkpoint(), folder / "model")
    plan = make_two_party_plan(checkpoint.load(folder / "model"), PlanRequest(tokens=16, texts=TEXTS))
    (folder / "plan.json").write_bytes(plan.to_bytes())
    return SessionSpec("m", folder / "model", folder / "plan.json", 1, 2, plan.hash)


@dataclass
class Book:
    """What was told."""

    ended: list[Ended] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def client(self, name: str = "alice") -> Known:
        """Whose sessions are written down here."""
        return Known(name, self.told)

    def told(self, ended: Ended) -> None:
        self.ended.append(ended)
        task = asyncio.ensure_future(self._notify())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def wait(self, count: int) -> list[Ended]:
        async with asyncio.timeout(SECONDS), self.changed:
            await self.changed.wait_for(lambda: len(self.ended) >= count)
        return self.ended


@asynccontextmanager
async def running(spec: SessionSpec) -> AsyncIterator[tuple[Sessions, Book]]:
    book = Book()
    sessions = Sessions(spec)
    await sessions.start()
    try:
        yield sessions, book
    finally:
        await sessions.stop()


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 2 * SECONDS))


def asked(end: socket.socket, folder: Path, meet: Callable[[], object] = lambda: None) -> str | None:
    """A client's text, in a thread. meet: called between the first text and a second."""
    return asked_of(lambda: over_socket(end, client=True, timeout=SECONDS, threads=1), folder, meet)


def asked_of(
    dialled: Callable[[], Party], folder: Path, meet: Callable[[], object] = lambda: None
) -> str | None:
    party = dialled()
    try:
        client = TwoPartyClient(party, PublicCache(folder))
        client.classify(TEXTS[0])
        meet()
        label = client.classify(TEXTS[1]).label
        client.end()
    finally:
        party.close()
    return label
