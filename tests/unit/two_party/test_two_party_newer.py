"""An encoder with every newer option between two parties: its plan, the integers, and the shares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import newer_encoder
import numpy as np
import pytest

from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.errors import CheckpointError, FileError
from tacita.planning.request import PlanRequest
from tacita.plans.json_fields import canonical
from tacita.two_party.limits import texts_of_a_key
from tacita.two_party.model import simulation
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
MODELS: dict[str, dict[str, Any]] = {
    "a gate of SiLU": {},
    "ReLU squared": {"activation": "relu2", "gated": False},
    "a gate of GELU with tanh, for every token": {"activation": "gelu_tanh", "pooling": "none"},
}


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    with newer_encoder.known():
        yield


def plan_of(model: Checkpoint) -> TwoPartyPlan:
    return make_two_party_plan(model, PlanRequest(tokens=12, texts=TEXTS))


def integers(plan: TwoPartyPlan, model: Checkpoint, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(by fixed, by float, rows of the answer that belong to real tokens)."""
    hidden, mask = embed(model, text, plan.tokens)
    run = simulation(plan, Weights(model.tensors), mask)
    found = run.floats(hidden)
    assert not run.overflows
    real = mask > 0.0 if len(found) > 1 else np.ones(1, bool)
    return found, np.atleast_2d(reference(model, hidden, mask).logits), real


@pytest.mark.parametrize("name", MODELS)
def test_integers_keep_the_answers(name: str) -> None:
    """Queries whose whole window is padding among them."""
    model = newer_encoder.checkpoint(**MODELS[name])
    plan = plan_of(model)
    for text in TEXTS:
        found, wanted, real = integers(plan, model, text)
        assert found.shape == wanted.shape and len(real) in (1, 12)
        assert np.abs(found - wanted)[real].max() < 0.02


@pytest.mark.native
@pytest.mark.parametrize("name", MODELS)
def test_shares_keep_the_answers(name: str) -> None:
    shares = pytest.importorskip("test_two_party_shares")
    model = newer_encoder.checkpoint(**MODELS[name])
    plan, text = plan_of(model), TEXTS[1]
    found, wanted, real = integers(plan, model, text)
    with shares.prepared() as session:
        hidden, mask = embed(model, text, plan.tokens)

        def work(party: Any) -> Any:
            client = party is session[0]
            mine = {"mask": mask} if client else {"model": model}
            return shares.run_plan(plan, party, hidden, **mine)

        by_shares = shares.both(session, work)[0]
    assert by_shares.shape == found.shape
    assert np.abs(by_shares - found)[real].max() < 0.02
    assert np.abs(by_shares - wanted)[real].max() < 0.04


def test_the_plan_survives_the_wire_with_its_gates() -> None:
    plan = plan_of(newer_encoder.checkpoint())
    found = parse_plan(plan.to_bytes())
    assert found == plan
    assert set(plan.bounds.gates) == {"h0.mlp", "h1.mlp"}
    assert {"h0.attention.queries", "h1.attention.keys"} < set(plan.bounds.norms)
    assert b"gates" not in plan_of(newer_encoder.checkpoint(gated=False)).to_bytes()


def test_every_number_that_the_client_learns_is_counted() -> None:
    """A hidden table's key is renewed by it."""
    one, every = (plan_of(newer_encoder.checkpoint(pooling=pooling)) for pooling in ("mean", "none"))
    assert (one.numbers, every.numbers) == (2, 12 * 2)
    assert texts_of_a_key(every.numbers) < texts_of_a_key(one.numbers)


def gates(data: Any) -> Any:
    return data["bounds"]["gates"]


DAMAGES = {
    "a gate without bounds": (lambda d: gates(d).pop("h0.mlp"), "bounds of gates"),
    "no gates": (lambda d: d["bounds"].pop("gates"), "bounds of gates"),
    "a gate too many": (lambda d: gates(d).update(last=1.0), "bounds of gates"),
    "a gate that is no number": (lambda d: gates(d).update({"h0.mlp": "1"}), "damaged"),
    "a product of nothing": (lambda d: gates(d).update({"h0.mlp": 0.0}), "product 0"),
    "a product that fits no ring": (lambda d: gates(d).update({"h0.mlp": 1e30}), r"product 1e\+30"),
    "a head's norm without bounds": (lambda d: d["bounds"]["norms"].pop("h0.attention.keys"), "of norms"),
    "a head's deviation": (
        lambda d: d["bounds"]["norms"]["h0.attention.keys"].update(variance=[1e-13, 1.0]),
        "h0.attention.keys",
    ),
    "a variance beyond all": (lambda d: d["bounds"]["norms"]["last"].update(variance=[1.0, 2e12]), "last"),
    "no room to turn": (lambda d: d["formats"].update(ring=52), "h0.attention: turns"),
    "angles that grow": (lambda d: d["config"].update(base=1e-300), "base 1e-300"),
    "an endless angle": (lambda d: d["config"].update(base=1e300), r"base 1e\+300"),
    "a window of less than nothing": (lambda d: d["config"].update(window=-1), r"reach \(-1, -1\)"),
    "heads that cannot turn": (lambda d: d["config"].update(hidden=18), "heads of 9"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_plan_is_refused(damage: str) -> None:
    change, told = DAMAGES[damage]
    data = json.loads(plan_of(newer_encoder.checkpoint()).to_bytes())
    change(data)
    with pytest.raises(FileError, match=told):
        parse_plan(canonical(data))


def test_residuals_of_thousands_fit() -> None:
    """A prompt-injection classifier of 4 x 512 has variances up to 8e6 before its last norm."""
    data = json.loads(plan_of(newer_encoder.checkpoint()).to_bytes())
    data["bounds"]["norms"]["last"] = {
        "centred": 10_880.0,
        "variance": [261_120.0, 7_929_856.0],
        "gamma": 2.0,
    }
    assert parse_plan(canonical(data)).bounds.norms["last"].variance[1] == 7_929_856.0


def test_squares_that_fit_no_ring_are_refused() -> None:
    data = json.loads(plan_of(newer_encoder.checkpoint(**MODELS["ReLU squared"])).to_bytes())
    data["bounds"]["functions"]["h0.mlp"] = [-1.0, 900_000.0]
    with pytest.raises(FileError, match=r"h0.mlp: squares of \(-1.0, 900000.0\)"):
        parse_plan(canonical(data))


def test_gates_that_there_are_none_of_are_spelled_in_one_way() -> None:
    data = json.loads(plan_of(newer_encoder.checkpoint(gated=False)).to_bytes())
    data["bounds"]["gates"] = {}
    with pytest.raises(FileError, match="gates of Bounds is left out"):
        parse_plan(canonical(data))


def test_a_function_without_a_protocol_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is calibrated."""
    monkeypatch.setattr("tacita.two_party.planning.calibrate", None)
    with pytest.raises(CheckpointError, match=r"h0\.mlp has the function 'sine'") as caught:
        make_two_party_plan(newer_encoder.checkpoint(activation="sine"), PlanRequest(tokens=12, texts=TEXTS))
    assert "gelu_tanh" in caught.value.hint
