"""What blocks of one text need of a layout: dense maps, and the residual that is added behind them.

`rows.linear`, `multidiagonal.linear` and `vector.linear` each make a `Linear` of a layout, and the blocks
beside this file are written on it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from tacita.packings.arrays import Array
from tacita.packings.base import Ending
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


class Layout(Protocol):
    """Where the features of a tensor are."""

    @property
    def size(self) -> int:
        """Features."""
        ...

    def inner(self, size: int) -> Self:
        """Of the inner tensor of a feed-forward block, with so many features."""
        ...

    def vectors(self, per_feature: Array) -> list[Array]:
        """One vector per ciphertext: per_feature[f] where feature f is, zero elsewhere."""
        ...

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (tokens, features)."""
        ...


L = TypeVar("L", bound=Layout)
Of = TypeVar("Of", contravariant=True)


class Map(Protocol):
    """A dense map between two layouts."""

    def apply(self, be: Backend, xs: Sequence[Ct]) -> Cts:
        """Ciphertexts of the one -> ciphertexts of the other. One level."""
        ...


class Residual(Protocol[Of]):
    """(x minus its mean over features, if centred) * factor, zero where no feature is."""

    def __call__(
        self, be: Backend, x: Sequence[Ct], layout: Of, factor: float, *, centred: bool
    ) -> tuple[Ct, ...]: ...


def _unchanged(be: Backend, cts: Cts, layout: Any) -> Cts:
    return cts


@dataclass(frozen=True, eq=False)
class Linear(Generic[L]):
    """A layout and how to compute in it. affine(weight (outputs, inputs), bias, src, dst): x W^T + b.
    stacked([(weight, bias), ...], src, dst): several maps of one input, which is turned once for all; the
    ciphertexts of the first, then those of the next.

    complete: what a sum lacks that is stored as it is; a norm gives it to its result by itself. bare: the
    layout of what a map leaves, and a function of it: outside its features there may be anything.
    """

    layout: L
    affine: Callable[[Array, Array, L, L], Map]
    stacked: Callable[[Sequence[tuple[Array, Array]], L, L], Map]
    residual: Residual[L]
    bare: L
    complete: Callable[[Backend, Cts, L], Cts] = _unchanged

    def centre(self, be: Backend, x: Cts, factor: float, *, centred: bool) -> Cts:
        """(x minus its mean over features, if centred) * factor. Levels: those of `residual`."""
        return self.residual(be, x, self.layout, factor, centred=centred)

    def add(self, be: Backend, out: Cts, x: Cts, factor: float, ending: Ending) -> Cts:
        """out + x * factor, where a block ends: for a norm, without the mean of x if it takes that off; or
        complete, as it is stored. Levels: those of `residual` below x, none below out."""
        back = self.residual(be, x, self.layout, factor, centred=ending.centred)
        total = tuple(be.add(a, b) for a, b in zip(out, back, strict=True))
        return self.complete(be, total, self.layout) if ending.complete else total
