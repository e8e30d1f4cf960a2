"""What the server removes by itself: answers that nobody fetched, texts that are silent, keys that nobody
uses, all that is left of clients that are gone, and the keys that were used longest ago where new ones need
their room.

Files go first and rows after them, so that a full disk can be emptied; a row whose files are gone goes, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tacita.errors import ResourceError
from tacita.plans.files import Workdir
from tacita.server.core.jobs import Jobs
from tacita.server.core.settings import DAY, HOUR, Settings
from tacita.server.core.texts import Texts
from tacita.server.store import keys, requests, tokens
from tacita.server.store import ledger as reserve
from tacita.server.store.bodies import Layout
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import KeyRow

STALLED = DAY  # seconds after which an upload that stands still goes
VISITING = HOUR  # seconds without use after which a visitor's keys go
REST = 600.0  # seconds since their last use in which keys do not make room for others


@dataclass(frozen=True)
class Sweep:
    """Removes what is not needed any more. uploads: (client, id) of keys that a call writes now."""

    ledger: Ledger
    layout: Layout
    jobs: Jobs
    texts: Texts
    settings: Settings
    uploads: set[tuple[str, str]]

    async def run(self) -> None:
        """Removes what is over. Raises ResourceError when the disk is full, and so full that nothing can be
        written down."""
        old = requests.old(self.ledger, self.ledger.clock() - self.settings.kept)
        answers = {id: Workdir(self.layout.request(id)).response for id in requests.answered(self.ledger)}
        lost = [id for id, response in answers.items() if not response.exists()]
        for id in {*old, *lost}:
            await self.jobs.remove(id)
        gone = set(self.ledger.all(tokens.gone(self.ledger)))
        for request in requests.of_clients(self.ledger, tokens.gone(self.ledger)):
            await self.jobs.cancel(request)
        for text in self.texts.all:  # each is looked at right before: one may be asked while others end
            if text.client in gone or self.texts.silent(text, self.settings.silent):
                await self.texts.end(text)
        visitors = keys.addresses(self.ledger)
        for row in keys.every(self.ledger):
            over = row.client in gone or self._over(row, visitor=row.client in visitors)
            if over and self._removable([row]):  # now: one may be asked by while others go
                await keys.remove(row, self.ledger, self.layout)
        tokens.drop_visitors(self.ledger)
        if self.layout.has_room(reserve.BYTES):
            reserve.hold(self.layout.root)

    async def make_room(self, new: KeyRow, *, visitor: bool) -> None:
        """Removes keys until these fit: visitors' first, those of the address with the most, then those that
        were used longest ago; for a visitor's no others than visitors'. Raises ResourceError when there is no
        room all the same."""
        for row in self._in_order(visitors_only=visitor):
            if self._fits(new):
                return
            if self._removable([row]):
                await keys.remove(row, self.ledger, self.layout)
        if not self._fits(new):
            raise ResourceError(f"the server has no room for keys of {new.bytes} bytes", hint="try later")

    def _fits(self, new: KeyRow) -> bool:
        rows, most = keys.every(self.ledger), self.settings.most_keys
        others = sum(row.bytes for row in rows if (row.client, row.id) != (new.client, new.id))
        return self.layout.has_room(new.bytes) and (most is None or others + new.bytes <= most)

    def _in_order(self, *, visitors_only: bool) -> list[KeyRow]:
        """Returns keys at rest, first those that make room first."""
        rows, addresses = keys.every(self.ledger), keys.addresses(self.ledger)
        crowd = Counter[str]()
        for row in rows:
            crowd[addresses.get(row.client, "")] += row.bytes
        before = self.ledger.clock() - REST
        resting = [row for row in self._removable(rows) if row.used < before]
        visitors = [row for row in resting if row.client in addresses]
        visitors.sort(key=lambda row: -crowd[addresses[row.client]])  # stable: else by their last use
        return visitors + [row for row in resting if row.client not in addresses and not visitors_only]

    def _removable(self, rows: Iterable[KeyRow]) -> list[KeyRow]:
        """Returns the keys that no request, no text and no upload needs."""
        needed = self.uploads | {(text.client, text.key) for text in self.texts.all}
        free = (row for row in rows if (row.client, row.id) not in needed)
        return [row for row in free if not requests.open_of(self.ledger, row.client, row.id)]

    def _over(self, row: KeyRow, *, visitor: bool) -> bool:
        idle = self.ledger.clock() - row.used
        most = VISITING if visitor else self.settings.keep_keys if row.complete else STALLED
        return idle > most or (row.received > 0 and not keys.there(row, self.layout))
