"""What calibration finds, by node: intervals (lo, hi) and bounds (largest magnitudes), margin included.

    calibration.attention("layer0.attention").scores    # (-4.4, 4.9)
    calibration.norm("layer0.norm1").variance           # (0.3, 2.8)

The names are those of the model's nodes (see `blocks.base`). A field has the name of the value that the float
reference records of the node (see `blocks.floats`), wherever it is one of those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, cast

from tacita.approx.softmax import MOST_ROUNDS, RowEstimate
from tacita.errors import PlanError
from tacita.extras import AT_DEFAULT
from tacita.limits import Above, Each, Range, Size, Span
from tacita.packings.specs import ATTENTION, FUNCTION, NORM, of_kind
from tacita.plans.json_fields import from_json, to_json

# Published numbers are rounded outwards to 8 bits of mantissa, by 2^-7 of an interval's ends at most: no
# exact copy of what was measured, which would be an equation on the weights (docs/threat-model.md). Numbers
# that bound nothing, such as the coefficients of a row estimate, go to the nearest such number.

BITS = 8  # of the mantissa, its leading one included

Interval = tuple[float, float]
MOST = 2.0**60  # magnitude that no interval of a model that works comes near
ROUNDS = range(MOST_ROUNDS + 1)  # of softmax, for which the means of exp(score / 2^k) are kept
BINS = 64  # of the density of a function's inputs
Bound = Annotated[float, Above(0.0, MOST, "a bound")]
Gate = Annotated[float, Range(0.0, MOST, "a bound")]  # 0 without one
ENDS, POSITIVE = -2.0 * MOST, 0.0  # above which intervals lie


def up(value: float) -> float:
    """The least number of 8 bits not below. Raises OverflowError or ValueError for what is not finite."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, BITS)), exponent - BITS)


def down(value: float) -> float:
    """The largest number of 8 bits that is not above."""
    return -up(-value)


def nearest(value: float) -> float:
    """The nearest number of 8 bits, for values that are no bound."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, BITS)), exponent - BITS)


def round_outward(interval: Interval) -> Interval:
    """The least interval with ends of 8 bits around this one; a positive one stays positive."""
    return down(interval[0]), up(interval[1])


def share(value: float) -> float:
    """The half power of two nearest to a share (by its logarithm), in 8 bits; 0 for one below 2^-14. To
    weight a fit it serves as well as the share itself."""
    return nearest(2.0 ** (0.5 * round(2.0 * math.log2(value)))) if value >= 2.0**-14 else 0.0


@dataclass(frozen=True)
class AttentionCalibration:
    """input: bound of x. scores: scaled scores, excluded keys too. shift: the upper end of the scores, which
    is subtracted before exp.

    sums: row sums of exp(score - shift) over real keys. mixed: bound of |sum_j exp(score_ij - shift) V_j|.
    means, mixed_mean: the same with weights 1/n for n real keys in place of 1, for a mask that holds 1/n
    (softmax is the same, the interval is narrower); means[k] is of exp((score - shift) / 2^k), for k
    rounds of softmax. context: bound after normalisation.
    """

    tag: ClassVar[str] = ATTENTION
    input: Bound
    scores: Annotated[Interval, Span(ENDS, MOST, "interval of scores")]
    shift: Annotated[float, Range(-MOST, MOST, "shift of the scores")]
    sums: Annotated[Interval, Span(POSITIVE, MOST, "interval of sums")]
    mixed: Bound
    means: Annotated[tuple[Interval, ...], Each(Span(POSITIVE, MOST, "intervals of means"))]
    mixed_mean: Bound
    context: Bound


@dataclass(frozen=True)
class NormCalibration:
    """sum: bound of what it normalises. centred: of that minus its mean. variance: with epsilon. result:
    bound of the output."""

    tag: ClassVar[str] = NORM
    sum: Bound
    centred: Bound
    variance: Annotated[Interval, Span(POSITIVE, MOST, "interval of variance")]
    result: Bound


@dataclass(frozen=True)
class FunctionCalibration:
    """Intervals of a function, also of that inside a feed-forward. argument: interval of its input. result:
    bound.

    density: share of the inputs in equal parts of that interval, as half powers of two; empty for functions
    whose fits do not ask. factor, product: of a gate, bounds of what the function's result is multiplied by
    and of the product; 0 where there is no gate.
    """

    tag: ClassVar[str] = FUNCTION
    argument: Annotated[Interval, Span(ENDS, MOST, "interval of argument")]
    density: Annotated[tuple[float, ...], Size(BINS), Each(Range(0.0, 1.0, "density"))]
    result: Bound
    factor: Gate = field(default=0.0, metadata=AT_DEFAULT)
    product: Gate = field(default=0.0, metadata=AT_DEFAULT)


GATED = ("factor", "product")  # fields of a function that are 0 without a gate
NodeCalibration = AttentionCalibration | NormCalibration | FunctionCalibration


@dataclass(frozen=True)
class Calibration:
    """Intervals of a checkpoint (by sha256; in a plan, by its commitment) at a margin.

    samples: inputs measured. rows: token rows measured, rounded up. nodes: in the order of the walk. entry:
    bound of the hidden states that a model starts from. answer: bound of logits or pooled vector, before it
    is normalised. temperatures: factor of the scores by attention and head, 1 but for heads too peaked; all
    intervals are those of `temper.tempered(checkpoint, temperatures)`, and a circuit must be built from that.
    row_estimates: what that circuit takes from the scores, for the attentions where it is worth it; the
    intervals of scores and sums are after it. inputs: bound of what a node takes, for the readers of sums
    that a circuit stores. rounds: of softmax (`approx.softmax`), by attention that has any.
    """

    sha256: str
    margin: Annotated[float, Range(0.0, 1.0, "margin of the calibration")]
    samples: Annotated[int, Range(1, name="samples of the calibration")]
    rows: Annotated[int, Range(1, name="samples of the calibration")]
    nodes: Mapping[str, NodeCalibration]
    entry: Annotated[float, Above(0.0, MOST, "bound of the request")]
    answer: Annotated[float, Above(0.0, MOST, "bound of the answer")]
    temperatures: Annotated[Mapping[str, tuple[float, ...]], Each(Each(Above(0.0, 1.0, "temperatures")))]
    row_estimates: Mapping[str, RowEstimate]
    inputs: Annotated[Mapping[str, float], Each(Above(0.0, MOST, "bounds of the inputs"))]
    rounds: Annotated[Mapping[str, int], Each(Range(1, MOST_ROUNDS, "rounds"))] = field(
        default_factory=dict, metadata=AT_DEFAULT
    )

    def attention(self, name: str) -> AttentionCalibration:
        """Returns the intervals of the attention `name`. Raises PlanError where there is none."""
        return of_kind("calibration", self.nodes, name, AttentionCalibration)

    def norm(self, name: str) -> NormCalibration:
        """Returns the intervals of the norm `name`. Raises PlanError where there is none."""
        return of_kind("calibration", self.nodes, name, NormCalibration)

    def function(self, name: str) -> FunctionCalibration:
        """Returns the intervals of the feed-forward or function. Raises PlanError where there is none."""
        return of_kind("calibration", self.nodes, name, FunctionCalibration)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; intervals become lists of two."""
        return cast(dict[str, Any], to_json(self))

    @staticmethod
    def from_dict(data: Any) -> Calibration:
        """Inverse of `to_dict`, bit for bit. Raises PlanError on missing, extra or ill-typed fields."""
        try:
            _require_finite("calibration", data)
            return cast(Calibration, from_json(Calibration, data))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise PlanError(
                f"calibration: the stored fields are not the expected ones ({error!s:.200})",
                hint="made by another version? make the plan again",
            ) from None


def _require_finite(where: str, data: Any) -> None:
    if isinstance(data, Mapping):
        for name, value in data.items():
            _require_finite(str(name), value)
    elif isinstance(data, list | tuple):
        for value in data:
            _require_finite(where, value)
    elif isinstance(data, float) and not math.isfinite(data):
        raise ValueError(f"{where} is {data!r}")
