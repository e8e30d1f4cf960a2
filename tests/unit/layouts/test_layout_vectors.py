"""Layouts with what they pack and read, which the page's engine packs and reads alike
(`crates/wasm/src/files/layout.rs`). `python tests/unit/layouts/test_layout_vectors.py` writes the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacita.layouts.columns import BatchAnswer, BatchShape, Columns, batch_request
from tacita.layouts.multidiagonal import Features, masks_of
from tacita.layouts.numbered import tensor_of
from tacita.layouts.rows import FeatureLayout, RowsShape
from tacita.layouts.runs import HIDDEN, MASK, Layout, Request, Response
from tacita.layouts.vector import AnswerBlocks
from tacita.layouts.windows import head_windows, pack_masks
from tacita.packings.shared.answer import token_response
from tacita.plans.json_fields import from_json, to_json

FILE = Path(__file__).parents[2] / "vectors" / "layouts.json"
SLOTS, TOKENS, SIZE = 64, 4, 8


def layouts() -> Iterator[Layout]:
    """One of each packing, on a ring of 64 slots."""
    rows = FeatureLayout.dense(RowsShape(SLOTS, TOKENS), SIZE, copied=True)
    windows = head_windows(rows.shape, 2, 4)
    hidden = tensor_of(HIDDEN, (TOKENS, SIZE), SLOTS, rows.pack, window=rows.shape.window)
    mask = tensor_of(MASK, (TOKENS,), SLOTS, lambda keep: pack_masks(windows, keep))
    request = Request(SLOTS, 1, TOKENS, SIZE, 1.0, {HIDDEN: hidden, MASK: mask})
    yield Layout("rows", request, AnswerBlocks(SLOTS, 8, 3, True, 2.0).response)
    yield Layout("rows", request, token_response(rows.inner(11), SLOTS, TOKENS, 5, 2.0))
    heads = Features.hidden(SLOTS, TOKENS, 2, 4)
    hidden = tensor_of(HIDDEN, (TOKENS, SIZE), SLOTS, heads.pack)
    mask = tensor_of(MASK, (TOKENS,), SLOTS, partial(masks_of, heads))
    request = Request(SLOTS, 1, TOKENS, SIZE, 1.0, {HIDDEN: hidden, MASK: mask})
    yield Layout("multidiagonal", request, AnswerBlocks(SLOTS, 8, 13, False, 2.0).response)
    yield Layout("multidiagonal", request, token_response(heads.inner(5), SLOTS, TOKENS, 2, 2.0))
    columns = Columns.by_heads(BatchShape(SLOTS, TOKENS, 2), 2, 4)
    yield Layout("columns", batch_request(columns, 1.0), BatchAnswer(columns.shape, 3, 2.0).response)


def tables(response: Response) -> Iterator[np.ndarray]:
    """Slots of a broken decode, and of an honest one: numbers that are counted."""
    noise = np.arange(response.count * SLOTS) * 37 % 101 / 128.0 - 0.375
    yield noise.reshape(response.count, SLOTS)
    yield np.where(noise > 0.3, 0.0, noise).reshape(response.count, SLOTS)
    slots = np.zeros(response.count * SLOTS)
    for runs, numbers in ((response.numbers, 1), (response.copies, 1), (response.norms, 0)):
        for slot, number, *steps in runs:
            places = np.array([[slot, number]])
            for i in range(0, len(steps), 3):
                far = np.arange(steps[i])[:, None] * steps[i + 1 : i + 3]
                places = (places[:, None] + far).reshape(-1, 2)
            slots[places[:, 0]] = places[:, 1] / 16.0 if numbers else 0.5
    yield slots.reshape(response.count, SLOTS)


def vector(layout: Layout) -> dict[str, Any]:
    """What the layout does with hidden states and masks that are counted from 1 on, in all texts alike."""
    request = layout.request
    numbers = {HIDDEN: np.arange(1.0, TOKENS * SIZE + 1.0), MASK: np.arange(1.0, TOKENS + 1.0)}
    packed = {
        name: tensor.fill(np.tile(numbers[tensor.source], request.texts), SLOTS).reshape(-1).tolist()
        for name, tensor in request.tensors.items()
    }
    read = [(table, layout.response.read(list(table))[0]) for table in tables(layout.response)]
    answers = [
        {
            "slots": table.reshape(-1).tolist(),
            "values": one.values.reshape(-1).tolist(),
            "sound": one.sound(0.01),
        }
        for table, one in read
    ]
    return {"layout": to_json(layout), "packed": packed, "answers": answers}


def content() -> str:
    return json.dumps([vector(layout) for layout in layouts()]) + "\n"


def test_layouts_pack_and_read_as_recorded() -> None:
    assert FILE.read_text(encoding="utf-8") == content()
    for each in json.loads(content()):
        layout = from_json(Layout, each["layout"])
        assert layout.request.check() and layout.response.check()
        assert [answer["sound"] for answer in each["answers"]] == [False, False, True]


if __name__ == "__main__":
    FILE.write_text(content(), encoding="utf-8")
