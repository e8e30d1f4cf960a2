"""Two real ciphertexts as the parts of one complex one: what is linear over the reals then costs half."""

from __future__ import annotations

from collections.abc import Sequence

from tacita.slots.base import Backend, Ct


def joined(be: Backend, columns: Sequence[Ct], sign: int = 1) -> list[Ct]:
    """a + sign * i * b for columns two by two; an odd last one stays real. No level, no key switch."""
    op = be.add if sign > 0 else be.sub
    pairs = zip(columns[0::2], columns[1::2], strict=False)
    return [op(a, be.mul_i(b)) for a, b in pairs] + list(columns[len(columns) - len(columns) % 2 :])


def doubled_real(be: Backend, z: Ct) -> Ct:
    """Twice the real part. No level, one conjugation."""
    return be.add(z, be.conjugate(z))


def doubled_parts(be: Backend, z: Ct) -> tuple[Ct, Ct]:
    """Twice the real and twice the imaginary part. No level, one conjugation."""
    mirrored = be.conjugate(z)
    return be.add(z, mirrored), be.mul_i(be.sub(mirrored, z))
