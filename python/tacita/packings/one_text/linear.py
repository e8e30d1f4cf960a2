"""Maps of one layer made side by side: most of the time goes into memory that nobody has touched yet, which
several threads do at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.packings.base import Ending
from tacita.packings.stored import Stored, apply, output_bound
from tacita.packings.weights import ForwardWeights, Gate, summed
from tacita.slots.base import Backend, Ct

T = TypeVar("T")


def together(*builds: Callable[[], T]) -> list[T]:
    """What each returns, in their order, made in a thread each. numpy's error state is the caller's; the
    first exception is raised once all have ended."""
    with ThreadPoolExecutor(len(builds)) as pool:
        waiting = [pool.submit(copy_context().run, build) for build in builds]
    return [one.result() for one in waiting]


# What blocks of one text need of a layout: dense maps, and the residual that is added behind them.
#
# `rows.linear`, `multidiagonal.linear` and `vector.linear` each make a `Linear` of a layout, and the blocks
# beside this file are written on it once.

Cts = tuple[Ct, ...]


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
        """Adds the residual, out + x * factor, where a block ends: for a norm, without the mean of x if it
        takes that off; or complete, as it is stored. Levels: those of `residual` below x, none below out."""
        back = self.residual(be, x, self.layout, factor, centred=ending.centred)
        total = tuple(be.add(a, b) for a, b in zip(out, back, strict=True))
        return self.complete(be, total, self.layout) if ending.complete else total


# Feed-forward block of one text: expand, activate, contract plus the residual. Three stages, or four with a
# gate, whose two expansions are one map of the input and whose product takes one level more.


@dataclass(frozen=True, eq=False)
class FeedForward:
    """A feed-forward block of one text, in some layout. linear: of input and residual. back: factor of the
    stored residual in the stored sum. gate: None without one."""

    linear: Linear[Any]
    activation: Spec
    back: float
    ending: Ending
    expansion: Map
    contraction: Map
    gate: Gate | None = None

    @staticmethod
    def build(
        weights: ForwardWeights,
        linear: Linear[Any],
        activation: Spec,
        entry: float,
        exit: float,
        *,
        residual: float,
        ending: Ending,
        gate: Gate | None = None,
    ) -> FeedForward:
        """Builds both maps. entry, exit: bounds of the input and of the sum, left as `ending` says. residual:
        its bound."""
        (down, down_bias), layout = weights.narrow, linear.layout
        inner, scale = layout.inner(down.shape[1]), (gate.scale if gate else output_bound(activation)) / exit

        def expand() -> Map:
            first, *others = weights.expansions(entry, Stored.input_of(activation), gate)
            if others:
                return linear.stacked([first, *others], layout, inner)
            return linear.affine(*first, layout, inner)

        def contract() -> Map:
            return linear.affine(
                *summed(down * scale, down_bias / exit, centred=ending.centred), inner, layout
            )

        expansion, contraction = together(expand, contract)
        return FeedForward(linear, activation, residual / exit, ending, expansion, contraction, gate)

    def expand(self, be: Backend, y: Cts) -> Cts:
        """Maps y / entry to the inner features stored for the activation, then with a gate its factor. One
        level."""
        return self.expansion.apply(be, y)

    def multiply(self, be: Backend, active: Cts, factor: Cts) -> Cts:
        """The gate's product. One level."""
        assert self.gate is not None
        return self.gate.multiply(be, active, factor)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """(W2 active + y) / exit, centred or not. One level below active; below y, the residual, one, or two
        where `Linear.residual` says so. active: f(inner) / its largest value, or a gate's product."""
        return self.linear.add(be, self.contraction.apply(be, active), y, self.back, self.ending)


# LayerNorm of one text: variance, then inverse square root and the affine map. A layout adds its variance.
#
# The input arrives centred (the maps before it are built so), so its variance is its mean square. Both steps
# are stages of their own: the variance is one ciphertext and may be bootstrapped in place of the (up to
# several) ciphertexts of the tensor.


@dataclass(frozen=True, eq=False)
class TextNorm(ABC, Generic[L]):
    """A norm of one text, in some layout. rsqrt: of variance + epsilon. entry, exit: bounds of the centred
    input and of the result. gamma, beta: (size,)."""

    layout: L
    rsqrt: Spec
    epsilon: float
    gamma: Array
    beta: Array
    entry: float
    exit: float

    @abstractmethod
    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt."""

    def root(self, be: Backend, variance: Ct) -> Ct:
        """Stored variance -> 1/sqrt(variance + epsilon) / its largest value. Levels: the spec's."""
        return apply(be, variance, self.rsqrt, 1.0 / output_bound(self.rsqrt))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """(x * root * gamma + beta) / exit. 2 levels below x, 1 below root."""
        parts = zip(x, *self.vectors, strict=True)
        return tuple(affine(be, ct, root, gamma, beta) for ct, gamma, beta in parts)

    @property
    def vectors(self) -> tuple[list[Array], list[Array]]:
        """gamma and beta as slot vectors, for a stored input and result."""
        gamma = self.gamma * (self.entry * output_bound(self.rsqrt) / self.exit)
        return self.layout.vectors(gamma), self.layout.vectors(self.beta / self.exit)

    @property
    def scale(self) -> float:
        """Stored variance = sum of squares of the stored input * this + offset."""
        return self.entry**2 * Stored.input_of(self.rsqrt).scale / self.layout.size

    @property
    def offset(self) -> float:
        """What is added to the sum of squares in the stored variance (see `scale`)."""
        form = Stored.input_of(self.rsqrt)
        return (self.epsilon - form.centre) * form.scale


def affine(be: Backend, x: Ct, root: Ct, gamma: Array, beta: Array) -> Ct:
    """x * gamma * root + beta."""
    return be.add_vector(be.mul(be.mul_vector(x, gamma), root), beta)
