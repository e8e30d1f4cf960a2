"""The threat model's "common fate": a text far outside the calibrated intervals spoils its batch, and every answer says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.checkpoint import embed

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

TEXTS = ["a fine film", "the plot is dull", "never boring", "a very bad film , is the plot good"]
CALIBRATION = [*TEXTS, "good", "bad plot", "the film is a very fine film", "dull dull dull"]
TOKENS = 16


def test_one_text_far_outside_spoils_the_batch_and_every_answer_warns(tmp_path: Path) -> None:
    model = make_random_checkpoint()
    plan = api.plan(model, tokens=TOKENS, preset="insecure_toy_n10", scheme="arion", texts=CALIBRATION)
    client = api.Client(plan, model, tmp_path, allow_insecure=True)
    server = api.Server(plan, model, tmp_path, allow_insecure=True)
    client.keygen()
    samples = [embed(model, text, TOKENS) for text in TEXTS]
    states = [hidden[mask > 0] for hidden, mask in samples]
    for factor, spoiled in ((1.0, False), (10.0, True)):
        client.encrypt_batch(hidden_states=[*states[:2], factor * states[2], states[3]])
        server.evaluate()
        answers = client.decrypt_batch()
        assert len(answers) == plan.batch
        assert all(bool(answer.warnings) == spoiled for answer in answers)
        expected = api.reference_logits(plan, model, TEXTS[0])
        assert (np.max(np.abs(np.array(answers[0].logits) - expected)) > 0.05) == spoiled
