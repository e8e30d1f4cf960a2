"""What a placed circuit will get wrong: a trial on `sim`, with the engine's noise, beside `plain` and the
float model.

The distance from `plain`, which runs the same circuit without noise, is noise alone; the distance from the
float model is noise and approximations. What a client may show depends on the first (`decimals`), how good a
plan is on the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.calibrate.calibrate import Array, Sample
from tacita.calibrate.outwards import up
from tacita.checkpoint import Checkpoint
from tacita.errors import PlanError
from tacita.models.reference import reference
from tacita.packings.approximated import approximated
from tacita.packings.base import Circuit
from tacita.packings.shape import Shape
from tacita.packings.specs import CircuitSpecs
from tacita.planning.build import RESPONSE, Placed
from tacita.plans.presets import noise_of
from tacita.run import executor
from tacita.run.steps import Steps, prefixes
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Live
from tacita.tasks.embedding import finished


@dataclass(frozen=True)
class Trial:
    """Over all samples, rounded up to 8 bits as all that a plan publishes.

    error: largest distance of the numbers of an answer from the float model's. noise: the standard deviation
    of their distance from `plain`'s, in the noisiest answer and token.

    Of one answer and one token, because noise depends on the text, by a factor of 8 between two of them, and
    a plan has one rounding for all.
    """

    error: float
    noise: float


def run_trial(
    model: Checkpoint,
    placed: Placed,
    circuit: Circuit,
    shape: Shape,
    samples: Sequence[Sample],
    *,
    gap: float = 0.0,
) -> Trial:
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
    ended = [
        finished(values, model.config.normalise) for values in noisy
    ]  # the noise is that before normalising
    return Trial(up(_distance(ended, wanted, masks)), up(deviation(noisy, quiet, masks)))


def largest_error(
    model: Checkpoint, soft: Checkpoint, specs: CircuitSpecs, samples: Iterable[Sample]
) -> float:
    """Over the samples the largest distance of a number of the answer, in its real rows, from the float
    model's; 0 without a sample. Those that left their intervals are left out, as a client is told of them.
    soft: the model, tempered as the circuit's."""
    return max((_apart(model, soft, specs, *sample) for sample in samples), default=0.0)


def _apart(model: Checkpoint, soft: Checkpoint, specs: CircuitSpecs, hidden: Array, mask: Array) -> float:
    found = approximated(soft, specs, hidden, mask)
    if found.outside:
        return 0.0
    return _distance([found.answer], [reference(model, hidden, mask, all_rows=False).logits], [mask])


def decided(model: Checkpoint, samples: Iterable[Sample], gap: float) -> list[Sample]:
    """Those whose largest logit is so far above the next."""
    return [(hidden, mask) for hidden, mask in samples if _lead(reference(model, hidden, mask).logits) >= gap]


def _lead(logits: Array) -> float:
    second, first = np.sort(logits)[-2:]
    return float(first - second)


def one_hot(logits: Array) -> Array:
    """1 at the largest, of several the first; 0 elsewhere."""
    return np.asarray(np.arange(len(logits)) == int(logits.argmax()), np.float64)


def _answers(
    placed: Placed,
    circuit: Circuit,
    shape: Shape,
    samples: Sequence[Sample],
    make: Callable[[], SimBackend | PlainBackend],
) -> list[Array]:
    """One for each sample; of steps, each behind those before it."""
    levels = placed.levels
    if circuit.kept:
        return list(_walked(Steps(placed.stages, circuit, levels, make()), samples))
    found: list[Array] = []
    for group in (samples[at : at + shape.texts] for at in range(0, len(samples), shape.texts)):
        be: Any = make()
        live: Live = {
            n: tuple(be.encrypt(v, levels[n]) for v in vs) for n, vs in circuit.request.pack(group).items()
        }
        out = executor.run(placed.stages, circuit.stages, be, live)
        answers = circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]])
        found += [answer.values for answer in answers[: len(group)]]
    return found


def _walked(steps: Steps, samples: Sequence[Sample]) -> Iterator[Array]:
    for sample in samples:
        if np.count_nonzero(sample[1]) == 1:
            steps.begin()
        yield steps.answer(sample).values


def _distance(found: Sequence[Array], wanted: Sequence[Array], masks: Sequence[Array]) -> float:
    """The largest, over the real rows."""
    return max(float(np.max(rows)) for rows in _distances(found, wanted, masks))


def deviation(found: Sequence[Array], wanted: Sequence[Array], masks: Sequence[Array]) -> float:
    """The largest of the rows' standard deviations, of each told by its largest distance: of n numbers from
    one normal distribution that is more than sqrt(2 ln (n / 2)) deviations; of two it counts as one."""
    return max(
        float(np.max(rows)) / max(1.0, math.sqrt(2.0 * math.log(max(1.0, 0.5 * rows.shape[-1]))))
        for rows in _distances(found, wanted, masks)
    )


def _distances(found: Sequence[Array], wanted: Sequence[Array], masks: Sequence[Array]) -> list[Array]:
    """(rows, numbers) of each answer: of its real tokens, where it has a row for each."""
    pairs = zip(found, wanted, masks, strict=True)
    return [np.atleast_2d(np.abs(a - b))[m > 0.0 if a.ndim == 2 else ...] for a, b, m in pairs]
