"""One model of every family, encrypted on a toy ring in thor: the folders of `test_family_schemes`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from encrypted import planned_answers
from test_family_schemes import SAMPLES, TOKENS, calm, floats, inputs, planned, table

from tacita.texts.embed import pad_hidden

pytestmark = pytest.mark.native


@pytest.mark.parametrize("name", table.ENCRYPTED_CASES)
def test_a_family_is_answered_encrypted(name: str, tmp_path: Any) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model = calm(name, tmp_path)
    (asked, *known) = (hidden for hidden, _ in zip(inputs(name, model), range(1 + SAMPLES), strict=False))
    plan = planned(model, "thor", [pad_hidden(hidden, TOKENS) for hidden in known])
    (answer,) = planned_answers(plan, model, [pad_hidden(asked, TOKENS)], tmp_path)
    assert answer.sound()
    assert np.abs(np.ravel(answer.values) - floats(model, asked)).max() < 0.03
