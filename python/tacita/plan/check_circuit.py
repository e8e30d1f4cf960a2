"""The part of a plan from which its circuit is built: calibrated intervals and approximations, typed and within limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast

from tacita.approx.constant import is_constant
from tacita.approx.fit import Interval
from tacita.approx.spec import Spec, free_depth
from tacita.errors import TacitaError
from tacita.packings.columns.row_estimate import RowEstimate
from tacita.packings.rows.circuit import CircuitSpecs, LayerSpecs
from tacita.plan.calibrate import Calibration, LayerCalibration
from tacita.plan.plan import ModelInfo, Plan, from_json
from tacita.plan.ranges import BINS, ROUNDS
from tacita.plan.scheme import ROWS

Rules = Iterable[tuple[str, bool]]

MOST = 2.0**60  # magnitude that no interval of a model that works comes near
MOST_ITEMS = 4096  # coefficients of a series; the fits take up to 512
MOST_STEPS = 64  # of an iteration; the fits take up to 12
POSITIVE = ("sums", "variance1", "variance2")  # intervals of a layer that are above zero
SIGNED = ("scores", "activation")
CALIBRATED = ("calibration", "specs")


def circuit_rules(plan: Plan) -> Rules:
    """Of `plan.circuit`, in an order in which later rules rely on earlier ones."""
    yield "fields of the circuit", set(plan.circuit) == set(CALIBRATED)
    calibration = _calibration(plan.circuit["calibration"])
    yield "fields of the calibration", calibration is not None
    specs = _specs(plan.circuit["specs"])
    yield "fields of the approximations", specs is not None
    if calibration and specs:
        yield from _calibration_rules(calibration, plan)
        yield from _specs_rules(specs, calibration, plan.parameters.max_level)


def _calibration(data: Any) -> Calibration | None:
    """Typed in every field; None for anything else."""
    try:
        found = cast(Calibration, from_json(Calibration, data))
        return found if found == Calibration.from_dict(data) else None
    except (TacitaError, KeyError, TypeError, ValueError):
        return None


def _specs(data: Any) -> CircuitSpecs | None:
    """Typed in every field; None for anything else. Approximations tell their own type, which JSON data cannot show."""
    try:
        found = CircuitSpecs.from_json(data)
        known = data.keys() == found.to_dict().keys() and isinstance(found.tanh, Spec | None)
        return found if known and all(map(_typed, found.layers)) else None
    except (TacitaError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _typed(layer: LayerSpecs) -> bool:
    values = {field.name: getattr(layer, field.name) for field in fields(layer)}
    kinds = {"rows": RowEstimate | None} | dict.fromkeys(("exp", "inverse", "rsqrt1", "rsqrt2", "activation"), Spec)
    return all(isinstance(value, kinds.get(name, float)) for name, value in values.items())


def _calibration_rules(calibration: Calibration, plan: Plan) -> Rules:
    model = plan.model
    yield "calibrated model", calibration.sha256 == model.sha256
    yield "margin of the calibration", 0.0 <= calibration.margin <= 1.0
    yield "samples of the calibration", calibration.samples >= 1 and calibration.rows >= 1
    yield "bound of the answer", 0.0 < calibration.answer <= MOST
    yield "interval of the pooler", calibration.pooler is None or _interval(calibration.pooler)
    yield "temperatures", _temperatures(calibration.temperatures, model)
    yield "calibrated layers", len(calibration.layers) == len(calibration.row_estimates) == model.layers
    for index, layer in enumerate(calibration.layers):
        yield from _layer_rules(f"layer {index}:", layer)
    estimated = [rows for rows in calibration.row_estimates if rows is not None]
    yield "row estimates", all(_estimates(rows, model) for rows in estimated)
    yield "row estimates of one text", plan.scheme != ROWS or not estimated


def _temperatures(temperatures: tuple[tuple[float, ...], ...], model: ModelInfo) -> bool:
    right = len(temperatures) == model.layers and all(len(layer) == model.heads for layer in temperatures)
    return right and all(0.0 < beta <= 1.0 for layer in temperatures for beta in layer)


def _layer_rules(name: str, layer: LayerCalibration) -> Rules:
    bounds = [value for key, value in vars(layer).items() if isinstance(value, float) and key != "shift"]
    yield f"{name} a bound", all(0.0 < value <= MOST for value in bounds)
    yield f"{name} shift of the scores", abs(layer.shift) <= MOST
    for key in SIGNED:
        yield f"{name} interval of {key}", _interval(getattr(layer, key))
    for key in POSITIVE:
        yield f"{name} interval of {key}", _interval(getattr(layer, key), above=0.0)
    yield f"{name} intervals of means", len(layer.means) == len(ROUNDS)
    yield f"{name} intervals of means", all(_interval(mean, above=0.0) for mean in layer.means)
    yield f"{name} density", len(layer.density) <= BINS and all(0.0 <= share <= 1.0 for share in layer.density)


def _estimates(rows: RowEstimate, model: ModelInfo) -> bool:
    vectors = (*rows.linear, *rows.quadratic)
    right = len(rows.linear) == len(rows.quadratic) == len(rows.constant) == model.heads
    sized = all(len(vector) == model.hidden // model.heads for vector in vectors)
    return right and sized and all(abs(v) <= MOST for vector in (*vectors, rows.constant) for v in vector)


def _specs_rules(specs: CircuitSpecs, calibration: Calibration, levels: int) -> Rules:
    yield "approximated layers", len(specs.layers) == len(calibration.layers)
    yield "bound of the request", specs.entry == calibration.layers[0].input
    yield "bound of the answer", specs.answer == calibration.answer
    yield "row estimates", tuple(layer.rows for layer in specs.layers) == calibration.row_estimates
    yield "approximation of tanh", (specs.tanh is None) == (calibration.pooler is None)
    yield "approximation of tanh", specs.tanh is None or _approximation(specs.tanh, levels)
    for index, layer in enumerate(specs.layers):
        for what, value in vars(layer).items():
            if isinstance(value, Spec):
                above = 0.0 if what in ("inverse", "rsqrt1", "rsqrt2") and not is_constant(value) else -MOST
                yield f"layer {index}: approximation of {what}", _approximation(value, levels, above)
            elif isinstance(value, float):
                yield f"layer {index}: bound of {what}", 0.0 < value <= MOST


def _approximation(spec: Spec, levels: int, above: float = -2.0 * MOST) -> bool:
    """Whether every field has its type and its limit, and the whole fits into the chain's levels."""
    try:
        typed = from_json(type(spec), _without_kind(spec.to_dict()))
        return typed == spec and _domains(spec, above) and _limited(spec.to_dict()) and free_depth(spec) <= levels
    except (TacitaError, ArithmeticError, KeyError, TypeError, ValueError):
        return False


def _domains(spec: Spec, above: float) -> bool:
    """Of the approximation and of those that it starts from."""
    inner = [value for value in vars(spec).values() if isinstance(value, Spec)]
    own = _interval(spec.interval, above) and _interval(spec.domain, above)
    return own and all(_domains(start, above) for start in inner)


def _limited(data: Mapping[str, Any]) -> bool:
    """Lengths and magnitudes. Iterations take a level a step, series one a doubling of their coefficients."""
    return all(_limited_field(name, value) for name, value in data.items())


def _limited_field(name: str, value: Any) -> bool:
    match value:
        case Mapping():
            return _limited(value)
        case list() if name == "coefficients":
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
    """As `from_json` wants it, which knows the type from the field."""
    plain = {name: value for name, value in data.items() if name != "kind"}
    return {name: _without_kind(value) if isinstance(value, Mapping) else value for name, value in plain.items()}


def _interval(interval: Interval, above: float = -2.0 * MOST) -> bool:
    low, high = interval
    return above < low < high <= MOST
