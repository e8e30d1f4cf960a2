"""Softmax of score rows: exp, row sum, 1/sum; and THOR's two-phase variant for wide score intervals.

One phase: exp(x - shift) * mask, row sums, Goldschmidt inverse. Two phases (THOR, section 5.1, algorithm
3): softmax of x / 2^rounds first, then `rounds` times y <- y^2 / sum(y^2), because softmax(2x) =
softmax(x)^2 / sum. Each round costs 2 levels and an inverse of [1/rows, 1]; it pays when exp spans more
than the precision of a bootstrap (2^-22).

The row sum is a property of the packing, so the caller passes it: row_sum(ct) -> the sum, at every slot
that needs it. Circuits that normalise after the product with V (a block's default) take `exponential` and
`inverses[0]` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacita.approx.exponentials import exp
from tacita.approx.fit import Array, FitError, Interval
from tacita.approx.inverses import inverse
from tacita.approx.spec import Spec, free_depth, from_dict

if TYPE_CHECKING:
    from tacita.slots.base import Backend, Ct

__all__ = ["SoftmaxSpec", "depth", "evaluate", "exact", "fit", "numpy", "spec_from_dict", "sum_interval"]

# guard on the sums of squares, whose exact range [1/rows, 1] the errors of a round can leave
SUM_SHARE = 0.05


@dataclass(frozen=True)
class SoftmaxSpec:
    """exponential of scores / 2^rounds (rounds = len(inverses) - 1); inverses[j] for the row sums of phase
    j.
    """

    exponential: Spec
    inverses: tuple[Spec, ...]

    @property
    def rounds(self) -> int:
        return len(self.inverses) - 1

    def to_dict(self) -> dict[str, Any]:
        return {"exponential": self.exponential.to_dict(), "inverses": [s.to_dict() for s in self.inverses]}


def spec_from_dict(data: Mapping[str, Any]) -> SoftmaxSpec:
    """Inverse of SoftmaxSpec.to_dict. Errors: FitError."""
    if set(data) != {"exponential", "inverses"}:
        raise FitError(
            f"softmax spec_from_dict: got fields {sorted(data)}", hint="needs exponential and inverses"
        )
    return SoftmaxSpec(from_dict(data["exponential"]), tuple(from_dict(d) for d in data["inverses"]))


def fit(scores: Interval, sums: Interval, error: float, *, rows: int = 128, rounds: int = 0) -> SoftmaxSpec:
    """Softmax over at most `rows` keys with scores in `scores`; `sums` bounds the row sums of
    exp(x/2^rounds - shift).

    `sums` is calibrated (see `sum_interval` for the worst case); shift is the upper end of scores /
    2^rounds. error: on each probability: half for the exponentials relative to the smallest sum, half for
    the inverses (relative). Levels: free_depth(exponential) + sum of (free_depth(inverse) + 1) + rounds.
    Errors: FitError.
    """
    interval = (scores[0] / 2**rounds, scores[1] / 2**rounds)
    share = error / (2.0 ** (rounds + 1))  # a relative error doubles with every squaring
    exponential = exp.fit(interval, share * sums[0] / max(1.0, np.sqrt(rows)))
    first = inverse.fit(sums, share)
    later = [inverse.fit(((1.0 - SUM_SHARE) / rows, 1.0 + SUM_SHARE), share) for _ in range(rounds)]
    return SoftmaxSpec(exponential, (first, *later))


def sum_interval(scores: Interval, rows: int) -> Interval:
    """Worst case of the row sum of exp(x - max): one key at the bottom .. `rows` keys at the top."""
    return float(np.exp(scores[0] - scores[1])), float(rows)


def exact(scores: Array, mask: Array) -> Array:
    """Float64 softmax over the last axis; mask 1 keeps a key, 0 excludes it."""
    kept = np.exp(scores - np.max(scores, axis=-1, keepdims=True)) * mask
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True), dtype=np.float64)


def depth(spec: SoftmaxSpec, *, masked: bool = True) -> int:
    """Levels of `evaluate` when scores are stored at the exponential's free scale."""
    inverses = sum(s.depth() + 1 for s in spec.inverses)
    return free_depth(spec.exponential) + masked + inverses + spec.rounds


def numpy(scores: Array, mask: Array, spec: SoftmaxSpec) -> Array:
    """What the approximation really gives, over the last axis."""
    y = spec.exponential.numpy(np.asarray(scores, dtype=np.float64) / 2**spec.rounds) * mask
    y = y * spec.inverses[0].numpy(y.sum(axis=-1, keepdims=True))
    for step in spec.inverses[1:]:
        y = y * y
        y = y * step.numpy(y.sum(axis=-1, keepdims=True))
    return np.asarray(y, dtype=np.float64)


def evaluate(
    be: Backend,
    ct: Ct,
    spec: SoftmaxSpec,
    *,
    row_sum: Callable[[Ct], Ct],
    mask: Ct | None = None,
    refresh: Callable[[Ct], Ct] = lambda ct: ct,
    input_scale: float = 1.0,
) -> Ct:
    """Scores * input_scale -> probabilities. mask: encrypted 0/1 by key. refresh: called before each
    phase's inverse product, for a bootstrap where levels run out. row_sum must be linear; it is applied
    once a phase.
    """
    y = spec.exponential.evaluate(be, ct, input_scale * 2**spec.rounds)
    y = y if mask is None else be.mul(y, mask)
    for phase, step in enumerate(spec.inverses):
        y = refresh(be.square(y) if phase else y)
        y = be.mul(y, step.evaluate(be, row_sum(y)))
    return y
