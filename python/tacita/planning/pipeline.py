"""The way from a model to a plan of ciphertexts: a step after the other, each of which makes one frozen
value.

    survey     what sample inputs show of every node     planning.survey, planning.calibrate
    specs      approximations to stated errors           planning.fitting
    built      the circuit in its packing                planning.circuit
    placed     levels, bootstraps and keys               planning.place
    trial      noise and error of its answers            planning.trial
    plan       all of it, as both parties read it        this module

Options (`planning.options`) have their say at each step. Where the trial shows answers that noise makes
coarse, the way is gone again with a round more in every softmax (docs/decisions/0144).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tacita.approx.fit import FitError
from tacita.approx.softmax import MOST_ROUNDS
from tacita.errors import FileError, NoiseError, PlanError, ShapeError
from tacita.layouts.registry import Shape, shapes
from tacita.layouts.runs import Layout
from tacita.packings.executor import RESPONSE, within_doubles
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import Survey
from tacita.planning.calibrate.temper import tempered
from tacita.planning.circuit import Built, build_circuit, model_info, with_fused_norms
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.planning.place.circuit import Placed, place_circuit
from tacita.planning.survey import Subject
from tacita.planning.trial import Trial, is_coarse, stated_error, try_circuit
from tacita.plans.commitment import commit
from tacita.plans.plan import ParameterInfo, Plan, Prediction, TensorInfo, parse
from tacita.plans.presets import can_bootstrap
from tacita.plans.prices.formulas import prices_of, run_bytes, run_seconds
from tacita.plans.public_folder import table_bytes
from tacita.plans.scheme import first_shape, lie_side_by_side

RESPONSE_LEVEL = 0  # the lowest level is the smallest file
MOST_SECONDS = 1.1  # with a round more, for a second of a plan whose answers are coarse


@within_doubles("plan by ciphertexts")
def plan_scheme(subject: Subject, scheme: str) -> Plan:
    """Plans one scheme on the first ring of the plan request that it fits. Raises InputError for an option
    that the model cannot have, the last ring's ShapeError or PlanError, and FitError."""
    subject = subject.admitted()
    refusal: Exception | None = None
    for ring in subject.request.rings:
        try:
            return _plan_on(ring, subject, scheme)
        except (ShapeError, PlanError) as error:  # too few slots or levels: a larger ring may do
            refusal = error
    assert refusal is not None  # a plan request names one ring at least
    raise refusal


def _plan_on(ring: ParameterInfo, subject: Subject, scheme: str) -> Plan:
    """Plans with the rounds of softmax that scores ask for. While noise makes answers coarse, or leaves none
    to show, there is a round more in each: of the plans that take at most MOST_SECONDS of the one before, the
    finest is returned."""
    shape = first_shape(scheme, ring.slots, subject.request.tokens, subject.request.packing)  # with one lane
    for option in subject.request.options:
        shape = option.shape(shape)
    best, most, refusal = None, math.inf, None
    for survey in _surveys(ring, subject, shape):
        try:
            plan, coarse = _plan_of(ring, subject, scheme, shape, survey)
        except NoiseError as error:
            refusal = refusal or error
            continue
        except (FitError, PlanError, ShapeError):
            if best or refusal:
                break
            raise
        seconds = sum(plan.prediction.stage_seconds)
        if seconds > most:
            break
        if best is None or plan.logit_step < best.logit_step:
            best = plan
        if not coarse:
            break
        most = MOST_SECONDS * min(most, seconds)
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _surveys(ring: ParameterInfo, subject: Subject, shape: Shape) -> Iterator[Survey]:
    """Yields the survey of the fewest rounds, then those of a round more each time while that changes any;
    none of these where functions were named that have no choice, or where no bootstrap leaves its noise."""
    yield (last := subject.survey(shape))
    if subject.request.variants.rounds != (0, MOST_ROUNDS) or not can_bootstrap(ring):
        return
    for more in range(1, MOST_ROUNDS + 1):
        survey = subject.survey(shape, more)
        if survey.calibration.rounds == last.calibration.rounds:
            return
        yield (last := survey)


def _plan_of(
    ring: ParameterInfo, subject: Subject, scheme: str, shape: Shape, survey: Survey
) -> tuple[Plan, bool]:
    """Returns the plan of one survey, and whether noise makes its answers coarse. Raises what `plan_scheme`
    does, NoiseError where noise leaves nothing to show."""
    request, phases = subject.request, subject.phases
    prices, label = prices_of(ring, request.prices), subject.label
    phases.enter("fit", label)
    specs = _specs_of(survey, subject, shape)
    model = tempered(subject.model, survey.calibration.temperatures)
    beside = lie_side_by_side(shape.packing, model.config.task)
    wanted = shapes(shape, model.config.heads, request.inputs, beside=beside)
    built = build_circuit(model, specs, wanted, ring, prices)
    phases.enter("place", label)
    built, placed = with_fused_norms(built, place_circuit(built.circuit, ring, prices, phases.part))
    trial = try_circuit(subject, built, placed, survey.answers)
    plan = _stated(subject, scheme, survey, built, placed, trial)
    try:
        plan = parse(plan.to_text(), plan.model.name, plan.salt)  # as who reads its file will have it
    except FileError as error:
        raise PlanError(str(error), hint="the model's values or labels do not fit into a plan") from error
    return plan, is_coarse(plan, trial)


def _specs_of(survey: Survey, subject: Subject, shape: Shape) -> CircuitSpecs:
    request, config = subject.request, subject.model.config
    specs = fit_circuit(
        survey.calibration,
        config,
        request.accuracy,
        request.variants,
        tokens=request.tokens,
        inside=subject.inside(shape),
        progress=subject.phases.part,
    )
    for option in request.options:
        specs = option.fit(specs, request.accuracy or Accuracy())
    return specs


def _stated(
    subject: Subject, scheme: str, survey: Survey, built: Built, placed: Placed, trial: Trial
) -> Plan:
    salt, levels, circuit = subject.request.salt or subject.salt, placed.levels, placed.circuit
    commitment = commit(salt, subject.model.sha256)
    calibration = replace(survey.calibration, sha256=commitment)
    request = tuple(
        TensorInfo(name, count, levels[name], "real")
        for name, count in sorted(circuit.request.counts.items())
    )
    response = (TensorInfo(RESPONSE, circuit.response.count, RESPONSE_LEVEL, "real"),)
    plan = Plan(
        model=model_info(subject.model, commitment),
        tokens=subject.request.tokens,
        scheme=scheme,
        batch=built.shape.texts,
        lanes=built.shape.lanes,
        parameters=placed.parameters,
        circuit={"calibration": calibration.to_dict(), "specs": built.specs.to_dict()},
        layout=Layout(built.shape.packing, circuit.request, circuit.response),
        answer=trial.answer,
        stages=placed.stages,
        rotations=placed.rotations,
        request=request,
        response=response,
        noise=trial.noise,
        decimals=trial.decimals,
        prediction=_prediction(placed, request, response, subject),
        population=survey.counts.population(built.shape.texts),
        salt=salt,
    )
    for option in subject.request.options:
        plan = replace(plan, **option.state(circuit, levels))
    return replace(plan, prediction=replace(plan.prediction, error=stated_error(plan, trial)))


def _prediction(
    placed: Placed, request: Sequence[TensorInfo], response: Sequence[TensorInfo], subject: Subject
) -> Prediction:
    info, prices, working = placed.parameters, placed.prices, max(placed.stage_bytes)
    coefficients = any("coefficient_product" in stage.counts for stage in placed.stages)
    multiplied, model = subject.request.tokens if coefficients else None, subject.model
    tables = table_bytes(model, model.config.hidden) if model.config.embeddings else 0
    sizes = run_bytes(info, placed.rotations, request, response, working, prices, multiplied, tables)
    stage_seconds = tuple(step.seconds_on(prices) for step in placed.placement.steps)
    return Prediction(
        machine=prices.named,
        threads=prices.threads,
        stage_seconds=stage_seconds,
        seconds=run_seconds(sizes["evaluation_keys"], sum(stage_seconds), working, prices),
        bytes=sizes,
        stage_bytes=placed.stage_bytes,
    )
