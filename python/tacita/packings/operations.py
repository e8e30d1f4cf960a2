"""Blocks as operations, whatever layout they compute in: what every packing writes the same way."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tacita.approx.poly import ConstantSpec
from tacita.approx.softmax import Round
from tacita.approx.spec import Spec, scale_by
from tacita.layouts.arrays import Array
from tacita.layouts.runs import MASK, Response
from tacita.packings.base import Operation
from tacita.packings.encoding import Argument, apply, apply_all, output_bound, real
from tacita.packings.shared.linear import Linear, Map, Norm, together
from tacita.packings.specs import AttentionSpecs
from tacita.packings.weights import ForwardPlan
from tacita.slots.base import Backend, Ct, Cts

CHECK, ANSWER = "check", "answer"
Check = Callable[[Backend, Ct, Ct], Ct]  # of a variance and its root: see `norm_check`


@dataclass(frozen=True, eq=False)
class Answering:
    """What is made of a pooled tensor, in some layout. response: its layout. apply: (pooled, the norm check
    of `norm_check`) -> the response."""

    response: Response
    apply: Callable[[Backend, Cts, Ct], Cts]


def approximated(name: str, x: str, result: str, spec: Spec, refreshed: Spec | None = None) -> Operation:
    """Computes f(x) / its largest value, slot by slot. x is stored for the spec. Levels: the spec's.

    refreshed: another spec of f that the placement may prefer. Until it has chosen one, x is stored for the
    first: the variants differ in cost, and only the chosen one's circuit is right.
    """

    def run(be: Backend, cts: Cts) -> Cts:
        return apply_all(be, cts, spec, 1.0 / output_bound(spec))

    variants = (approximated(name, x, result, refreshed),) if refreshed else ()
    return replace(Operation.of(name, (x,), result, run), refreshes=spec.refreshes, variants=variants)


def exponentials(
    name: str, spec: Spec, visible: Sequence[Array] | None = None, lift: float = 1.0
) -> Operation:
    """`NAME.scores`, stored for exp -> `NAME.exponentials`, exp(score - shift) * lift in (0, lift]. Levels:
    the spec's, and one for a limited reach: visible is 1 and 0 in the layout of each ciphertext of scores."""

    def run(be: Backend, scores: Cts) -> Cts:
        exps = tuple(apply(be, ct, spec, lift) for ct in scores)
        if visible is None:
            return exps
        return tuple(be.mul_vector(ct, v) for ct, v in zip(exps, visible, strict=True))

    return Operation.of(f"{name}.exp", (f"{name}.scores",), f"{name}.exponentials", run)


# A softmax in rounds (`approx.softmax`): three operations for each, between exponentials and what is mixed in
# their place, squares, which are zero where the mask is.

ENCODED = 2.0**12  # of a plaintext's values at most: at a scale of 2^48 the engine's integers end at 2^13.8


def encodable(factor: float) -> tuple[float, int]:
    """Returns a factor of a plaintext and a power of two, which multiplies a ciphertext exactly and at no
    level; their product is the given one. The power is 1 up to ENCODED."""
    doublings = max(0, math.ceil(math.log2(factor / ENCODED)))
    return math.ldexp(factor, -doublings), 1 << doublings


class RowSums(ABC):
    """How exponentials are added up over the keys of a row, in some layout."""

    @abstractmethod
    def masked(self, be: Backend, exps: Cts, masks: Cts, factor: float) -> Cts:
        """Adds up exponentials times masks and a factor, in every place of a row; zero where there is no
        head. masks: the request's tensor."""

    @abstractmethod
    def plain(self, be: Backend, squares: Cts, factor: float) -> Cts:
        """Adds up squares times a factor, in the same places. One level."""

    @abstractmethod
    def masks(self, be: Backend, masks: Cts, factor: float) -> Sequence[Ct]:
        """The masks of exponentials, one for each, times a factor up to ENCODED. One level."""

    def scaled(self, be: Backend, masks: Cts, factor: float) -> Sequence[Ct]:
        """The masks of exponentials times any factor. One level."""
        encoded, power = encodable(factor)
        return [scale_by(be, mask, power) for mask in self.masks(be, masks, encoded)]

    @abstractmethod
    def centred(self, be: Backend, sums: Cts, offset: float) -> Cts:
        """Adds an offset in the places of sums."""

    def of_each(self, inverses: Cts, exps: Cts) -> Sequence[Ct]:
        """The inverse for each of the exponentials, of which there is one for all or for each."""
        return inverses * (len(exps) // len(inverses))

    def stored(self, be: Backend, exps: Cts, masks: Cts | None, spec: Spec) -> Cts:
        """Sums stored for the inverse `spec`. masks: None of squares."""
        form, masks = Argument.of(spec), masks and _beside(be, masks, exps)
        sums = self.masked(be, exps, masks, form.scale) if masks else self.plain(be, exps, form.scale)
        return self.centred(be, sums, form.offset)

    def squares(self, be: Backend, exps: Cts, inverses: Cts, masks: Cts | None, one: Round) -> Cts:
        """(exp * mask / sum / room)^2, in [0, 1]. 3 levels below exps and masks, 2 below inverses; 2 below
        squares, without masks."""
        factor, weighed = one.steepest / one.room, list(exps)
        if masks is None:
            inverses = tuple(scale_by(be, ct, factor) for ct in inverses)
        else:
            scaled = self.scaled(be, _beside(be, masks, exps), factor)
            weighed = [be.mul(e, mask) for e, mask in zip(exps, scaled, strict=True)]
        pairs = zip(weighed, self.of_each(inverses, exps), strict=True)
        return tuple(be.square(be.mul(e, inverse)) for e, inverse in pairs)


def _beside(be: Backend, masks: Cts, exps: Cts) -> Cts:
    """Masks no more than a level above exponentials."""
    return tuple(be.drop_to(m, min(be.level(m), be.level(exps[0]) + 1)) for m in masks)


def softmax_operations(
    name: str, specs: AttentionSpecs, sums: RowSums, visible: Sequence[Array] | None = None
) -> tuple[list[Operation], str]:
    """The exponentials of an attention and the rounds of its softmax, and the tensor that is mixed: the
    exponentials, or the last squares. name: of the attention. visible: as of `exponentials`."""
    operations, exps = [exponentials(name, specs.exp, visible)], f"{name}.exponentials"
    for number, one in enumerate(specs.rounds, 1):
        total, inverse, squares = (f"{name}.{part}{number}" for part in ("sums", "inverse", "squares"))
        masks = () if number > 1 else (MASK,)
        invert = partial(real, spec=one.inverse, output_scale=1.0 / one.steepest)

        def add_up(be: Backend, exps: Cts, *masks: Cts, one: Round = one) -> Cts:
            return sums.stored(be, exps, masks[0] if masks else None, one.inverse)

        def square(be: Backend, exps: Cts, inverses: Cts, *masks: Cts, one: Round = one) -> Cts:
            return sums.squares(be, exps, inverses, masks[0] if masks else None, one)

        operations += [
            Operation.of(total, (exps, *masks), total, add_up),
            Operation.of(inverse, (total,), inverse, invert),
            Operation.of(squares, (exps, inverse, *masks), squares, square),
        ]
        exps = squares
    return operations, exps


def norm_operations(
    norm: Norm, name: str, centred: str, check: Check | None = None, mask: str = ""
) -> list[Operation]:
    """The tensor `centred` -> the result. check: also give the norm check of the response. mask: the tensor
    by which the result is weighed; empty for none."""
    spread = f"{name}.variance"

    def variance(be: Backend, x: Cts) -> Cts:
        return (norm.variance(be, x),)

    def normalise(be: Backend, x: Cts, spread: Cts, *masks: Cts) -> tuple[Cts, ...]:
        root = norm.root(be, spread[0])
        result = norm.normalise(be, x, be.mul(root, masks[0][0]) if masks else root)
        return (result, (check(be, spread[0], root),)) if check else (result,)

    reads, writes = (centred, spread, mask) if mask else (centred, spread), (name, CHECK)
    return [
        Operation.of(spread, (centred,), spread, variance),
        Operation.of(name, reads, writes if check else writes[:1], normalise),
    ]


def norm_check(at: Array, rsqrt: Spec, factor: float) -> Check:
    """Half of variance * (1/sqrt(variance))^2 where `at` is 1, zero where it is 0; 1/2 inside the interval.

    The variance comes stored for rsqrt, and 1/sqrt(variance) times `factor`. Levels: two below both. A stored
    deviation is no root of the variance, so that nothing can be told by it: 1/2 always, one level below.
    """
    if isinstance(rsqrt, ConstantSpec):
        half = at * (0.5 / factor / rsqrt.value)
        return lambda be, variance, root: be.mul_vector(root, half)
    form = Argument.of(rsqrt)

    def check(be: Backend, variance: Ct, root: Ct) -> Ct:
        moved = be.add_const(variance, -form.offset) if form.offset else variance
        return be.mul(be.mul_vector(moved, at * (0.5 / factor**2 / form.scale)), be.square(root))

    return check


def forward_operations(
    plan: ForwardPlan, linear: Linear[Any], name: str, y: str, residual: str, target: str
) -> list[Operation]:
    """A feed-forward block as three stages, or as four with a gate: the inner tensor may be refreshed between
    them, and a gate's product or its factors.

        expand      y -> inner features stored for the activation, then a gate's factor     1 level
        activate    f(inner) / its largest value                                            the spec's
        multiply    a gate's product                                                        1
        contract    (W2 active + residual) / exit, centred or not                           `Linear.adder`

    linear: of input and residual. y, residual, target: live tensors; the sum goes into the target.
    """
    inner, active, factor, product = (f"{name}.{part}" for part in ("inner", "active", "factor", "product"))
    layout, between, gate, specs = linear.layout, linear.layout.inner(plan.inner), plan.gate, plan.specs

    def expansion() -> Map:
        first, *others = plan.expansions(Argument.of(specs.function))
        if others:
            assert linear.stacked is not None
            return linear.stacked([first, *others], layout, between)
        return linear.affine(*first, layout, between)

    def contraction() -> Map:
        return linear.affine(*plan.contraction, between, layout)

    (expand, narrow), add = together(expansion, contraction), linear.adder(plan.output)

    def gated(be: Backend, cts: Cts) -> tuple[Cts, Cts]:
        both = expand.apply(be, cts)
        return both[: len(both) // 2], both[len(both) // 2 :]

    def contract(be: Backend, y: Cts, active: Cts) -> Cts:
        return add(be, narrow.apply(be, active), y)

    activation = approximated(f"{name}.activate", inner, active, specs.function, specs.refreshed)
    if gate is None:
        return [
            Operation.of(f"{name}.expand", (y,), inner, expand.apply),
            activation,
            Operation.of(f"{name}.contract", (residual, active), target, contract),
        ]
    return [
        Operation.of(f"{name}.expand", (y,), (inner, factor), gated),
        activation,
        Operation.of(f"{name}.multiply", (active, factor), product, gate.multiply),
        Operation.of(f"{name}.contract", (residual, product), target, contract),
    ]


def answer_operation(answering: Answering, pooled: str) -> Operation:
    """The response of a pooled tensor."""

    def answer(be: Backend, x: Cts, check: Cts) -> Cts:
        return answering.apply(be, x, check[0])

    return Operation.of(ANSWER, (pooled, CHECK), ANSWER, answer)
