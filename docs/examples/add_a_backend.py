"""The example of docs/guides/add-a-backend.md: every result in single precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacita.slots.conformance import CHECKS, Harness
from tacita.slots.plain import PlainBackend, PlainCt


def rounded(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The operation, with its results in single precision."""

    def run(self: PlainBackend, *args: Any) -> Any:
        return _single(operation(self, *args))

    return run


def _single(out: Any) -> Any:
    if isinstance(out, list):
        return [_single(ct) for ct in out]
    kind = np.complex64 if np.iscomplexobj(out.values) else np.float32
    return PlainCt(out.values.astype(kind).astype(out.values.dtype), out.level)


class Float32Backend(PlainBackend):
    """`plain` with every result rounded to single precision."""

    add = rounded(PlainBackend.add)
    sub = rounded(PlainBackend.sub)
    mul = rounded(PlainBackend.mul)
    square = rounded(PlainBackend.square)
    dot = rounded(PlainBackend.dot)
    mul_const = rounded(PlainBackend.mul_const)
    mul_vector = rounded(PlainBackend.mul_vector)
    linear = rounded(PlainBackend.linear)
    matmul = rounded(PlainBackend.matmul)
    relinearise = rounded(PlainBackend.relinearise)
    poly = rounded(PlainBackend.poly)
    bootstrap = rounded(PlainBackend.bootstrap)
    bootstrap_through = rounded(PlainBackend.bootstrap_through)


be = Float32Backend(slots=64)
harness = Harness(be, be.encrypt, be.decrypt, tolerance=1e-5)
for check in CHECKS:
    check(harness)
