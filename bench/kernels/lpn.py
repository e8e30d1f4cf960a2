"""Bits of security of the learning-parity problems under Ferret (docs/decisions/0009-oblivious-transfer.md).

    python -m bench lpn-security            the sets that the code uses; fails below 128 bits
    python -m bench lpn-security N K LOG D  any set: n outputs, k secret bits, trees of 2^LOG leaves,
                                            D-sparse rows

One problem: n parities, each of D of k secret bits, with noise of weight t = n / 2^LOG, one error in every
bin of 2^LOG. Costs are in bit operations: memory is free, a list costs one operation an entry, a sparse
system of size k D k^2.

Rows of information sets and of the algebraic attack are lower bounds for their kind of attack, the search for
sets of columns free. Statistical decoding is not bounded so: its first row takes parity checks that half of
an elimination would give, which somebody can make; its second the lightest checks that can exist, as if they
were handed over. The second is below 128 bits, as it is for dense problems (their Gilbert-Varshamov bound).
What is assumed hard is to *find* such
checks: sets of w of the n rows that sum to zero, for a w of about a tenth of k. No way is known that does not
take exponential time.
"""

from __future__ import annotations

import math
from typing import Annotated

import typer

from tacita.errors import InputError

TARGET = 128.0
# The sets of crates/mpc/src/ot/ferret/params.rs: name, t, k, log, d.
SETS = [("SMALL", 1024, 1 << 16, 9, 10), ("LARGE", 2048, 143_360, 10, 10)]


def log2_choose(n: float, r: float) -> float:
    """log2 of n choose r."""
    return (math.lgamma(n + 1) - math.lgamma(r + 1) - math.lgamma(n - r + 1)) / math.log(2)


def entropy(x: float) -> float:
    """Binary entropy, in bits."""
    return 0.0 if x in (0.0, 1.0) else -x * math.log2(x) - (1 - x) * math.log2(1 - x)


def densest_part(ratio: float, d: int) -> float:
    """The least s such that some s*k rows may touch only s*k of the k columns (first moment over random
    D-sparse matrices with `ratio` = n/k): no set of fewer rows determines the variables in it."""

    def excess(s: float) -> float:
        return entropy(s) + ratio * entropy(s / ratio) + d * s * math.log2(s)

    low, high = 1e-3, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return low


def random_part(ratio: float, d: int) -> float:
    """The same for the rows inside a random set of columns: what an attacker has without any search."""
    return float(ratio ** (-1 / (d - 1)))


def information_set(n: int, t: int, size: float, algebra: float) -> tuple[float, int]:
    """Information-set decoding on `size` rows: at most p errors among them, found by meeting in the middle
    with all the representations that MMT and BJMM could use; p = 0 is the pooled Gauss attack. Returns (bits,
    best p)."""
    rate = size / n
    best = (math.inf, 0)
    for p in range(0, 41, 2):
        hit = log2_choose(t, p) + p * math.log2(rate) + (t - p) * math.log2(1 - rate)
        lists = log2_choose(size, p // 2) - log2_choose(p, p // 2)
        best = min(best, (-hit + max(algebra, lists), p))
    return best


def linear_algebra(size: float) -> float:
    """A dense system by Strassen's algorithm."""
    return 2.8 * math.log2(size)


def first_non_positive(k: float, t: float, m: float, most: int) -> int:
    """The first degree whose coefficient in (1-z)^(n-k) (1+(m-1)z)^t is not positive (Briaud, Oygarden 2023),
    n = t m; their degree of the solving step. Coefficients by the recurrence of the logarithmic derivative,
    scaled to stay finite."""
    n = t * m
    scale = math.sqrt(n * m)
    coefficients = [1.0]
    for degree in range(1, most + 1):
        total = 0.0
        for i in range(1, degree + 1):
            power = (-1.0) ** (i + 1) * t * (m - 1) ** i - (n - k)
            total += power / scale**i * coefficients[degree - i]
        coefficients.append(total / degree)
        if coefficients[-1] <= 0:
            return degree
    return most + 1


def algebraic(t: int, k: int, m: int, d: int) -> tuple[float, int, int]:
    """Quadratic equations e_i e_j = 0 inside every bin, solved by Macaulay matrices of the degree above, rows
    of at least D^2 entries, Wiedemann; before it u positions of every bin are guessed to be free of noise.
    Returns (bits, degree, u)."""
    best = (math.inf, 0, 0)
    for u in range(0, m - 1, max(1, m // 256)):
        left = k - u * t
        guess = -t * math.log2(1 - u / m)
        if left <= t or guess > best[0]:
            break
        degree = first_non_positive(left, t, m - u, 12)
        size = log2_choose(left, degree)
        best = min(best, (guess + 2 * size + 2 * math.log2(d), degree, u))
    return best


def statistical(size: float, m: int) -> float:
    """Statistical decoding with parity checks of half the weight that elimination gives: bias^-2 checks."""
    return -2 * size / 2 * math.log2(1 - 2 / m)


def all_even(total: float) -> float:
    """log2, a column, of the probability that `total` positions a column, drawn at random, meet every column
    an even number of times: (total k)! / k^(total k) times a coefficient of cosh(z)^k, bounded at its saddle
    point z tanh(z) = total."""
    low, high = 1e-9, total + 10.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.tanh(middle) < total else (low, middle)
    return (math.log(math.cosh(low)) - total * math.log(low) + total * math.log(total) - total) / math.log(2)


def lightest_check(ratio: float, d: int) -> float:
    """The least w such that some w*k of the n = ratio*k rows may sum to zero: where the expected number of
    such sets reaches one (first moment, as in `densest_part`)."""
    low, high = 1e-4, 1.0
    while high - low > 1e-7:
        w = (low + high) / 2
        expected = ratio * entropy(w / ratio) + all_even(d * w)
        low, high = (w, high) if expected < 0 else (low, w)
    return low


def lightest_decoding(k: int, ratio: float, d: int, m: int) -> float:
    """Statistical decoding with checks of that weight: bias^-2 of them, finding them free."""
    return -2 * lightest_check(ratio, d) * k * math.log2(1 - 2 / m)


def report(name: str, t: int, k: int, log: int, d: int) -> float:
    """Prints the table of one set and returns its bits."""
    m, n = 1 << log, t << log
    ratio = n / k
    dense, p_dense = information_set(n, t, k - t, linear_algebra(k - t))
    sparse = {}
    for label, part in [
        ("random columns", random_part(ratio, d)),
        ("densest part, bound", densest_part(ratio, d)),
    ]:
        size = part * k
        sparse[label] = (*information_set(n, t, size, math.log2(d) + 2 * math.log2(size)), part)
    algebra, degree, u = algebraic(t, k, m, d)
    print(
        f"{name}: n {n}, t {t}, k {k}, bins of 2^{log}, d {d}; bytes a COT "
        f"{16 * t * log / (n - k - t * log):.3f}"
    )
    gauss = -t * math.log2(1 - (k - t) / n) + linear_algebra(k - t)
    print(f"  pooled Gauss, dense, k - t equations      {gauss:6.1f}")
    print(f"  information sets, dense, p = {p_dense:2}           {dense:6.1f}")
    for label, (bits, p, part) in sparse.items():
        print(f"  information sets, {label:20} {bits:6.1f}  (p = {p}, {part:.3f} k rows)")
    print(f"  algebraic, degree {degree}, {u} guesses a bin     {algebra:6.1f}")
    print(f"  statistical decoding                      {statistical(densest_part(ratio, d) * k, m):6.1f}")
    print(
        f"  statistical, lightest checks, search free {lightest_decoding(k, ratio, d, m):6.1f}  (not "
        "counted, see above)"
    )
    bits = min(dense, algebra, *(entry[0] for entry in sparse.values()))
    print(f"  bits                                      {bits:6.1f}")
    return bits


def lpn_security(
    numbers: Annotated[list[int] | None, typer.Argument(metavar="[N K LOG D]", show_default=False)] = None,
) -> None:
    """Bits of security of the learning-parity problems under Ferret: of the sets in use, or of the one given.

    Fails where a set in use has less than 128.
    """
    if numbers:
        if len(numbers) != 4:
            raise InputError(f"lpn-security: {len(numbers)} numbers", hint="N K LOG D, or none")
        n, k, log, d = numbers
        report("given", n >> log, k, log, d)
    elif min([report(*entry) for entry in SETS]) < TARGET:
        raise typer.Exit(1)
