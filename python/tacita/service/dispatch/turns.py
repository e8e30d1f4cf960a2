"""Who is next: a queue for each client, and one of each in turn. Plain data, without clock and processes.

>>> turns = Turns[str]()
>>> for client, item in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3")]:
...     turns.add(client, item)
>>> turns.place("a3")
3
>>> [turns.take() for _ in range(4)]
['a1', 'b1', 'a2', 'a3']
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from itertools import zip_longest
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
ABSENT = object()


class Turns(Generic[T]):
    """Items of clients, each item once. The first client of `_queues` is next; one that was served goes to
    the end, and so does one that comes, or comes back."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()
        self._client: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._client)

    def __contains__(self, item: T) -> bool:
        return item in self._client

    def of(self, client: str) -> int:
        """Items of this client."""
        return len(self._queues.get(client, ()))

    @property
    def clients(self) -> int:
        """Clients that have any."""
        return len(self._queues)

    def __iter__(self) -> Iterator[T]:
        """In the order in which `take` would give them. Cost: linear."""
        for row in zip_longest(*self._queues.values(), fillvalue=ABSENT):
            yield from (item for item in row if item is not ABSENT)  # type: ignore[misc]

    def add(self, client: str, item: T) -> None:
        """Behind the client's others. Raises ValueError for an item that waits already."""
        self._take_in(client, item).append(item)

    def put_back(self, client: str, item: T) -> None:
        """Before all others: the turn that it had was worth nothing. Raises ValueError as `add`."""
        self._take_in(client, item).appendleft(item)
        self._queues.move_to_end(client, last=False)

    def take(self) -> T | None:
        """The next, which waits no more; None when nobody waits."""
        if not self._queues:
            return None
        client, queue = self._queues.popitem(last=False)
        item = queue.popleft()
        del self._client[item]
        if queue:
            self._queues[client] = queue
        return item

    def remove(self, item: T) -> bool:
        """Whether it waited."""
        if (client := self._client.pop(item, None)) is None:
            return False
        self._queues[client].remove(item)
        if not self._queues[client]:
            del self._queues[client]
        return True

    def place(self, item: T) -> int | None:
        """Items before it, if nobody comes or goes; None when it does not wait. Cost: one step for each
        client, and one for each item of its own before it."""
        if (client := self._client.get(item)) is None:
            return None
        row, found, earlier = self._queues[client].index(item), 0, True
        for other, queue in self._queues.items():
            earlier = earlier and other != client
            found += row if other == client else min(len(queue), row + earlier)
        return found

    def _take_in(self, client: str, item: T) -> deque[T]:
        if item in self._client:
            raise ValueError("it waits already")
        self._client[item] = client
        return self._queues.setdefault(client, deque())
