"""Approximations and a shape -> circuit, and plan + model -> the same circuit again, within limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tacita.approx.fit import FitError, Interval
from tacita.approx.functions import Functions
from tacita.approx.poly import is_constant
from tacita.approx.softmax import RowEstimate
from tacita.approx.spec import Spec, free_depth
from tacita.blocks.base import Attention, FeedForward
from tacita.blocks.shapes import Node, function_of
from tacita.checkpoint import Checkpoint
from tacita.errors import PlanError, ShapeError, TacitaError
from tacita.layouts.registry import RULES, Shape
from tacita.limits import Rules, limits_of, require, try_make
from tacita.models.config import LATEST
from tacita.models.registry import FAMILIES, Config, family_of, nodes, outline, shapes, unknown_option
from tacita.packings.base import Circuit
from tacita.packings.lowering import build, in_slots, inputs_of_sums
from tacita.packings.specs import ATTENTION, FUNCTION, NORM, AttentionSpecs, CircuitSpecs, approximated
from tacita.planning.calibrate.calibration import MOST, ROUNDS, AttentionCalibration, Calibration
from tacita.planning.calibrate.temper import tempered
from tacita.planning.fitting import are_of
from tacita.planning.options import OPTIONS
from tacita.planning.place.circuit import Placed, place_circuit, refreshed_nodes, require_agreement
from tacita.plans.commitment import SALT_FILE, commit
from tacita.plans.json_fields import from_json, printable
from tacita.plans.plan import REMAKE, ModelInfo, ParameterInfo, Plan
from tacita.plans.prices.cost import Prices
from tacita.plans.scheme import shape_of
from tacita.resources import trim
from tacita.texts.embedding import FrontConfig, table_shapes
from tacita.texts.task import NEXT


@dataclass(frozen=True)
class Built:
    """A circuit and what it was built from. model: with its scores scaled (`planning.calibrate.temper`)."""

    model: Checkpoint
    specs: CircuitSpecs
    shape: Shape
    circuit: Circuit

    def shrunk(self, texts: int) -> Built:
        """Returns the same circuit with no more sequences than hold so many texts."""
        small = self.shape.shrunk(texts)
        return self if small == self.shape else _built(self.model, self.specs, small)


def build_circuit(
    model: Checkpoint, specs: CircuitSpecs, wanted: Sequence[Shape], ring: ParameterInfo, prices: Prices
) -> Built:
    """Builds the first shape that the model admits, with the functions that are cheaper by a bootstrap
    computed by one. Raises the ShapeError of the last shape, PlanError."""
    for shape in wanted[:-1]:
        with suppress(ShapeError):  # lanes that this model does not admit
            built = _built(model, specs, shape)
            break
    else:
        built = _built(model, specs, wanted[-1])
    if not specs.undecided:
        return built
    settled = specs.settled(refreshed_nodes(built.circuit, ring, prices))
    return _built(model, settled, built.shape)


def _built(model: Checkpoint, specs: CircuitSpecs, shape: Shape) -> Built:
    return Built(model, specs, shape, build(model, specs, shape))


def with_fused_norms(built: Built, placed: Placed) -> tuple[Built, Placed]:
    """Fuses norms where that is cheaper, which it is where two blocks then fit between two bootstraps: all
    that fit, then one less from the last on as long as it gets cheaper. Returns what is given where nothing
    does. A placement for each trial."""
    found, names = [(built, placed)], [n for n, ends in built.circuit.fusible.items() if _fits(placed, ends)]
    with suppress(PlanError):  # fused stages may find no placement
        while names and (len(found) < 3 or found[-1][1].placement.seconds < found[-2][1].placement.seconds):
            fused = _built(built.model, built.specs.with_fused(names), built.shape)
            found.append((fused, place_circuit(fused.circuit, placed.parameters, placed.prices)))
            names.pop()
    return min(found, key=lambda one: one[1].placement.seconds)


def _fits(placed: Placed, stages: Collection[str]) -> bool:
    """Whether these stages and a product between them fit between two bootstraps."""
    ends = [stage for stage in placed.stages if stage.name in stages]
    levels = [min(stage.levels.values()) - min(stage.out_levels.values()) for stage in ends]
    return sum(levels) + 1 <= placed.parameters.max_level


def circuit_of(
    plan: Plan, model: Checkpoint, *, texts: int | None = None, exact: frozenset[str] = frozenset()
) -> Circuit:
    """The circuit that the plan was made for; kept for the next call. Raises PlanError for another model or
    another circuit than the plan lists, FileError for a circuit outside their limits.

    texts: for interpreters in the clear, the same circuit with no more sequences than hold so many. exact: of
    these too, what is computed exactly (`CircuitSpecs.exactly`).
    """
    model = in_slots(model)
    require_model(plan, model)
    shape = shape_of(plan) if texts is None else shape_of(plan).shrunk(texts)
    return _circuit(_CircuitSource(plan.hash, shape, exact, plan, model))


def has_functions(plan: Plan, model: Checkpoint, functions: Functions) -> bool:
    """Returns whether a plan may be of these functions, as far as it shows (`fitting.are_of`). Raises
    PlanError for another model. Cost: a fit of every node."""
    model = in_slots(model)
    require_model(plan, model)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    calibration = Calibration.from_dict(plan.circuit["calibration"])
    return are_of(specs, calibration, model.config, functions, plan.tokens)


def exact_names(config: Config) -> list[str]:
    """Returns what of a model may be computed exactly in place of an approximation, by the names that
    `CircuitSpecs.exactly` takes."""
    model, names = nodes(config), {ATTENTION: "softmax", NORM: "norm"}
    kinds = approximated(model).items()
    return sorted({names.get(kind) or str(function_of(model[name])) for name, kind in kinds})


def require_model(plan: Plan, model: Checkpoint) -> None:
    """Raises PlanError unless the plan committed to these weights and says of them what is so: sizes, labels,
    their order.

    The salt opens the commitment. The name may differ: it is that of a folder.
    """
    if not plan.salt:
        raise PlanError(
            f"plan of model {plan.model.name}, without the salt that opens its commitment to the weights",
            hint=f"a server keeps {SALT_FILE} beside its plan.json, as `tacita plan` or `publish` wrote them",
        )
    if commit(plan.salt, model.sha256) != plan.model.commitment:
        raise PlanError(
            f"plan of model {plan.model.name}, which committed to other weights than those of {model.name}",
            hint=f"pass the --model that the plan was made for with its {SALT_FILE}, or make the plan again",
        )
    here = replace(model_info(in_slots(model), plan.model.commitment), name=plan.model.name)
    here = here if plan.model.ends is not None else replace(here, ends=None)  # of a release that did not say
    if wrong := [f.name for f in fields(here) if getattr(here, f.name) != getattr(plan.model, f.name)]:
        raise PlanError(
            f"plan: {wrong[0]} of the model is {getattr(plan.model, wrong[0])!s:.80}, here it is "
            f"{getattr(here, wrong[0])!s:.80}",
            hint="the plan was altered: make it again, and do not use this one",
        )
    shape_of(plan)


def model_info(model: Checkpoint, commitment: str) -> ModelInfo:
    """What a plan says about its checkpoint."""
    c = model.config
    return ModelInfo(
        name=printable(model.name),
        commitment=commitment,
        architecture=family_of(c),
        layers=c.layers,
        hidden=c.hidden,
        heads=c.heads,
        intermediate=c.intermediate,
        activation=c.activation,
        pooling=c.pooling,
        normalise=c.normalise,
        labels=c.labels,
        embeddings=FrontConfig.of(c) if c.embeddings else None,
        task=c.task,
        problem=c.problem,
        head_size=getattr(c, "head_size", 0),
        ends=getattr(c, "ends", None),
    )


SIZES = ("layers", "hidden", "heads", "intermediate", "activation", "pooling", "labels", "task")


def outline_of(m: ModelInfo) -> Config:
    """Returns `registry.outline` of a plan's model, where heads share no keys and values: slots repeat
    them. Raises PlanError for a model of no family."""
    if m.architecture not in FAMILIES:
        raise PlanError(f"plan of a model of family {m.architecture!r:.40}", hint="made by a later release?")
    own = {"head_size": m.head_size} if hasattr(FAMILIES[m.architecture].config, "head_size") else {}
    return outline(m.architecture, **own, **{name: getattr(m, name) for name in SIZES})


@lru_cache(maxsize=32)
def numbers_of(m: ModelInfo) -> tuple[int, int]:
    """Counts the numbers of a plan's model: of all maps and norms, as slots hold them, and of the embedding's
    tables. Raises PlanError as `outline_of`. Cost: a millisecond for ten layers."""
    config, front = outline_of(m), m.embeddings
    if front is not None:
        config = replace(config, vocab=front.vocab, embedding_size=front.embedding_size)
    both = shapes(config, 1).tensors, table_shapes(front, m.hidden) if front else {}
    maps, tables = (sum(map(prod, each.values())) for each in both)
    return maps, tables


@dataclass(frozen=True)
class _CircuitSource:
    """What a circuit is built from. Equal where the plan's hash, the shape and what is exact are: model and
    plan follow from them.
    """

    hash: str
    shape: Shape
    exact: frozenset[str]
    plan: Plan = field(compare=False)
    model: Checkpoint = field(compare=False)


@lru_cache(maxsize=4)
def _circuit(source: _CircuitSource) -> Circuit:
    """Raises FileError for numbers of the circuit outside their limits, and PlanError where they make no
    circuit together or another one than the plan lists."""
    plan, shape = source.plan, source.shape
    require_circuit(plan)
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            specs = CircuitSpecs.from_json(plan.circuit["specs"]).exactly(source.exact)
            model = tempered(source.model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
            circuit = build(model, specs, shape)
            # of a smaller or an exact one, for interpreters in the clear, nobody makes keys
            if shape == shape_of(plan) and not source.exact:
                require_agreement(plan, circuit)
    except (ShapeError, FitError, ArithmeticError, ValueError) as error:
        raise PlanError(
            f"the plan's circuit cannot be built ({error!s:.200})", hint="make the plan again"
        ) from error
    trim()  # a server measures what is taken next, and keys come after it
    return circuit


# What a circuit is built from, typed and within limits: calibrated intervals and approximations.
#
# The server's, who builds it. A client takes nothing from this part and checks the others (`plans.check`).

MOST_ITEMS = 4096  # coefficients of a series; the fits take up to 512
SERIES = ("coefficients", "cosines", "sines")
MOST_STEPS = 64  # of an iteration; the fits take up to 12
# by data that are of no type, as an approximation's own fields may be
MISTYPED = (AttributeError, KeyError, TypeError, ValueError)
CALIBRATED = ("calibration", "specs")


def require_circuit(plan: Plan, where: str = "plan") -> None:
    """Raises FileError naming the first field outside its limits. Cost: milliseconds; builds no circuit."""
    require(_rules(plan), where, hint=REMAKE)


def _rules(plan: Plan) -> Rules:
    """Yields the rules of the model's names and of `Plan.circuit`; later rules rely on earlier ones."""
    yield "architecture", plan.model.architecture in FAMILIES
    unknown = unknown_option(plan.model.architecture, plan.model)
    yield unknown or "options", unknown is None
    yield "rows in reverse", (plan.model.task == NEXT) == (plan.model.pooling == LATEST)
    yield "fields of the circuit", set(plan.circuit) == set(CALIBRATED)
    calibration = try_make(lambda: Calibration.from_dict(plan.circuit["calibration"]), TacitaError)
    yield "fields of the calibration", calibration is not None
    specs = try_make(lambda: CircuitSpecs.from_json(plan.circuit["specs"]), TacitaError, *MISTYPED)
    yield "fields of the approximations", specs is not None
    if calibration and specs:
        yield from limits_of(calibration)
        model = nodes(config := outline_of(plan.model))
        yield "nodes with bounds of the inputs", calibration.inputs.keys() == inputs_of_sums(config).keys()
        yield from _calibration_rules(calibration, model, plan)
        yield from _specs_rules(specs, calibration, model, plan)


def _calibration_rules(calibration: Calibration, model: Mapping[str, Node], plan: Plan) -> Rules:
    yield "calibrated model", calibration.sha256 == plan.model.commitment
    yield "calibrated nodes", _kinds(calibration.nodes) == approximated(model)
    yield "bounds of gates", _gated(calibration.nodes) == _gates(model)
    attending = [one for one in calibration.nodes.values() if isinstance(one, AttentionCalibration)]
    yield "intervals of means", all(len(one.means) == len(ROUNDS) for one in attending)
    attentions = {name: node for name, node in model.items() if isinstance(node, Attention)}
    heads = {name: attention.heads for name, attention in attentions.items()}
    yield "temperatures", {name: len(betas) for name, betas in calibration.temperatures.items()} == heads
    estimated = calibration.row_estimates
    yield "row estimates", estimated.keys() <= attentions.keys()
    yield "row estimates", all(_estimates(rows, attentions[name]) for name, rows in estimated.items())
    takes = RULES[plan.packing].takes
    yield "row estimates of this packing", all(takes(linear=rows.is_linear) for rows in estimated.values())


def _gates(model: Mapping[str, Node]) -> dict[str, int]:
    """Functions and how many bounds a gate adds to them."""
    functions = {name: node for name, node in model.items() if function_of(node)}
    return {n: 2 if isinstance(node, FeedForward) and node.gate else 0 for n, node in functions.items()}


def _gated(specs: Mapping[str, Any]) -> dict[str, int]:
    """Counts the gates' bounds as `_gates` does, in a calibration or in approximations."""
    functions = {name: node for name, node in specs.items() if node.tag == FUNCTION}
    return {name: bool(n.factor) + bool(n.product) for name, n in functions.items()}


def _kinds(specs: Mapping[str, Any]) -> dict[str, str]:
    return {name: node.tag for name, node in specs.items()}


def _estimates(rows: RowEstimate, attention: Attention) -> bool:
    vectors = (*rows.linear, *rows.quadratic)
    right = len(rows.linear) == len(rows.quadratic) == len(rows.constant) == attention.heads
    sized = all(len(vector) == attention.head_size for vector in vectors)
    return right and sized and all(abs(v) <= MOST for vector in (*vectors, rows.constant) for v in vector)


def _specs_rules(
    specs: CircuitSpecs, calibration: Calibration, model: Mapping[str, Node], plan: Plan
) -> Rules:
    yield "approximated nodes", _kinds(specs.nodes) == approximated(model)
    yield "bounds of gates", _gated(specs.nodes) == _gates(model)
    yield "bound of the request", specs.entry == calibration.entry
    yield "bound of the answer", specs.answer == calibration.answer
    yield "bounds of the inputs", specs.inputs == calibration.inputs
    attentions = {name: node for name, node in specs.nodes.items() if isinstance(node, AttentionSpecs)}
    estimated = {name: node.rows for name, node in attentions.items() if node.rows}
    yield "row estimates", estimated == calibration.row_estimates
    rounds = {name: len(node.rounds) for name, node in attentions.items() if node.rounds}
    yield "rounds of softmax", rounds == calibration.rounds
    for name, node in specs.nodes.items():
        own = node.rounds if isinstance(node, AttentionSpecs) else ()
        yield f"{name}: what a round is stored over", all(1.0 <= one.room <= MOST for one in own)
        for what, value in (item for part in (node, *own) for item in vars(part).items()):
            if isinstance(value, Spec):
                above = 0.0 if what in ("inverse", "rsqrt") and not is_constant(value) else -MOST
                yield (
                    f"{name}: approximation of {what}",
                    _approximation(value, plan.parameters.max_level, above),
                )
            elif isinstance(value, float):
                yield f"{name}: bound of {what}", 0.0 < value <= MOST
    for what, value in vars(specs.comparison).items() if specs.comparison else ():
        if isinstance(value, Spec):
            yield f"comparison: approximation of {what}", _approximation(value, plan.parameters.max_level)
    for option in OPTIONS:
        yield from option.check_circuit(specs, plan)


def _approximation(spec: Spec, levels: int, above: float = -2.0 * MOST) -> bool:
    """Whether every field has its type and its limit, and the whole fits into the chain's levels."""

    def good() -> bool:
        typed = from_json(type(spec), _without_kind(spec.to_dict()))
        inside = _domains(spec, above) and _limited("", spec.to_dict())
        return bool(typed == spec and inside and free_depth(spec) <= levels)

    return try_make(good, TacitaError, ArithmeticError, KeyError, TypeError, ValueError) or False


def _domains(spec: Spec, above: float) -> bool:
    """Whether the intervals of the approximation, and of those that it starts from, are within limits."""
    inner = [value for value in vars(spec).values() if isinstance(value, Spec)]
    own = _interval(spec.interval, above) and _interval(spec.domain, above)
    return own and all(_domains(start, above) for start in inner)


def _limited(name: str, value: Any) -> bool:
    """Whether lengths and magnitudes of a field are within their limits. Iterations take a level a step,
    series one a doubling of their coefficients."""
    match value:
        case Mapping():
            return all(_limited(*each) for each in value.items())
        case list() if name in SERIES:
            return 1 <= len(value) <= MOST_ITEMS and _small(value)
        case list():
            return len(value) <= MOST_STEPS and _small(value)
        case int():  # squarings, extensions
            return value >= 0
        case _:
            return isinstance(value, str) or _small(value)


def _small(value: Any) -> bool:
    return all(map(_small, value)) if isinstance(value, list) else bool(abs(value) <= MOST)


def _without_kind(data: Mapping[str, Any]) -> dict[str, Any]:
    """Drops the "kind" entries: `from_json` knows the type from the field."""
    return {
        name: _without_kind(value) if isinstance(value, Mapping) else value
        for name, value in data.items()
        if name != "kind"
    }


def _interval(interval: Interval, above: float = -2.0 * MOST) -> bool:
    low, high = interval
    return above < low < high <= MOST
