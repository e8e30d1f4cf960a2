"""A causal text the other way round: its last token first, the others behind it, padding at the end.

Slots read an answer from the first row, and attention of one query is that of row 0. A decoder answers from
its last token, whose row depends on the length of the text, which the server must not know. So the client
lays the rows in reverse, and the model is walked through `Latest`, which says the same of reversed rows:

    a query sees itself and the tokens before it     ->  itself and the rows behind it
    rotary positions turn by t                       ->  by -t: scores know the distance alone
    the last rows                                    ->  the first ones

Rows of padding, behind the text, see nobody and are seen by nobody. Learned positions are added by the client
before it reverses the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, TypeVar

from tacita.blocks.base import BEHIND, CAUSAL, Attention, Blocks, Dense, FeedForward, Norm, Positions, T
from tacita.errors import PlanError

A = TypeVar("A")  # an interpreter's answer


class Latest(Generic[T, A]):
    """The blocks of an interpreter (see `base.Blocks`), told of a causal model whose rows are reversed.

    Raises PlanError for an attention that is not causal, or that knows distances by a table.
    """

    def __init__(self, blocks: Blocks[T, A]) -> None:
        self._blocks = blocks

    def take(self, x: T, rows: int | None) -> T:
        """See the contract: of the last rows the first."""
        return self._blocks.take(x, _reversed(rows))

    def attention(self, x: T, a: Attention, name: str, rows: int | None = None) -> T:
        """See the contract."""
        if a.reach != CAUSAL or a.relative:
            raise PlanError(f"node {name}: reversed rows", hint="only of causal attention, without a table")
        rotary = replace(a.rotary, back=True) if a.rotary else None
        return self._blocks.attention(x, replace(a, reach=BEHIND, rotary=rotary), name, _reversed(rows))

    def feed_forward(self, x: T, f: FeedForward, name: str) -> T:
        """See the contract."""
        return self._blocks.feed_forward(x, f, name)

    def norm(self, x: T, n: Norm, name: str) -> T:
        """See the contract."""
        return self._blocks.norm(x, n, name)

    def add(self, x: T, y: T, factor: float = 1.0) -> T:
        """See the contract."""
        return self._blocks.add(x, y, factor)

    def linear(self, x: T, d: Dense, name: str) -> T:
        """See the contract."""
        return self._blocks.linear(x, d, name)

    def function(self, x: T, kind: str, name: str) -> T:
        """See the contract."""
        return self._blocks.function(x, kind, name)

    def mean(self, x: T, name: str) -> T:
        """See the contract."""
        return self._blocks.mean(x, name)

    def positions(self, x: T, p: Positions, name: str) -> T:
        """Raises PlanError: the client adds positions."""
        raise PlanError(f"node {name}: positions of reversed rows", hint="the client adds them")

    def answer(self, x: T) -> A:
        """See the contract."""
        return self._blocks.answer(x)


def _reversed(rows: int | None) -> int | None:
    return rows if rows is None else -rows
