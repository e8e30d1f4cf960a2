"""Model + intervals -> circuit -> plan, and plan + model -> circuit again. Both parties go through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import TypeVar

import numpy as np

from tacita.approx.fit import FitError, Interval
from tacita.blocks.shapes import function_of
from tacita.checkpoint import Checkpoint, embed, pad_hidden
from tacita.errors import FileError, InputError, PlanError, ShapeError
from tacita.layouts.registry import QUADRATIC, Estimates, Shape, shapes
from tacita.models.base import NEXT
from tacita.models.registry import family_of, nodes
from tacita.packings.base import Circuit
from tacita.packings.executor import beginning, within_doubles
from tacita.packings.lowering import build, in_slots
from tacita.packings.specs import CircuitSpecs
from tacita.planning.build import place_circuit, refreshed_nodes, to_plan
from tacita.planning.calibrate.calibrate import Calibration, Sample, Survey, survey, texts_for
from tacita.planning.calibrate.excesses import held_out
from tacita.planning.calibrate.temper import tempered
from tacita.planning.check_circuit import require_circuit
from tacita.planning.fitting import fit_circuit
from tacita.planning.place.dry_run import require_agreement
from tacita.planning.request import PlanRequest
from tacita.planning.simulation import (
    Phases,
    approximation_errors,
    decided,
    phase_label,
    run_simulation,
    stated_error,
)
from tacita.plans.answers import CHOSEN, stated_noise
from tacita.plans.commitment import SALT_FILE, commit, draw
from tacita.plans.json_fields import printable
from tacita.plans.plan import ModelInfo, ParameterInfo, Plan, parse
from tacita.plans.prices.formulas import prices_of
from tacita.plans.scheme import first_shape, shape_of
from tacita.progress import Progress
from tacita.resources import trim
from tacita.texts.embed import Text
from tacita.texts.embedding import FrontConfig

TRIALS = 3  # samples on which `sim` predicts the noise of the answer
BATCHED = 16  # the same of a batch, whose ciphertexts hold as many at no cost
TRIED = 100  # samples whose error by approximations alone is predicted: a long tail, a tenth of a second each
STEPS = 8  # of each, where a request is one row: a step is as noisy whatever is behind it
SEARCHED = 64  # texts, for samples that have a likeliest word
Input = TypeVar("Input")


@dataclass(frozen=True)
class Calibrated:
    """What plans of all schemes start from: a model, what is asked of it, and what was measured of it so
    far.

    processes: that calibrate on many texts, see `planning.calibrate.walk`. The salt is drawn here, once for
    all schemes.
    """

    model: Checkpoint
    request: PlanRequest
    phases: Phases
    processes: int = 1
    salt: str = field(default_factory=draw, repr=False)
    _surveys: dict[tuple[Estimates, tuple[str, ...]], Survey] = field(default_factory=dict)

    def on(self, scheme: str, packing: str | None) -> Calibrated:
        """Returns a copy for one scheme and one of its packings, by default its first."""
        return replace(self, request=replace(self.request, scheme=scheme, packing=packing))

    def survey(self, shape: Shape) -> Survey:
        """Intervals for a packing, measured when first asked for: some take row estimates from their
        scores."""
        estimates, reaches = shape.rules.row_estimates, self._reaches()
        if (key := (estimates, tuple(reaches))) not in self._surveys:
            self._surveys[key] = self._measured(estimates, reaches)
        return self._surveys[key]

    def _reaches(self) -> dict[str, Interval]:
        """Returns, by node, the interval where its function is right whatever calibration says."""
        kinds = {name: function_of(node) for name, node in nodes(self.model.config).items()}
        reaches = {name: self.request.variants.reach(kind) for name, kind in kinds.items() if kind}
        return {name: interval for name, interval in reaches.items() if interval}

    def _measured(self, row_estimates: Estimates, reaches: dict[str, Interval]) -> Survey:
        self.phases.enter("calibrate", "batch" if row_estimates == QUADRATIC else "rows")
        return survey(
            self.model,
            self.request.tokens,
            self.request.texts,
            hidden_states=self.request.hidden_states,
            progress=self.phases.part,
            row_estimates=row_estimates,
            two_phases=self.request.variants.two_phases,
            reaches=reaches,
            processes=self.processes,
        )

    @cached_property
    def samples(self) -> Sequence[Sample]:
        """The first inputs that fit, on which `sim` predicts the error of the answer; for a choice the first
        that have one, BATCHED at most. Of a text that is asked row by row, its beginning."""
        states, gap = self.request.hidden_states, self.request.token_gap
        if gap:
            candidates = states or _embedded(in_slots(self.model), self._texts, self.request.tokens)
            candidates = map(self._shortened, islice(candidates, SEARCHED))
            return decided(in_slots(self.model), candidates, gap)[:BATCHED]
        fitting = states[:BATCHED] or _samples(self.model, self.request.tokens, self._texts)
        return [self._shortened(sample) for sample in fitting]

    @property
    def error_inputs(self) -> Iterator[Sample]:
        """Inputs on which the error by approximations is predicted; none where the answer is a word, or
        steps, which the simulation tells alone."""
        if self.request.token_gap or self.request.cache:
            return iter(())
        if states := self.request.hidden_states:
            return iter(_spread(states))
        return _embedded(self.model, _spread(self._texts), self.request.tokens)

    def _shortened(self, sample: Sample) -> Sample:
        return beginning(sample, STEPS) if self.request.cache else sample

    @property
    def _texts(self) -> Sequence[Text]:
        return texts_for(self.model) if self.request.texts is None else self.request.texts


def make_plan(
    model: Checkpoint,
    request: PlanRequest,
    progress: Callable[[Progress], None] = lambda _: None,
    processes: int = 1,
) -> Plan:
    """Calibrates, fits, places and predicts one scheme of ciphertexts. processes: see `Calibrated`.

    Raises ShapeError for sizes that the packing does not admit, before the minutes of calibration;
    InputError for another scheme; CheckpointError, PlanError.
    """
    phases = Phases(progress, [phase_label(request.scheme_name, request.packing)])
    plan = plan_scheme(Calibrated(model, request, phases, processes), request.scheme_name)
    phases.enter("done")
    return plan


@within_doubles("plan by ciphertexts")
def plan_scheme(calibrated: Calibrated, scheme: str) -> Plan:
    """Fits, places and predicts one scheme on the first ring of the plan request that it fits; raises the
    last one's ShapeError or PlanError, and FitError."""
    if calibrated.request.token_gap and calibrated.model.config.task != NEXT:
        raise InputError("a plan that reveals a token", hint="the model is no decoder: leave --reveal out")
    if calibrated.request.cache and calibrated.model.config.task != NEXT:
        raise InputError("a plan with a cache", hint="the model is no decoder: leave --cache out")
    calibrated = replace(calibrated, model=in_slots(calibrated.model))
    rings = calibrated.request.rings
    for info in rings[:-1]:
        try:
            return _plan_on(info, calibrated, scheme)
        except (ShapeError, PlanError):  # too few slots or levels
            continue
    return _plan_on(rings[-1], calibrated, scheme)


def _plan_on(info: ParameterInfo, calibrated: Calibrated, scheme: str) -> Plan:
    model, request, phases = calibrated.model, calibrated.request, calibrated.phases
    table, label = prices_of(info, request.prices), phase_label(scheme, request.packing)
    one = first_shape(scheme, info.slots, request.tokens, request.packing, step=request.cache)
    wanted = shapes(one, model.config.heads, request.inputs)
    survey = calibrated.survey(one)
    calibration = survey.calibration
    phases.enter("fit", label)
    specs = fit_circuit(
        calibration,
        model.config,
        request.accuracy,
        request.variants,
        tokens=request.tokens,
        gap=request.token_gap,
    )
    soft = tempered(model, calibration.temperatures)
    shape, circuit = _first_admitted(soft, specs, wanted)
    phases.enter("place", label)
    if specs.undecided:
        specs = specs.settled(refreshed_nodes(circuit, info, table))
        circuit = build(soft, specs, shape)
    placed = place_circuit(circuit, info, table)
    phases.enter("predict", label)
    samples = calibrated.samples[: BATCHED if shape.texts > 1 else TRIALS]
    small = shape.shrunk(len(samples))
    small_circuit = circuit if small == shape else build(soft, specs, small)
    outcome = run_simulation(model, placed, small_circuit, small, samples, gap=request.token_gap)
    bound = CHOSEN if request.token_gap else calibration.answer
    salt = request.salt or calibrated.salt
    commitment = commit(salt, model.sha256)
    data = {"calibration": replace(calibration, sha256=commitment).to_dict(), "specs": specs.to_dict()}
    plan = to_plan(
        placed,
        model_info(model, commitment),
        request.tokens,
        data,
        table,
        answer=bound,
        noise=stated_noise(outcome.noise, info, bound),
        scheme=scheme,
        shape=shape,
        population=survey.counts.population(shape.texts),
        gap=request.token_gap,
    )
    error = stated_error(plan, [*approximation_errors(model, soft, specs, calibrated.error_inputs)], outcome)
    return _readable(replace(plan, salt=salt, prediction=replace(plan.prediction, error=error)))


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
    model = in_slots(model)
    require_model(plan, model)
    shape = shape_of(plan) if texts is None else shape_of(plan).shrunk(texts)
    return _circuit(_CircuitSource(plan.hash, shape, plan, model))


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
    here = replace(model_info(in_slots(model), plan.model.commitment), name=plan.model.name)
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
    )


@dataclass(frozen=True)
class _CircuitSource:
    """What a circuit is built from. Equal where the plan's hash and the shape are: model and plan follow
    from them.
    """

    hash: str
    shape: Shape
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
            specs = CircuitSpecs.from_json(plan.circuit["specs"])
            model = tempered(source.model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
            circuit = build(model, specs, shape)
            if shape == shape_of(plan):  # of a smaller one for interpreters in the clear, nobody makes keys
                require_agreement(plan, circuit)
    except (ShapeError, FitError, ArithmeticError, ValueError) as error:
        raise PlanError(
            f"the plan's circuit cannot be built ({error!s:.200})", hint="make the plan again"
        ) from error
    trim()  # a server measures what is taken next, and keys come after it
    return circuit


def _first_admitted(model: Checkpoint, specs: CircuitSpecs, wanted: Sequence[Shape]) -> tuple[Shape, Circuit]:
    """The first shape that the model admits, and its circuit. Raises the ShapeError of the last."""
    for shape in wanted[:-1]:
        try:
            return shape, build(model, specs, shape)
        except ShapeError:  # lanes that this model does not admit
            continue
    return wanted[-1], build(model, specs, wanted[-1])


def _samples(model: Checkpoint, tokens: int, chosen: Sequence[Text]) -> Sequence[Sample]:
    """The first texts that fit, embedded; where none does, the first rows of the first that the model has
    positions for."""
    fitting = list(islice(_embedded(model, chosen, tokens), BATCHED))
    longer = () if fitting else islice(_embedded(model, chosen, model.config.positions), 1)
    return fitting or [pad_hidden(hidden[:tokens][mask[:tokens] > 0.0], tokens) for hidden, mask in longer]


def _spread(inputs: Sequence[Input]) -> list[Input]:
    """Picks at most TRIED evenly spaced inputs, of those held out of calibration where any are."""
    numbers = held_out(len(inputs)) or range(len(inputs))
    return [inputs[i] for i in numbers[:: -(-len(numbers) // TRIED)]]


def _embedded(model: Checkpoint, texts: Sequence[Text], tokens: int) -> Iterator[Sample]:
    """Embeds the texts of at most `tokens` tokens."""
    for text in texts:
        try:
            yield embed(model, text, tokens)
        except InputError:  # too long: calibration cut it, the prediction takes the next
            continue
