"""Primes, streams and transforms as docs/files.md describes them, in Python's integers: slow and plain.

Nothing here comes from Tacita. Residues are integers in arrays of objects.
"""

from __future__ import annotations

from typing import Any

import blake3
import numpy as np

Residues = Any  # (n,) array of Python integers
BIGGEST_PRIME = 1 << 50


def is_prime(n: int) -> bool:
    """Miller and Rabin's test with witnesses that decide every n below 2^64."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1

    def is_witness(a: int) -> bool:
        powers = [pow(a, odd << k, n) for k in range(twos)]
        return powers[0] != 1 and n - 1 not in powers

    return n % 2 == 1 and not any(is_witness(a) for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))


def nearest_prime(bits: float, step: int, used: list[int]) -> int:
    """Returns the prime = 1 modulo `step`, below 2^50 and not in `used`, that is nearest to 2^bits."""
    centre = 2.0**bits
    first = int(centre) // step - len(used) - 200
    candidates = [step * k + 1 for k in range(first, first + 2 * (len(used) + 200))]
    for p in sorted(candidates, key=lambda p: (abs(p - centre), -p)):
        if p < BIGGEST_PRIME and p not in used and is_prime(p):
            return p
    raise ValueError(f"no prime = 1 modulo {step} near 2^{bits}")


def chacha20(key: bytes, blocks: int) -> bytes:
    """Returns so many blocks of the ChaCha20 key stream with a 64-bit counter and a nonce of zeros."""
    start = np.zeros((16, blocks), np.uint32)
    start[:4] = np.frombuffer(b"expand 32-byte k", "<u4")[:, None]
    start[4:12] = np.frombuffer(key, "<u4")[:, None]
    start[12] = np.arange(blocks)
    x = start.copy()

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for left, right, target, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[left] += x[right]
            mixed = x[target] ^ x[left]
            x[target] = (mixed << np.uint32(turn)) | (mixed >> np.uint32(32 - turn))

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return (x + start).T.astype("<u4").tobytes()


def uniform(seed: bytes, indices: tuple[int, ...], p: int, n: int) -> Residues:
    """Returns n uniform residues of p from the stream whose key is BLAKE3, keyed by `seed`, of the indices
    as 64-bit integers."""
    key = blake3.blake3(b"".join(i.to_bytes(8, "little") for i in indices), key=seed).digest()
    words = np.frombuffer(chacha20(key, n // 2), "<u8") & np.uint64((1 << p.bit_length()) - 1)
    return words[words < p][:n].astype(object)


def root(p: int, n: int) -> int:
    """Returns psi = g^((p-1)/2n) for the least g that is no square modulo p."""
    g = next(g for g in range(2, p) if pow(g, (p - 1) // 2, p) == p - 1)
    return pow(g, (p - 1) // (2 * n), p)


def to_values(coefficients: Residues, p: int) -> Residues:
    """Returns the values at psi^e, e odd and bit-reversed: modulo X^m - psi^e a polynomial is one modulo
    X^(m/2) - psi^(e/2) and one modulo X^(m/2) + psi^(e/2), and so on."""
    n = len(coefficients)
    psi, rows, exponents = root(p, n), coefficients.reshape(1, n) % p, [n]
    while rows.shape[1] > 1:
        low, high = np.split(rows, 2, axis=1)
        high = high * _powers(psi, exponents, p)
        rows = np.stack([low + high, low - high], axis=1).reshape(2 * len(rows), -1) % p
        exponents = [e // 2 + shift for e in exponents for shift in (0, n)]
    return rows.reshape(n)


def to_coefficients(values: Residues, p: int) -> Residues:
    """Inverts `to_values`."""
    n = len(values)
    psi, rows = root(p, n), values.reshape(n, 1)
    levels = [[n]]
    while len(levels[-1]) < n // 2:
        levels.append([e // 2 + shift for e in levels[-1] for shift in (0, n)])
    for exponents in reversed(levels):
        plus, minus = rows[0::2], rows[1::2]
        inverses = _powers(pow(psi, -1, p), exponents, p)
        rows = np.concatenate([plus + minus, (plus - minus) * inverses], axis=1) % p
    return rows.reshape(n) * pow(n, -1, p) % p


def _powers(psi: int, exponents: list[int], p: int) -> Any:
    """Returns psi^(e/2) as a column."""
    return np.array([[pow(psi, e // 2, p)] for e in exponents], dtype=object)


def centred(residues: dict[int, Residues]) -> Residues:
    """Returns the integers of least size with these residues, by prime."""
    product, total = 1, 0
    for p, limb in residues.items():
        total = total + product * ((limb - total) * pow(product, -1, p) % p)
        product *= p
    return np.where(total > product // 2, total - product, total)


def slot_exponents(n: int) -> Any:
    """Slot j is the value at exp(i pi 5^j / n)."""
    return np.array([pow(5, j, 2 * n) for j in range(n // 2)])
