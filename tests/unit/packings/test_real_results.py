"""What is refreshed beside a steep function's result, as a + ib, takes none of its imaginary noise."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacita.approx import inverse, rsqrt
from tacita.packings.encoding import Argument, apply_unit
from tacita.packings.multidiagonal.lowering import inversion
from tacita.packings.weights import Side
from tacita.slots.noise import LARGEST, NoiseModel
from tacita.slots.sim import SimBackend

SPAN, SLOTS = (1e-3, 1.0), 1 << 12
INVERSE, ROOT = inverse.fit(SPAN, 1e-3), rsqrt.fit(SPAN, 1e-3)
PLAN: Any = SimpleNamespace(specs=SimpleNamespace(inverse=INVERSE))
SIDE: Any = SimpleNamespace(rsqrt=ROOT)


@pytest.mark.parametrize(
    ("run", "spec"),
    [
        (lambda be, cts: inversion("a", PLAN).run(be, {"a.sums": cts})["a.inverse"], INVERSE),
        (lambda be, cts: Side.root(SIDE, be, cts), ROOT),
    ],
    ids=["diagonals", "queries and keys"],
)
def test_a_result_beside_which_others_are_refreshed_is_real(run: Callable[..., Any], spec: Any) -> None:
    be, form = (
        SimBackend(SLOTS, 16, inject=True, noise=NoiseModel(LARGEST, scale_bits=38.0)),
        Argument.of(spec),
    )
    (argument,) = be.bootstrap([be.encrypt(np.geomspace(*SPAN, SLOTS) * form.scale + form.offset)], ["real"])
    spread = [_beside(be, result) for result in (*run(be, (argument,)), apply_unit(be, argument, spec))]
    assert spread[0] < 1.5 * be.model.bootstrap < 5.0 * be.model.bootstrap < spread[1]


def _beside(be: SimBackend, result: Any) -> float:
    """Deviation of zeros that were refreshed beside a result."""
    zeros, _ = be.bootstrap([be.encrypt(np.zeros(1)), result], ["pair", "pair"])
    return float(be.decrypt(zeros).real.std())
