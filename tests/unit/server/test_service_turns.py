"""Whose turn it is: properties of the rotation between clients, whatever comes, goes and is put back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacita.server.jobs.queue import Turns

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
    """Turns, and a plain account of what should wait in them, by client."""

    turns: Turns[Item] = field(default_factory=Turns[Item])
    waiting: dict[str, list[Item]] = field(default_factory=lambda: {client: [] for client in "abcd"})
    taken: list[Item] = field(default_factory=list)
    number: int = 0

    def step(self, what: str, client: str) -> None:
        match what:
            case "add":
                self.number += 1
                self.turns.add(client, (client, self.number))
                self.waiting[client].append((client, self.number))
            case "take":
                self.take()
            case "put back" if self.taken:
                item = self.taken.pop()
                self.turns.put_back(item[0], item)
                self.waiting[item[0]].insert(0, item)
            case "remove" if self.waiting[client]:
                assert self.turns.remove(self.waiting[client].pop())

    def take(self) -> None:
        item = self.turns.take()
        assert (item is None) == (not any(self.waiting.values()))
        if item is not None:
            assert self.waiting[item[0]].pop(0) == item, "first in, first out, within a client"
            self.taken.append(item)


def played(steps: list[tuple[str, str]]) -> Played:
    found = Played()
    for what, client in steps:
        found.step(what, client)
    return found


def drained(turns: Turns[Item]) -> list[Item]:
    return [item for item in iter(turns.take, None) if item is not None]


def test_requests_of_three_clients_are_interleaved() -> None:
    turns = Turns[Item]()
    for number in range(20):  # a brings ten before the others bring theirs
        client = "a" if number < 10 else "bc"[number % 2]
        turns.add(client, (client, number))
    assert "".join(client for client, _ in drained(turns)) == "abcabcabcabcabcaaaaa"


@given(st.lists(STEP, max_size=60))
def test_what_waits_is_what_came_and_was_not_taken(steps: list[tuple[str, str]]) -> None:
    found = played(steps)
    waiting = [item for items in found.waiting.values() for item in items]
    assert len(found.turns) == len(waiting)
    assert sorted(found.turns) == sorted(waiting)
    assert all(item in found.turns for item in waiting)
    while len(found.turns):
        found.take()
    assert not any(found.waiting.values())


@given(st.lists(STEP, max_size=60))
def test_a_place_is_the_number_of_those_that_go_before(steps: list[tuple[str, str]]) -> None:
    turns = played(steps).turns
    foreseen = list(turns)
    places = {item: turns.place(item) for item in foreseen}
    order = drained(turns)
    assert order == foreseen
    assert places == {item: number for number, item in enumerate(order)}


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
    turns = Turns[Item]()
    for item in [("a", 1), ("b", 2), ("a", 3), ("b", 4)]:
        turns.add(item[0], item)
    assert turns.take() == ("a", 1)
    turns.put_back("a", ("a", 1))
    assert (turns.place(("a", 1)), turns.place(("b", 2)), turns.place(("a", 3))) == (0, 1, 2)
    assert drained(turns) == [("a", 1), ("b", 2), ("a", 3), ("b", 4)]


def test_an_item_waits_once() -> None:
    turns = Turns[str]()
    turns.add("a", "job")
    with pytest.raises(ValueError, match="waits already"):
        turns.add("b", "job")
    assert drained_names(turns) == ["job"]
    assert not turns.remove("job")
    assert turns.place("job") is None


def drained_names(turns: Turns[str]) -> list[str]:
    return [name for name in iter(turns.take, None) if name is not None]
