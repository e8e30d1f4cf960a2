"""Residuals that are scaled before every layer, and get the first hidden states again (nanochat).

Layer i starts from lambda_i x + mu_i x0, where x0 is what layer 0 starts from. Blocks have no product of x by
a number, and need none: what is carried is x / P_i, with P_i the product of lambda_1 to lambda_i and of
lambda_0 + mu_0, since layer 0 starts from a multiple of x0:

    x / P_i  ->  x / P_i + (mu_i / P_i) x0        and the blocks of layer i give 1 / P_i of what they gave

The norms before the blocks undo P_i, if their epsilon is divided by its square.

>>> of = Carried.of((2.0, 4.0), (1.0, 6.0), layers=2)
>>> of.divided, of.again
((3.0, 12.0), (0.0, 0.5))
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from tacita.errors import CheckpointError

LEAST, MOST = 2.0**-10, 2.0**10  # of lambda, mu / P and, squared, P


@dataclass(frozen=True)
class Carried:
    """By layer: divided, P_i; again, mu_i / P_i, which is 0 for layer 0."""

    divided: tuple[float, ...]
    again: tuple[float, ...]

    @staticmethod
    def of(lambdas: tuple[float, ...], mus: tuple[float, ...], layers: int) -> Carried:
        """One a layer; none stand for ones and zeros. Raises CheckpointError for others, and for values out
        of range."""
        scales, added = lambdas or (1.0,) * layers, mus or (0.0,) * layers
        if len(scales) != layers or len(added) != layers or not all(LEAST <= v <= MOST for v in scales):
            raise CheckpointError(
                f"lambdas {lambdas!s:.80}, mus {mus!s:.80} for {layers} layers",
                hint=f"one of each a layer, lambdas from {LEAST:g} to {MOST:g}",
            )
        divided = tuple(accumulate((scales[0] + added[0], *scales[1:]), mul))
        if not all(LEAST**2 <= p <= MOST**2 for p in divided):
            raise CheckpointError(f"lambdas and mus that multiply to {divided!s:.80}", hint="too far from 1")
        again = (0.0, *(mu / p for mu, p in zip(added[1:], divided[1:], strict=True)))
        if not all(abs(factor) <= MOST for factor in again):
            raise CheckpointError(f"mus {mus!s:.80}", hint=f"at most {MOST:g} times the lambdas before them")
        return Carried(divided, again)
