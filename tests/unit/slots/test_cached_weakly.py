"""Tables are kept with the object that they are of, and no longer."""

from __future__ import annotations

import gc
import weakref

from tacita.slots.stage import cached_weakly


class Map:
    """Something large."""


def test_an_object_is_computed_once_while_it_is_among_the_last() -> None:
    calls: list[Map] = []
    size = cached_weakly(2)(lambda of: calls.append(of) or len(calls))
    first, second, third = Map(), Map(), Map()
    assert [size(first), size(second), size(first)] == [1, 2, 1]
    assert [size(third), size(second), size(first)] == [3, 2, 4]


def test_what_nobody_else_holds_is_gone_with_its_table() -> None:
    size = cached_weakly(2)(lambda of: [0])
    one = Map()
    found = weakref.ref(one)
    size(one)
    del one
    gc.collect()
    assert found() is None
