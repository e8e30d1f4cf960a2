"""What blocks need of a layout: dense maps, the residual that is added behind them, and norms.

`rows.linear`, `multidiagonal.linear`, `columns.linear` and `shared.vector` each make a `Linear` of a layout,
and the blocks here are written on it once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from math import ceil
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.encoding import Argument, OutputSpec, WeightBias, apply, output_bound
from tacita.slots.base import Backend, Ct, Cts

Apply = Callable[[Backend, Cts], Cts]
T = TypeVar("T")


def together(*builds: Callable[[], T]) -> list[T]:
    """What each returns, in their order, made in a thread each: most of the time of maps goes into memory
    that nobody has touched yet. numpy's error state is the caller's; the first exception is raised once all
    have ended."""
    with ThreadPoolExecutor(len(builds)) as pool:
        waiting = [pool.submit(copy_context().run, build) for build in builds]
    return [one.result() for one in waiting]


class Layout(Protocol):
    """Where the features of a tensor are."""

    @property
    def size(self) -> int:
        """Features."""
        ...

    def inner(self, size: int) -> Self:
        """The layout of the inner tensor of a feed-forward block, with so many features."""
        ...

    def vectors(self, per_feature: Array) -> list[Array]:
        """One vector per ciphertext: per_feature[f] where feature f is, zero elsewhere."""
        ...

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (tokens, features)."""
        ...


L = TypeVar("L", bound=Layout)


class Map(Protocol):
    """A dense map between two layouts."""

    def apply(self, be: Backend, xs: Sequence[Ct], /) -> Cts:
        """Ciphertexts of the one -> ciphertexts of the other. One level."""
        ...


def _unchanged(be: Backend, cts: Cts, layout: Any) -> Cts:
    return cts


@dataclass(frozen=True, eq=False)
class Linear(Generic[L]):
    """A layout and how to compute in it. affine(weight (outputs, inputs), bias, src, dst): x W^T + b.
    stacked([(weight, bias), ...], src, dst): several maps of one input, which is turned once for all; the
    ciphertexts of the first, then those of the next. None where feed-forward blocks are the layout's own.

    residual(be, x, layout, factor, centred=): (x minus its mean over features, if centred) * factor, zero
    where no feature is. norm: the class of the layout's norms; None without any.

    complete: what a sum lacks that is stored as it is; a norm gives it to its result by itself. bare: the
    layout of what a map leaves, and a function of it. padded: whether a function leaves anything where no
    feature is. mapped: whether a residual goes through a map, by which its encoding may be any, in place of
    `residual`, which takes an even one. exact: whether a norm scales its variance by an integer
    (`exact_bound`)."""

    layout: L
    affine: Callable[[Array, Array, L, L], Map]
    stacked: Callable[[Sequence[WeightBias], L, L], Map] | None
    residual: Callable[..., Cts]
    norm: Any
    bare: L
    complete: Callable[[Backend, Cts, L], Cts] = _unchanged
    padded: bool = True
    mapped: bool = False
    exact: bool = False

    def centre(self, output: OutputSpec, *, bare: bool) -> Apply:
        """A tensor that is there -> the sum that it is alone. One level, or that of `residual`. bare: whether
        x is of a function, which leaves anything where no feature is, so that it goes through a map."""
        if self.mapped or bare:
            layout, size = self.bare if bare else self.layout, self.layout.size
            matrix, nothing = output.fold_residual(size), np.zeros(size)
            return self.affine(matrix, output.fold(np.zeros((size, 1)), nothing)[1], layout, layout).apply
        return lambda be, x: self.residual(be, x, self.layout, output.back, centred=output.centres_residual)

    def adder(self, output: OutputSpec) -> Callable[[Backend, Cts, Cts], Cts]:
        """Plans how a block ends: (what it leaves, the residual) -> their sum.

        Levels: one, or those of `residual`, below the residual, none below the other, which has the offset of
        the residual's encoding (`OutputSpec.fold`).
        """
        size = self.layout.size
        if self.mapped:
            back = self.affine(output.fold_residual(size), np.zeros(size), self.layout, self.layout)

        def add(be: Backend, out: Cts, x: Cts) -> Cts:
            if self.mapped:
                low = min(be.level(ct) for ct in out) + 1
                parts = back.apply(be, [be.drop_to(ct, min(be.level(ct), low)) for ct in x])
            else:
                parts = self.residual(be, x, self.layout, output.back, centred=output.centres_residual)
            total = tuple(be.add(a, b) for a, b in zip(out, parts, strict=True))
            return self.complete(be, total, self.layout) if output.complete else total

        return add


# LayerNorm: variance, then inverse square root and the affine map. A layout adds its variance.
#
# The input arrives centred (the maps before it are built so), so its variance is its mean square. Both steps
# are stages of their own: the variance is one ciphertext and may be bootstrapped in place of the (up to
# several) ciphertexts of the tensor.


@dataclass(frozen=True, eq=False)
class Norm(ABC):
    """A norm in some layout. rsqrt: of variance + epsilon. size: features. entry: bound of the centred input,
    which is stored divided by it."""

    rsqrt: Spec
    epsilon: float
    size: int
    entry: float

    @abstractmethod
    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt."""

    @abstractmethod
    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """x / entry, and what `root` gives -> the stored result. Levels: 2 below x and 1 below root at
        most."""

    @property
    def root_scale(self) -> float:
        """Factor of 1/sqrt(variance + epsilon) as `root` leaves it: 1 / its largest value."""
        return 1.0 / output_bound(self.rsqrt)

    def root(self, be: Backend, variance: Ct) -> Ct:
        """Stored variance -> 1/sqrt(variance + epsilon) * root_scale. Levels: the spec's."""
        return apply(be, variance, self.rsqrt, self.root_scale)

    @property
    def scale(self) -> float:
        """Stored variance = sum of squares of the stored input * this + offset."""
        return self.entry**2 * Argument.of(self.rsqrt).scale / self.size

    @property
    def offset(self) -> float:
        """What is added to the sum of squares in the stored variance (see `scale`)."""
        form = Argument.of(self.rsqrt)
        return (self.epsilon - form.centre) * form.scale


@dataclass(frozen=True, eq=False)
class TextNorm(Norm, Generic[L]):
    """A norm of one text, whose result is stored as value / exit. gamma, beta: (size,)."""

    layout: L
    gamma: Array
    beta: Array
    exit: float

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """(x * root * gamma + beta) / exit. 2 levels below x, 1 below root."""
        parts = zip(x, *self.vectors, strict=True)
        return tuple(affine(be, ct, root, gamma, beta) for ct, gamma, beta in parts)

    @property
    def vectors(self) -> tuple[list[Array], list[Array]]:
        """gamma and beta as slot vectors, for a stored input and result."""
        gamma = self.gamma * (self.entry / self.root_scale / self.exit)
        return self.layout.vectors(gamma), self.layout.vectors(self.beta / self.exit)


LIFT = 32  # times a norm's input before it is squared and summed


def lifted_squares(be: Backend, x: Cts) -> Ct:
    """The sum of (LIFT x)^2 over ciphertexts. A token whose variance is a thousandth of the largest has
    squares hardly above the noise of a product, which hundreds of slots then add up. By LIFT its squares are
    1,024 times as large, and the modulus has room for them. One level."""
    large = [be.mul_int(ct, LIFT) for ct in x]
    return be.dot(large, large) if len(large) > 1 else be.square(large[0])


def affine(be: Backend, x: Ct, root: Ct, gamma: Array, beta: Array) -> Ct:
    """x * gamma * root + beta."""
    return be.add_vector(be.mul(be.mul_vector(x, gamma), root), beta)


def exact_bound(bound: float, rsqrt: Spec, size: int) -> float:
    """The least bound >= `bound` for which the variance of a tensor stored by it takes no level to scale: the
    sum of its squares times an integer is then the variance in the stored form of rsqrt."""
    scale = Argument.of(rsqrt).scale / size
    return float(np.sqrt(ceil(bound**2 * scale) / scale))


# One token's features in all slots: what is left of a model once only its first token is read.


def vector_linear(layout: VectorLayout) -> Linear[VectorLayout]:
    """How blocks compute on vectors."""
    padded = layout.period > layout.size
    maps = _vector_map, _vector_maps, _vector_residual
    return Linear(layout, *maps, VectorNorm, layout, padded=padded, exact=True)


def _vector_map(weight: Array, bias: Array, src: VectorLayout, dst: VectorLayout) -> CyclicMap:
    return CyclicMap.build(weight, bias, [src.index], [dst.index])


def _vector_maps(parts: Sequence[WeightBias], src: VectorLayout, dst: VectorLayout) -> CyclicMap:
    weight, bias = (np.concatenate(side) for side in zip(*parts, strict=True))
    places = [np.where(dst.index >= 0, dst.index + n * dst.size, -1) for n in range(len(parts))]
    return CyclicMap.build(weight, bias, [src.index], places)


def _vector_residual(
    be: Backend, x: Sequence[Ct], layout: VectorLayout, factor: float, *, centred: bool
) -> Cts:
    """(x minus its mean over features, if centred) * factor, zero in the padding. One level; log2(period)
    rotations if centred."""
    ones = layout.vector(np.full(layout.size, factor))
    if not centred:
        return (be.mul_vector(x[0], ones),)
    total = rotate_sum(be, x[0], layout.period)
    return (be.sub(be.mul_vector(x[0], ones), be.mul_vector(total, ones / layout.size)),)


@dataclass(frozen=True, eq=False)
class VectorNorm(TextNorm[VectorLayout]):
    """LayerNorm in vector packing. entry: from `exact_bound`; one level less than other norms."""

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. One level."""
        total = rotate_sum(be, be.square(x[0]), self.layout.period)
        return be.add_const(be.mul_int(total, round(self.scale)), self.offset)
