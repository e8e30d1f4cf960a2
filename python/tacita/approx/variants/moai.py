"""MOAI's choice of approximations, each refitted on the calibrated interval; the specs are those of the files
named here.

exp: (1 + x/2^r)^(2^r). inverse: Goldschmidt's iteration (ours has a relaxation per step; theirs, 16 plain
ones). rsqrt: line, Newton, Goldschmidt; the two LayerNorm forms (equations 5 and 6) only scale the variance,
which storing it by its interval does for any. gelu: odd polynomial behind domain extensions.
"""

from __future__ import annotations

from tacita.approx.activations import gelu_extended
from tacita.approx.exponentials import exp_limit
from tacita.approx.inverses import inverse as goldschmidt
from tacita.approx.inverses import rsqrt_coupled

exp = exp_limit.fit
inverse = goldschmidt.fit
rsqrt = rsqrt_coupled.fit
gelu = gelu_extended.fit
