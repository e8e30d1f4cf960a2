"""How softmax on rows is divided by its row sums: sums of several windows gathered for one bootstrap, or the
first iterations of the division before it; and where exponentials are computed for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tacita.approx.exp import PowerSpec
from tacita.approx.inverse import GoldschmidtSpec
from tacita.approx.spec import Spec, free_depth
from tacita.layouts.arrays import Array, Diagonal, ceil_power
from tacita.layouts.windows import HeadWindow
from tacita.packings.base import Operation
from tacita.packings.encoding import apply_unit, divide
from tacita.packings.operations import RowSums, exponentials, softmax_operations
from tacita.packings.specs import AttentionSpecs
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.linear import LinearPlan
from tacita.slots.stage import Live

# Row sums of several windows in one ciphertext, so that one bootstrap refreshes them all.
#
# A window's sums are one number for each token and head, in every position of the head. With three windows of
# four heads of 64 positions, window i keeps its sums in positions [16 i, 16 i + 16) of each head only; the
# three then add up to one ciphertext, and a linear map brings each back to all 64 positions where it is
# needed.

KEPT = 8  # plans: the same in all layers


@dataclass(frozen=True)
class Gathered:
    """Windows whose row sums share a ciphertext. windows: in order, each with sums of its own."""

    windows: tuple[HeadWindow, ...]

    @staticmethod
    def of(windows: Sequence[HeadWindow]) -> Gathered | None:
        """None where there are no two windows, or more of them than a head has positions."""
        few = len(windows) < 2 or ceil_power(len(windows)) > windows[0].width
        return None if few else Gathered(tuple(windows))

    @property
    def part(self) -> int:
        """Positions of a head that one window's sums have; at most half of the head."""
        return self.windows[0].width // ceil_power(len(self.windows))

    def places(self, number: int) -> Array:
        """bool [window]: where the sums of the window of this number are."""
        window = self.windows[number]
        p = np.arange(window.shape.window)
        mine: Array = (p % window.width // self.part == number) & (p < window.width * len(window.heads))
        return mine

    @property
    def filled(self) -> Array:
        """bool [window]: where any sums are."""
        filled: Array = np.any([self.places(number) for number in range(len(self.windows))], axis=0)
        return filled

    def divide(self, be: Backend, numerators: Sequence[Ct], sums: Ct, spec: Spec) -> list[Ct]:
        """Divides each window's numerator by its row sums, as `encoding.divide` does. One level more below
        the sums.

        A polynomial is evaluated once, before its values are spread; an iteration needs each numerator.
        """
        if isinstance(spec, GoldschmidtSpec):
            each = be.linear([sums], self.spread)
            return [divide(be, numerator, s, spec) for numerator, s in zip(numerators, each, strict=True)]
        each = be.linear([apply_unit(be, sums, spec)], self.spread)
        return [be.mul(numerator, s) for numerator, s in zip(numerators, each, strict=True)]

    @property
    def spread(self) -> LinearPlan:
        """Sums of all windows -> one ciphertext a window, each sum at all positions of its head, zero
        elsewhere. One level; fewer than two rotations for each part of a head."""
        return _spread(self)


@lru_cache(maxsize=KEPT)
def _spread(gathered: Gathered) -> LinearPlan:
    windows, part = gathered.windows, gathered.part
    diagonals: Diagonal = {}
    for number, window in enumerate(windows):
        p = np.arange(window.shape.window)
        for block in range(window.width // part):
            at = (p % window.width // part == block) & (p < window.width * len(window.heads))
            diagonals[number, 0, (number - block) * part] = np.where(at, 1.0, 0.0)
    return LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=len(windows))


# A division whose first iterations run before the row sums are bootstrapped.
#
# Row means may span fourteen nats. A bootstrap adds 2^-22 of the largest to each, and that is a quarter of
# the smallest. The first iterations of Goldschmidt's 1/x lift what is small: each multiplies a small x by
# four and leaves a large one where it is. After three of them the same noise is 0.6 % of the smallest. They
# take levels that exponentials and mixing leave, and the division after the bootstrap takes as many fewer.
#
# An example: x in [6e-7, 1], three iterations, a in [4e-5, 1]. What is stored is context * a / x and a,
# beside each other in one ciphertext or each in its own; their quotient is context / x as before.
#
# Exponentials of such rows are as small as their means, so that nobody may bootstrap them either: they are
# computed in the stage that mixes. Where that leaves too few levels for the iterations, their roots are
# computed in a stage before it. The fourth root of 8e-9 is 0.0095, to which a bootstrap's noise is nothing,
# and the two squarings that are left take two levels.
#
# Every product of ciphertexts leaves 2^-30 in every slot, a tenth of such a mean. So the exponentials are
# lifted by what brings the largest mean to about 1: nobody bootstraps them, so that they may exceed 1.

REFRESHED = 2.0**-22  # standard deviation that a bootstrap adds (`slots.noise`), rounded up
NOISY = 0.002  # of the smallest row mean: noise that asks for no iterations before the bootstrap
QUIET = 0.0002  # that they are to leave, where there are levels
BETWEEN = 13  # levels for the exponentials and the division, of the 16 that a bootstrap leaves


@dataclass(frozen=True)
class Early:
    """The first `steps` iterations of the division `whole`, done where exponentials are mixed. squarings: of
    the exponentials, after the bootstrap of their roots; 0 where the exponentials have no stage of their
    own."""

    steps: int
    whole: GoldschmidtSpec
    squarings: int

    @staticmethod
    def of(specs: AttentionSpecs, mixing: int, *, limited: bool = False) -> Early | None:
        """Chooses as many early iterations as it takes, or as fit between two bootstraps; None for none.
        mixing: levels from exponentials to sums. limited: whether the exponentials take one more, for a
        limited reach."""
        spec = specs.inverse
        if specs.rounds or not isinstance(spec, GoldschmidtSpec):
            return None
        needed, wanted = (_iterations(spec, share) for share in (NOISY, QUIET))
        room, squarings = BETWEEN - mixing - free_depth(specs.exp) - limited, 0
        if needed > room and (later := _squarings(specs.exp, spec)):
            room, squarings = BETWEEN - mixing - later, later
        steps = min(wanted, room) if needed else 0
        return Early(steps, spec, squarings) if steps > 0 else None

    def specs(self, specs: AttentionSpecs) -> AttentionSpecs:
        """The attention's specs after these iterations: the divisor is a, the context is that times a / x."""
        return replace(specs, inverse=self.whole.after(self.steps), context=specs.attended)

    def root(self, exp: Spec) -> Spec:
        """What is computed before the squarings that are left to `squared`."""
        return replace(exp, squarings=0) if self.squarings and isinstance(exp, PowerSpec) else exp

    def squared(self, be: Backend, roots: Cts) -> Cts:
        """Lifted exponentials of their roots; those as they are without a squaring. A level each."""
        lifted = tuple(be.mul_int(ct, self._root_lift) for ct in roots) if self._root_lift > 1 else roots
        for _ in range(self.squarings):
            lifted = tuple(be.square(ct) for ct in lifted)
        return lifted

    @property
    def lift(self) -> float:
        """Factor of the exponentials that are mixed."""
        return float(self._root_lift**2**self.squarings) if self.squarings else 1.0 / self.whole.domain[1]

    @property
    def _root_lift(self) -> int:
        """The factor of the roots before they are squared: an integer, which is free."""
        return max(1, int(self.whole.domain[1] ** -(0.5**self.squarings))) if self.squarings else 1

    @property
    def sums(self) -> float:
        """Factor of the lifted row means before `begin`, to be a after it."""
        return self.context * self._scale * self.whole.domain[1]

    @property
    def context(self) -> float:
        """Factor of the lifted context before `begin`, to be context * a / x after it."""
        return self.whole.begin_factor(self.steps, self._scale) / self.whole.domain[1] / self.lift

    @property
    def scale(self) -> float:
        """Factor of the lifted row means that `begin` multiplies by."""
        return self._scale / self.lift

    @property
    def _scale(self) -> float:
        """The factor of the row means that `begin` multiplies by, were they not lifted."""
        return self.whole.free_scale()

    def begin(self, be: Backend, numerators: list[Ct], means: Ct) -> list[Ct]:
        """Context and row means, in one ciphertext or two, and the means at the places of both -> the first
        after the iterations. A level each."""
        return self.whole.begin(be, numerators, means, self.steps, self._scale)


def _iterations(spec: GoldschmidtSpec, share: float) -> int:
    """The number of iterations after which a bootstrap's noise is at most this share of the smallest mean;
    all but one, if none."""
    most = len(spec.relaxation) - 1
    return next((n for n in range(most) if spec.after(n).domain[0] * share >= REFRESHED), most)


def _squarings(exp: Spec, inverse: GoldschmidtSpec) -> int:
    """How often the exponential is squared, if a bootstrap leaves its smallest roots right; else 0."""
    if not isinstance(exp, PowerSpec) or not exp.squarings:
        return 0
    power = 2.0**exp.squarings
    smallest = inverse.domain[0] ** (1.0 / power)
    return exp.squarings if power * REFRESHED <= NOISY * smallest else 0


def mixed_exponentials(
    name: str, specs: AttentionSpecs, early: Early | None, visible: Sequence[Array] | None, sums: RowSums
) -> tuple[list[Operation], str, Callable[[Backend, Live], Cts]]:
    """How an attention's exponentials are computed: (stages of their own, the tensor that the stage that
    mixes reads, live tensors -> exponentials as they are mixed). name: of the attention. visible: as of
    `operations.exponentials`. sums: of the rounds of its softmax."""
    if early is None:
        stages, mixed = softmax_operations(name, specs, sums, visible)
        return stages, mixed, lambda be, live: live[mixed]
    lift = 1.0 if early.squarings else early.lift
    operation, result = exponentials(name, early.root(specs.exp), visible, lift), f"{name}.exponentials"
    if early.squarings:
        return [operation], result, lambda be, live: early.squared(be, live[result])
    return [], f"{name}.scores", lambda be, live: early.squared(be, operation.run(be, live)[result])
