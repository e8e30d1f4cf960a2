"""Polynomial approximations of exp, 1/x, 1/sqrt, activations, softmax and comparisons.

    spec = gelu.fit((-8.0, 8.0), error=1e-3)  # calibrated interval -> frozen Spec, stored in the plan as JSON
    y = spec.evaluate(be, ct)                 # on any Backend
    spec.numpy(x)                             # its float64 value
    spec.depth()                              # its levels

`Table` is a function by its values at points. `arion` and `moai` hold the papers' choices for the same
functions.
`from_dict` rebuilds any Spec. All kinds are imported here, so that they are registered.
"""

from tacita.approx import arion, exp, inverse, moai, rsqrt, softmax
from tacita.approx.activations import gelu, relu, tanh
from tacita.approx.fit import FitError
from tacita.approx.fourier import Table
from tacita.approx.spec import Spec, free_depth, from_dict

__all__ = [
    "FitError",
    "Spec",
    "Table",
    "arion",
    "exp",
    "free_depth",
    "from_dict",
    "gelu",
    "inverse",
    "moai",
    "relu",
    "rsqrt",
    "softmax",
    "tanh",
]
