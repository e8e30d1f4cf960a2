"""Additive shares of fixed-point numbers as numpy words: what `shares` does without the other party."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
RING = 60  # bits: with 2 * RING - slack <= 98 a product takes two plaintext primes
FRACTION = 24
LIMIT = 2.0 ** (RING - 2 - 2 * FRACTION)  # of values before a rescaling
MASK = np.uint64((1 << RING) - 1)


@dataclass(frozen=True, eq=False)
class Share:
    """One party's share of real and imaginary parts (None: zero); any shape, slots last."""

    re: Words
    im: Words | None = None

    def map(self, f: Callable[[Words], Words]) -> Share:
        """f on both parts."""
        return Share(f(self.re) & MASK, None if self.im is None else f(self.im) & MASK)

    def __add__(self, other: Share) -> Share:
        re = (self.re + other.re) & MASK
        if self.im is None or other.im is None:
            return Share(re, self.im if other.im is None else other.im)
        return Share(re, (self.im + other.im) & MASK)

    def __neg__(self) -> Share:
        return self.map(lambda x: np.uint64(0) - x)

    def __sub__(self, other: Share) -> Share:
        return self + -other

    def times_i(self) -> Share:
        """i * self."""
        im = np.zeros_like(self.re) if self.im is None else self.im
        return Share((np.uint64(0) - im) & MASK, self.re)


def encode(v: npt.ArrayLike) -> Words:
    """Real numbers in fixed point, as ring elements."""
    scaled = np.rint(np.asarray(v, dtype=np.float64) * 2.0**FRACTION)
    words: Words = scaled.astype(np.int64).view(np.uint64) & MASK
    return words


def decode(words: Words) -> npt.NDArray[np.float64]:
    """Ring elements as real numbers."""
    up = np.uint64(64 - RING)
    return ((words << up).view(np.int64) >> np.int64(64 - RING)) / 2.0**FRACTION


def known(v: npt.ArrayLike) -> Share:
    """Known numbers, to be multiplied by (not a sharing)."""
    values = np.asarray(v)
    has_imaginary = np.iscomplexobj(values) and bool(np.any(values.imag))
    return Share(encode(values.real), encode(values.imag) if has_imaginary else None)


def parts(share: Share) -> tuple[Words, Words]:
    return share.re, np.zeros_like(share.re) if share.im is None else share.im


def stack(shares: Sequence[Share]) -> Share:
    """Along a new first axis."""
    im = None if all(s.im is None for s in shares) else np.stack([parts(s)[1] for s in shares])
    return Share(np.stack([s.re for s in shares]), im)


def unstack(share: Share) -> list[Share]:
    """Along the first axis."""
    return [Share(re, None if share.im is None else share.im[i]) for i, re in enumerate(share.re)]


def spread(share: Share, count: int) -> Share:
    """`count` copies along a new first axis."""
    return share.map(lambda w: np.broadcast_to(w, (count, *w.shape)))


def every_second(share: Share, first: int) -> Share:
    return share.map(lambda w: w[first::2])


def times_known(share: Share, factor: Share) -> Share:
    """share * known numbers, not rescaled."""
    out = share.map(lambda w: w * factor.re)
    if factor.im is None:
        return out
    im = factor.im
    return out + share.map(lambda w: w * im).times_i()
