"""Layouts as a plan states them: after JSON they pack as the packings do and read what stands where they
say."""

from __future__ import annotations

import dataclasses
import json
from functools import partial

import numpy as np
import pytest
import tiny
from greedy import run_greedily

from tacita.errors import ShapeError
from tacita.layouts.columns import BatchAnswer, BatchShape, Columns, batch_request
from tacita.layouts.multidiagonal import Features, masks_of
from tacita.layouts.numbered import runs_of, tensor_of
from tacita.layouts.registry import Shape
from tacita.layouts.rows import FeatureLayout, RowsShape
from tacita.layouts.runs import MASK, Layout, Request, Response
from tacita.layouts.vector import AnswerBlocks
from tacita.packings.lowering import build
from tacita.packings.shared.answer import token_response
from tacita.plans.json_fields import from_json, to_json
from tacita.slots.plain import PlainBackend

TOKENS = 16
SHAPES = {
    "rows": Shape("rows", "hoisted", 1024, TOKENS),
    "multidiagonal": Shape("multidiagonal", "hoisted", 1024, TOKENS),
    "columns": Shape("columns", "double", 128, TOKENS),
}
LANES = dataclasses.replace(SHAPES["columns"], lanes=2)
SIZES = {"one ciphertext": {}, "several": {"hidden": 96, "heads": 6}, "two layers": {"layers": 2}}
RNG = np.random.default_rng(3)


def made(shape, **sizes):
    """(model, its circuit, the layout of the circuit after JSON)"""
    model = tiny.checkpoint(**sizes)
    hidden, mask = tiny.inputs(model, TOKENS, 11)
    circuit = build(model, tiny.specs(model, tiny.run_reference(model, hidden, mask), mask), shape)
    layout = Layout(shape.packing, circuit.request, circuit.response)
    return model, circuit, from_json(Layout, json.loads(json.dumps(to_json(layout))))


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("packing", SHAPES)
def test_a_circuit_runs_on_what_its_layout_packs(packing, size, pooling, classes):
    check_run(*made(SHAPES[packing], pooling=pooling, classes=classes, **SIZES[size]))


def test_lanes_are_stated_too():
    check_run(*made(LANES, pooling="mean"))


def check_run(model, circuit, layout):
    """The answers of a run on plain, of real ciphertexts."""
    sample = tiny.inputs(model, TOKENS, 11)
    assert layout.request.check() == circuit.request and layout.response.check() == circuit.response
    packed = layout.request.pack([sample])
    assert layout.request.counts == {name: len(vectors) for name, vectors in packed.items()}
    be = PlainBackend(len(packed["mask"][0]))
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in packed.items()}
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    slots = [be.decrypt(ct) for ct in out["answer"]]
    assert len(slots) == layout.response.count and np.abs(np.imag(slots)).max() < 1e-9
    answers = layout.response.read(slots)
    assert len(answers) == layout.request.texts
    reference = tiny.run_reference(model, *sample).logits
    assert np.max(np.abs(answers[0].values - reference)) < 1e-3


@pytest.mark.parametrize("sizes", [(128, 8, 4, 2, 6), (256, 4, 1, 3, 5), (64, 8, 2, 4, 2)])
def test_a_batch_is_packed_as_its_columns_are(sizes):
    """Three texts; the places left hold the first one."""
    slots, tokens, lanes, groups, head_size = sizes
    columns = Columns.by_heads(BatchShape(slots, tokens, lanes), lanes * groups, head_size)
    request, texts = batch_request(columns, 2.0).check(), columns.shape.sequences
    samples = [(RNG.normal(size=(tokens, columns.size)), np.arange(tokens) < n + 1.0) for n in range(3)]
    filled = [*samples, *[samples[0]] * (texts - 3)]
    packed = request.pack(samples)
    np.testing.assert_array_equal(packed["hidden"], columns.pack(np.stack([h for h, _ in filled]) / 2.0))
    mask = np.zeros((tokens, texts, lanes))
    mask += np.stack([m / m.sum() for _, m in filled], axis=1)[:, :, None]
    np.testing.assert_array_equal(packed["mask"][0], mask.reshape(-1))
    assert len(request.tensors["hidden"].runs) == 1


def tables(packing, rows, size):
    """A response, and slots that hold numbers from 1 on, their copies and checks where the packing has
    them."""
    numbers = np.arange(1.0, rows * size + 1.0).reshape(rows, size)
    if packing == "columns":
        shape = BatchShape(64, 8, 2 if rows > 1 else 1)
        answer = BatchAnswer(shape, size, 2.0, rows)
        texts = numbers + rows * size * np.arange(shape.sequences)[:, None, None]
        if rows == 1:
            flat = np.concatenate([texts, texts, np.full((shape.sequences, 1, 1), 0.5)], axis=2)[:, 0]
            cells = np.pad(flat, ((0, 0), (0, answer.cells.count * 8 - flat.shape[1])))
            return answer.response, cells.reshape(-1, answer.cells.count, 8).transpose(1, 2, 0).reshape(
                -1, 64
            )
        check = np.zeros((shape.sequences, rows, 1))
        check[:, 0] = 0.5
        columns = answer.columns.pack(np.concatenate([texts, texts], axis=2))
        return answer.response, np.stack([*columns, *Columns.dense(shape, 1).pack(check)])
    if rows == 1:
        blocks = AnswerBlocks(64, 4 if size == 5 else 8, size, size == 2, 2.0)
        table = np.zeros((blocks.count, 64 // blocks.width, blocks.width))
        if blocks.apart:
            table[0, :4, 0], table[0, 4, 0] = (1.0, 2.0, 1.0, 2.0), 0.5
        else:
            wide = np.pad(numbers[0], (0, blocks.count * blocks.width - size)).reshape(blocks.count, -1)
            table[:, 0], table[:, 1], table[0, 2, 0] = wide, wide, 0.5
        return blocks.response, table.reshape(blocks.count, 64)
    inner = FeatureLayout.dense(RowsShape(64, 8), 2 * size + 1, copied=False)
    if packing == "multidiagonal":
        inner = Features.hidden(64, 8, 1, 4).inner(2 * size + 1)
    check = (np.arange(rows)[:, None] == 0) * 0.5
    table = np.stack(inner.pack(np.concatenate([check, numbers, numbers], axis=1)))
    return token_response(inner, 64, rows, size, 2.0), table


RESPONSES = [(p, r, s) for p in SHAPES for r in (1, 8) for s in (2, 5, 6)]


@pytest.mark.parametrize(("packing", "rows", "size"), RESPONSES)
def test_answers_are_read_from_where_the_packing_puts_them(packing, rows, size):
    response, table = tables(packing, rows, size)
    response.check()
    answers = response.read(list(table))
    assert len(answers) == response.texts
    for number, answer in enumerate(answers):
        expected = 2.0 * (1.0 + number * rows * size + np.arange(rows * size))
        np.testing.assert_array_equal(answer.values, expected.reshape((rows, size) if rows > 1 else (size,)))
        assert (answer.disagreement, answer.leak, answer.norm_check) == (0.0, 0.0, 1.0)
        assert answer.sound(0.001)


@pytest.mark.parametrize(("packing", "rows", "size"), RESPONSES)
def test_every_slot_is_read_or_checked_for_its_text_alone(packing, rows, size):
    """But lanes and periods that a packing leaves to chance."""
    response, table = tables(packing, rows, size)
    honest = response.read(list(table))
    seen = 0
    for place in RNG.permutation(table.size)[:60]:
        changed = table.copy()
        changed.flat[place] += 0.25j if table.flat[place] == 0 and np.iscomplexobj(table) else 0.25
        found = response.read(list(changed))
        differ = [
            i
            for i, pair in enumerate(zip(found, honest, strict=True))
            if pair[0].leak != pair[1].leak
            or pair[0].disagreement != pair[1].disagreement
            or pair[0].norm_check != pair[1].norm_check
        ]
        assert len(differ) <= 1
        assert all(not found[i].sound(0.001) for i in differ)
        seen += len(differ)
    assert seen >= (20 if packing == "multidiagonal" or rows > 1 else 50)


def test_damage_is_an_answer_that_is_not_sound():
    response, table = tables("rows", 1, 2)
    for value in (np.nan, np.inf):
        changed = table.copy()
        changed[0, 7] = value
        assert not response.read(list(changed))[0].sound()
    lost = dataclasses.replace(response, numbers=response.numbers[:0])
    assert not lost.read(list(table))[0].sound()


@pytest.mark.parametrize("seed", range(30))
def test_runs_hold_the_numbers_of_any_table(seed):
    """Also of numbers that go round, and of rows that repeat."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 4, (2, 8)) if seed % 2 else np.add.outer(np.arange(2), np.arange(8)) % 7
    if seed % 3 == 0:
        table = np.tile(table, 4)
    runs = runs_of(table.astype(float), 7 if seed % 5 == 0 else 0)
    found = np.zeros(table.size, int)
    for slot, number, *steps in runs:
        places = np.array([[slot, number]])
        for i in range(0, len(steps), 3):
            far = np.arange(steps[i])[:, None] * steps[i + 1 : i + 3]
            places = (places[:, None] + far).reshape(-1, 2)
        assert not found[places[:, 0]].any()
        found[places[:, 0]] = (places[:, 1] % 7 if seed % 5 == 0 else places[:, 1]) + 1
    np.testing.assert_array_equal(found.reshape(table.shape), table)


def test_a_packing_that_does_more_than_moving_numbers_is_refused():
    with pytest.raises(ShapeError, match="more than numbers that were moved"):
        tensor_of("hidden", (4, 2), 16, lambda x: [np.sort(x.reshape(-1))])
    with pytest.raises(ShapeError, match="a run up to"):
        tensor_of("hidden", (4, 2), 16, lambda x: [x.reshape(-1) ** 2])


def test_slots_that_hold_numbers_as_they_come_are_few_runs():
    """What a plan states of the largest ring: rows, and diagonals of twelve heads."""
    layout, wide = (
        FeatureLayout.dense(RowsShape(32768, 128), 64, copied=True),
        Features.hidden(32768, 128, 12, 64),
    )
    assert len(tensor_of("hidden", (128, 64), 32768, layout.pack, window=256).runs) == 1
    assert len(tensor_of("hidden", (128, 768), 32768, wide.pack).runs) < 200


@pytest.mark.parametrize("blocks", [(64, 8, 0, True), (64, 8, 4, True), (64, 3, 2, True), (64, 32, 9, False)])
def test_answers_that_do_not_fit_are_refused(blocks):
    with pytest.raises(ShapeError, match="an answer of"):
        AnswerBlocks(*blocks, 1.0)
    for size, rows in ((0, 1), (2, 4)):
        with pytest.raises(ShapeError, match="an answer of"):
            BatchAnswer(BatchShape(64, 8), size, 1.0, rows)


@pytest.mark.parametrize("tokens", [64, 128, 512])
def test_masks_on_diagonals_are_in_range(tokens):
    """A mask goes on by one number a slot, so one run may have as many numbers as slots."""
    layout = Features.hidden(1 << 15, tokens, 2, 64)
    mask = tensor_of(MASK, (tokens,), 1 << 15, partial(masks_of, layout))
    Request(1 << 15, 1, tokens, 128, 1.0, {MASK: mask}).check()


def test_a_response_of_more_numbers_than_slots_is_refused_before_flags_are_made_of_them():
    """A plan of a decoder can state 2^34 of them within all of its other limits."""
    runs = ((0, 0),)
    with pytest.raises(ShapeError, match=f"{1 << 60} numbers in a response of 64 slots"):
        Response(64, 1, 1 << 20, 1, 1 << 40, 1.0, runs, runs, runs, runs).check()
