"""Calibrated intervals -> approximations to a stated error: the specs that a circuit is built from.

Errors are shares of what they perturb: 1/sum and 1/sqrt(variance) are fitted to a relative error, exp to an error
relative to the smallest calibrated row mean, activation and tanh to an absolute one. MOAI's exponential cannot reach
that in any affordable depth, nor need it: what it lacks varies slowly with the score and cancels in the quotient. It
has an error of its own, and the interval of the sums moves with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.approx import constant, power, relu, tanh
from tacita.approx import exp as exponential
from tacita.approx.fit import Interval
from tacita.approx.spec import Spec
from tacita.models.bert import BertConfig
from tacita.packings.rows.circuit import CircuitSpecs, LayerSpecs
from tacita.plan.calibrate import Calibration, LayerCalibration
from tacita.plan.functions import Functions


@dataclass(frozen=True)
class Accuracy:
    """Stated errors of the approximations; the defaults keep the logits of the default model within 0.01.

    exp: of each exponential, relative to the smallest row mean. inverse, rsqrt: relative. activation, tanh: absolute.
    limit: of each exponential of MOAI's form, relative to the largest. relu: root mean square over the calibrated inputs,
    relative to half their interval; chosen so that the probabilities of DASHformer move by 0.02 at most. It moves them by 0.011 on the
    200 sequences that calibrate and by 0.014 on the 800 others (`evaluation/dashformer_functions.py`, with and without --chosen-on).
    """

    exp: float = 5e-4
    inverse: float = 1e-3
    rsqrt: float = 1e-3
    activation: float = 2e-3
    tanh: float = 2e-3
    limit: float = 4e-4
    relu: float = 9e-5


@dataclass(frozen=True)
class _Attention:
    """exp and inverse with the factor that their exponentials put on the mixed values."""

    exp: Spec
    inverse: Spec
    mixed: float


def fit_circuit(
    calibration: Calibration, config: BertConfig, accuracy: Accuracy | None = None, functions: Functions | None = None
) -> CircuitSpecs:
    """One spec per layer and function, of the chosen variants; a retrained model's own functions for those it replaces.

    Errors: FitError naming the function whose error is out of reach.
    """
    goal, chosen = accuracy or Accuracy(), functions or Functions()
    layers = tuple(_layer(layer, i, config, goal, chosen) for i, layer in enumerate(calibration.layers))
    top: Spec | None = tanh.fit(calibration.pooler, goal.tanh) if calibration.pooler else None
    return CircuitSpecs(layers, calibration.layers[0].input, top, calibration.answer)


def _layer(c: LayerCalibration, i: int, config: BertConfig, goal: Accuracy, chosen: Functions) -> LayerSpecs:
    attention = _bpmax(c, i, config) if config.retrained.bpmax else _softmax(c, goal, chosen)
    return LayerSpecs(
        exp=attention.exp,
        inverse=attention.inverse,
        rsqrt1=_rsqrt(c.variance1, i, 0, config, goal, chosen),
        rsqrt2=_rsqrt(c.variance2, i, 1, config, goal, chosen),
        activation=_activation(c, config.activation, goal, chosen),
        context=attention.mixed,
        attended=c.context,
        sum1=c.centred1,
        norm1=c.norm1,
        sum2=c.centred2,
        output=c.output,
    )


def _activation(c: LayerCalibration, name: str, goal: Accuracy, chosen: Functions) -> Spec:
    if name == "relu":  # in none of the papers' models: one approximation in all variants
        return relu.fit_density(c.activation, goal.relu, c.density)
    return chosen.fit(name, c.activation, goal.activation)


def _softmax(c: LayerCalibration, goal: Accuracy, chosen: Functions) -> _Attention:
    if chosen.exp != "moai":
        exp = chosen.fit("exp", c.scores, goal.exp * c.means[0][0], shift=c.shift)
        return _Attention(exp, chosen.fit("inverse", c.means[0], goal.inverse), c.mixed_mean)
    exp = chosen.fit("exp", c.scores, goal.limit, shift=c.shift)
    low, high = _ratios(exp, c)
    means = c.means[0][0] * low, c.means[0][1] * high
    return _Attention(exp, chosen.fit("inverse", means, goal.inverse), c.mixed_mean * high)


def _ratios(exp: Spec, c: LayerCalibration) -> Interval:
    """Least and largest quotient of the approximation and exp on the scores: means move by no more."""
    x = np.linspace(*c.scores, 4001)
    ratio = exp.numpy(x) / exponential.exact(x, c.shift)
    return float(ratio.min()), float(ratio.max())


def _bpmax(c: LayerCalibration, i: int, config: BertConfig) -> _Attention:
    """Powers divided by their largest, times that power / R: no error. The row means go unused; they lie in [-1, 1]."""
    r = config.retrained
    largest = power.top(c.scores, r.offset) ** r.power
    inverse = constant.fit("inverse", (-1.0, 1.0), largest / r.denominators[i])
    return _Attention(power.fit(c.scores, r.offset, r.power), inverse, c.context * r.denominators[i] / largest)


def _rsqrt(variance: Interval, i: int, which: int, config: BertConfig, goal: Accuracy, chosen: Functions) -> Spec:
    """1/sqrt of the variance, or the stored 1/D of batch normalisation."""
    if config.retrained.batch_norm:
        return constant.fit("rsqrt", variance, 1.0 / config.retrained.deviations[i][which])
    return chosen.fit("rsqrt", variance, goal.rsqrt)
