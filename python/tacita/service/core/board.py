"""What is known of running requests at the moment, and waking those who watch them. Nothing here survives a
restart, and need not.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tacita.run.progress import Progress


@dataclass
class _Place:
    """version: counts changes. woken: set, and replaced, at each."""

    progress: Progress | None = None
    version: int = 0
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Board:
    """For the event loop's thread. It holds requests that are not final, or watched."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def progress(self, id: str) -> Progress | None:
        """The last report of a request that runs."""
        place = self._places.get(id)
        return place.progress if place else None

    def told(self, id: str, progress: Progress | None) -> None:
        """A report of a request; None: it does not run."""
        place = self._places.setdefault(id, _Place())
        place.progress = progress
        self._wake(place)

    def ended(self, id: str) -> None:
        """Nothing more will be told of it."""
        if place := self._places.pop(id, None):
            self._wake(place)

    def wake_all(self) -> None:
        """All who watch look again: places in the queue moved, or the server ends."""
        for place in self._places.values():
            self._wake(place)

    def version(self, id: str) -> int:
        """To be given to `changed`."""
        return self._places.setdefault(id, _Place()).version

    async def changed(self, id: str, version: int, within: float) -> bool:
        """Waits for anything newer; False: nothing came in so many seconds."""
        place = self._places.get(id)
        if place is None or place.version != version:
            return True
        try:
            await asyncio.wait_for(place.woken.wait(), within)
        except TimeoutError:
            return False
        return True

    def _wake(self, place: _Place) -> None:
        place.version += 1
        place.woken.set()
        place.woken = asyncio.Event()
