"""Whose turn it is: properties of the rotation between clients, whatever comes, goes and is put back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita.server.jobs.queue import FairQueue

Item = tuple[str, int]  # client, number
CLIENTS = st.sampled_from("abcd")
ARRIVALS = st.lists(CLIENTS, max_size=40)
STEP = st.one_of(
    st.tuples(st.just("add"), CLIENTS),
    st.tuples(st.just("take"), st.just("")),
    st.tuples(st.just("put back"), st.just("")),
    st.tuples(st.just("remove"), CLIENTS),
)


@dataclass
class Played:
    """A fair queue, and a plain account of what should wait in it, by client."""

    queue: FairQueue[Item] = field(default_factory=FairQueue[Item])
    waiting: dict[str, list[Item]] = field(default_factory=lambda: {client: [] for client in "abcd"})
    taken: list[Item] = field(default_factory=list)
    number: int = 0

    def step(self, what: str, client: str) -> None:
        match what:
            case "add":
                self.number += 1
                self.queue.add(client, (client, self.number))
                self.waiting[client].append((client, self.number))
            case "take":
                self.take()
            case "put back" if self.taken:
                item = self.taken.pop()
                self.queue.put_back(item[0], item)
                self.waiting[item[0]].insert(0, item)
            case "remove" if self.waiting[client]:
                assert self.queue.remove(self.waiting[client].pop())

    def take(self) -> None:
        item = self.queue.take()
        assert (item is None) == (not any(self.waiting.values()))
        if item is not None:
            assert self.waiting[item[0]].pop(0) == item, "first in, first out, within a client"
            self.taken.append(item)


def played(steps: list[tuple[str, str]]) -> Played:
    found = Played()
    for what, client in steps:
        found.step(what, client)
    return found


def drained(queue: FairQueue[Item]) -> list[Item]:
    return [item for item in iter(queue.take, None) if item is not None]


def test_requests_of_three_clients_are_interleaved() -> None:
    queue = FairQueue[Item]()
    for number in range(20):  # a brings ten before the others bring theirs
        client = "a" if number < 10 else "bc"[number % 2]
        queue.add(client, (client, number))
    assert "".join(client for client, _ in drained(queue)) == "abcabcabcabcabcaaaaa"


@settings(deadline=None)
@given(st.lists(STEP, max_size=60))
def test_what_waits_is_what_came_and_was_not_taken(steps: list[tuple[str, str]]) -> None:
    found = played(steps)
    waiting = [item for items in found.waiting.values() for item in items]
    assert len(found.queue) == len(waiting)
    assert sorted(found.queue) == sorted(waiting)
    assert all(item in found.queue for item in waiting)
    while len(found.queue):
        found.take()
    assert not any(found.waiting.values())


@settings(deadline=None)
@given(st.lists(STEP, max_size=60))
def test_a_place_is_the_number_of_those_that_go_before(steps: list[tuple[str, str]]) -> None:
    queue = played(steps).queue
    foreseen = list(queue)
    places = {item: queue.place(item) for item in foreseen}
    order = drained(queue)
    assert order == foreseen
    assert places == {item: number for number, item in enumerate(order)}


@settings(deadline=None)
@given(ARRIVALS, st.lists(STEP.filter(lambda step: step[0] != "put back"), max_size=60))
def test_nobody_has_two_turns_while_another_waits_for_one(
    before: list[str], steps: list[tuple[str, str]]
) -> None:
    """From the moment that a client waits until it is served, no other is served twice."""
    found, served = Played(), {client: Counter[str]() for client in "abcd"}
    for what, client in [*(("add", client) for client in before), *steps, *[("take", "")] * 100]:
        known = len(found.taken)
        found.step(what, client)
        for who, _ in found.taken[known:]:
            served[who].clear()
            for other in set("abcd") - {who}:
                served[other][who] += 1
        for who, seen in served.items():
            if not found.waiting[who]:
                seen.clear()
            assert max(seen.values(), default=0) <= 1, who


def test_what_is_put_back_is_next_and_costs_others_no_turn() -> None:
    queue = FairQueue[Item]()
    for item in [("a", 1), ("b", 2), ("a", 3), ("b", 4)]:
        queue.add(item[0], item)
    assert queue.take() == ("a", 1)
    queue.put_back("a", ("a", 1))
    assert (queue.place(("a", 1)), queue.place(("b", 2)), queue.place(("a", 3))) == (0, 1, 2)
    assert drained(queue) == [("a", 1), ("b", 2), ("a", 3), ("b", 4)]


def test_an_item_waits_once() -> None:
    queue = FairQueue[str]()
    queue.add("a", "job")
    with pytest.raises(ValueError, match="waits already"):
        queue.add("b", "job")
    assert drained_names(queue) == ["job"]
    assert not queue.remove("job")
    assert queue.place("job") is None


def drained_names(queue: FairQueue[str]) -> list[str]:
    return [name for name in iter(queue.take, None) if name is not None]
