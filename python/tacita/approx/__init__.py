"""Polynomial approximations of exp, 1/x, 1/sqrt, activations, softmax and comparisons.

    spec = gelu.fit((-8.0, 8.0), error=1e-3)  # calibrated interval -> frozen Spec, stored in the plan as JSON
    y = spec.evaluate(be, ct)                 # on any Backend
    spec.numpy(x)                             # its float64 value
    spec.depth()                              # its levels
    gelu.candidates((-8.0, 8.0))              # several (depth, products, error) to choose from

`arion` and `moai` hold the papers' choices for the same functions, `retrained` those of retrained models.
`from_dict` rebuilds any Spec. All kinds are imported here, so that they are registered.
"""

from tacita.approx import exp, inverse, retrained, rsqrt, softmax
from tacita.approx.activations import gelu, relu, tanh
from tacita.approx.fit import FitError
from tacita.approx.spec import Spec, choose, free_depth, from_dict, pareto
from tacita.approx.variants import arion, moai

__all__ = [
    "FitError",
    "Spec",
    "arion",
    "choose",
    "exp",
    "free_depth",
    "from_dict",
    "gelu",
    "inverse",
    "moai",
    "pareto",
    "relu",
    "retrained",
    "rsqrt",
    "softmax",
    "tanh",
]
