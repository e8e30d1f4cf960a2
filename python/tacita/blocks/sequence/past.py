"""What a decoder remembers of the tokens before those that it is asked about: keys and values, by node.

    ops = FloatTensors(weights, np.ones(5), past=Past())        # a prompt of five tokens
    forward(Meaning(ops), config, hidden)
    ops = FloatTensors(weights, np.ones(6), past=ops.past)      # one more
    forward(Meaning(ops), config, one)

`forward` is the same for both: an interpreter that was given a past puts keys and values of each attention
behind those that it holds, and counts positions from there. The mask is of all tokens, those of the past
first. A past never changes, so a step that failed half-way can be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")  # a tensor of the interpreter


@dataclass(frozen=True)
class Past(Generic[T]):
    """rows: tokens that it holds. nodes: keys, turned by their positions, and values (..., key heads, rows,
    d) of each attention."""

    rows: int = 0
    nodes: Mapping[str, tuple[T, T]] = field(default_factory=dict)


class Keeper(Generic[T]):
    """What an interpreter does about its past. past: None where nothing is to be kept."""

    def __init__(self, past: Past[T] | None) -> None:
        self._past, self._next = past, dict[str, tuple[T, T]]()
        self.first = past.rows if past else 0

    def before(self, name: str) -> tuple[T, T] | None:
        """Keys and values of the node's past, if it has one."""
        return self._past.nodes.get(name) if self._past else None

    def keep(self, name: str, keys: T, values: T) -> tuple[T, T]:
        """The same two, which the next past holds."""
        if self._past is not None:
            self._next[name] = keys, values
        return keys, values

    def then(self, rows: int) -> Past[T]:
        """The past after a walk to which it holds so many tokens."""
        return Past(rows, self._next)
