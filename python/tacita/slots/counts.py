"""Pieces that the priced operations consist of, shared by `sim` and its tests.

Counted operations (keys of `SimBackend.counts`, level = that of the operands):

* rotate, conjugate: a full key switch; hoist: the decomposition that hoisted rotations share;
  rotate_hoisted: the inner product with one key; rotate_shared: a rotation but for the shared decomposition
* mul: product, relinearised and rescaled; tensor: without relinearisation; relin: relinearisation alone
* encode: encoding a plaintext vector of full length, or several shorter ones that are as long together;
  mul_plain: product by a plaintext vector, added to a sum; mul_scalar: product by a constant, not rescaled
* encode_lifted, mul_lifted: the same over the special primes too, as `linear` works wherever it rotates
  inputs; lower: an output of such a map back to its own primes, rescaled on the way
* matmul: one weight of one lane times a ciphertext, added up; matmul_input: preparing one lane of an input of
  `matmul`, whatever the outputs; outer: tensor product added to an accumulator of `products`
* rescale, add: themselves
* bootstrap: two parts, or a pair; bootstrap_real: one; bootstrap_through, bootstrap_through_real: the same up
  to z, products of the function counted as mul and tensor
* to_coefficients: slots of a ciphertext to coefficients; coefficient_product: a polynomial of weights times a
  block of coefficients (`CoefficientMatrix.products`), its share of merging included; coefficient_refresh:
  what of a bootstrap follows, up to z, at the level before the function
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from tacita.slots.linear import LinearPlan


def linear_counts(plan: LinearPlan, slots: int) -> Counter[str]:
    """Counts the operations of one application of the plan, all at the operands' level, `post` excluded.

    Hoisted rotations stay over the special primes until their products are added up (see
    `crates/ckks/src/linear.rs`), so a map that has any works over L + k limbs in place of L.
    """
    lifted = bool(plan.babies)
    return Counter(
        {
            "hoist": len(plan.babies),
            "rotate_hoisted": sum(len(bs) for bs in plan.babies.values()),
            "rotate": plan.giant_rotations,
            "encode_lifted" if lifted else "encode": round(plan.source.shape[0] * plan.period / slots),
            "mul_lifted" if lifted else "mul_plain": len(plan.terms),
            "lower" if lifted else "rescale": plan.n_outputs,
        }
    )


@cache
def poly_counts(degree: int) -> Counter[tuple[str, int]]:
    """Counts how often each (operation, levels of its operands below the argument) comes in a dense Chebyshev
    series, as `crates/ckks/src/polynomial.rs` evaluates it.

    A series is one sum: quotients times giants T_g, multiples of babies, a constant. A sum of k products is
    relinearised once, so it counts as one `mul` and k - 1 `tensor`; a sum without products is a `rescale`.
    For degree 31 these are 10, 3 and 4. The number of babies is the one of the lowest price there.
    """
    options = [_counts(degree, 2**low) for low in range(1, max(1, degree.bit_length()) + 1)]
    prices = {"mul": 12, "tensor": 2, "rescale": 3}
    return min(options, key=lambda counts: sum(prices[op] * n for (op, _), n in counts.items()))


def _counts(degree: int, baby: int) -> Counter[tuple[str, int]]:
    """Counts the operations of a series whose leaves are of a degree below `baby`. T_n costs one product at
    ceil(log2 n) - 1 below."""
    powers: set[int] = set()
    counts = _series(degree, degree.bit_length() - 1, baby, powers)
    counts.update(("mul", _power_depth(n) - 1) for n in powers)
    return counts


def _series(degree: int, below: int, baby: int, powers: set[int]) -> Counter[tuple[str, int]]:
    """Counts the operations of a sum that is made `below` levels below the argument, and of its quotients.
    Adds the T_n that it needs to `powers`."""
    counts: Counter[tuple[str, int]] = Counter()
    products = 0
    while degree >= baby or _power_depth(degree) > below:
        giant = 2 ** (degree.bit_length() - 1)
        _require(giant, powers)
        if degree > giant:
            products += 1
            counts += _series(degree - giant, below - 1, baby, powers)
        degree = giant - 1
    for n in range(1, degree + 1):
        _require(n, powers)
    counts += Counter(
        {("mul", below): 1, ("tensor", below): products - 1} if products else {("rescale", below): 1}
    )
    return counts


def _require(n: int, powers: set[int]) -> None:
    """Adds T_n and those that it is made of: T_(a+b) = 2 T_a T_b - T_(a-b)."""
    if n > 1 and n not in powers:
        powers.add(n)
        larger = 2 ** (_power_depth(n) - 1)
        for below in (larger, n - larger, 2 * larger - n):
            _require(below, powers)


def _power_depth(n: int) -> int:
    return (n - 1).bit_length() if n > 1 else 0


def series_multiplications(degree: int) -> int:
    """Counts the relinearisations of a series of this degree, what it costs beside little else: products that
    are added up first count once."""
    return sum(n for (op, _), n in poly_counts(degree).items() if op == "mul")


def series_depth(degree: int) -> int:
    """Returns ceil(log2(degree + 1)), at least 1: the levels of a series, or from z, which is one above
    the top, to the sum of harmonics."""
    return max(1, degree.bit_length())
