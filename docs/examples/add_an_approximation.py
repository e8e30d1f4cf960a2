"""The example of docs/guides/add-an-approximation.md: softplus, log(1 + e^x), on a calibrated interval."""

from __future__ import annotations

import numpy as np

from tacita.approx import fit as fitting
from tacita.approx import poly
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import MARGIN, Spec
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend


def exact(x: Array) -> Array:
    """log(1 + e^x), elementwise."""
    return np.logaddexp(0.0, np.asarray(x, dtype=np.float64))


def fit(interval: Interval, error: float, *, max_depth: int = 9) -> Spec:
    """Least depth, then least degree, with absolute error <= `error`. Raises FitError when out of reach."""
    bound = fitting.symmetric("softplus", interval, 2.0 * MARGIN)

    def make(degree: int) -> Spec:
        return poly.chebyshev_spec("softplus", exact, interval, (-bound, bound), degree)

    return poly.least_degree("softplus", make, interval, error, max_depth)


# error on the interval, levels used, behaviour just outside
spec = fit((-6.0, 4.0), error=1e-3)
scale = spec.free_scale()  # store x * scale: no level goes into normalising
be = PlainBackend(slots=1024)
x = np.linspace(-6.0, 4.0, 1024)
ct = be.encrypt(x * scale)
out = spec.evaluate(be, ct, scale)
assert np.max(np.abs(be.decrypt(out).real - exact(x))) <= 1e-3
assert be.level(ct) - be.level(out) == spec.depth(scale)
assert abs(spec.numpy(np.array([4.2]))[0] - exact(np.array([4.2]))[0]) < 0.1

# what it costs
sim = SimBackend(slots=32768)
spec.evaluate(sim, sim.input(), scale)
print({op: n for (op, level, stage), n in sim.counts.items()})
