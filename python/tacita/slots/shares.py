"""`shares`: slot vectors additively shared between two parties; every product is a protocol of the two.

Each party runs the same program on a `SharesBackend` of its own. A handle is this party's share: fixed point with `FRACTION`
bits in Z_{2^RING}, real and imaginary part apart (no imaginary part where the program shows that it is zero). Sums, rotations
and products by known numbers are local up to the rescaling (a truncation); products of two handles cost ciphertexts.

Shares do not run out: levels are kept because circuits are written for them, and bootstrapping only restores the number.
Values must stay below `LIMIT` before every rescaling; the error of an operation is about 2^-FRACTION per slot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tacita.slots.base import Kind, Vector
from tacita.slots.linear import LinearPlan
from tacita.slots.matrices import check_matmul, check_products, lowest, periodic_matmul
from tacita.slots.plain import (
    apply_linear,
    check_dot,
    check_drop,
    check_int,
    check_kinds,
    check_period,
    poly_depth,
    spend,
)
from tacita.slots.sharing import (
    FRACTION,
    MASK,
    RING,
    Share,
    Words,
    decode,
    encode,
    every_second,
    known,
    parts,
    spread,
    stack,
    times_known,
    unstack,
)

SLACK = FRACTION - 2  # of products: an error below a quarter of the last place after rescaling


class Session(Protocol):
    """The part of `tacita._native.TwoParty` that is used here. Shares are uint64 arrays of any shape."""

    @property
    def is_client(self) -> bool: ...
    def send(self, data: bytes) -> None: ...
    def receive(self, count: int) -> bytes: ...
    def product(self, x: Words, y: Words, bits: int, slack: int) -> Words: ...
    def square(self, x: Words, bits: int, slack: int) -> Words: ...
    def truncate(self, x: Words, bits: int, shift: int) -> Words: ...
    def reveal(self, x: Words) -> None: ...
    def receive_revealed(self, x: Words, bits: int) -> Words: ...
    def begin(self, name: str) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True, eq=False)
class ShareCt:
    """A slot vector and its nominal level."""

    share: Share
    level: int


@dataclass(frozen=True, eq=False)
class ShareProducts:
    """Accumulators of `products`: (rows, columns, slots), not yet rescaled."""

    share: Share
    level: int


class SharesBackend:
    """See the module. Both parties call the same methods in the same order; `encrypt` and `decrypt` are the client's
    way in and out (the server passes None and gets None)."""

    def __init__(self, session: Session, slots: int, max_level: int = 13) -> None:
        self.slots = slots
        self.max_level = max_level
        self._session = session

    def encrypt(self, values: npt.ArrayLike | None, level: int | None = None, kind: Kind = "complex") -> ShareCt:
        """The client's periodic values, shared: the server's part is uniform. 8 bytes a slot and part; both name the kind."""
        check_kinds(1, [kind])
        at = self.max_level if level is None else level
        shape = (1 if kind == "real" else 2, self.slots)
        if not self._session.is_client:
            theirs = np.frombuffer(self._session.receive(8 * shape[0] * shape[1]), np.uint64).reshape(shape)
            return ShareCt(Share(*(theirs & MASK)), at)
        v = np.asarray(values)
        check_period("encrypt", v, self.slots)
        random = os.urandom(8 * shape[0] * shape[1])
        self._session.send(random)
        own = np.stack([encode(v.real), encode(v.imag)])[: shape[0]]
        own = np.tile(own, self.slots // v.size) - np.frombuffer(random, np.uint64).reshape(shape)
        return ShareCt(Share(*(own & MASK)), at)

    def decrypt(self, ct: ShareCt) -> npt.NDArray[np.complex128] | None:
        """All slots at the client, None at the server."""
        both = np.stack(parts(ct.share))
        if not self._session.is_client:
            self._session.reveal(both)
            return None
        values = decode(self._session.receive_revealed(both, RING))
        out: npt.NDArray[np.complex128] = values[0] + 1j * values[1]
        return out

    def level(self, ct: ShareCt) -> int:
        return ct.level

    def add(self, a: ShareCt, b: ShareCt) -> ShareCt:
        return ShareCt(a.share + b.share, min(a.level, b.level))

    def sub(self, a: ShareCt, b: ShareCt) -> ShareCt:
        return ShareCt(a.share - b.share, min(a.level, b.level))

    def neg(self, a: ShareCt) -> ShareCt:
        return ShareCt(-a.share, a.level)

    def add_const(self, a: ShareCt, c: complex) -> ShareCt:
        return self.add_vector(a, np.array([c]))

    def add_vector(self, a: ShareCt, v: Vector) -> ShareCt:
        check_period("add_vector", v, self.slots)
        return ShareCt(self._plus(a.share, known(np.tile(v, self.slots // v.size))), a.level)

    def mul(self, a: ShareCt, b: ShareCt) -> ShareCt:
        level = spend("mul", min(a.level, b.level))
        return ShareCt(self._rescale(self._multiply(a.share, b.share)), level)

    def square(self, a: ShareCt) -> ShareCt:
        return self.mul(a, a)  # `_product` sees that both are one

    def dot(self, xs: Sequence[ShareCt], ys: Sequence[ShareCt]) -> ShareCt:
        check_dot(len(xs), len(ys))
        level = spend("dot", min(ct.level for ct in (*xs, *ys)))
        products = self._multiply(stack([x.share for x in xs]), stack([y.share for y in ys]))
        return ShareCt(self._rescale(products.map(lambda w: w.sum(axis=0, dtype=np.uint64))), level)

    def mul_const(self, a: ShareCt, c: complex) -> ShareCt:
        level = spend("mul_const", a.level)
        return ShareCt(self._rescale(times_known(a.share, known(c))), level)

    def mul_int(self, a: ShareCt, k: int) -> ShareCt:
        check_int(k)
        return ShareCt(a.share.map(lambda w: w * np.uint64(k % (1 << 64))), a.level)

    def mul_i(self, a: ShareCt) -> ShareCt:
        return ShareCt(a.share.times_i(), a.level)

    def mul_vector(self, a: ShareCt, v: Vector) -> ShareCt:
        check_period("mul_vector", v, self.slots)
        level = spend("mul_vector", a.level)
        return ShareCt(self._rescale(times_known(a.share, known(np.tile(v, self.slots // v.size)))), level)

    def conjugate(self, a: ShareCt) -> ShareCt:
        im = a.share.im
        return ShareCt(Share(a.share.re, None if im is None else (np.uint64(0) - im) & MASK), a.level)

    def rotate(self, a: ShareCt, k: int) -> ShareCt:
        return ShareCt(a.share.map(lambda w: np.roll(w, -k)), a.level)

    def rotate_many(self, a: ShareCt, ks: Sequence[int]) -> list[ShareCt]:
        return [self.rotate(a, k) for k in ks]

    def linear(self, xs: Sequence[ShareCt], plan: LinearPlan) -> list[ShareCt]:
        plan.check_inputs(len(xs))
        check_period("linear", plan.vectors[0], self.slots)
        level = spend("linear", min(x.level for x in xs))
        plans = _encoded(plan)
        stacked = stack([x.share for x in xs])
        out = _apply(stacked, plans[0])
        if plans[1] is not None:
            out = out + _apply(stacked, plans[1]).times_i()
        return self._handles(out, level)

    def matmul(self, xs: Sequence[ShareCt], weights: Vector, bias: Vector | None = None) -> list[ShareCt]:
        check_matmul(len(xs), weights, bias)
        level = spend("matmul", min(x.level for x in xs))
        stacked = stack([x.share for x in xs])
        table = encode(weights)
        out = stacked.map(lambda w: np.stack(list(periodic_matmul(list(w), table, None))))
        outs = self._handles(out, level)
        return outs if bias is None else [self.add_vector(ct, b) for ct, b in zip(outs, bias, strict=True)]

    def products(
        self,
        left: Sequence[Sequence[ShareCt]],
        right: Sequence[Sequence[ShareCt]],
        onto: ShareProducts | None = None,
    ) -> ShareProducts:
        rows, columns = check_products(left, right, None if onto is None else onto.share.re.shape[:2])
        level = lowest(self, left, right, None if onto is None else onto.level)
        total = None if onto is None else onto.share
        shape = (rows, columns, self.slots)
        for xs, ys in zip(left, right, strict=True):
            x = stack([ct.share for ct in xs]).map(lambda w: np.broadcast_to(w[:, None, :], shape))
            y = stack([ct.share for ct in ys]).map(lambda w: np.broadcast_to(w[None, :, :], shape))
            part = self._multiply(x, y)
            total = part if total is None else total + part
        assert total is not None
        return ShareProducts(total, level)

    def relinearise(self, products: ShareProducts) -> list[list[ShareCt]]:
        level = spend("relinearise", products.level)
        share = self._rescale(products.share)
        return [[ShareCt(cell, level) for cell in unstack(row)] for row in unstack(share)]

    def poly(self, a: ShareCt, coeffs: Vector) -> ShareCt:
        level = spend("poly", a.level, poly_depth(coeffs))
        return ShareCt(self._series(a.share, coeffs), level)

    def drop_to(self, a: ShareCt, level: int) -> ShareCt:
        check_drop(a.level, level)
        return ShareCt(a.share, level)

    def bootstrap(self, cts: Sequence[ShareCt], kinds: Sequence[Kind]) -> list[ShareCt]:
        check_kinds(len(cts), kinds)
        parts = [Share(c.share.re) if kind == "real" else c.share for c, kind in zip(cts, kinds, strict=True)]
        return [ShareCt(share, self.max_level) for share in parts]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._session.begin(name)
        try:
            yield
        finally:
            self._session.end()

    def _multiply(self, x: Share, y: Share) -> Share:
        """x * y with 2 * FRACTION bits of fraction: one product of real parts, two or three with imaginary ones."""
        if x.im is None and y.im is None:
            return Share(self._product(x.re, y.re))
        if x.im is None or y.im is None:
            one, two = (y, x) if x.im is None else (x, y)  # one is complex
            both = np.stack(parts(one))
            re, im = self._product(both, np.broadcast_to(two.re, both.shape))
            return Share(re, im)
        left = np.stack([x.re, x.im, (x.re + x.im) & MASK])
        right = np.stack([y.re, y.im, (y.re + y.im) & MASK])
        a, b, c = self._product(left, right)
        return Share((a - b) & MASK, (c - a - b) & MASK)

    def _product(self, x: Words, y: Words) -> Words:
        if x is y:
            return self._session.square(x, RING, SLACK)
        return self._session.product(np.ascontiguousarray(x), np.ascontiguousarray(y), RING, SLACK)

    def _rescale(self, share: Share) -> Share:
        """Divides by 2^FRACTION."""
        if share.im is None:
            return Share(self._session.truncate(np.ascontiguousarray(share.re), RING, FRACTION))
        re, im = self._session.truncate(np.stack([share.re, share.im]), RING, FRACTION)
        return Share(re, im)

    def _plus(self, share: Share, constant: Share) -> Share:
        """share + known numbers, which one party adds."""
        return share + (constant if self._session.is_client else constant.map(np.zeros_like))

    def _handles(self, products: Share, level: int) -> list[ShareCt]:
        """A handle for every row, rescaled."""
        return [ShareCt(row, level) for row in unstack(self._rescale(products))]

    def _series(self, x: Share, coeffs: Vector) -> Share:
        """sum_k coeffs[k] T_k(x): baby steps T_1..T_m, then sums of halves p = r + q T_n (Paterson and Stockmeyer's method in
        Chebyshev's basis), every step one protocol call for all its products."""
        degree_bits = (len(coeffs) - 1).bit_length()
        m = 1 << (degree_bits + 1) // 2
        babies = self._babies(x, m)
        leaves = _halves(np.pad(np.asarray(coeffs, np.float64), (0, (1 << degree_bits) - len(coeffs))), m)
        table = encode(leaves[:, 1:])
        sums = self._rescale(stack(babies[:-1]).map(lambda w: table @ w))
        sums = self._plus(sums, known(np.repeat(leaves[:, :1], self.slots, axis=1)))
        giant = babies[-1]
        while len(sums.re) > 1:
            low, high = every_second(sums, 0), every_second(sums, 1)
            sums = low + self._rescale(self._multiply(high, spread(giant, len(high.re))))
            if len(sums.re) > 1:
                giant = self._doubled(giant, [giant])[0]
        return unstack(sums)[0]

    def _babies(self, x: Share, m: int) -> list[Share]:
        """T_1 .. T_m for a power of two m."""
        steps = [x]
        while len(steps) < m:
            steps += self._doubled(steps[-1], steps)
        return steps

    def _doubled(self, last: Share, steps: Sequence[Share]) -> list[Share]:
        """T_{n+r} = 2 T_n T_r - T_{n-r} for T_n = last and the T_r of steps, which end with T_n (T_0 = 1)."""
        products = self._multiply(spread(last, len(steps)), stack(steps))
        *others, top = unstack(self._rescale(products.map(lambda w: w << np.uint64(1))))
        inner = [new - old for new, old in zip(others, steps[-2::-1], strict=True)]
        return [*inner, self._plus(top, known(np.full(self.slots, -1.0)))]


def _halves(coeffs: npt.NDArray[np.float64], m: int) -> npt.NDArray[np.float64]:
    """Rows of m Chebyshev coefficients: p = r + q T_n with n half the length, recursively, r's rows first."""
    n = len(coeffs) // 2
    if n < m:
        return coeffs[None, :]
    q, r = 2 * coeffs[n:], coeffs[:n].copy()
    q[0] /= 2
    r[1:] -= coeffs[:n:-1]
    return np.concatenate([_halves(r, m), _halves(q, m)])


def _apply(xs: Share, plan: LinearPlan) -> Share:
    """The plan, with vectors in fixed point, on stacked handles; not rescaled."""
    return xs.map(lambda w: np.stack(apply_linear(list(w), plan)))


@lru_cache(maxsize=64)
def _encoded(plan: LinearPlan) -> tuple[LinearPlan, LinearPlan | None]:
    """The real and the imaginary part of a plan, in fixed point."""
    vectors = known(plan.vectors)
    imaginary = None if vectors.im is None else replace(plan, vectors=vectors.im)
    return replace(plan, vectors=vectors.re), imaginary
