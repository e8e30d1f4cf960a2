"""Sums over the stages of a plan. What each sums is written out here, so that it means the same next year.

The names are those that `sim` counts (see `OPERATIONS` in `freezing.subject` for one that was renamed).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

ROTATIONS = "rotate", "rotate_hoisted", "rotate_shared", "conjugate"
RELINEARISATIONS = "mul", "relin"
CIPHERTEXT_PRODUCTS = "mul", "tensor", "outer"
PLAINTEXT_PRODUCTS = "mul_plain", "mul_lifted", "mul_scalar", "matmul"


def totals(stages: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Operations of one request without those inside bootstraps; bootstraps by kind of ciphertext."""
    counts: Counter[str] = Counter()
    for stage in stages:
        counts.update(stage["counts"])
    kinds = Counter(kind for stage in stages for kind in stage["kinds"])
    rotations, relinearised = (sum(counts[op] for op in ops) for ops in (ROTATIONS, RELINEARISATIONS))
    return {
        "bootstraps": kinds.total(),
        **{f"bootstraps_{kind}": count for kind, count in kinds.items()},
        "rotations": rotations,
        "key_switches": rotations + relinearised,
        "ciphertext_products": sum(counts[op] for op in CIPHERTEXT_PRODUCTS),
        "plaintext_products": sum(counts[op] for op in PLAINTEXT_PRODUCTS),
        **{f"all_{op}": count for op, count in counts.items()},
    }
