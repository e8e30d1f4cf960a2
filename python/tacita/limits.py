"""Limits beside the fields that they are of, for dataclasses that somebody else's bytes fill: what is
declared with a field is read by one function, for plans of both kinds and for what circuits are built from.

    @dataclass(frozen=True)
    class TensorInfo:
        count: Annotated[int, Range(1, 4096, "ciphertexts")]
        kind: Annotated[str, OneOf(("real",))]

    require(limits_of(plan), "plan.json", hint="make it again")

What one field says of another is a rule of its own: a pair of what it is about and whether it is kept.

    yield "labels of the task", labelled(model)    # a later rule may rely on an earlier one
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf
from typing import Any, TypeVar

from tacita.errors import FileError

Rules = Iterable[tuple[str, bool]]
T = TypeVar("T")
SHOWN = 40  # characters of a value that an error shows


@dataclasses.dataclass(frozen=True)
class Range:
    """A number from `least` to `most`. name: of the field in errors, where its own does not do."""

    least: float
    most: float = inf
    name: str = ""

    def admits(self, value: Any) -> bool:
        """Tells whether the value is within."""
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        return f"from {self.least:g}" + (f" to {self.most:g}" if self.most < inf else " on")


@dataclasses.dataclass(frozen=True)
class Above(Range):
    """A number above `least`, up to `most`."""

    def admits(self, value: Any) -> bool:
        return bool(self.least < value <= self.most)

    def __str__(self) -> str:
        return f"above {self.least:g}, up to {self.most:g}"


@dataclasses.dataclass(frozen=True)
class Span(Above):
    """An interval of two ends in order, above `least` and up to `most`."""

    def admits(self, value: Any) -> bool:
        return bool(self.least < value[0] < value[1] <= self.most)


@dataclasses.dataclass(frozen=True)
class OneOf:
    """One of some names."""

    names: Collection[str]
    name: str = ""

    def admits(self, value: Any) -> bool:
        return value in self.names

    def __str__(self) -> str:
        return f"one of {', '.join(sorted(self.names))}"


@dataclasses.dataclass(frozen=True)
class Matches:
    """A text of this form, all of it."""

    pattern: str
    name: str = ""

    def admits(self, value: Any) -> bool:
        return re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return f"of the form {self.pattern}"


@dataclasses.dataclass(frozen=True)
class Size:
    """A text, list or mapping of at most so many entries."""

    most: int
    name: str = ""

    def admits(self, value: Any) -> bool:
        return len(value) <= self.most

    def __str__(self) -> str:
        return f"at most {self.most} entries"


@dataclasses.dataclass(frozen=True)
class Each:
    """A list or a mapping each of whose entries is within a limit."""

    limit: Limit

    @property
    def name(self) -> str:
        return self.limit.name

    def admits(self, value: Any) -> bool:
        return all(map(self.limit.admits, _entries(value)))

    def __str__(self) -> str:
        return f"each {self.limit}"


Limit = Range | OneOf | Matches | Size | Each


def limits_of(value: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Yields each field outside its limit, with its value and the limit, of a dataclass and of those in its
    fields. None is within any limit. path: that stands before the name of a field."""
    kind: Any = type(value)
    for name, limits in _limits(kind).items():
        own = getattr(value, name)
        for limit in limits if own is not None else ():
            if not limit.admits(own):
                yield f"{path}{limit.name or name} {_short(own)} ({limit})", False
        if dataclasses.is_dataclass(own):
            yield from limits_of(own, path or f"{name}: ")
        elif isinstance(own, Mapping):
            for key, entry in own.items():
                yield from limits_of(entry, f"{path}{key}: ")
        elif isinstance(own, tuple) and own and dataclasses.is_dataclass(own[0]):
            for entry in own:
                yield from limits_of(entry, f"{name} {getattr(entry, 'name', '')}: ")


@lru_cache
def _limits(kind: Any) -> Mapping[str, tuple[Limit, ...]]:
    """The limits of each field of a dataclass; none of another type."""
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {f.name: getattr(hints[f.name], "__metadata__", ()) for f in dataclasses.fields(kind)}


def _entries(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value


def _short(value: Any) -> str:
    """Returns a number or a text; for a list or mapping its number of entries."""
    return f"{len(value)} entries" if isinstance(value, list | tuple | dict) else repr(value)[:SHOWN]


def require(rules: Rules, where: str, *, hint: str, broken: str = "out of range") -> None:
    """Raises FileError naming the first rule that is not kept; later ones are not looked at. broken: what is
    said of it."""
    for what, good in rules:
        if not good:
            raise FileError(f"{where}: {what} {broken}", hint=hint)


def try_make(make: Callable[[], T], *refusals: type[Exception]) -> T | None:
    """Returns the result of `make`; None where it raises one of these errors."""
    try:
        return make()
    except refusals:
        return None
