"""Every layer of the encrypted run beside the float reference, not its label alone: a broken layer hides
behind a sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacita import api, compiled
from tacita.checkpoint import embed, load
from tacita.checkpoint.reference import reference
from tacita.packings import executor
from tacita.planning.circuit import circuit_of
from tacita.plans import engine
from tacita.slots.ckks import CkksBackend

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")

TEXT = "a film of quiet beauty , and the ending stayed with me"


def test_each_layer_stays_close_to_the_reference(tmp_path: Path) -> None:
    model = load(api.DEFAULT_MODEL)
    plan = api.plan(model, tokens=16, preset="insecure_toy_n12", texts=[TEXT, "a waste of time"])
    circuit = circuit_of(plan, model)
    hidden, mask = embed(model, TEXT, 16)
    trace = reference(model, hidden, mask).trace
    secret, be = _engine(plan, tmp_path)
    errors: dict[str, float] = {}

    def compare(stage: str, live: Any) -> None:
        if probe := circuit.probes.get(stage):
            (found,) = probe.read([np.asarray(secret.decrypt(ct)) for ct in live[probe.tensor]])
            wanted = trace[probe.reference][: len(found)]
            errors[stage] = float(np.mean(np.abs(found - wanted)[mask[: len(found)] > 0]))

    levels = {t.name: t.level for t in plan.request}
    native = compiled.native
    vectors = circuit.request.pack([(hidden, mask)])
    live = {
        n: tuple(native.encrypt(secret, v.astype(complex), levels[n]) for v in vs)
        for n, vs in vectors.items()
    }
    executor.run(plan.stages, circuit.stages, be, live, inspect=compare)
    assert len(errors) == 2 * model.config.layers
    assert max(errors.values()) < 0.01, errors


def _engine(plan: Any, folder: Path) -> tuple[Any, CkksBackend]:
    """A test may hold the secret beside the evaluator; no program of ours does."""
    native, params = compiled.native, engine.parameters(plan.parameters, allow_insecure=True)
    paths = str(folder / "secret.key"), str(folder / "evaluation.keys")
    native.keygen(params, list(plan.rotations), *paths, lambda done, total: None)
    keys = native.EvaluationKeys.load(paths[1], params, list(plan.rotations))
    return native.SecretKey.load(paths[0], params), CkksBackend(native.Evaluator(params, keys, 0))
