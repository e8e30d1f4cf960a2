"""The client's walk as a program: the same answers as the client that holds the model's definition, and
damaged programs are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacita import api
from tacita.blocks.weights import Weights
from tacita.errors import FileError, PlanError
from tacita.planning.request import PlanRequest
from tacita.texts.embed import embed
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan, program_of
from tacita.two_party.program.encoding import MAX_BYTES, decode, encode
from tacita.two_party.program.steps import OPERATIONS, Program

families = pytest.importorskip("test_families")
both_ways = pytest.importorskip("test_two_party_families")
shares = pytest.importorskip("test_two_party_shares")
runner = pytest.importorskip("program_runner")

TEXT = "a film of quiet beauty"
ROTARY = ("modernbert", "nanoguard")  # families whose rows are turned by their positions


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    """Of the default model."""
    return make_two_party_plan(api.load(), PlanRequest(tokens=16))


def test_a_program_is_small_and_has_one_spelling(plan: TwoPartyPlan) -> None:
    program = program_of(plan)
    data = encode(program)
    assert decode(data) == program
    assert program.plan == plan.hash
    assert len(data) < 100_000
    assert (program.tokens, program.hidden, program.shape) == (16, plan.hidden, (1, len(plan.labels)))


def test_its_nodes_are_those_of_the_walk(plan: TwoPartyPlan) -> None:
    from tacita.two_party.plan.plan import counted

    entered = [step.parameters["name"] for step in program_of(plan).steps if step.op == "enter"]
    assert entered == counted(plan).nodes


@pytest.mark.native
def test_the_default_model_answers_alike(plan: TwoPartyPlan) -> None:
    checkpoint = api.load()
    server = shares.TwoPartyServer(plan, checkpoint)
    program = decode(encode(program_of(plan)))
    with shares.pair(timeout=180.0) as (ours, theirs), ThreadPoolExecutor(1) as pool:
        serving = pool.submit(server.session, theirs)
        client = TwoPartyClient(ours, NoCache())
        usual = client.classify(TEXT)
        from tacita.two_party.protocol import handshake

        handshake.ask(ours)
        hidden, mask = embed(client.part.front, TEXT, plan.tokens)
        found = runner.run_program(program, ours.native, hidden, mask)
        client.end()
        assert serving.result(timeout=180.0).texts == 2
    assert np.abs(found[0] - usual.logits).max() <= 2 * plan.step


class NoCache:
    def get(self, digest: bytes) -> bytes | None:
        return None

    def put(self, digest: bytes, data: bytes) -> None:
        return None


@pytest.mark.native
@pytest.mark.parametrize("name", families.CASES)
def test_every_family_has_a_program_or_says_why_not(name: str, tmp_path: Path) -> None:
    model, plan, hidden, mask = both_ways.prepared(name, tmp_path)
    try:
        program = program_of(plan)
    except PlanError as error:
        assert "rotary" in str(error) and name.startswith(ROTARY)
        return
    assert not name.startswith(ROTARY)
    with shares.pair(timeout=180.0) as session:
        shares.both(session, lambda party: party.set_up())

        def work(party: Any) -> Any:
            if party is session[0]:
                return runner.run_program(program, party.native, hidden, mask)
            known = shares.Known(plan.formats, plan.bounds, plan.tokens, weights=Weights(model.tensors))
            ops = shares.SharedTensors(party.native, known)
            return ops.give(plan.run(ops, ops.theirs(hidden.shape)))

        found = shares.both(session, work)[0]
    raw = both_ways.reference(model, hidden, mask).trace["answer"]
    assert both_ways.differences(found, raw, mask) < 0.04


def changed(change: Callable[[dict[str, Any]], None], plan: TwoPartyPlan) -> bytes:
    data = json.loads(encode(program_of(plan)))
    change(data)
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(version=2),
        lambda d: d.update(tokens="16"),
        lambda d: d["entered"].update(more=1),
        lambda d: d["steps"][1].update({"in": [10**9]}),
        lambda d: d["steps"][1].update({"in": [True]}),
        lambda d: d["steps"].pop(2),
        lambda d: d["steps"].append({"do": {"send": {}}, "in": [0], "out": []}),
        lambda d: d["steps"].append({"do": {"enter": {"name": 3}}, "in": [], "out": []}),
        lambda d: d["steps"].append({"do": {"enter": {"name": "x", "ring": 3}}, "in": [], "out": []}),
        lambda d: d["steps"].append({"do": {}, "in": [], "out": []}),
        lambda d: d.update(answer=10**6),
        lambda d: d.pop("steps"),
    ],
)
def test_damaged_programs_are_refused(change: Callable[[dict[str, Any]], None], plan: TwoPartyPlan) -> None:
    assert decode(changed(lambda d: None, plan))
    with pytest.raises(FileError, match="program"):
        decode(changed(change, plan))


def test_other_bytes_are_refused(plan: TwoPartyPlan) -> None:
    data = encode(program_of(plan))
    for damaged in (data[:-1], data + b" ", b"[]", b"{" * 10_000, b" " * (MAX_BYTES + 1)):
        with pytest.raises(FileError, match="program"):
            decode(damaged)


def test_what_has_no_steps_is_refused(plan: TwoPartyPlan) -> None:
    hidden = make_two_party_plan(api.load(), PlanRequest(tokens=16, embeddings="hidden"))
    with pytest.raises(PlanError, match="hidden embedding"):
        program_of(hidden)


def test_the_runner_knows_every_operation() -> None:
    assert set(runner.RUN) | {"enter"} == set(OPERATIONS)


def test_a_step_out_of_order_is_refused(plan: TwoPartyPlan) -> None:
    program: Program = program_of(plan)
    with pytest.raises(FileError, match="registers"):
        replace(program, steps=program.steps[::-1]).check()
