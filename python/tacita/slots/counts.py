"""Pieces that the priced operations consist of, shared by `sim` and its tests.

Counted operations (keys of `SimBackend.counts`, level = that of the operands):
rotate, conjugate   a full key switch                 hoist            decomposition shared by hoisted
rotations rotate_hoisted      inner product with one key        rotate_shared    a rotation but for the shared
decomposition mul                 product, relinearised, rescaled
tensor              product without relinearisation   relin            relinearisation alone
encode              encoding a plaintext vector of (nearly) full length
mul_plain           product by a plaintext vector     mul_scalar       product by a constant, not rescaled
matmul              one weight of one lane times a ciphertext, added up
matmul_input        preparing one lane of an input of `matmul`, whatever the outputs
outer               tensor product added to an accumulator of `products`
rescale, add        themselves                        bootstrap        two parts; bootstrap_real: one part
bootstrap_through   the same up to z, its products counted as mul; bootstrap_through_real: one part
"""

from __future__ import annotations

from collections import Counter

from tacita.slots.linear import LinearPlan


def linear_counts(plan: LinearPlan) -> Counter[str]:
    """Operations of one application of the plan, all at the operands' level except the final rescale."""
    counts: Counter[str] = Counter()
    counts["hoist"] = len(plan.babies)
    counts["rotate_hoisted"] = sum(len(bs) for bs in plan.babies.values())
    counts["rotate"] = plan.giant_rotations
    counts["mul_plain"] = len(plan.terms)
    counts["rescale"] = plan.n_outputs
    return counts


def poly_products(degree: int) -> dict[int, int]:
    """Levels below the argument -> products there, for a depth-optimal Paterson-Stockmeyer in the Chebyshev
    basis.

    The number of babies 2^low is the one of fewest products.
    """
    options = [_products(degree, low) for low in range(degree.bit_length() + 1)]
    return min(options, key=lambda option: sum(option.values()))


def _products(degree: int, low: int) -> dict[int, int]:
    """T_k costs one product at ceil(log2 k) - 1 below; a block of 2^(j+1) coefficients joins its halves at j
    below."""
    depth = degree.bit_length()
    found: Counter[int] = Counter((k - 1).bit_length() - 1 for k in range(2, min(2**low, degree) + 1))
    found.update(j - 1 for j in range(low + 1, depth))
    for j in range(low, depth):
        found[j] += sum(1 for start in range(0, degree + 1, 2 ** (j + 1)) if degree >= start + 2**j)
    return {level: n for level, n in found.items() if n}
