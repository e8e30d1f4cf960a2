"""Reads secret keys, evaluation keys, requests and responses by docs/files.md alone, with numpy and BLAKE3.

It is another program than Tacita and imports nothing of it: what both decrypt alike, both understand alike.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import arithmetic
import blake3
import numpy as np
from arithmetic import Residues

HEADER = struct.Struct("<6sBI32s16sQ")
CHECK = 16
EVALUATION_KEYS, CIPHERTEXTS, SECRET_KEY = 1, 2, 5
RELINEARISE, GALOIS = 0, 1


@dataclass(frozen=True)
class Ring:
    """Degree, primes of ciphertexts (bottom first), special primes; limbs a digit; scales by level."""

    n: int
    q: list[int]
    p: list[int]
    digit_limbs: int
    scales: list[float]

    @property
    def hash(self) -> bytes:
        numbers = [self.n.bit_length() - 1, len(self.q), *self.q, len(self.p), *self.p, self.digit_limbs]
        return blake3.blake3(b"tacita parameters v1" + struct.pack(f"<{len(numbers)}Q", *numbers)).digest()


def leveled_ring(log_n: int, base_bits: float, log_scale: float, levels: int, special: int) -> Ring:
    """Returns the ring of a preset without bootstrapping, its primes found anew."""
    used: list[int] = []

    def pick(bits: float) -> int:
        used.append(arithmetic.nearest_prime(bits, 2 << log_n, used))
        return used[-1]

    p = [pick(50.0) for _ in range(special)]
    base, scale = pick(base_bits), 2.0**log_scale
    scales, q = [scale], []
    for _ in range(levels):
        q.append(pick(math.log2(scales[-1] * scales[-1] / scale)))
        scales.append(scales[-1] * scales[-1] / q[-1])
    return Ring(1 << log_n, [base, *q[::-1]], p, special, scales[::-1])


def records(data: bytes, kind: int, ring: Ring) -> list[bytes]:
    """Returns the bodies of a file's records; every check is compared."""
    magic, found, version, parameters, _owner, count = HEADER.unpack_from(data)
    assert (magic, found, version) == (b"TACITA", kind, 1) and parameters == ring.hash
    at = HEADER.size + CHECK
    bodies, parts = [], [data[:at]]
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, at)
        parts.append(data[at + 8 : at + 8 + length + CHECK])
        bodies.append(parts[-1][:-CHECK])
        at += 8 + length + CHECK
    assert at == len(data)
    assert all(blake3.blake3(part[:-CHECK]).digest()[:CHECK] == part[-CHECK:] for part in parts)
    return bodies


def envelope(data: bytes) -> dict[str, list[bytes]]:
    """Returns the ciphertext files of a request or response, by tensor."""
    magic, version, length = struct.unpack_from("<10sHI", data)
    assert (magic, version) == (b"TACITA-CT\0", 1) and hashlib.sha256(data[:-32]).digest() == data[-32:]
    tensors = json.loads(data[16 : 16 + length])["tensors"]
    ends = np.cumsum([16 + length, *(size for name in sorted(tensors) for size in tensors[name])])
    files = iter([data[a:b] for a, b in pairwise(ends)])
    return {name: [next(files) for _ in tensors[name]] for name in sorted(tensors)}


def residues(data: bytes, primes: list[int], n: int) -> dict[int, Residues]:
    """Returns packed limbs by prime: n residues at the prime's bit length each, low bits first."""
    limbs, at = {}, 0
    for p in primes:
        width = p.bit_length()
        bits = np.unpackbits(np.frombuffer(data, np.uint8, n * width // 8, at), bitorder="little")
        limbs[p] = (bits.reshape(n, width) @ (1 << np.arange(width))).astype(object)
        assert (limbs[p] < p).all()
        at += n * width // 8
    assert at == len(data)
    return limbs


def packed(limbs: dict[int, Residues]) -> bytes:
    """Inverts `residues`."""
    bits = [(limb.astype(np.int64)[:, None] >> np.arange(p.bit_length())) & 1 for p, limb in limbs.items()]
    return b"".join(np.packbits(each.astype(np.uint8), bitorder="little").tobytes() for each in bits)


def secret_key(data: bytes, ring: Ring) -> Residues:
    """Returns the n ternary coefficients."""
    (body,) = records(data, SECRET_KEY, ring)
    digits = np.frombuffer(body, np.uint8)[:, None] >> np.array([0, 2, 4, 6]) & 3
    return digits.reshape(ring.n).astype(object) - 1


@dataclass(frozen=True)
class Ciphertext:
    """Two polynomials by prime, in values, and their scale."""

    c0: dict[int, Residues]
    c1: dict[int, Residues]
    scale: float


def ciphertext(data: bytes, ring: Ring) -> Ciphertext:
    """Reads a file of one ciphertext, whole or with a seed in place of c1."""
    (body,) = records(data, CIPHERTEXTS, ring)
    polys, seeded, limbs, scale = struct.unpack_from("<BBHd", body)
    assert polys == 2
    primes, rest = ring.q[:limbs], body[12:]
    if seeded:
        c1 = {p: arithmetic.uniform(rest[:32], (i,), p, ring.n) for i, p in enumerate(primes)}
        return Ciphertext(residues(rest[32:], primes, ring.n), c1, scale)
    half = len(rest) // 2
    return Ciphertext(residues(rest[:half], primes, ring.n), residues(rest[half:], primes, ring.n), scale)


def written(ct: Ciphertext, header: bytes) -> bytes:
    """Returns the file of one ciphertext; header: that of another one of the same client."""
    body = struct.pack("<BBHd", 2, 0, len(ct.c0), ct.scale) + packed(ct.c0) + packed(ct.c1)
    length, check = struct.pack("<Q", len(body)), blake3.blake3(body).digest()[:CHECK]
    return header[: HEADER.size + CHECK] + length + body + check


def decrypt(ct: Ciphertext, secret: Residues) -> Any:
    """Returns the n/2 complex slots."""
    n = len(secret)
    coefficients = arithmetic.centred(
        {
            p: arithmetic.to_coefficients((c0 + ct.c1[p] * arithmetic.to_values(secret, p)) % p, p)
            for p, c0 in ct.c0.items()
        }
    )
    angles = np.outer(arithmetic.slot_exponents(n), np.arange(n)) % (2 * n)
    return np.exp(1j * np.pi * angles / n) @ (coefficients / ct.scale).astype(float)


@dataclass(frozen=True)
class SwitchingKey:
    """Digits (b, a) by prime, in values; kind and Galois element as in the file; special primes last."""

    kind: int
    galois: int
    seed: bytes
    special: list[int]
    digits: list[tuple[dict[int, Residues], dict[int, Residues]]]


def evaluation_keys(data: bytes, ring: Ring) -> list[SwitchingKey]:
    """Reads a file of evaluation keys of a ring without bootstrapping."""
    return [_switching_key(body, ring) for body in records(data, EVALUATION_KEYS, ring)]


def _switching_key(body: bytes, ring: Ring) -> SwitchingKey:
    kind, galois, limbs, special, gadget, seed, digits = struct.unpack_from("<BQHHB32sH", body)
    assert gadget == 0 and digits == -(-limbs // ring.digit_limbs)
    primes = ring.q[:limbs] + ring.p[:special]
    indices = [*range(limbs), *range(len(ring.q), len(ring.q) + special)]
    size = (len(body) - 48) // digits

    def digit(d: int) -> tuple[dict[int, Residues], dict[int, Residues]]:
        a = {p: arithmetic.uniform(seed, (d, i), p, ring.n) for p, i in zip(primes, indices, strict=True)}
        return residues(body[48 + d * size :][:size], primes, ring.n), a

    return SwitchingKey(kind, galois, seed, ring.p[:special], [digit(d) for d in range(digits)])


def automorphism(poly: Residues, galois: int) -> Residues:
    """Returns the polynomial at X^galois."""
    n = len(poly)
    targets = np.arange(n) * galois % (2 * n)
    turned = np.zeros(n, dtype=object)
    turned[targets % n] = np.where(targets < n, poly, -poly)
    return turned


def key_error(key: SwitchingKey, digit: int, prime: int, secret: Residues, ring: Ring) -> Residues:
    """Returns e of b = -a s' + e + P g s'' at one prime: the error's n coefficients.

    A Galois key leads from s to s(X^(1/galois)), a relinearisation key from s^2 to s.
    """
    b, a = key.digits[digit]
    values = arithmetic.to_values(secret, prime)
    if key.kind == GALOIS:
        source = values
        target = arithmetic.to_values(automorphism(secret, pow(key.galois, -1, 2 * ring.n)), prime)
    else:
        source, target = values * values % prime, values
    here = prime in ring.q and ring.q.index(prime) // ring.digit_limbs == digit
    payload = math.prod(key.special) * source if here else 0
    return arithmetic.centred(
        {prime: arithmetic.to_coefficients((b[prime] + a[prime] * target - payload) % prime, prime)}
    )
