"""The threat model's "common fate": a text outside the calibrated intervals spoils at most its own answer as
long as it is not far outside; one that is spoils its batch, and every answer says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.checkpoint import Checkpoint, embed
from tacita.planning.calibrate.calibrate import Calibration
from tacita.planning.calibrate.excesses import FAR, excesses, largest
from tacita.planning.calibrate.walk import walk
from tacita.plans.plan import Plan

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

TEXTS = ["a fine film", "the plot is dull", "never boring", "a very bad film , is the plot good"]
CALIBRATION = [*TEXTS, "good", "bad plot", "the film is a very fine film", "dull dull dull"]
TOKENS, BAD = 16, 2
NOISES = (0.0, 0.3, 0.5, 1.0, 3.0, 9.0)  # added to the bad text's hidden states


def test_one_text_far_outside_spoils_the_batch_and_every_answer_warns(tmp_path: Path) -> None:
    model = make_random_checkpoint()
    plan = api.plan(model, tokens=TOKENS, preset="insecure_toy_n10", scheme="arion", texts=CALIBRATION)
    client = api.Client(api.public_of(plan, model), tmp_path, allow_insecure=True)
    server = api.Server(plan, model, tmp_path, allow_insecure=True)
    client.keygen()
    states = [hidden[mask > 0] for hidden, mask in (embed(model, text, TOKENS) for text in TEXTS)]
    wanted = [api.reference_logits(plan, model, text) for text in TEXTS]
    noise, excesses = np.random.default_rng(2).normal(size=states[BAD].shape), []
    for amount in NOISES:
        given = [*states[:BAD], states[BAD] + amount * noise, *states[BAD + 1 :]]
        excesses.append(excess(plan, model, given[BAD]))
        client.encrypt_batch(hidden_states=given)
        server.evaluate()
        answers = client.decrypt_batch()
        assert len(answers) == plan.batch
        far = excesses[-1] > FAR
        assert all(bool(answer.warnings) == far for i, answer in enumerate(answers) if far or i != BAD)
        errors = [
            np.max(np.abs(np.array(answer.anyway.logits) - w))
            for answer, w in zip(answers, wanted, strict=False)
        ]
        others = [error for i, error in enumerate(errors) if i != BAD]
        assert min(others) > 1.0 if far else max(others) < 0.01, (amount, excesses[-1])
    assert sum(1.0 < found <= FAR for found in excesses) == 1, "one is outside, and not far"
    assert sum(found > FAR for found in excesses) == 4


def excess(plan: Plan, model: Checkpoint, hidden: np.ndarray) -> float:
    """Of hidden states over the plan's intervals."""
    found = Calibration.from_dict(plan.circuit["calibration"])
    assert set(np.ravel([*found.temperatures.values()])) == {1.0}
    with np.errstate(over="ignore"):
        ranges = walk(model, [(hidden, np.ones(len(hidden)))], 1, rows=found.row_estimates)
        return float(largest(excesses(ranges, found))[0])
