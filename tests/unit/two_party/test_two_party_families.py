"""Every family between two parties: the tiny models of `test_families.py`, planned, and run on integers and
on shares beside floats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacita.blocks.weights import Weights
from tacita.checkpoint.load import Checkpoint, load
from tacita.checkpoint.reference import reference
from tacita.planning.request import PlanRequest
from tacita.texts.embed import arranged
from tacita.two_party.model import simulation
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

families = pytest.importorskip("test_families")
PADDING = 3


def prepared(name: str, folder: Path) -> tuple[Checkpoint, TwoPartyPlan, np.ndarray, np.ndarray]:
    """(model, plan, hidden states, mask); the last rows of a text, of a decoder the first ones, are padding,
    copies of the first real one."""
    case = families.expected_of(name)
    pooling = next(iter(case["answer"])) or None
    model = load(families.folder_of(name, folder), pooling=pooling)
    if "pixels" in case:
        hidden = families.hidden_of(model, np.array(case["pixels"]))
        mask = np.ones(len(hidden))
    else:
        real = families.embedded(model, case["ids"], case["types"])
        hidden, mask = arranged(real, len(real) + PADDING, last=model.config.last_token)
    plan = make_two_party_plan(model, PlanRequest(tokens=len(hidden), hidden_states=[(hidden, mask)]))
    return model, plan, hidden, mask


def differences(found: np.ndarray, wanted: np.ndarray, mask: np.ndarray) -> float:
    """The largest, of real tokens where there is a row for each, relative to the largest value if above 1."""
    wanted = np.atleast_2d(wanted)
    assert found.shape == wanted.shape
    kept = mask > 0.0 if len(wanted) > 1 else np.ones(1, bool)
    return float(np.abs(found - wanted)[kept].max() / max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("name", families.CASES)
def test_integers_keep_a_familys_answer(name: str, tmp_path: Path) -> None:
    model, plan, hidden, mask = prepared(name, tmp_path)
    assert parse_plan(plan.to_bytes()) == plan
    run = simulation(plan, Weights(model.tensors), mask)
    found = run.floats(hidden)
    assert not run.overflows
    raw = reference(model, hidden, mask).trace["answer"]
    assert differences(found, raw, mask) < 0.03


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """Yields two parties that are set up once: the messages of all families follow one another."""
    with pytest.importorskip("test_two_party_shares").prepared() as parties:
        yield parties


@pytest.mark.native
@pytest.mark.parametrize("name", families.CASES)
def test_shares_keep_a_familys_answer(name: str, session: Any, tmp_path: Path) -> None:
    shares = pytest.importorskip("test_two_party_shares")
    model, plan, hidden, mask = prepared(name, tmp_path)

    def work(party: Any) -> Any:
        mine = {"mask": mask} if party is session[0] else {"model": model}
        return shares.run_plan(plan, party, hidden, **mine)

    found = shares.both(session, work)[0]
    assert differences(found, reference(model, hidden, mask).trace["answer"], mask) < 0.04
