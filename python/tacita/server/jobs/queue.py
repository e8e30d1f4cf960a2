"""Whose turn it is: `FairQueue` has one queue for each client, and takes one item of each in turn. It is
plain data, without clock and processes.

>>> queue = FairQueue[str]()
>>> for client, item in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3")]:
...     queue.add(client, item)
>>> queue.place("a3")
3
>>> [queue.take() for _ in range(4)]
['a1', 'b1', 'a2', 'a3']
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from itertools import zip_longest
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
ABSENT = object()
LEAST_SHARE = 2  # jobs that a client may have waiting, however many clients there are


class FairQueue(Generic[T]):
    """A fair queue of clients' items, each item once. The first client of `_queues` is next; one that was
    served goes to the end, and so does one that comes, or comes back."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()
        self._client: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._client)

    def of(self, client: str) -> int:
        """Returns how many items this client has."""
        return len(self._queues.get(client, ()))

    @property
    def clients(self) -> int:
        """Returns how many clients have any."""
        return len(self._queues)

    def __iter__(self) -> Iterator[T]:
        """Yields the items in the order in which `take` would give them. Cost: linear."""
        for row in zip_longest(*self._queues.values(), fillvalue=ABSENT):
            yield from (item for item in row if item is not ABSENT)  # type: ignore[misc]

    def add(self, client: str, item: T) -> None:
        """Adds an item behind the client's others. Raises ValueError for an item that waits already."""
        self._take_in(client, item).append(item)

    def put_back(self, client: str, item: T) -> None:
        """Puts an item before all others: its turn was worth nothing. Raises ValueError as `add`."""
        self._take_in(client, item).appendleft(item)
        self._queues.move_to_end(client, last=False)

    def take(self) -> T | None:
        """Removes and returns the next item; None when nobody waits."""
        if not self._queues:
            return None
        client, queue = self._queues.popitem(last=False)
        item = queue.popleft()
        del self._client[item]
        if queue:
            self._queues[client] = queue
        return item

    def remove(self, item: T) -> bool:
        """Removes an item. Returns whether it waited."""
        if (client := self._client.pop(item, None)) is None:
            return False
        self._queues[client].remove(item)
        if not self._queues[client]:
            del self._queues[client]
        return True

    def place(self, item: T) -> int | None:
        """Returns the number of items before it, if nobody comes or goes; None when it does not wait. Cost:
        one step for each client, and one for each item of its own before it."""
        if (client := self._client.get(item)) is None:
            return None
        row, count, earlier = self._queues[client].index(item), 0, True
        for other, queue in self._queues.items():
            earlier = earlier and other != client
            count += row if other == client else min(len(queue), row + earlier)
        return count

    def _take_in(self, client: str, item: T) -> deque[T]:
        if item in self._client:
            raise ValueError("it waits already")
        self._client[item] = client
        return self._queues.setdefault(client, deque())


def share(room: int, others: int) -> int:
    """Returns how many jobs one client may have waiting, of a queue for `room` beside so many other clients
    that wait: as many as would be left for one more client, were all shares equal.

    >>> [share(64, others) for others in (0, 1, 2, 100)]
    [32, 21, 16, 2]
    """
    return max(LEAST_SHARE, room // (others + 2))
