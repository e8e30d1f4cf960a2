"""The last step before a plan: what a placed circuit will get wrong, tried on sample inputs. It runs on `sim`
with the engine's noise, beside `plain` and the float model.

The distance from `plain`, which runs the same circuit without noise, is noise alone; the distance from the
float model is noise and approximations. What a client may show depends on the first (`decimals`), how good a
plan is on the second.

What approximations get wrong depends on the text and takes two forward passes to find. So the stated error is
that of approximations on many texts, to each of which the simulation's largest noise and half a step of
rounding are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from types import MappingProxyType
from typing import Any

import numpy as np

from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.errors import PlanError
from tacita.models.registry import attentions
from tacita.packings import executor
from tacita.packings.approximated import approximated
from tacita.packings.executor import RESPONSE, Steps, prefixes
from tacita.packings.shared import choice
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import Array, Sample
from tacita.planning.calibrate.calibration import up
from tacita.planning.calibrate.excesses import of_texts
from tacita.planning.calibrate.walk import Answers, mark, trimmed
from tacita.planning.circuit import Built
from tacita.planning.options import Option
from tacita.planning.place.circuit import Placed
from tacita.planning.survey import BATCHED, TRIALS, Subject, draws_of
from tacita.plans.answers import STEPS, decimals_for, stated_noise
from tacita.plans.error import MOST_DECIMALS, ErrorBound, share_of, tolerance_bound
from tacita.plans.plan import Plan
from tacita.plans.presets import noise_of
from tacita.plans.scheme import shown_step
from tacita.resources import in_threads
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Live
from tacita.texts.task import MULTI_LABEL, REGRESSION, TEXT, TOKENS, is_vector
from tacita.texts.vectors import LEAST_LENGTH, finished

MOST_TIES = 0.01  # of choices that rounding may decide
FEW_CHOICES = 20  # rows of logits of which one within a step says nothing of others
NOISE = 5.0  # deviations that noise may reach: of 384 numbers one does in a text of 5,000


@dataclass(frozen=True)
class Simulation:
    """errors: of each text, the largest distance of its numbers from the float model's, of all rows that are
    asked of it. noise: the standard deviation of their distance from `plain`'s, in the noisiest answer and
    token, before a client divides a vector by its length; shown_noise: the same after it. logit_noise: of
    logits that ciphertexts compare, as a share of their range, in the noisiest text; 0 where they compare
    none. entry: mean magnitude of the numbers of an answer, in the least one, before a client divides a
    vector by its length.

    Of one answer and one token, because noise depends on the text, by a factor of 8 between two of them, and
    a plan has one rounding for all. Rounded up to 8 bits as all that a plan publishes.
    """

    errors: tuple[float, ...]
    noise: float
    shown_noise: float
    logit_noise: float
    entry: float


@dataclass(frozen=True)
class Trial:
    """What was tried, and what a plan says of it.

    noise: as `plans.answers.stated_noise` gives it. decimals: that it leaves to show. texts: errors of
    approximations on texts, without noise.
    """

    simulation: Simulation
    answer: float
    noise: float
    decimals: int
    texts: tuple[TextError, ...]


def try_circuit(subject: Subject, built: Built, placed: Placed, answers: Answers) -> Trial:
    """Simulates the circuit on the subject's samples, then approximates its error inputs. Raises PlanError
    without a sample and for noise that is more than an option admits, NoiseError where it leaves no decimals.

    Hundreds of full ciphertexts would take minutes: the circuit is tried with as few sequences as hold the
    samples, which takes seconds; the noise is that of the full ring. answers: of the model itself, as far as
    they are there.
    """
    options, bound = subject.request.options, built.specs.answer
    samples = subject.samples[: BATCHED if built.shape.texts > 1 else TRIALS]
    phases, label = subject.phases, subject.label
    phases.enter("simulate", label)
    small = built.shrunk(len(samples))
    draws = draws_of(subject.model.config, subject.request, len(samples))
    how = phases.part, subject.processes, answers, draws
    simulation = run_simulation(subject.model, small, placed, samples, options, *how)
    for option in options:
        option.admit_noise(built.specs, NOISE * simulation.logit_noise)
        bound = option.bound(bound)
    noise = stated_noise(simulation.noise, placed.parameters, bound)
    decimals = decimals_for(noise, min((MOST_DECIMALS, *(option.decimals for option in options))))
    phases.enter("predict", label)
    texts: list[TextError] = []
    errors = partial(approximation_errors, subject.model, built.model, built.specs, answers=answers)
    inputs, tried = subject.error_inputs
    for number, of_text in enumerate(in_threads(errors, inputs, subject.processes), 1):
        texts += of_text
        phases.part(number, tried)
    return Trial(simulation, bound, noise, decimals, tuple(texts))


def run_simulation(
    model: Checkpoint,
    built: Built,
    placed: Placed,
    samples: Sequence[Sample],
    options: Sequence[Option] = (),
    progress: Callable[[float, float], None] = lambda done, total: None,
    threads: int = 1,
    answers: Answers = MappingProxyType({}),
    draws: int = 1,
) -> Simulation:
    """The samples' answers on `sim` and on `plain`, on so many threads. Raises PlanError without a sample.

    built: the placed circuit, or the same one with fewer sequences. Samples go as many at a time as it holds.
    Of steps every beginning of a sample is an answer. answers: of the model, those that are there. draws: of
    the noise of each request, from the last attention on, where most of it comes from; before it, and of
    steps, there is one.
    """
    if not samples:
        raise PlanError(
            "plan: no sample fits, so nothing shows the noise of an answer", hint="pass shorter texts"
        )
    top, noise, slots = placed.parameters.max_level, noise_of(placed.parameters), built.shape.slots
    parts = [list(prefixes(sample)) if built.circuit.kept else [sample] for sample in samples]
    owners = [text for text, each in enumerate(parts) for _ in each]
    samples = [part for each in parts for part in each]
    seeds, steps = count(), count(1)
    last, names = [*attentions(model.config)][-1], [stage.name for stage in placed.stages]
    begin = next((i for i, name in enumerate(names) if name.startswith(f"{last}.")), 0)
    total = 2 * len(names) + (draws - 1) * (len(names) - begin)
    total *= -(-len(samples) // built.shape.texts)
    logits: dict[type, list[Array]] = {SimBackend: [], PlainBackend: []}

    def inspect(be: Any, stage: str, live: Live) -> None:
        progress(min(next(steps), total), total)
        if stage == choice.STAGE:
            logits[type(be)].append(np.concatenate([be.decrypt(ct).real for ct in live[choice.LOGITS]]))

    makes: tuple[Callable[[], SimBackend | PlainBackend], ...] = (
        lambda: SimBackend(slots, top, inject=True, noise=noise, seed=next(seeds)),
        lambda: PlainBackend(slots, top),
    )
    runs = _answers(placed, built, samples, makes, draws, begin, inspect, threads)
    targets = [_target(model, sample, options, answers) for sample in samples]
    judged = [i for i, target in enumerate(targets) if target is not None]
    wanted = [target for target in targets if target is not None]
    masks = [samples[i][1] for i in judged]
    quiet, *noisy = [[run[i] for i in judged] for run in runs]
    still, *ended = [[finished(v, model.config.normalise) for v in run] for run in (quiet, *noisy)]
    of_errors = zip(*(distances(run, wanted, masks) for run in ended), strict=True)
    of_parts = np.array([np.max(rows) for rows in of_errors])
    errors = of_texts({RESPONSE: of_parts}, [owners[i] for i in judged])[RESPONSE]
    of_answers = max(deviation(run, quiet, masks) for run in noisy)
    of_ended = max(deviation(run, still, masks) for run in ended)
    pairs = zip(logits[SimBackend], cycle(logits[PlainBackend]), strict=False)
    of_logits = max((noise_of_numbers(*pair, built.shape.texts) for pair in pairs), default=0.0)
    entry = min(float(np.mean(np.abs(values))) for values in quiet)
    return Simulation(tuple(errors.tolist()), up(of_answers), up(of_ended), up(of_logits), entry)


def _target(model: Checkpoint, sample: Sample, options: Sequence[Option], answers: Answers) -> Array | None:
    """Returns what the circuit should answer; None where an option says that this is not decided."""
    answer = _answer(model, sample, {} if model.config.every_token else answers)  # of padding, too
    wanted: Array | None = finished(answer, model.config.normalise)
    for option in options:
        wanted = None if wanted is None else option.target(wanted)
    return wanted


def _answer(model: Checkpoint, sample: Sample, answers: Answers) -> Array:
    if (answer := answers.get(mark(sample))) is None:
        return reference(model, *sample, all_rows=False).trace["answer"]
    return answer[: len(sample[1])] if model.config.every_token else answer


def _answers(
    placed: Placed,
    built: Built,
    samples: Sequence[Sample],
    makes: Sequence[Callable[[], SimBackend | PlainBackend]],
    draws: int,
    begin: int,
    inspect: Callable[[Any, str, Live], None],
    threads: int,
) -> list[list[Array]]:
    """Returns an answer for each sample without noise and in each draw of it; of steps, each behind those
    before it. makes: a backend with new noise, and one without. begin: the stage that is the first to be
    drawn again. inspect: called after each stage with the backend, too, of each draw in the same order."""
    levels, circuit, texts, (noisy, quiet) = placed.levels, built.circuit, built.shape.texts, makes
    if circuit.kept:
        steps = ((Steps(placed.stages, circuit, levels, be), be) for be in (quiet(), noisy()))
        return [_of_steps(each, samples, partial(inspect, be)) for each, be in steps]
    groups = [samples[at : at + texts] for at in range(0, len(samples), texts)]
    requests: list[tuple[Any, Live]] = []
    for make in (quiet, noisy):
        for group in groups:
            be: Any = make()
            packed = circuit.request.pack(group).items()
            live = {name: tuple(be.encrypt(v, levels[name]) for v in vs) for name, vs in packed}
            requests.append((be, live))
    again = [(len(groups) + i, noisy()) for _ in range(draws - 1) for i in range(len(groups))]
    backends: list[Any] = [*(be for be, _ in requests), *(be for _, be in again)]

    def of_request(number: int, stage: str, live: Live) -> None:
        inspect(backends[number], stage, live)

    run = placed.stages, circuit.stages, requests, of_request, threads, again, begin
    outs = executor.run_together(*run)
    results = [
        circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]])
        for be, out in zip(backends, outs, strict=True)
    ]
    values = [
        a.values for r, group in zip(results, groups * (1 + draws), strict=True) for a in r[: len(group)]
    ]
    return [values[at : at + len(samples)] for at in range(0, len(values), len(samples))]


def _of_steps(steps: Steps, samples: Sequence[Sample], inspect: Callable[[str, Live], None]) -> list[Array]:
    values: list[Array] = []
    for sample in samples:
        if np.count_nonzero(sample[1]) == 1:
            steps.begin()
        values.append(steps.answer(sample, inspect=inspect).values)
    return values


def deviation(results: Sequence[Array], wanted: Sequence[Array], masks: Sequence[Array]) -> float:
    """The largest of the rows' standard deviations, of each told by its largest distance: of n numbers from
    one normal distribution that is more than sqrt(2 ln (n / 2)) deviations; of two it counts as one."""
    return max(
        float(np.max(rows)) / max(1.0, math.sqrt(2.0 * math.log(max(1.0, 0.5 * rows.shape[-1]))))
        for rows in distances(results, wanted, masks)
    )


def noise_of_numbers(noisy: Array, quiet: Array, texts: int) -> float:
    """The root mean square of the distances in the noisiest of so many texts, whose slots are in turn; where
    there is no number, 0 is stored."""
    there = quiet.reshape(-1, texts) != 0.0
    off = np.where(there, (noisy - quiet).reshape(-1, texts), 0.0)
    return float(np.sqrt(np.max(np.sum(off**2, axis=0) / np.sum(there, axis=0))))


def distances(results: Sequence[Array], wanted: Sequence[Array], masks: Sequence[Array]) -> list[Array]:
    """(rows, numbers) of each answer: of its real tokens, where it has a row for each."""
    pairs = zip(results, wanted, masks, strict=True)
    return [np.atleast_2d(np.abs(a - b))[m > 0.0 if a.ndim == 2 else ...] for a, b, m in pairs]


@dataclass(frozen=True)
class TextError:
    """distance: largest of a number of the answer, in its real rows, from the float model's. length: of the
    answer by the float model, before a client divides by it. logits: those of a model with labels, (rows,
    labels), of its real rows."""

    distance: float
    length: float
    logits: Array | None = None


def approximation_errors(
    model: Checkpoint,
    soft: Checkpoint,
    specs: CircuitSpecs,
    sample: Sample,
    answers: Answers = MappingProxyType({}),
) -> list[TextError]:
    """Returns the error of a sample; none of one outside its intervals, whose share the population states.
    soft: the model, tempered as the circuit's. answers: of the model, those that are there."""
    hidden, mask = trimmed(sample)
    result = approximated(soft, specs, hidden, mask)
    if result.outside:
        return []
    answer = _answer(model, (hidden, mask), answers)
    (rows,) = distances([result.answer], [finished(answer, model.config.normalise)], [mask])
    logits = np.atleast_2d(answer)[mask > 0.0 if answer.ndim == 2 else ...] if model.config.labels else None
    return [TextError(float(np.max(rows)), float(np.linalg.norm(answer)), logits)]


def stated_error(plan: Plan, trial: Trial) -> ErrorBound:
    """Returns the bound over the texts that were tried; where approximations were tried on none, over the
    simulated answers. plan: whose step of rounding counts, without its error."""
    noise = NOISE * trial.simulation.shown_noise
    errors = [error.distance + noise + _rounding(plan, error.length) for error in trial.texts]
    simulated_errors = [
        error + (0.0 if plan.normalise else _rounding(plan, 1.0)) for error in trial.simulation.errors
    ]
    texts = len(errors or simulated_errors)
    share = share_of(texts, plan.batch)
    return ErrorBound(
        up(max(tolerance_bound(errors or simulated_errors, share), *simulated_errors)), texts, share
    )


def is_coarse(plan: Plan, trial: Trial) -> bool:
    """Whether a client would be warned of its answers' rounding, as `plans.answers.judge` does, or rounding
    decides more than MOST_TIES of the choices."""
    size = trial.simulation.entry if is_vector(plan) else plan.answer
    return size < STEPS * plan.logit_step or ties(plan, trial) > MOST_TIES


def ties(plan: Plan, trial: Trial) -> float:
    """Returns the share of choices on the tried texts that are within a step of rounding by the float model:
    between the two best labels, between yes and no for each of many, or which of two texts ranks higher by
    one number. Of FEW_CHOICES it says nothing: 0."""
    logits = [text.logits for text in trial.texts if text.logits is not None]
    if plan.task not in (TEXT, TOKENS) or not logits:
        return 0.0
    rows = np.concatenate(logits)
    if plan.problem == MULTI_LABEL:
        apart = 2.0 * np.abs(rows).ravel()
    elif rows.shape[1] == 1:
        some = rows[: len(logits)]
        apart = np.abs(some - some.T)[np.triu_indices(len(some), 1)]
    elif plan.problem != REGRESSION:
        apart = np.diff(np.partition(rows, -2)[:, -2:]).ravel()
    else:
        return 0.0
    return float(np.mean(apart < plan.logit_step)) if len(rows) >= FEW_CHOICES else 0.0


def _rounding(plan: Plan, length: float) -> float:
    """Half a step of what a client shows of an answer of this length."""
    return 0.5 * shown_step(plan, max(length, LEAST_LENGTH))
