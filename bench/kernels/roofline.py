"""What a bootstrap would ask of a card, counted: `python -m bench engine --device-roofline`.

The operations are those of `traffic.bootstrap`. Each is a row of launches of the kernels in
`crates/opencl/kernels`, as the host of that crate makes them: a sum of products is one launch, and each half
of a ciphertext is divided by itself. A launch reads what it needs once and writes what it makes once; nothing
is left in caches for the next one. Instructions on doubles are those that compilers made (`budgets.toml`),
32-bit products of the integer flavour those that 64-bit products consist of at least.

Nothing of this was run on a card: it says which limit is nearer, not how long anything takes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from math import ceil
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.kernels import traffic
from bench.options import ROOT
from tacita.cli.console import say

BUDGETS = ROOT / "crates" / "opencl" / "kernels" / "budgets.toml"
MARK = "counted, never run"
FIELDS = "launches", "limbs", "transforms", "doubles", "products"
Work = NDArray[np.float64]  # of FIELDS; doubles and products: instructions for each of N values
RADIX = 16  # values of a work-item of a transform
TERMS = {"convert": 14, "inner_product": 26, "sum_products": 12, "sum_tensors": 44}  # doubles in its loop
ENDS = {"convert": 5, "inner_product": 10, "sum_products": 5, "sum_tensors": 15}  # and behind it
FACTOR, PRODUCT = 10, 14  # 32-bit products: by a factor whose quotient is known, of two residues
RAISES = 32  # keys of the modulus raise


@dataclass(frozen=True)
class Card:
    """A card as its maker's data sheet describes it. rate: instructions a second, on doubles or, without
    `doubles`, 32-bit products; a fused multiply-add is one. bandwidth: bytes a second."""

    name: str
    doubles: bool
    rate: float
    bandwidth: float
    source: str


CARDS = (
    Card("H100 SXM", True, 34e12 / 2, 3.35e12, "NVIDIA's data sheet: 34 TFLOPS FP64, 3.35 TB/s"),
    Card("A100 80 GB SXM", True, 9.7e12 / 2, 2.039e12, "NVIDIA's data sheet: 9.7 TFLOPS FP64, 2,039 GB/s"),
    Card("RTX 5090", False, 104.8e12 / 2, 1.792e12, "NVIDIA: 104.8 TFLOPS FP32, as many INT32, 1,792 GB/s"),
    Card("MI300X", True, 81.7e12 / 2, 5.3e12, "AMD's data sheet: 81.7 TFLOPS FP64 vector, 5.3 TB/s"),
)


def instructions() -> dict[str, int]:
    """Returns the instructions on doubles of a work-item of each kernel, on sm_90."""
    rows = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))["F64"]["sm_90"]
    return {name: row["fp64"] for name, row in rows.items()}


class Counter:
    """Counts the work of operations by the names of `traffic`. L: limbs, k: special primes, W = L + k."""

    def __init__(self, fp64: dict[str, int], log_n: int) -> None:
        self.fp64, self.log_n = fp64, log_n

    def ntt(self, way: str, limbs: int) -> Work:
        """Two launches that read and write each limb, and the roots of its rows: two numbers for each."""
        doubles = limbs * (self.fp64[f"{way}_columns"] + self.fp64[f"{way}_rows"]) / RADIX
        return np.array([2, 6 * limbs, limbs, doubles, limbs * self.log_n / 2 * FACTOR])

    def elements(self, kernel: str, limbs: int, reads: int, products: int = 0) -> Work:
        """One launch that makes so many limbs of so many each."""
        return np.array([1, (reads + 1) * limbs, 0, limbs * self.fp64[kernel], limbs * products])

    def convert(self, source: int, target: int) -> Work:
        """A conversion of scaled limbs, without its transforms."""
        doubles = target * (TERMS["convert"] * source + ENDS["convert"])
        return np.array([1, source + target, 0, doubles, FACTOR * source * target])

    def inner_product(self, digits: int, width: int) -> Work:
        """Both halves of a sum over digits."""
        limbs = digits * width + ceil(2 * digits * width * traffic.PACKED) + 2 * width
        doubles = width * (TERMS["inner_product"] * digits + ENDS["inner_product"])
        return np.array([1, limbs, 0, doubles, 2 * PRODUCT * digits * width])

    def sum_products(self, limbs: int, terms: int, plaintexts: int = 0) -> Work:
        """A sum of so many terms, with limbs of plaintexts that are read; without, they are constants."""
        doubles = limbs * (TERMS["sum_products"] * terms + ENDS["sum_products"])
        return np.array([1, (terms + 1) * limbs + plaintexts, 0, doubles, PRODUCT * terms * limbs])

    def digits(self, limbs: int, k: int) -> Work:
        """All digits over W limbs: those that the digit has are copied."""
        sizes = [min(k + 2, limbs - at) for at in range(0, limbs, k + 2)]
        each = (2 * self.elements("copy", n, 1) + self.lift(n, limbs + k - n) for n in sizes)
        return sum(each, start=np.zeros(len(FIELDS)))

    def lift(self, source: int, target: int) -> Work:
        """Values modulo other primes: back into coefficients, converted, forth."""
        return self.ntt("inverse", source) + self.convert(source, target) + self.ntt("forward", target)

    def divide(self, width: int, by: int) -> Work:
        """One polynomial divided by so many of its primes, as `Ring::rescale` does it."""
        copies = self.elements("copy", by, 1) + self.elements("copy", width - by, 1)
        last = self.elements("subtract_multiply_scalar", width - by, 2, FACTOR)
        return copies + self.lift(by, width - by) + last

    def switch(self, limbs: int, k: int, by: int) -> Work:
        """A whole key switch."""
        product = self.inner_product(ceil(limbs / (k + 2)), limbs + k)
        return self.digits(limbs, k) + product + 2 * self.divide(limbs + k, by)

    def rotate(self, limbs: int, k: int) -> Work:
        """A switch, both halves permuted, c0 added."""
        moved = 2 * self.elements("permute", limbs, 1) + self.elements("add", limbs, 2)
        return self.switch(limbs, k, k) + moved

    def relinearise(self, limbs: int, k: int, products: int = 1, multiples: int = 0) -> Work:
        """A sum of products and multiples, switched and rescaled."""
        first = self.elements("sum_tensors", limbs, 4 + 2, 4 * PRODUCT) + 2 * self.elements("add", limbs, 2)
        scaled = 2 * multiples * self.elements("multiply_scalar_add", limbs, 2, FACTOR)
        return first + (products - 1) * self.tensor(limbs) + scaled + self.switch(limbs, k, k + 1)

    def tensor(self, limbs: int) -> Work:
        """One more term of a sum of tensor products, in its launch."""
        return np.array([0, 4 * limbs, 0, TERMS["sum_tensors"] * limbs, 4 * PRODUCT * limbs])

    def rescale(self, limbs: int) -> Work:
        """Both polynomials."""
        return 2 * self.divide(limbs, 1)

    def combine(self, limbs: int) -> Work:
        """A sum of two multiples, rescaled."""
        return self.rescale(limbs) + 2 * self.sum_products(limbs, 2)

    def transform(self, limbs: int, k: int, babies: int, giants: int, *, kept: bool) -> Work:
        """A linear map by baby and giant steps, with its plaintexts. kept: as for `traffic.transform`."""
        over, turned = limbs + k, babies - 1
        width = limbs if kept else over
        one = self.inner_product(ceil(limbs / (k + 2)), over) + 2 * self.elements("permute", over, 1)
        down = 2 * self.divide(over, k) if kept else 0 * one
        sums, halves = (2 * giants, 1) if kept else (giants, 2)  # halves that lie together are one launch
        products = sums * self.sum_products(halves * width, babies, babies * width)
        final = 2 * self.divide(over, k + 1)
        inner = self.digits(limbs, k) + turned * (one + down) + products
        return inner + (giants - 1) * self.giant_step(limbs, k) + final

    def giant_step(self, limbs: int, k: int) -> Work:
        """c1 divided by P, switched over QP, permuted, added to the next sum."""
        over = limbs + k
        product = self.inner_product(ceil(limbs / (k + 2)), over)
        moved = 2 * self.elements("permute", over, 1) + 3 * self.elements("add", over, 2)
        return self.divide(over, k) + self.digits(limbs, k) + product + moved

    def raised(self, top: int) -> Work:
        """The modulus raise: one digit of one limb, its permutations, their sum with all keys."""
        product = RAISES * self.elements("permute", top + 1, 1) + self.inner_product(RAISES, top + 1)
        return self.lift(1, top + 1) + product + 2 * self.divide(top + 1, 1) + self.elements("add", top, 2)


def bootstrap(ring: traffic.Ring) -> SimpleNamespace:
    """Returns what a complex bootstrap takes, by FIELDS; limbs as bytes, instructions of all values."""
    log_n = ring.n.bit_length() - 1
    counted: Any = traffic.bootstrap(ring, Counter(instructions(), log_n))
    work = SimpleNamespace(**dict(zip(FIELDS, counted, strict=True)))
    work.bytes = ring.bytes(int(work.limbs))
    work.doubles, work.products = work.doubles * ring.n, work.products * ring.n
    return work


def show_roofline(ring: traffic.Ring) -> None:
    """Prints the counts of a bootstrap, and for each card the time by its issue rate and by its memory."""
    work = bootstrap(ring)
    say(
        f"{MARK}: a bootstrap at N = 2^{ring.n.bit_length() - 1} takes {work.launches:,.0f} launches, "
        f"{work.transforms:,.0f} transforms, {work.bytes / 1e9:.1f} GB, {work.doubles / 1e9:.0f} 10^9 "
        f"instructions on doubles or at least {work.products / 1e9:.0f} 10^9 32-bit products"
    )
    for card in CARDS:
        count, unit = (work.doubles, "doubles") if card.doubles else (work.products, "32-bit products")
        issue, memory = 1e3 * count / card.rate, 1e3 * work.bytes / card.bandwidth
        say(f"{MARK}: {card.name}: {issue:.1f} ms of {unit}, {memory:.1f} ms of memory ({card.source})")
