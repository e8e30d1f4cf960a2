"""Every layer of the encrypted run beside the float reference, not its label alone: a broken layer hides
behind a sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encrypted import engine_of

from tacita import api
from tacita.checkpoint import embed, load
from tacita.checkpoint.reference import reference
from tacita.packings import executor
from tacita.planning.circuit import circuit_of

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")

TEXT = "a film of quiet beauty , and the ending stayed with me"


def test_each_layer_stays_close_to_the_reference(tmp_path: Path) -> None:
    model = load(api.DEFAULT_MODEL)
    plan = api.plan(model, tokens=16, preset="insecure_toy_n12", texts=[TEXT, "a waste of time"])
    engine, circuit = engine_of(plan, tmp_path), circuit_of(plan, model)
    hidden, mask = embed(model, TEXT, 16)
    trace = reference(model, hidden, mask).trace
    errors: dict[str, float] = {}

    def compare(stage: str, live: Any) -> None:
        if probe := circuit.probes.get(stage):
            (found,) = probe.read([np.asarray(engine.secret.decrypt(ct)) for ct in live[probe.tensor]])
            wanted = trace[probe.reference][: len(found)]
            errors[stage] = float(np.mean(np.abs(found - wanted)[mask[: len(found)] > 0]))

    live = engine.request(circuit, [(hidden, mask)], {t.name: t.level for t in plan.request})
    executor.run(plan.stages, circuit.stages, engine.be, live, inspect=compare)
    assert len(errors) == 2 * model.config.layers
    assert max(errors.values()) < 0.01, errors
