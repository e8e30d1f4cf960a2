"""The meaning of models on floats: what is opened, stacks of texts, and both parties' walk without
weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita.blocks.floats import FloatTensors
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.models.registry import forward, shapes
from tacita.planning.request import PlanRequest
from tacita.two_party.planning import make_two_party_plan

TEXTS = ["dull", "a fine film", "never boring , very good"]
POOLINGS = ["pooler", "cls", "mean"]


def floats(checkpoint: Checkpoint, mask: np.ndarray, see: Any = lambda name, value: None) -> FloatTensors:
    return FloatTensors(Weights(checkpoint.tensors), mask, see)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("labels", [(), ("no", "yes", "maybe")])
def test_what_is_not_read_changes_nothing(pooling: str, labels: tuple[str, ...]) -> None:
    """The reference computes every row of the last layer, a run only those that are read."""
    checkpoint = make_random_checkpoint(pooling=pooling, labels=labels)
    hidden, mask = embed(checkpoint, "a very fine film", 12)
    found = forward(TensorBlocks(floats(checkpoint, mask)), checkpoint.config, hidden)
    assert found.shape == (1, checkpoint.config.outputs)
    np.testing.assert_allclose(found[0], reference(checkpoint, hidden, mask).logits, atol=1e-12)


class Watching(FloatTensors):
    """Keeps which operations were told that their result is opened."""

    told: tuple[str, ...] = ()

    def linear(self, x, maps, add=None, *, opened=False):
        self.told += tuple(d.name for d in maps) if opened else ()
        return super().linear(x, maps, add, opened=opened)

    def mean(self, x, name, *, opened=False):
        self.told += (name,) if opened else ()
        return super().mean(x, name, opened=opened)


@pytest.mark.parametrize(
    ("pooling", "labels", "last"),
    [*((pooling, ("no", "yes"), "classifier") for pooling in POOLINGS), ("mean", (), "mean")],
)
def test_the_last_product_alone_is_opened(pooling: str, labels: tuple[str, ...], last: str) -> None:
    checkpoint = make_random_checkpoint(pooling=pooling, labels=labels)
    hidden, mask = embed(checkpoint, "a very fine film", 12)
    ops = Watching(Weights(checkpoint.tensors), mask)
    forward(TensorBlocks(ops), checkpoint.config, hidden)
    assert ops.told == (last,)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_stack_of_texts_is_each_of_them(pooling: str) -> None:
    checkpoint = make_random_checkpoint(layers=1, pooling=pooling)
    samples = [embed(checkpoint, text, 8) for text in TEXTS]
    hidden, mask = (np.stack(parts) for parts in zip(*samples, strict=True))
    found = forward(TensorBlocks(floats(checkpoint, mask)), checkpoint.config, hidden)[:, 0]
    for answer, sample in zip(found, samples, strict=True):
        np.testing.assert_allclose(answer, reference(checkpoint, *sample).logits, atol=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_last_layer_runs_on_the_rows_that_are_read(pooling: str) -> None:
    found = shapes(make_random_checkpoint(layers=3, pooling=pooling).config, 12).rows
    last = 12 if pooling == "mean" else 1
    assert [found[f"layer{i}.norm2"] for i in range(3)] == [12, 12, last]
    assert found["layer2.attention"] == last


def test_the_client_walks_without_weights() -> None:
    """Lengths of messages follow from the plan alone: the count of a walk asks for no tensor."""
    checkpoint = make_random_checkpoint()
    plan = make_two_party_plan(checkpoint, PlanRequest(tokens=12, texts=TEXTS))
    assert plan.program.cost().bits > 0
    assert set(shapes(plan.config, 12).tensors) < set(checkpoint.tensors)
