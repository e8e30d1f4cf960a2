"""The program of a plan: its bytes, what a client accepts of it, and that it fits any number of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_decoders_fixed import MODELS
from test_decoders_fixed import plan_of as plan_of_decoder

from tacita import api
from tacita.blocks import sequence
from tacita.errors import FileError
from tacita.planning.request import PlanRequest
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program import sizes
from tacita.two_party.program.program import MAX_BYTES, Program, decode, encode
from tacita.two_party.program.recorder import RecordTensors
from tacita.two_party.program.rings import LOCAL, narrow
from tacita.two_party.program.run import RUN
from tacita.two_party.program.steps import OPERATIONS, Step
from tacita.two_party.program.tiles import visible

DECODER = plan_of_decoder(MODELS["two"]).program


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    """Of the default model."""
    return make_two_party_plan(api.load(), PlanRequest(tokens=16))


def test_a_program_is_small_and_has_one_spelling(plan: TwoPartyPlan) -> None:
    data = encode(plan.program)
    assert decode(data) == plan.program
    assert plan.program.hash == plan.hash
    assert len(data) < 100_000
    assert plan.program.sizes(16)[plan.program.result].shape == (1, len(plan.labels))


def test_every_operation_has_a_rule_and_is_run() -> None:
    assert set(RUN) == set(OPERATIONS) == set(sizes.RULES)


@pytest.mark.parametrize("name", MODELS)
def test_the_steps_of_a_decoder_fit_every_number_of_rows(name: str) -> None:
    """They are recorded without a past, and say nothing of rows; what is inferred is what another walk of so
    many rows records."""
    plan = plan_of_decoder(MODELS[name])
    for rows in (1, 7, 32):
        ops = RecordTensors(plan.formats, plan.bounds, plan.room, writes=True)
        answer = plan.run(ops, ops.input((rows, plan.hidden)))
        steps, rings = narrow(ops.tape.steps, ops.tape.registers, {answer.number})
        assert steps == plan.program.steps
        found = [(value.shape, value.ring) for value in plan.program.sizes(rows)]
        assert found == [(r.shape, ring) for r, ring in zip(ops.tape.registers, rings, strict=True)]
    behind = plan.program.sizes(1, 9)
    stored = [behind[step.outputs[0]].shape for step in plan.program.steps if step.op == "append"]
    kept = [(a.key_heads, 10, a.head_size) for a in sequence_attentions(plan)]
    assert stored == [shape for shape in kept for _ in "kv"]


def test_products_have_the_rings_that_are_read_of_them(plan: TwoPartyPlan) -> None:
    """No ring is wider than in the walk, norms read what their bounds take, and what is no local step reads
    what it read before."""
    ops = RecordTensors(plan.formats, plan.bounds, plan.tokens)
    answer = plan.run(ops, ops.input((plan.tokens, plan.hidden)))
    before, (steps, rings) = ops.tape.registers, narrow(ops.tape.steps, ops.tape.registers, {answer.number})
    assert all(ring <= register.ring for ring, register in zip(rings, before, strict=True))
    products = [step.parameters["ring"] for step in steps if step.op == "linear"]
    assert products[-1] == 64 and sum(ring < 60 for ring in products) == 7, products
    for old, new in zip(ops.tape.steps, steps, strict=True):
        p = new.parameters
        if new.op == "norm":
            least = np.log2(p["bound"] * before[new.inputs[0]].shape[-1]) + p["fraction"] + 2
            assert least + 2 <= p["ring"] < least + 4, p
        elif new.op == "tanh":
            assert {**p, "to": 64} == old.parameters and p["to"] <= 64
        elif new.op not in (*LOCAL, "linear", "shift_down", "shift_up", "extend"):
            assert new == old
        elif new.op == "extend" and p["to"] > p["ring"]:
            assert p["ring"] == old.parameters["ring"], "values are bounded in this ring"


def sequence_attentions(plan: TwoPartyPlan) -> list[Any]:
    from tacita.models.registry import attentions

    return list(attentions(plan.config).values())


@pytest.mark.parametrize("reach", [(None, None), (None, 0), (2, 0), (1, 2), (0, None)])
@pytest.mark.parametrize("queries", [1, 3, 6])
def test_who_sees_whom_is_what_blocks_say(reach: tuple[int | None, int | None], queries: int) -> None:
    for mask in (
        np.ones(6),
        np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
    ):
        wanted = sequence.visible(mask, (queries, 6), reach)
        assert np.array_equal(np.asarray(visible(mask, (queries, 6), *reach), float), wanted)


def changed(change: Callable[[dict[str, Any]], Any], program: Program) -> bytes:
    data = json.loads(encode(program))
    change(data)
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def first(data: dict[str, Any], op: str) -> dict[str, Any]:
    """The parameters of the first such step."""
    return next(step["do"][op] for step in data["steps"] if op in step["do"])


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another version": (lambda d: d.update(version=1), "another version"),
    "a size of another type": (lambda d: d.update(tokens="16"), "damaged"),
    "a field too many": (lambda d: d["entered"].update(more=1), "damaged"),
    "a register that is not written": (lambda d: d["steps"][1].update({"in": [10**9]}), "registers"),
    "a register that is no number": (lambda d: d["steps"][1].update({"in": [False]}), "registers or numbers"),
    "a step too few": (lambda d: d["steps"].pop(2), "registers"),
    "another operation": (
        lambda d: d["steps"].append({"do": {"send": {}}, "in": [0], "out": []}),
        "operation",
    ),
    "a name that is none": (
        lambda d: d["steps"].append({"do": {"enter": {"name": 3}}, "in": [], "out": []}),
        "registers or numbers",
    ),
    "a step of nothing": (lambda d: d["steps"].append({"do": {}, "in": [], "out": []}), "damaged"),
    "an answer that is not written": (lambda d: d.update(result=10**6), "registers"),
    "no steps": (lambda d: d.pop("steps"), "damaged"),
    "another ring": (lambda d: first(d, "linear").update(ring=63), "linear that does not fit"),
    "a result too wide": (lambda d: first(d, "linear").update(outputs=1 << 21), "linear that does not fit"),
    "a result of nothing": (lambda d: first(d, "linear").update(outputs=0), "linear that does not fit"),
    "a shape that another has": (lambda d: first(d, "linear").update(outputs=1), "does not fit"),
    "heads that do not divide": (lambda d: first(d, "heads").update(count=7), "heads that does not fit"),
    "columns that are not there": (
        lambda d: first(d, "columns").update(widths=[1, 1]),
        "columns that does not",
    ),
    "a norm of infinity": (lambda d: first(d, "norm").update(bound=1e300), "norm that does not fit"),
    "a gap beyond words": (lambda d: first(d, "hide").update(gap=1 << 70), "hide that does not fit"),
    "a fraction of fewer bits than none": (
        lambda d: first(d, "gelu").update(fraction=-1),
        "gelu that does not fit",
    ),
    "a result finer than its ring": (
        lambda d: first(d, "tanh").update(finer=1 << 40),
        "tanh that does not fit",
    ),
    "a ring of no bits": (lambda d: first(d, "softmax").update(power=0), "softmax that does not fit"),
    "too many layers": (lambda d: d.update(layers=10**6), "layers 1000000"),
    "a name for a terminal": (lambda d: d["reading"].update(name="\x1b[2J"), "name is out of range"),
    "an answer of another ring": (lambda d: d["answered"].update(ring=31), "answer is out of range"),
    "an unknown question": (lambda d: d["reading"].update(task="guess"), "task is out of range"),
    "numbers of an unknown kind": (lambda d: d["reading"].update(problem="any"), "task is out of range"),
    "tokens without labels": (lambda d: d["reading"].update(task="tokens", labels=[]), "task is out of"),
    "a label too many": (lambda d: d["reading"].update(labels=["a", "b", "c"]), "numbers of an answer"),
    "a word for a label": (lambda d: d["reading"].update(task="words", labels=[]), "numbers of an answer"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_programs_are_refused(damage: str, plan: TwoPartyPlan) -> None:
    change, why = DAMAGES[damage]
    assert decode(changed(lambda d: None, plan.program))
    with pytest.raises(FileError, match=f"program.*{why}"):
        decode(changed(change, plan.program))


WRITTEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a store too far": (lambda d: first(d, "append").update(store=1), "append that does not fit"),
    "rows of no store": (lambda d: first(d, "product").update(store=99), "product that does not fit"),
    "a base of nothing": (lambda d: first(d, "turn").update(base=0.0), "turn that does not fit"),
    "scales of other heads": (
        lambda d: first(d, "turn").update(scales=[0.5]),
        "turn that does not fit",
    ),
    "angles that are sped up": (
        lambda d: first(d, "turn").update(scales=[1.0, 1.5]),
        "turn that does not fit",
    ),
    "scales that are no list": (lambda d: first(d, "turn").update(scales=0.5), "other registers or numbers"),
    "angles too fine": (lambda d: first(d, "turn").update(bits=40), "turn that does not fit"),
    "an end that is no token": (lambda d: d.update(ends=[41]), "ends is out of range"),
    "a beginning that is none": (lambda d: d.update(begin=[-1]), "beginning is out of range"),
    "logits of other words": (lambda d: d["front"].update(vocab=40), "answer is out of range"),
}


@pytest.mark.parametrize("damage", WRITTEN)
def test_damaged_programs_of_decoders_are_refused(damage: str) -> None:
    change, why = WRITTEN[damage]
    assert decode(changed(lambda d: None, DECODER)) == DECODER
    with pytest.raises(FileError, match=f"program.*{why}"):
        decode(changed(change, DECODER))


def test_a_text_that_is_written_is_no_longer_than_its_table_of_positions() -> None:
    program = plan_of_decoder(MODELS["gpt2"]).program
    fits = changed(lambda d: d["front"].update(positions=32), program)
    short = changed(lambda d: d["front"].update(positions=31), program)
    assert decode(fits).front.positions == program.tokens == 32
    with pytest.raises(FileError, match="program: positions is out of range"):
        decode(short)


def test_heads_too_wide_are_not_turned() -> None:
    """Angles of every column would be made."""
    turn = Step("turn", (1,), (2,), {"bits": 12, "ring": 64, "base": 1e4})
    steps = Step("heads", (0,), (1,), {"count": 1}), turn
    assert sizes.sizes(steps, sizes.Value((1, 4096), 64), 0, 2)[2].shape == (1, 1, 4096)
    with pytest.raises(FileError, match="turn that does not fit"):
        sizes.sizes(steps, sizes.Value((1, 4098), 64), 0, 2)


def test_what_registers_hold_is_capped(plan: TwoPartyPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MOST_HELD", 10_000)
    with pytest.raises(FileError, match="more than 10000 numbers"):
        plan.program.check()


def test_other_bytes_are_refused(plan: TwoPartyPlan) -> None:
    data = encode(plan.program)
    for damaged in (data[:-1], data + b" ", b"[]", b"{" * 10_000, b" " * (MAX_BYTES + 1)):
        with pytest.raises(FileError, match="program"):
            decode(damaged)


def test_a_step_out_of_order_is_refused(plan: TwoPartyPlan) -> None:
    with pytest.raises(FileError, match="registers"):
        replace(plan.program, steps=plan.program.steps[::-1]).check()
