"""Outputs of layers beside the float model's: how far an error has grown on its way to the answer.

On `plain` and `sim` every run can be looked into (`LayerErrors`). Of an encrypted one nobody sees them, but
who holds its secret key: `python -m bench layers` does, beside an evaluator that gets evaluation keys alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bench.kernels.keys import keyed
from bench.options import Lines, ModelFolder, Pooling, Threads, Tokens, emit, lines_of
from tacita import api, compiled
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.cli.options import TOKENS_DEFAULT, Json, load_model, option
from tacita.data import DEFAULT_MODEL
from tacita.packings import executor
from tacita.packings.base import Circuit
from tacita.packings.executor import RESPONSE
from tacita.planning.circuit import circuit_of
from tacita.plans import engine
from tacita.plans.plan import Plan
from tacita.resources import peak_memory_gb
from tacita.settings import PlanOptions

SENTENCES = (
    "a film of quiet beauty , and the ending stayed with me for days",
    "the plot makes no sense and the jokes are worse",
    "it is neither good nor bad , just long",
)
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


@dataclass
class EncryptedRun:
    """One encrypted run. layers: mean absolute error by layer; stages, predicted: seconds by stage."""

    logits: Array
    reference: Array
    predicted: Mapping[str, float]
    layers: dict[str, float] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def max_abs_error(self) -> float | None:
        """None of a run that was stopped before its answer."""
        return float(np.max(np.abs(self.logits - self.reference))) if self.logits.size else None

    def report(self) -> dict[str, Any]:
        """Returns the figures as JSON data."""
        return {
            "logits": self.logits.tolist(),
            "reference_logits": self.reference.tolist(),
            "max_abs_error": self.max_abs_error,
            "layer_mean_abs_error": self.layers,
            "seconds": sum(self.stages.values()),
            "predicted_seconds": sum(self.predicted[name] for name in self.stages),
            "stages": {n: {"seconds": s, "predicted": self.predicted[n]} for n, s in self.stages.items()},
        }


class Laboratory:
    """Keys of one plan. The secret key stays in this class."""

    def __init__(
        self, plan: Plan, model: Checkpoint, *, threads: int = 0, allow_insecure: bool = False
    ) -> None:
        self.plan, self.model, self.circuit = plan, model, circuit_of(plan, model)
        params = engine.parameters(plan.parameters, allow_insecure=allow_insecure)
        self.be, self.secret = keyed(params, plan.rotations, threads)
        warm = compiled.native.encrypt(self.secret, np.zeros(16, complex), 0)
        self.be.bootstrap([warm], ["real"])  # encodes the matrices once, as a server does when it starts

    def run(self, hidden: Array, mask: Array, *, stop_after: str = "") -> EncryptedRun:
        """Encrypts, evaluates with every probe decrypted, decrypts. stop_after: a stage to end with (no
        logits then)."""
        native = compiled.native
        want, trace = self._reference(hidden, mask)
        levels = {tensor.name: tensor.level for tensor in self.plan.request}
        slots = self.circuit.request.pack([(hidden, mask)])
        live = {
            name: tuple(
                native.encrypt(self.secret, np.ascontiguousarray(v, np.complex128), levels[name]) for v in vs
            )
            for name, vs in slots.items()
        }
        predicted = dict(
            zip((s.name for s in self.plan.stages), self.plan.prediction.stage_seconds, strict=True)
        )
        result = EncryptedRun(np.array([]), want, predicted)
        inspect = self._inspector(result, trace, stop_after)
        try:
            out = executor.run(self.plan.stages, self.circuit.stages, self.be, live, inspect=inspect)
        except _Stop:
            return result
        (answer,) = self.circuit.response.read([self._decrypt(ct) for ct in out[RESPONSE]])
        result.logits = np.asarray(answer.values, float)
        return result

    def _reference(self, hidden: Array, mask: Array) -> tuple[Array, Mapping[str, Array]]:
        found = reference(self.model, hidden, mask)
        return np.asarray(
            found.trace["answer"], float
        ), found.trace  # as decrypted, before a client normalises

    def _inspector(self, result: EncryptedRun, trace: Any, stop_after: str) -> Callable[[str, Any], None]:
        clock = time.monotonic()

        def inspect(stage: str, live: Any) -> None:
            nonlocal clock
            result.stages[stage] = time.monotonic() - clock
            probe = self.circuit.probes.get(stage)
            if probe is not None:
                (got,) = probe.read([self._decrypt(ct) for ct in live[probe.tensor]])
                want = np.atleast_2d(trace[probe.reference])[: len(got)]
                result.layers[stage] = float(np.mean(np.abs(got - want)))
            if stage == stop_after:
                raise _Stop
            clock = time.monotonic()

        return inspect

    def _decrypt(self, ct: Any) -> Array:
        return np.asarray(self.secret.decrypt(ct))


class _Stop(Exception):
    """Ends a run after the stage that was asked for."""


def layers(
    model: ModelFolder = DEFAULT_MODEL,
    pooling: Pooling = None,
    tokens: Tokens = TOKENS_DEFAULT,
    texts: Lines = None,
    limit: Annotated[int, option("--limit", help="Texts, the first so many.", min=1)] = 1,
    runs: Annotated[int, option("--runs", help="Of each text: the first touches its memory.", min=1)] = 1,
    stop_after: Annotated[str, option("--stop-after", help="A stage, such as layer0.norm2.")] = "",
    threads: Threads = 0,
    json: Json = None,
) -> None:
    """Encrypt texts at full security and compare every layer's output with floats, and every stage's seconds
    with the estimate."""
    loaded = load_model(PlanOptions(model=model, pooling=pooling))
    plan = api.plan(loaded, tokens=tokens)
    lab = Laboratory(plan, loaded, threads=threads)
    found = [
        lab.run(*embed(loaded, text, tokens), stop_after=stop_after).report()
        for text in (lines_of(texts) if texts else SENTENCES)[:limit]
        for _ in range(runs)
    ]
    head = {"model": plan.model.name, "tokens": tokens, "threads": lab.be._native.threads}
    emit({**head, "prices": plan.prediction.machine, "runs": found, "peak_rss_gb": peak_memory_gb()}, json)
