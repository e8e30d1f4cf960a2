"""Calibrated intervals -> approximations to a stated error: the specs that a circuit is built from.

Errors are shares of what they perturb: 1/sum and 1/sqrt(variance) are fitted to a relative error, exp to an
error relative to the smallest calibrated row mean, activation and tanh to an absolute one. MOAI's exponential
cannot reach that in any affordable depth, nor need it: what it lacks varies slowly with the score and cancels
in the quotient. It has an error of its own, and the interval of the sums moves with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass, replace

import numpy as np

from tacita.approx import exp as exponential
from tacita.approx import poly, softmax
from tacita.approx.fit import FitError, Interval
from tacita.approx.functions import WEIGHTED, Functions
from tacita.approx.spec import Spec
from tacita.blocks.base import Attention, FeedForward, Norm, Powers
from tacita.blocks.shapes import Function, Node
from tacita.layouts.rows import MAX_TOKENS
from tacita.models.registry import Config, nodes
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, NodeSpecs, NormSpecs
from tacita.planning.calibrate.calibration import AttentionCalibration, Calibration, FunctionCalibration

REFRESHED = math.sqrt(2.0) * 2.0**-22  # of a slot after a bootstrap: `slots.noise`, rounded up
DEEPEST = 12  # levels of 1/x, of the 16 between two bootstraps: what is around it takes some


@dataclass(frozen=True)
class Accuracy:
    """Stated errors of the approximations; the defaults keep the logits of the default model within 0.01.

    exp: of each exponential, relative to the smallest row mean. inverse, rsqrt: relative. wide_inverse: the
    same where row means span so much that 1/x to `inverse` would leave no level for what follows; only rows
    whose means are next to the smallest have it. activation, tanh: absolute.
    limit: of each exponential of MOAI's form, relative to the largest. relu: root mean square over the
    calibrated inputs, relative to half their interval; chosen so that the probabilities of DASHformer move by
    0.02 at most (`python -m bench dashformer-functions`).
    relu2: root mean square over the calibrated inputs, relative to that of the results.
    choice: absolute, of a comparison that is 0 or 1: 142 of them in a product leave 1e-10 of `smooth_spec`.
    """

    exp: float = 5e-4
    inverse: float = 1e-3
    wide_inverse: float = 1e-2
    rsqrt: float = 1e-3
    activation: float = 2e-3
    tanh: float = 2e-3
    limit: float = 4e-4
    relu: float = 9e-5
    relu2: float = 2e-3
    choice: float = 1e-5

    def of(self, function: str) -> float:
        """Returns the error for a function of features: `activation` for those without their own field."""
        own = {"tanh": self.tanh, "relu": self.relu, "relu2": self.relu2}
        return own.get(function, self.activation)


def fit_circuit(
    calibration: Calibration,
    config: Config,
    accuracy: Accuracy | None = None,
    functions: Functions | None = None,
    *,
    tokens: int = MAX_TOKENS,
    inside: Container[str] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CircuitSpecs:
    """The specs of every node, of the chosen variants; a retrained model's own functions for those it
    replaces. tokens: of a text, at most. inside: attentions that refresh row sums and no exponential.
    progress: called with (done, total) of the nodes.

    Raises FitError naming the function whose error is out of reach, PlanError for a function without an
    approximation and for a calibration of other nodes.
    """
    fit = _Fit(calibration, accuracy or Accuracy(), functions or Functions(), tokens, inside)
    specs_by_node: dict[str, NodeSpecs] = {}
    for number, (name, node) in enumerate(nodes(config).items(), 1):
        if specs := fit.of(name, node):
            specs_by_node[name] = specs
        progress(number, len(nodes(config)))
    return CircuitSpecs(specs_by_node, calibration.entry, calibration.answer, calibration.inputs)


def are_of(
    specs: CircuitSpecs, calibration: Calibration, config: Config, functions: Functions, tokens: int
) -> bool:
    """Returns whether specs may be those of the functions on their calibration: by the kinds of their
    approximations, since errors and a release change coefficients. Raises PlanError as `fit_circuit`."""
    try:
        wanted = fit_circuit(calibration, config, functions=functions, tokens=tokens).nodes
    except FitError:
        return False
    return all(name in wanted and _kinds(node) <= _kinds(wanted[name]) for name, node in specs.nodes.items())


def _kinds(specs: NodeSpecs) -> set[tuple[str, ...]]:
    """Returns the kinds of a node's approximations; of a function one for each of its choices."""
    match specs:
        case AttentionSpecs():
            return {(specs.exp.kind, "rounds" if specs.rounds else specs.inverse.kind)}
        case NormSpecs():
            return {(specs.rsqrt.kind,)}
        case FunctionSpecs():
            return {(one.kind,) for one in (specs.function, specs.refreshed) if one}


@dataclass(frozen=True)
class _Fit:
    calibration: Calibration
    goal: Accuracy
    chosen: Functions
    tokens: int
    inside: Container[str]

    def of(self, name: str, node: Node) -> NodeSpecs | None:
        """Fits one node; returns None for a node without approximations."""
        match node:
            case Attention(weights=Powers() as p):  # no error; the row means, in [-1, 1], go unused
                a = self.calibration.attention(name)
                exp, inverse = poly.power_weights(a.scores, p.offset, p.power, p.denominator)
                return AttentionSpecs(exp, inverse, a.context / inverse.value, a.context)
            case Attention():
                return replace(self._softmax(name), rows=self.calibration.row_estimates.get(name))
            case Norm():
                c = self.calibration.norm(name)
                if node.deviation is None:
                    rsqrt = self.chosen.fit("rsqrt", c.variance, self.goal.rsqrt)
                else:  # the stored 1/D of batch normalisation
                    rsqrt = poly.constant_spec("rsqrt", c.variance, 1.0 / node.deviation)
                return NormSpecs(rsqrt, c.centred, c.result)
            case FeedForward(function=kind) | Function(kind=kind):
                return self._functions(kind, self.calibration.function(name))
            case _:
                return None

    def _softmax(self, name: str) -> AttentionSpecs:
        c, goal, chosen = self.calibration.attention(name), self.goal, self.chosen
        if rounds := max(chosen.rounds[0], self.calibration.rounds.get(name, 0)):
            return self._in_rounds(c, rounds, inside=name in self.inside)
        if chosen.exp != "moai":
            exp = chosen.fit("exp", c.scores, goal.exp * c.means[0][0], shift=c.shift, least=c.means[0][0])
            return AttentionSpecs(exp, self._inverse(name, c.means[0]), c.mixed_mean, c.context)
        exp = chosen.fit("exp", c.scores, goal.limit, shift=c.shift)
        x = np.linspace(*c.scores, 4001)
        ratio = exp.numpy(x) / exponential.exact(x, c.shift)
        low, high = float(ratio.min()), float(ratio.max())  # by no more do means move
        means = c.means[0][0] * low, c.means[0][1] * high
        return AttentionSpecs(exp, chosen.fit("inverse", means, goal.inverse), c.mixed_mean * high, c.context)

    def _inverse(self, name: str, means: Interval) -> Spec:
        """Fits 1/x on row means; after a linear estimate in DEEPEST levels, else to `wide_inverse`."""
        rows = self.calibration.row_estimates.get(name)
        if rows is None or not rows.is_linear:
            return self.chosen.fit("inverse", means, self.goal.inverse)
        try:
            return self.chosen.fit("inverse", means, self.goal.inverse, max_depth=DEEPEST)
        except FitError:
            return self.chosen.fit("inverse", means, self.goal.wide_inverse)

    def _in_rounds(self, c: AttentionCalibration, rounds: int, *, inside: bool) -> AttentionSpecs:
        """inside: row means are refreshed as they are stored, with the largest at 1 or below."""
        error, means = (self.goal.exp, self.goal.inverse), c.means[rounds]
        noise = REFRESHED * min(1.0, math.sqrt(softmax.FEWEST_KEYS) * means[1]) if inside else REFRESHED
        phases = softmax.fit(
            c.scores, means, error, keys=self.tokens, shift=c.shift, noise=noise, rounds=rounds
        )
        return AttentionSpecs.of_phases(phases, c.context)

    def _functions(self, kind: str, c: FunctionCalibration) -> FunctionSpecs:
        """Where placement may choose, both; by a bootstrap alone where no polynomial follows so far."""
        fit, gate = self.chosen.refreshed(kind), (c.factor or None, c.product or None)
        if fit is None:
            return FunctionSpecs(self._function(kind, c), None, *gate)
        refreshed = fit(c.argument, self.goal.of(kind))
        try:
            return FunctionSpecs(self._function(kind, c), refreshed, *gate)
        except FitError:
            return FunctionSpecs(refreshed, None, *gate)

    def _function(self, kind: str, c: FunctionCalibration) -> Spec:
        weights = {"density": c.density} if kind in WEIGHTED else {}
        return self.chosen.fit(kind, c.argument, self.goal.of(kind), **weights)
