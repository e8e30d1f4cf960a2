"""What a circuit is built from besides weights: approximations and bounds of its nodes, all calibrated.

    specs.attention("layer0.attention").exp     # a Spec, fitted to the scores of this node
    specs.norm("layer0.norm1").result           # a bound

The names are those of the model's nodes (see `blocks.base`); no order and no family is implied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np

from tacita.approx import inverse, rsqrt
from tacita.approx.comparison import Comparison
from tacita.approx.poly import is_constant
from tacita.approx.softmax import Phases, Round, RowEstimate
from tacita.approx.spec import Spec
from tacita.blocks.base import Attention, FeedForward, Norm
from tacita.blocks.floats import FUNCTIONS
from tacita.blocks.shapes import Function, Node
from tacita.errors import PlanError
from tacita.extras import AT_DEFAULT
from tacita.layouts.arrays import Array
from tacita.packings.encoding import Argument
from tacita.plans.json_fields import from_json, to_json

ATTENTION, NORM, FUNCTION = "attention", "norm", "function"
MOST = sys.float_info.max  # neither infinite nor NaN
MOST_LIFT = 256  # of an exponential
REMAKE = "the plan was made by another version"
Found = TypeVar("Found")


@dataclass(frozen=True)
class AttentionSpecs:
    """Approximations and bounds of one attention. exp: of scaled scores minus a shift, values in (0, 1].
    inverse: of the row means of those (real keys).

    context: bound of |mean_j exp_ij V_j|. attended: the same after it is normalised. rows: taken from the
    scores before exp, whose interval is after it; None for most, and for packings that cannot.

    rounds: of a softmax that has any (`approx.softmax`); then exp is of that share of the scores, and inverse
    of the row sums of the last round's squares. Absent from the data where it has none.
    """

    tag: ClassVar[str] = ATTENTION
    exp: Spec
    inverse: Spec
    context: float
    attended: float
    rows: RowEstimate | None = None
    rounds: tuple[Round, ...] = field(default=(), metadata=AT_DEFAULT)

    @property
    def share(self) -> float:
        """The share of a score that exp is applied to: all without rounds."""
        return float(0.5 ** len(self.rounds))

    @property
    def lift(self) -> int:
        """What brings the largest row mean to 1: a factor of exponentials that nobody bootstraps, whose noise
        it leaves behind. Of the first round's means, where there are rounds."""
        inverse = self.rounds[0].inverse if self.rounds else self.inverse
        return min(MOST_LIFT, max(1, int(1.0 / inverse.domain[1])))

    @property
    def score_scale(self) -> float:
        """Stored scores = scores * this."""
        return Argument.of(self.exp).scale * self.share

    def key_bias(self, bias: Array) -> Array:
        """The key's bias (hidden,) with the linear part of the row estimate taken off."""
        return self.rows.key_bias(bias) if self.rows else bias

    def score_offsets(self, heads: int) -> Array:
        """What is added to the scores of each head: the centre of their stored form and the row estimate's
        constant. (heads,)"""
        constants = np.array(self.rows.constant) if self.rows else np.zeros(heads)
        return np.asarray(Argument.of(self.exp).offset - constants * self.score_scale)

    @property
    def phases(self) -> Phases | None:
        """None of a softmax without rounds."""
        return Phases(self.exp, self.rounds, self.inverse) if self.rounds else None

    @staticmethod
    def of_phases(phases: Phases, context: float) -> AttentionSpecs:
        """Makes the specs of a softmax in rounds. context: bound of what is attended; the squares of a row
        add up to 1 at most, so it is that before normalising too."""
        return AttentionSpecs(phases.power, phases.last, context, context, None, phases.rounds)


@dataclass(frozen=True)
class NormSpecs:
    """The approximation and bounds of one norm. rsqrt: of variance + epsilon. centred: bound of the input
    minus its mean. result: bound of the output. fused: whether the attention before it and the feed-forward
    behind it share its levels (`Circuit.fusible`); absent from the data where not."""

    tag: ClassVar[str] = NORM
    rsqrt: Spec
    centred: float
    result: float
    fused: bool = field(default=False, metadata=AT_DEFAULT)


@dataclass(frozen=True)
class FunctionSpecs:
    """The approximation of one function, and the bounds of its gate. function: that inside a feed-forward, or
    of a node of its own.

    refreshed: one of the same function by a bootstrap, where the placement has the choice. None once it has
    chosen, so that no plan has it. factor, product: where a gate multiplies its result, bounds of what it is
    multiplied by and of the product; None, and absent from the data, without a gate.
    """

    tag: ClassVar[str] = FUNCTION
    function: Spec
    refreshed: Spec | None = field(default=None, metadata=AT_DEFAULT)
    factor: float | None = field(default=None, metadata=AT_DEFAULT)
    product: float | None = field(default=None, metadata=AT_DEFAULT)

    def settled(self, *, refreshed: bool) -> FunctionSpecs:
        """These specs with the chosen function alone."""
        chosen = self.refreshed if refreshed and self.refreshed else self.function
        return replace(self, function=chosen, refreshed=None)


NodeSpecs = AttentionSpecs | NormSpecs | FunctionSpecs


@dataclass(frozen=True)
class CircuitSpecs:
    """Approximations and bounds of all nodes of a model. nodes: by name. entry: bound of |hidden states| sent
    by the client. answer: bound of what it gets.

    inputs: bound of |what a node takes|, by node, where calibration knows it: for a sum that is stored for
    its readers.

    comparison: of two logits, as half their difference over `answer`, where the client gets the likeliest
    word alone (`packings.shared.answer`). None, and absent from the data, where it gets the logits.
    """

    nodes: Mapping[str, NodeSpecs]
    entry: float
    answer: float
    inputs: Mapping[str, float] = field(default_factory=dict)
    comparison: Comparison | None = field(default=None, metadata=AT_DEFAULT)

    def attention(self, name: str) -> AttentionSpecs:
        """Specs of the attention with this name. Raises PlanError where there is none."""
        return of_kind("specs", self.nodes, name, AttentionSpecs)

    def norm(self, name: str) -> NormSpecs:
        """Specs of the norm with this name. Raises PlanError where there is none."""
        return of_kind("specs", self.nodes, name, NormSpecs)

    def function(self, name: str) -> FunctionSpecs:
        """Specs of the feed-forward or function with this name. Raises PlanError where there is none."""
        return of_kind("specs", self.nodes, name, FunctionSpecs)

    @property
    def undecided(self) -> frozenset[str]:
        """Nodes with a choice that the placement has not made."""
        functions = {n: s for n, s in self.nodes.items() if isinstance(s, FunctionSpecs)}
        return frozenset(name for name, specs in functions.items() if specs.refreshed)

    def with_fused(self, names: Collection[str]) -> CircuitSpecs:
        """These specs with these norms fused."""
        fused = {name: replace(self.norm(name), fused=True) for name in names}
        return replace(self, nodes={**self.nodes, **fused})

    def exactly(self, names: Collection[str]) -> CircuitSpecs:
        """These specs with "softmax", "norm" and functions by their names computed exactly (`exact_spec`)."""
        return replace(self, nodes={name: _exact(node, names) for name, node in self.nodes.items()})

    def settled(self, refreshed: Set[str]) -> CircuitSpecs:
        """These specs with the refreshed function of the nodes named, and the other one of all others."""
        chosen = {name: self.function(name).settled(refreshed=name in refreshed) for name in self.undecided}
        return replace(self, nodes={**self.nodes, **chosen})

    def to_dict(self) -> dict[str, Any]:
        """JSON data; `from_json` gives back an equal object."""
        data: dict[str, Any] = to_json(self)
        return data

    @staticmethod
    def from_json(data: Any) -> CircuitSpecs:
        """Inverse of to_dict.

        Raises PlanError for a field that is missing, unknown or of another type, and FitError for an
        approximation that is not one of ours.
        """
        try:
            specs: CircuitSpecs = from_json(CircuitSpecs, data)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise PlanError(f"specs: {error!s:.200}", hint=REMAKE) from None
        for name, bound in specs.bounds():
            if not abs(bound) <= MOST:
                raise PlanError(f"specs: {name!r:.80} is {bound!r:.40}, expected a number", hint=REMAKE)
        return specs

    def bounds(self) -> Iterator[tuple[str, float]]:
        """All bounds, with what each is of."""
        yield from (("entry", self.entry), ("answer", self.answer), *self.inputs.items())
        for name, node in self.nodes.items():
            for part in (node, *getattr(node, "rounds", ())):
                yield from ((f"{name}: {key}", v) for key, v in vars(part).items() if isinstance(v, float))


# down to which share of its domain's end an inverse is exact: slots without a value hold less
NEAR = 1.0 / 16.0
EXACT: Mapping[str, Callable[[Array], Array]] = {
    **FUNCTIONS,
    "inverse": inverse.exact,
    "rsqrt": rsqrt.exact,
}


def _exact(node: NodeSpecs, names: Collection[str]) -> NodeSpecs:
    match node:
        case AttentionSpecs() if "softmax" in names:
            rounds = tuple(replace(one, inverse=exact_spec(one.inverse)) for one in node.rounds)
            return replace(node, exp=exact_spec(node.exp), inverse=exact_spec(node.inverse), rounds=rounds)
        case NormSpecs() if "norm" in names:
            return replace(node, rsqrt=exact_spec(node.rsqrt))
        case FunctionSpecs() if node.function.function in names:
            return replace(node, function=exact_spec(node.function))
        case _:
            return node


def exact_spec(spec: Spec) -> Spec:
    """Returns a spec whose levels and scales are those of this one and whose values are the exact function's,
    on backends that encrypt nothing: an ablation. No file can hold it. A function of which nothing is
    approximated stays as it is: a power in place of an exponential, a number in place of an inverse."""
    if is_constant(spec) or spec.function not in ("exp", *EXACT):
        return spec
    return _exact_kind(type(spec))(*(getattr(spec, each.name) for each in fields(spec)), spec)


@cache
def _exact_kind(kind: type[Spec]) -> Callable[..., Spec]:
    """Returns a class that a lowering takes for the given one. whole: the spec that it was made from, where a
    lowering takes a part of it, such as the root of an exponential that it squares later."""

    @dataclass(frozen=True)
    class Exact(kind):  # type: ignore[misc, valid-type]
        whole: Spec

        def evaluate(self, be: Any, ct: Any, input_scale: float = 1.0, output_scale: float = 1.0) -> Any:
            return self.evaluate_all(be, [ct], input_scale, output_scale)[0]

        def evaluate_all(
            self, be: Any, cts: Any, input_scale: float = 1.0, output_scale: float = 1.0
        ) -> list[Any]:
            ends = self.part.evaluate_all(be, cts, input_scale, output_scale)  # for their levels
            values = [self.values(be.decrypt(ct).real / input_scale) * output_scale for ct in cts]
            return [be.encrypt(v, be.level(end)) for v, end in zip(values, ends, strict=True)]

        def divide(self, be: Any, numerators: Any, ct: Any, input_scale: float = 1.0) -> list[Any]:
            ends = self.part.divide(be, numerators, ct, input_scale)
            factor = self.values(be.decrypt(ct).real / input_scale) * self.divide_factor(input_scale)
            pairs = zip(numerators, ends, strict=True)
            return [be.encrypt(be.decrypt(n) * factor, be.level(end)) for n, end in pairs]

        @property
        def part(self) -> Any:
            return kind(*(getattr(self, each.name) for each in fields(kind)))

        def values(self, x: Array) -> Array:
            if self.function != "exp":
                bounded = self.function in ("inverse", "rsqrt")
                return EXACT[self.function](np.maximum(x, self.domain[0] * NEAR) if bounded else x)
            top, rest = self.whole.domain[1], 0.5 ** getattr(self.whole, "squarings", 0)
            root = 2.0 ** getattr(self, "squarings", 0) * rest
            return np.asarray((self.whole.numpy(np.array(top)) * np.exp(np.minimum(x - top, 700.0))) ** root)

    return Exact


def approximated(nodes: Mapping[str, Node]) -> dict[str, str]:
    """The nodes that are approximated or bounded, and their kind: "attention", "norm" or "function"."""
    kinds: dict[str, tuple[type[Any], ...]] = {
        ATTENTION: (Attention,),
        NORM: (Norm,),
        FUNCTION: (FeedForward, Function),
    }
    return {
        name: tag for name, node in nodes.items() for tag, kind in kinds.items() if isinstance(node, kind)
    }


def of_kind(what: str, nodes: Mapping[str, Any], name: str, kind: type[Found]) -> Found:
    """Looks up nodes[name]. Raises PlanError naming the node where it is missing or of another kind."""
    node = nodes.get(name)
    if not isinstance(node, kind):
        there = "is missing" if node is None else f"is {type(node).__name__}"
        message = f"{what}: node {name!r:.80} {there}, expected {kind.__name__}"
        raise PlanError(message, hint="calibrate this model")
    return node
