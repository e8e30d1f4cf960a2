"""What a placed circuit will get wrong: a simulation on `sim` with the engine's noise, beside `plain` and the
float model.

The distance from `plain`, which runs the same circuit without noise, is noise alone; the distance from the
float model is noise and approximations. What a client may show depends on the first (`decimals`), how good a
plan is on the second.

What approximations get wrong depends on the text and takes two forward passes to find. So the stated error is
that of approximations on many texts, to each of which the simulation's largest noise and half a step of
rounding are added.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.errors import PlanError
from tacita.layouts.registry import Shape
from tacita.packings import executor
from tacita.packings.approximated import approximated
from tacita.packings.base import Circuit
from tacita.packings.executor import Steps, prefixes
from tacita.packings.specs import CircuitSpecs
from tacita.planning.build import RESPONSE, Placed
from tacita.planning.calibrate.calibrate import Array, Sample
from tacita.planning.calibrate.calibration import up
from tacita.plans.error import ErrorBound, share_of, tolerance_bound
from tacita.plans.plan import Plan
from tacita.plans.presets import noise_of
from tacita.plans.scheme import BUMBLEBEE, scheme_named, shown_step
from tacita.progress import Progress
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Live
from tacita.texts.vectors import LEAST_LENGTH, finished

NOISE = 5.0  # deviations that noise may reach: of 384 numbers one does in a text of 5,000


@dataclass(frozen=True)
class Simulation:
    """errors: of each answer, the largest distance of its numbers from the float model's. noise: the standard
    deviation of their distance from `plain`'s, in the noisiest answer and token, before a client divides a
    vector by its length; shown_noise: the same after it.

    Of one answer and one token, because noise depends on the text, by a factor of 8 between two of them, and
    a plan has one rounding for all. Rounded up to 8 bits as all that a plan publishes.
    """

    errors: tuple[float, ...]
    noise: float
    shown_noise: float


def run_simulation(
    model: Checkpoint,
    placed: Placed,
    circuit: Circuit,
    shape: Shape,
    samples: Sequence[Sample],
    *,
    gap: float = 0.0,
) -> Simulation:
    """The samples' answers on `sim` and on `plain`. Raises PlanError without a sample.

    circuit: the placed one, or the same one with fewer sequences (shape), which takes seconds where hundreds
    of full ciphertexts take minutes; the noise is that of the full ring. Samples go as many at a time as it
    holds. gap: where the answer is the likeliest word alone, see `Plan`. Of steps every beginning of
    a sample is an answer.
    """
    if not samples:
        raise PlanError(
            "plan: no sample fits, so nothing shows the noise of an answer", hint="pass shorter texts"
        )
    top, noise = placed.parameters.max_level, noise_of(placed.parameters)
    if circuit.kept:
        samples = [part for sample in samples for part in prefixes(sample)]
    noisy = _answers(
        placed, circuit, shape, samples, lambda: SimBackend(shape.slots, top, inject=True, noise=noise)
    )
    quiet = _answers(placed, circuit, shape, samples, lambda: PlainBackend(shape.slots, top))
    wanted = [reference(model, hidden, mask).logits for hidden, mask in samples]
    judged = [i for i, logits in enumerate(wanted) if not gap or _lead(logits) >= gap]
    wanted = [one_hot(wanted[i]) if gap else wanted[i] for i in judged]
    noisy, quiet, masks = (
        [noisy[i] for i in judged],
        [quiet[i] for i in judged],
        [samples[i][1] for i in judged],
    )
    ended, still = ([finished(v, model.config.normalise) for v in values] for values in (noisy, quiet))
    errors = tuple(float(np.max(rows)) for rows in distances(ended, wanted, masks))
    return Simulation(errors, up(deviation(noisy, quiet, masks)), up(deviation(ended, still, masks)))


def decided(model: Checkpoint, samples: Iterable[Sample], gap: float) -> list[Sample]:
    """Returns the samples whose largest logit is at least `gap` above the next."""
    return [(hidden, mask) for hidden, mask in samples if _lead(reference(model, hidden, mask).logits) >= gap]


def _lead(logits: Array) -> float:
    second, first = np.sort(logits)[-2:]
    return float(first - second)


def one_hot(logits: Array) -> Array:
    """Returns 1 at the largest value, of several the first, and 0 elsewhere."""
    return np.asarray(np.arange(len(logits)) == int(logits.argmax()), np.float64)


def _answers(
    placed: Placed,
    circuit: Circuit,
    shape: Shape,
    samples: Sequence[Sample],
    make: Callable[[], SimBackend | PlainBackend],
) -> list[Array]:
    """Returns an answer for each sample; of steps, each behind those before it."""
    levels = placed.levels
    if circuit.kept:
        return list(_walked(Steps(placed.stages, circuit, levels, make()), samples))
    groups = [samples[at : at + shape.texts] for at in range(0, len(samples), shape.texts)]
    backends: list[Any] = [make() for _ in groups]
    requests = [
        (be, _request(circuit, group, be, levels)) for be, group in zip(backends, groups, strict=True)
    ]
    values: list[Array] = []
    outs = executor.run_together(placed.stages, circuit.stages, requests)
    for be, group, out in zip(backends, groups, outs, strict=True):
        answers = circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]])
        values += [answer.values for answer in answers[: len(group)]]
    return values


def _request(circuit: Circuit, group: Sequence[Sample], be: Any, levels: Mapping[str, int]) -> Live:
    packed = circuit.request.pack(group)
    return {name: tuple(be.encrypt(v, levels[name]) for v in vectors) for name, vectors in packed.items()}


def _walked(steps: Steps, samples: Sequence[Sample]) -> Iterator[Array]:
    for sample in samples:
        if np.count_nonzero(sample[1]) == 1:
            steps.begin()
        yield steps.answer(sample).values


def deviation(results: Sequence[Array], wanted: Sequence[Array], masks: Sequence[Array]) -> float:
    """The largest of the rows' standard deviations, of each told by its largest distance: of n numbers from
    one normal distribution that is more than sqrt(2 ln (n / 2)) deviations; of two it counts as one."""
    return max(
        float(np.max(rows)) / max(1.0, math.sqrt(2.0 * math.log(max(1.0, 0.5 * rows.shape[-1]))))
        for rows in distances(results, wanted, masks)
    )


def distances(results: Sequence[Array], wanted: Sequence[Array], masks: Sequence[Array]) -> list[Array]:
    """(rows, numbers) of each answer: of its real tokens, where it has a row for each."""
    pairs = zip(results, wanted, masks, strict=True)
    return [np.atleast_2d(np.abs(a - b))[m > 0.0 if a.ndim == 2 else ...] for a, b, m in pairs]


@dataclass(frozen=True)
class TextError:
    """distance: largest of a number of the answer, in its real rows, from the float model's. length: of the
    answer by the float model, before a client divides by it."""

    distance: float
    length: float


def approximation_errors(
    model: Checkpoint, soft: Checkpoint, specs: CircuitSpecs, samples: Iterable[Sample]
) -> Iterator[TextError]:
    """Returns an error for each sample but those outside their intervals, of which a client is told. soft:
    the model, tempered as the circuit's."""
    for hidden, mask in samples:
        result = approximated(soft, specs, hidden, mask)
        if not result.outside:
            wanted = reference(model, hidden, mask, all_rows=False)
            (rows,) = distances([result.answer], [wanted.logits], [mask])
            yield TextError(float(np.max(rows)), float(np.linalg.norm(wanted.trace["answer"])))


def stated_error(plan: Plan, texts_errors: Sequence[TextError], simulation: Simulation) -> ErrorBound:
    """Returns the bound over the texts that were tried; where approximations were tried on none, over the
    simulated answers."""
    noise = NOISE * simulation.shown_noise
    errors = [error.distance + noise + _rounding(plan, error.length) for error in texts_errors]
    simulated_errors = [
        error + (0.0 if plan.normalise else _rounding(plan, 1.0)) for error in simulation.errors
    ]
    texts = len(errors or simulated_errors)
    share = share_of(texts, plan.batch)
    return ErrorBound(
        up(max(tolerance_bound(errors or simulated_errors, share), *simulated_errors)), texts, share
    )


def _rounding(plan: Plan, length: float) -> float:
    """Half a step of what a client shows of an answer of this length."""
    return 0.5 * shown_step(plan, max(length, LEAST_LENGTH))


# Progress of planning: each phase has a share, its seconds on the default model at full size; calibration,
# which may take many texts, its own pace as soon as that is known.

CALIBRATE = 6.0
ONE: Mapping[str, float] = {"fit": 0.3, "place": 0.5, "predict": 8.0}
BATCH: Mapping[str, float] = {"fit": 0.3, "place": 19.0, "predict": 1.7}  # hundreds of ciphertexts, few slots


class Phases:
    """Reports the phases of planning `schemes`, one after the other; each kind of them is calibrated before
    its first.

    schemes: names, each with a packing behind it or alone.
    """

    def __init__(self, progress: Callable[[Progress], None], schemes: Sequence[str]) -> None:
        self._progress = progress
        self._shares: list[tuple[str, float]] = []
        for scheme in schemes:
            kind, shares = _shares(scheme.partition(" ")[0])
            measured = (f"calibrate {kind}", CALIBRATE)
            self._shares += [] if measured in self._shares else [measured]
            self._shares += [(f"{phase} {scheme}", share) for phase, share in shares.items()]
        self._index = self._done = 0
        self._began = time.monotonic()

    def enter(self, phase: str, scheme: str = "") -> None:
        """A phase begins; "done" after the last."""
        names = [name for name, _ in self._shares]
        name = f"{phase} {scheme}".strip()
        if name not in (*names, "done"):
            raise PlanError(f"planning has no phase {name!r}", hint=f"one of {', '.join(names)}")
        self._index = len(names) if name == "done" else names.index(name)
        self._done, self._began = 0, time.monotonic()
        self._report(0.0)

    def part(self, done: int, total: int) -> None:
        """The phase has come so far, and will go on as it did; a smaller `done` than before begins another
        pass."""
        if done < self._done:
            self._began = time.monotonic()
        elif self._index < len(self._shares):
            self._shares[self._index] = (
                self._shares[self._index][0],
                (time.monotonic() - self._began) * total / done,
            )
        self._done = done
        self._report(done / total)

    def _report(self, share: float) -> None:
        weights = [w for _, w in self._shares]
        inside = self._index < len(weights)
        done = sum(weights[: self._index]) + (share * weights[self._index] if inside else 0.0)
        name = self._shares[self._index][0] if inside else "done"
        self._progress(Progress(name, self._index, len(weights), done, sum(weights) - done))


def phase_label(scheme: str, packing: str | None) -> str:
    """Names the phases of a scheme on one of its packings."""
    return f"{scheme} {packing}" if packing else scheme


def _shares(scheme: str) -> tuple[str, Mapping[str, float]]:
    """What is calibrated for a scheme, and its phases after that: two parties fit and place nothing."""
    if scheme == BUMBLEBEE:
        return BUMBLEBEE, {}
    return ("batch", BATCH) if scheme_named(scheme).several else ("rows", ONE)
