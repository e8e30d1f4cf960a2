"""Client and server in one process, to compare encrypted intermediates with the float reference.

The secret key stays in this class; the evaluator still gets evaluation keys alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacita import compiled
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.packings import executor
from tacita.packings.executor import RESPONSE
from tacita.planning.circuit import circuit_of
from tacita.plans import engine
from tacita.plans.plan import Plan
from tacita.slots.ckks import CkksBackend


@dataclass
class Run:
    """One encrypted run. layers: mean absolute error by layer; stages: seconds by stage."""

    logits: np.ndarray
    reference: np.ndarray
    layers: dict[str, float] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def max_abs_error(self) -> float:
        return float(np.max(np.abs(self.logits - self.reference)))

    def report(self) -> dict[str, Any]:
        return {
            "logits": self.logits.tolist(),
            "reference_logits": self.reference.tolist(),
            "max_abs_error": self.max_abs_error,
            "layer_mean_abs_error": self.layers,
            "seconds": sum(self.stages.values()),
            "stage_seconds": self.stages,
        }


class Laboratory:
    """Keys of one plan, made in a temporary folder."""

    def __init__(
        self, plan: Plan, model: Checkpoint, *, threads: int = 0, allow_insecure: bool = False
    ) -> None:
        self.plan, self.model, self.circuit = plan, model, circuit_of(plan, model)
        params = engine.parameters(plan.parameters, allow_insecure=allow_insecure)
        native = compiled.native
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tacita-laboratory-") as folder:
            secret, keys = (str(Path(folder) / name) for name in ("secret.key", "evaluation.keys"))
            native.keygen(params, list(plan.rotations), secret, keys, lambda done, total: None)
            self.secret = native.SecretKey.load(secret, params)
            loaded = native.EvaluationKeys.load(keys, params, list(plan.rotations))
        self.key_seconds = time.monotonic() - began
        self.be = CkksBackend(native.Evaluator(params, loaded, threads))
        warm = native.encrypt(self.secret, np.zeros(16, complex), 0)
        self.be.bootstrap([warm], ["real"])  # encodes the matrices once, as a server does when it starts

    def run(self, hidden: np.ndarray, mask: np.ndarray, *, stop_after: str = "") -> Run:
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
        result = Run(np.array([]), want)
        inspect = self._inspector(result, trace, stop_after)
        try:
            out = executor.run(self.plan.stages, self.circuit.stages, self.be, live, inspect=inspect)
        except _Stop:
            return result
        (answer,) = self.circuit.response.read([self._decrypt(ct) for ct in out[RESPONSE]])
        result.logits = np.asarray(answer.values, float)
        return result

    def _reference(self, hidden: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
        found = reference(self.model, hidden, mask)
        return np.asarray(
            found.trace["answer"], float
        ), found.trace  # as decrypted, before a client normalises

    def _inspector(self, result: Run, trace: Any, stop_after: str) -> Callable[[str, Any], None]:
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

    def _decrypt(self, ct: Any) -> np.ndarray:
        return np.asarray(self.secret.decrypt(ct))


class _Stop(Exception):
    """Ends a run after the stage that was asked for."""
