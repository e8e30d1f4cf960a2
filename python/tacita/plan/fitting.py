"""Calibrated intervals -> approximations to a stated error: the specs that a circuit is built from.

Errors are shares of what they perturb: 1/sum and 1/sqrt(variance) are fitted to a relative error, exp to an error
relative to the smallest calibrated row mean, activation and tanh to an absolute one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.approx import exp, gelu, inverse, relu, rsqrt, tanh
from tacita.approx.spec import Spec
from tacita.models.bert import BertConfig
from tacita.models.circuit import CircuitSpecs, LayerSpecs
from tacita.plan.calibrate import Calibration, LayerCalibration

FITS = {"gelu": gelu.fit, "relu": relu.fit}


@dataclass(frozen=True)
class Accuracy:
    """Stated errors of the approximations; the defaults keep the logits of the default model within 0.01.

    exp: of each exponential, relative to the smallest row mean. inverse, rsqrt: relative. activation, tanh: absolute.
    """

    exp: float = 5e-4
    inverse: float = 1e-3
    rsqrt: float = 1e-3
    activation: float = 2e-3
    tanh: float = 2e-3


def fit_circuit(calibration: Calibration, config: BertConfig, accuracy: Accuracy | None = None) -> CircuitSpecs:
    """One spec per layer and function. Errors: FitError naming the function whose error is out of reach."""
    goal = accuracy or Accuracy()
    layers = tuple(_layer(layer, config.activation, goal) for layer in calibration.layers)
    top: Spec | None = tanh.fit(calibration.pooler, goal.tanh) if calibration.pooler else None
    return CircuitSpecs(layers, calibration.layers[0].input, top, calibration.answer)


def _layer(c: LayerCalibration, activation: str, goal: Accuracy) -> LayerSpecs:
    return LayerSpecs(
        exp=exp.fit(c.scores, goal.exp * c.means[0][0], shift=c.shift),
        inverse=inverse.fit(c.means[0], goal.inverse),
        rsqrt1=rsqrt.fit(c.variance1, goal.rsqrt),
        rsqrt2=rsqrt.fit(c.variance2, goal.rsqrt),
        activation=FITS[activation](c.activation, goal.activation),
        context=c.mixed_mean,
        attended=c.context,
        sum1=c.centred1,
        norm1=c.norm1,
        sum2=c.centred2,
        output=c.output,
    )
