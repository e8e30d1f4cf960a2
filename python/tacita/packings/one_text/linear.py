"""What blocks of one text need of a layout: dense maps, and the residual that is added behind them.

`rows.linear`, `multidiagonal.linear` and `vector.linear` each make a `Linear` of a layout, and the blocks
beside this file are written on it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from tacita.packings.arrays import Array
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

    complete: what a sum lacks that is stored as it is; a norm gives it to its result by itself.
    """

    layout: L
    affine: Callable[[Array, Array, L, L], Map]
    residual: Residual[L]
    complete: Callable[[Backend, Cts, L], Cts] = _unchanged

    def centre(self, be: Backend, x: Cts, factor: float) -> Cts:
        """(x minus its mean over features) * factor. Levels: those of `residual`."""
        return self.residual(be, x, self.layout, factor, centred=True)

    def add(self, be: Backend, out: Cts, x: Cts, factor: float, *, centred: bool) -> Cts:
        """out + x * factor, where a block ends: for a norm, without the mean of x; or complete, as it is
        stored. Levels: those of `residual` below x, none below out."""
        back = self.residual(be, x, self.layout, factor, centred=centred)
        total = tuple(be.add(a, b) for a, b in zip(out, back, strict=True))
        return total if centred else self.complete(be, total, self.layout)
