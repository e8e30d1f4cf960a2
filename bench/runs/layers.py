"""Outputs of layers beside the float model's: how far an error has grown on its way to the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.packings.base import Circuit
from tacita.planning.circuit import circuit_of
from tacita.plans.plan import Plan

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)
Read = Callable[[str], Sequence[Array]]  # a live tensor by its name -> slot vectors


class LayerErrors:
    """Pass `see` as what a run in the clear tells after each stage (`Ciphertexts.in_the_clear`).

    worst: by layer, the largest absolute error of its output on real tokens, over the range of the float
    model's output there; over all samples that were started. A layer is what stands before the first dot of a
    node's name, and its output that of its last norm; of a layer that computes the first token alone, this
    token counts.
    """

    def __init__(self, plan: Plan, model: Checkpoint) -> None:
        self.worst: dict[str, float] = {}
        self._model, self._circuit = model, circuit_of(plan, model, texts=1)
        self._layers = {stage: layer for layer, stage in last_norms(self._circuit).items()}
        self._trace: dict[str, Array] = {}
        self._real: NDArray[np.bool_] = np.ones(0, dtype=bool)

    def start(self, sample: Sample) -> None:
        """The next run is of this sample. Cost: one float64 forward pass."""
        self._trace, self._real = dict(reference(self._model, *sample).trace), sample[1] > 0.0

    def see(self, stage: str, read: Read) -> None:
        """Compares where a layer ends."""
        if (layer := self._layers.get(stage)) is None:
            return
        probe = self._circuit.probes[stage]
        (found,) = probe.read(read(probe.tensor))
        rows = np.flatnonzero(self._real[: len(found)])
        wanted = self._trace[probe.reference][rows]
        error = float(np.abs(found[rows] - wanted).max() / np.ptp(wanted))
        self.worst[layer] = max(error, self.worst.get(layer, 0.0))


def last_norms(circuit: Circuit) -> dict[str, str]:
    """Layer -> the last stage of it that can be compared."""
    compared = [stage.name for stage in circuit.stages if stage.name in circuit.probes]
    return {name.partition(".")[0]: name for name in compared}
