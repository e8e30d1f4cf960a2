"""One model of every family, encrypted on a toy ring in thor: the folders of `test_family_schemes`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_family_schemes import SAMPLES, TOKENS, calm, floats, inputs, planned, table
from test_layers import _engine

from tacita import compiled
from tacita.packings import executor
from tacita.planning.circuit import circuit_of
from tacita.texts.embed import pad_hidden

pytestmark = pytest.mark.native


@pytest.mark.parametrize("name", table.ENCRYPTED_CASES)
def test_a_family_is_answered_encrypted(name: str, tmp_path: Any) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model = calm(name, tmp_path)
    (asked, *known) = (hidden for hidden, _ in zip(inputs(name, model), range(1 + SAMPLES), strict=False))
    plan = planned(model, "thor", [pad_hidden(hidden, TOKENS) for hidden in known])
    circuit, (secret, be) = circuit_of(plan, model), _engine(plan, tmp_path)
    levels = {tensor.name: tensor.level for tensor in plan.request}
    packed = circuit.request.pack([pad_hidden(asked, TOKENS)])
    encrypt = compiled.native.encrypt
    live = {n: tuple(encrypt(secret, v.astype(complex), levels[n]) for v in vs) for n, vs in packed.items()}
    out = executor.run(plan.stages, circuit.stages, be, live)
    (answer,) = circuit.response.read([np.asarray(secret.decrypt(ct)) for ct in out["answer"]])
    assert answer.sound()
    assert np.abs(np.ravel(answer.values) - floats(model, asked)).max() < 0.03
