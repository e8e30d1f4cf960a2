"""The error that a placed circuit will make: a trial on `sim` with the engine's noise against the float model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacita.backends.sim import SimBackend
from tacita.checkpoint import Checkpoint
from tacita.models.bert import finished, reference
from tacita.plan import executor
from tacita.plan.build import RESPONSE, Placed
from tacita.plan.calibrate import Sample
from tacita.plan.leveled import noise_of
from tacita.plan.requests import AnyCircuit, pack, read
from tacita.plan.scheme import Shape
from tacita.schemes.base import Live


def predicted_error(
    model: Checkpoint, placed: Placed, circuit: AnyCircuit, shape: Shape, samples: Sequence[Sample]
) -> float:
    """Largest distance of an answer from the float model's, over the samples.

    circuit: the placed one, or the same one with fewer sequences (shape), which takes seconds where hundreds of full
    ciphertexts take minutes; the noise is that of the full ring. Samples go as many at a time as it holds.
    """
    groups = [samples[at : at + shape.texts] for at in range(0, len(samples), shape.texts)]
    return max((_trial(model, placed, circuit, shape.slots, group) for group in groups), default=0.0)


def _trial(model: Checkpoint, placed: Placed, circuit: AnyCircuit, slots: int, samples: Sequence[Sample]) -> float:
    be = SimBackend(slots, placed.parameters.max_level, inject=True, noise=noise_of(placed.parameters))
    levels = {**placed.placement.request, **placed.fixed_levels}
    live: Live = {n: tuple(be.encrypt(v, levels[n]) for v in vs) for n, vs in pack(circuit, samples).items()}
    out = executor.run(placed.stages, circuit.stages, be, live)
    answers = read(circuit, [be.decrypt(ct) for ct in out[RESPONSE]])
    wanted = [reference(model, hidden, mask).logits for hidden, mask in samples]
    found = [finished(answer.values, model.config.normalise) for answer in answers]
    return max(float(np.max(np.abs(a - w))) for a, w in zip(found, wanted, strict=False))
