"""Changes of a plan's data, for tests of what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Change = Callable[[Any], None]


def put(*path: Any, value: Any) -> Change:
    """Sets one field of the plan's data."""

    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


def drop(*path: Any) -> Change:
    """Removes one field."""

    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return change


def all_of(*changes: Change) -> Change:
    """One after the other."""

    def change(data: Any) -> None:
        for one in changes:
            one(data)

    return change


def nested(depth: int) -> Any:
    found: Any = 0
    for _ in range(depth):
        found = [found]
    return found


def copied(here: tuple[Any, ...], there: tuple[Any, ...]) -> Change:
    """Sets one field to the value of another."""

    def change(data: Any) -> None:
        value = data
        for key in here:
            value = value[key]
        put(*there, value=value)(data)

    return change
