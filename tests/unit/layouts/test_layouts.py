"""Layouts as a plan states them: after JSON they pack and read bit for bit as those of the circuit itself."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tiny
from greedy import run_greedily

from tacita.errors import PlanError, ShapeError
from tacita.layouts.registry import Layout, Shape, layout_of
from tacita.packings.lowering import build
from tacita.plans.json_fields import from_json, to_json
from tacita.slots.plain import PlainBackend

TOKENS = 16
SHAPES = {"rows": Shape("rows", "hoisted", 1024, TOKENS), "columns": Shape("columns", "double", 128, TOKENS)}
LANES = dataclasses.replace(SHAPES["columns"], lanes=2)
SIZES = {"one ciphertext": {}, "several": {"hidden": 96, "heads": 6}, "two layers": {"layers": 2}}


def made(shape, **sizes):
    """(model, its circuit, the layout of the circuit after JSON)"""
    model = tiny.checkpoint(**sizes)
    hidden, mask = tiny.inputs(model, TOKENS, 11)
    circuit = build(model, tiny.specs(model, tiny.run_reference(model, hidden, mask), mask), shape)
    told = json.loads(json.dumps(to_json(layout_of(circuit.request, circuit.response))))
    return model, circuit, from_json(Layout, told)


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("packing", SHAPES)
def test_a_layout_that_was_told_packs_and_reads_as_the_circuits(packing, size, pooling, classes):
    model, circuit, told = made(SHAPES[packing], pooling=pooling, classes=classes, **SIZES[size])
    check_same(model, circuit, told)


def test_lanes_are_told_too():
    check_same(*made(LANES, pooling="mean"))


def check_same(model, circuit, told):
    """Slot vectors, counts, and the answers of a run on plain."""
    sample = tiny.inputs(model, TOKENS, 11)
    ours, theirs = circuit.request.pack([sample]), told.request.pack([sample])
    assert ours.keys() == theirs.keys()
    assert told.request.counts == {name: len(vectors) for name, vectors in theirs.items()}
    for name in ours:
        np.testing.assert_array_equal(np.stack(ours[name]), np.stack(theirs[name]))
    be = PlainBackend(len(ours["mask"][0]))
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in theirs.items()}
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    slots = [be.decrypt(ct) for ct in out["answer"]]
    assert len(slots) == told.response.count == circuit.response.count
    got, wanted = told.response.read(slots), circuit.response.read(slots)
    assert len(got) == len(wanted)
    for mine, own in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(mine.values, own.values)
        assert dataclasses.astuple(mine)[1:] == dataclasses.astuple(own)[1:]
    reference = tiny.run_reference(model, *sample).logits
    assert np.max(np.abs(got[0].values - reference)) < 1e-3


def test_a_layout_of_another_kind_is_refused():
    with pytest.raises(PlanError, match=r"list it in packings/layouts\.py|layout of type object"):
        layout_of(object(), object())


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("request", {"tokens": 3}),
        ("request", {"head_size": 512}),
        ("request", {"size": 128, "carried": True}),
        ("response", {"size": 0}),
        ("response", {"size": 512}),
        ("response", {"width": 0}),
        ("response", {"width": 1024, "apart": False}),
    ],
)
def test_numbers_that_are_no_layout_of_rows_are_refused(part, change):
    _, _, told = made(SHAPES["rows"], pooling="mean")
    told.check()
    with pytest.raises(ShapeError):
        dataclasses.replace(told, **{part: dataclasses.replace(getattr(told, part), **change)}).check()


def test_numbers_that_are_no_layout_of_columns_are_refused():
    _, _, told = made(SHAPES["columns"])
    told.check()
    for part, change in (("request", {"lanes": 4}), ("response", {"size": 0}), ("response", {"tokens": 7})):
        with pytest.raises(ShapeError):
            dataclasses.replace(told, **{part: dataclasses.replace(getattr(told, part), **change)}).check()
