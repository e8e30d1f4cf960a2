"""Model + intervals -> circuit -> plan, and plan + model -> circuit again. Both parties go through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import islice

import numpy as np

from tacita.approx.fit import FitError
from tacita.approx.variants.functions import Functions
from tacita.calibrate.calibrate import Calibration, Sample, Survey, load_texts, survey
from tacita.calibrate.temper import tempered
from tacita.checkpoint import Checkpoint, embed, pad_hidden
from tacita.errors import FileError, InputError, PlanError, ShapeError
from tacita.front.embed import Text
from tacita.front.front import FrontConfig
from tacita.models.registry import family_of
from tacita.packings.base import Circuit
from tacita.packings.lowered import build
from tacita.packings.shape import Shape, shapes
from tacita.packings.specs import CircuitSpecs
from tacita.placement.cost import Prices
from tacita.placement.leveled import prices_of
from tacita.placement.rehearsal import require_agreement
from tacita.planning.build import place_circuit, to_plan
from tacita.planning.check_circuit import require_circuit
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.planning.phases import Phases
from tacita.planning.trial import run_trial
from tacita.plans.commitment import SALT_FILE, commit, draw
from tacita.plans.decimals import stated_noise
from tacita.plans.plan import ModelInfo, ParameterInfo, Plan, parse
from tacita.plans.scheme import first_shape, shape_of
from tacita.plans.strict_json import printable
from tacita.run.executor import Progress

TRIALS = 2  # samples on which `sim` predicts the error of the answer


@dataclass(frozen=True)
class Calibrated:
    """What plans of all schemes start from. samples: of the first texts that fit, for the prediction of the
    error.

    measure: calibrates, with row estimates or without.
    """

    model: Checkpoint
    tokens: int
    measure: Callable[[bool], Survey]
    samples: Sequence[Sample]
    _found: dict[bool, Survey] = field(default_factory=dict)

    def survey(self, shape: Shape) -> Survey:
        """Intervals for a packing, measured when first asked for: some take row estimates from their
        scores."""
        estimates = shape.rules.row_estimates
        if estimates not in self._found:
            self._found[estimates] = self.measure(estimates)
        return self._found[estimates]


@dataclass(frozen=True)
class Goal:
    """What a plan is made for; see `make_plan`. salt: of its commitment to the weights.
    packing: one of the scheme's, by default its first."""

    scheme: str
    inputs: int | None = None
    accuracy: Accuracy | None = None
    functions: Functions | None = None
    salt: str = field(default_factory=draw)
    packing: str | None = None

    @property
    def label(self) -> str:
        """By which its phases are told."""
        return f"{self.scheme} {self.packing}" if self.packing else self.scheme


def make_plan(
    model: Checkpoint,
    parameters: ParameterInfo | Sequence[ParameterInfo],
    prices: Prices | None = None,
    *,
    tokens: int,
    scheme: str = "thor",
    packing: str | None = None,
    inputs: int | None = None,
    texts: Sequence[Text] | None = None,
    hidden_states: Sequence[Sample] = (),
    accuracy: Accuracy | None = None,
    functions: Functions | None = None,
    salt: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    processes: int = 1,
) -> Plan:
    """Calibrates on texts (default: the package's) or hidden states, fits, places, predicts. See
    `api.choose_plan`.

    parameters: of several the first that the circuit fits. prices: see `leveled.prices_of`. scheme: thor,
    arion or moai. packing: one of the scheme's, by default its first.
    inputs: texts to expect, by which a batch chooses its lanes (default: as many as one lane holds).
    functions: variants of the approximations. salt: of the commitment to the weights, by default a fresh one.
    processes: for many texts, see `calibrate.walk`.

    Raises ShapeError for sizes that the packing does not admit, before the minutes of calibration.
    """
    rings = [parameters] if isinstance(parameters, ParameterInfo) else parameters
    first_shape(scheme, rings[-1].slots, tokens, packing)
    goal = Goal(scheme, inputs, accuracy, functions, salt or draw(), packing)
    phases = Phases(progress, [goal.label])
    calibrated = calibrate_model(
        model, tokens, phases, texts=texts, hidden_states=hidden_states, processes=processes
    )
    plan = plan_scheme(calibrated, rings, prices, phases, goal)
    phases.enter("done")
    return plan


def calibrate_model(
    model: Checkpoint,
    tokens: int,
    phases: Phases,
    *,
    texts: Sequence[Text] | None = None,
    hidden_states: Sequence[Sample] = (),
    processes: int = 1,
) -> Calibrated:
    """The part of planning that all schemes share. Calibration itself waits for the first plan that needs
    it."""

    def measure(row_estimates: bool) -> Survey:
        phases.enter("calibrate", "batch" if row_estimates else "rows")
        return survey(
            model,
            tokens,
            texts,
            hidden_states=hidden_states,
            progress=phases.part,
            row_estimates=row_estimates,
            processes=processes,
        )

    return Calibrated(model, tokens, measure, hidden_states[:TRIALS] or _samples(model, tokens, texts))


def plan_scheme(
    calibrated: Calibrated, rings: Sequence[ParameterInfo], prices: Prices | None, phases: Phases, goal: Goal
) -> Plan:
    """Fits, places and predicts one scheme on the first of `rings` that it fits; raises the last one's
    ShapeError or PlanError, and FitError."""
    for info in rings[:-1]:
        try:
            return _plan_on(info, calibrated, prices, phases, goal)
        except (ShapeError, PlanError):  # too few slots or levels
            continue
    return _plan_on(rings[-1], calibrated, prices, phases, goal)


def _plan_on(
    info: ParameterInfo, calibrated: Calibrated, prices: Prices | None, phases: Phases, goal: Goal
) -> Plan:
    model, table = calibrated.model, prices_of(info, prices)
    one = first_shape(goal.scheme, info.slots, calibrated.tokens, goal.packing)
    wanted = shapes(one, model.config.heads, goal.inputs)
    survey = calibrated.survey(one)
    calibration = survey.calibration
    phases.enter("fit", goal.label)
    specs = fit_circuit(calibration, model.config, goal.accuracy, goal.functions)
    soft = tempered(model, calibration.temperatures)
    shape, circuit = _first_admitted(soft, specs, wanted)
    phases.enter("place", goal.label)
    placed = place_circuit(circuit, info, table)
    phases.enter("predict", goal.label)
    small = shape.shrunk(len(calibrated.samples))
    trial = circuit if small == shape else build(soft, specs, small)
    seen = run_trial(model, placed, trial, small, calibrated.samples)
    commitment = commit(goal.salt, model.sha256)
    data = {"calibration": replace(calibration, sha256=commitment).to_dict(), "specs": specs.to_dict()}
    plan = to_plan(
        placed,
        model_info(model, commitment),
        calibrated.tokens,
        data,
        table,
        answer=calibration.answer,
        noise=stated_noise(seen.noise, info, calibration.answer),
        max_abs_error=seen.error,
        scheme=goal.scheme,
        shape=shape,
        population=survey.counts.population(shape.texts),
    )
    return _readable(replace(plan, salt=goal.salt))


def _readable(plan: Plan) -> Plan:
    """The plan, as who reads its file will have it. Raises PlanError for one that no reader would accept."""
    try:
        return parse(plan.to_text(), plan.model.name, plan.salt)
    except FileError as error:
        raise PlanError(str(error), hint="the model's values or labels do not fit into a plan") from error


def circuit_of(plan: Plan, model: Checkpoint, *, texts: int | None = None) -> Circuit:
    """The circuit that the plan was made for; kept for the next call. Raises PlanError for another model or
    another circuit than the plan lists, FileError for a circuit outside the limits of `check_circuit`.

    texts: for interpreters in the clear, the same circuit with no more sequences than hold so many.
    """
    require_model(plan, model)
    shape = shape_of(plan) if texts is None else shape_of(plan).shrunk(texts)
    return _circuit(plan.hash, shape, _Key(plan, model))


def require_model(plan: Plan, model: Checkpoint) -> None:
    """Raises PlanError unless the plan committed to these weights and says of them what is so: sizes, labels,
    their order.

    The salt opens the commitment. The name may differ: it is that of a folder.
    """
    if not plan.salt:
        raise PlanError(
            f"plan of model {plan.model.name}, without the salt that opens its commitment to the weights",
            hint=f"a server keeps {SALT_FILE} beside its plan.json, where `tacita plan` or `publish` wrote "
            "both",
        )
    if commit(plan.salt, model.sha256) != plan.model.commitment:
        raise PlanError(
            f"plan of model {plan.model.name}, which committed to other weights than those of {model.name}",
            hint=f"pass the --model that the plan was made for with its {SALT_FILE}, or make the plan again",
        )
    here = replace(model_info(model, plan.model.commitment), name=plan.model.name)
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
    )


class _Key:
    """Arguments of `_circuit` that do not take part in its cache key (the plan's hash stands for them)."""

    def __init__(self, plan: Plan, model: Checkpoint) -> None:
        self.plan, self.model = plan, model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4)
def _circuit(_: str, shape: Shape, key: _Key) -> Circuit:
    """Raises FileError for numbers of the circuit outside their limits, and PlanError where they make no
    circuit together or another one than the plan lists."""
    plan = key.plan
    require_circuit(plan)
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            specs = CircuitSpecs.from_json(plan.circuit["specs"])
            model = tempered(key.model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
            circuit = build(model, specs, shape)
            if shape == shape_of(plan):  # of a smaller one for interpreters in the clear, nobody makes keys
                require_agreement(plan, circuit)
    except (ShapeError, FitError, ArithmeticError, ValueError) as error:
        raise PlanError(
            f"the plan's circuit cannot be built ({error!s:.200})", hint="make the plan again"
        ) from error
    return circuit


def _first_admitted(model: Checkpoint, specs: CircuitSpecs, wanted: Sequence[Shape]) -> tuple[Shape, Circuit]:
    """The first shape that the model admits, and its circuit. Raises the ShapeError of the last."""
    for shape in wanted[:-1]:
        try:
            return shape, build(model, specs, shape)
        except ShapeError:  # lanes that this model does not admit
            continue
    return wanted[-1], build(model, specs, wanted[-1])


def _samples(model: Checkpoint, tokens: int, texts: Sequence[Text] | None) -> Sequence[Sample]:
    """The first texts that fit, embedded; where none does, the first rows of the first that the model has
    positions for."""
    chosen = texts if texts is not None else load_texts()
    fitting = list(islice(_embedded(model, chosen, tokens), TRIALS))
    longer = () if fitting else islice(_embedded(model, chosen, model.config.positions), 1)
    return fitting or [pad_hidden(hidden[:tokens][mask[:tokens] > 0.0], tokens) for hidden, mask in longer]


def _embedded(model: Checkpoint, texts: Sequence[Text], tokens: int) -> Iterator[Sample]:
    """Those of at most so many tokens."""
    for text in texts:
        try:
            yield embed(model, text, tokens)
        except InputError:  # too long: calibration cut it, the prediction takes the next
            continue
