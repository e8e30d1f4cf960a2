"""Texts whose rows the server keeps: a request is one row, evaluated on what those before it left.

Handle, key and client are in this process alone: a text ends with it, as the client ends it, or is silent for
too long. Its rows are a folder below the key that it is written with, in the order that `evaluate.kept` holds
requests to. What it takes of its client's quota is taken whole, before its first row.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from tacita.server.core.jobs import Jobs
from tacita.server.store import requests
from tacita.server.store.tables import Quota


@dataclass(eq=False)
class KeptText:
    """A text. id: its handle. bytes: of its rows at most. used: when it was named last. again: idempotency
    key of the call that began it. steps: its requests that may be unfinished."""

    id: str
    client: str
    key: str
    bytes: int
    used: float
    again: str | None = None
    steps: list[str] = field(default_factory=list)


class Texts:
    """All texts, for the event loop's thread."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._texts = jobs, dict[str, KeptText]()

    @property
    def all(self) -> list[KeptText]:
        """Returns all texts, those that were begun first before the others."""
        return list(self._texts.values())

    def get(self, client: str, key: str, id: str) -> KeptText | None:
        """Returns the text of this handle below a client's key."""
        text = self._texts.get(id)
        return text if text and (text.client, text.key) == (client, key) else None

    def of_client(self, client: str) -> list[KeptText]:
        return [text for text in self.all if text.client == client]

    def excess(self, client: str, quota: Quota, wanted: int) -> str:
        """Says why a client may not begin a text of so many bytes; nothing where it may."""
        held = self.of_client(client)
        if quota.caches is not None and len(held) >= quota.caches:
            return f"{len(held)} texts of this client are kept, at most {quota.caches}"
        taken = sum(text.bytes for text in held)
        if quota.cache_bytes is not None and taken + wanted > quota.cache_bytes:
            return f"texts of this client take {taken} bytes, this one {wanted}, at most {quota.cache_bytes}"
        return ""

    def begin(self, client: str, key: str, count: int, again: str | None) -> KeptText:
        """Begins a text of so many bytes at most. Raises ResourceError where the disk has no room for it and
        for all others whole."""
        layout, ledger = self._jobs.layout, self._jobs.ledger
        layout.require_room(count + sum(text.bytes for text in self.all))
        text = KeptText(secrets.token_hex(16), client, key, count, ledger.clock(), again)
        layout.text(client, key, text.id).mkdir(mode=0o700, parents=True)
        self._texts[text.id] = text
        return text

    def step(self, text: KeptText, request: str) -> Path:
        """Notes a request of a text. Returns the folder of its rows."""
        text.used = self._jobs.ledger.clock()
        text.steps = [*self._open(text), request]
        return self._jobs.layout.text(text.client, text.key, text.id).absolute()

    def silent(self, text: KeptText, seconds: float) -> bool:
        """Returns whether a text had no request for so long, nor has one that waits or runs."""
        now = self._jobs.ledger.clock()
        text.used = now if self._open(text) else text.used
        return now - text.used > seconds

    async def end(self, text: KeptText) -> None:
        """Ends a text: no request can name it any more, those that are unfinished are cancelled, its rows
        are removed once no worker is at them."""
        self._texts.pop(text.id, None)
        for id in self._open(text):
            if row := requests.by_id(self._jobs.ledger, id):
                await self._jobs.cancel(row)
            await self._jobs.wait_ended(id)
        await asyncio.to_thread(self._jobs.layout.drop_text, text.client, text.key, text.id)

    def _open(self, text: KeptText) -> list[str]:
        return [id for id in text.steps if self._jobs.open(id)]
