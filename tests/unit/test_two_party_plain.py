"""The two-party walk on plain is the float reference: the meaning that fixed and shares are held to."""

from __future__ import annotations

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita.checkpoint import Checkpoint, embed
from tacita.models import two_party
from tacita.models.bert import reference
from tacita.two_party.base import AttentionBounds, NormBounds
from tacita.two_party.plain import PlainTensors

NORM = NormBounds(1.0, (0.5, 1.0), 1.0)
UNKNOWN = two_party.LayerBounds(
    AttentionBounds((0.0, 1.0), 1.0), (0.0, 1.0), NORM, NORM, 1.0
)  # plain looks at none of them


def model_of(checkpoint: Checkpoint) -> two_party.TwoPartyModel:
    config = checkpoint.config
    return two_party.build(config, (UNKNOWN,) * config.layers, (-1.0, 1.0), checkpoint.tensors)


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("labels", [(), ("no", "yes", "maybe")])
def test_plain_is_the_reference(pooling: str, activation: str, labels: tuple[str, ...]) -> None:
    checkpoint = make_random_checkpoint(activation=activation, pooling=pooling, labels=labels)
    hidden, mask = embed(checkpoint, "a very fine film", 12)
    found = two_party.run(PlainTensors(mask), model_of(checkpoint), hidden)
    assert found.shape == (1, checkpoint.config.outputs)
    np.testing.assert_allclose(found[0], reference(checkpoint, hidden, mask).logits, atol=1e-12)


class Watching(PlainTensors):
    """Keeps which operations were told that their result is opened."""

    def __init__(self, mask: np.ndarray) -> None:
        super().__init__(mask)
        self.told: list[str] = []

    def linear(self, x, dense, add=None, *, opened=False):
        self.told += [dense.name] if opened else []
        return super().linear(x, dense, add, opened=opened)

    def mean(self, x, *, opened=False):
        self.told += ["mean"] if opened else []
        return super().mean(x, opened=opened)


@pytest.mark.parametrize(
    ("pooling", "labels", "last"),
    [*((pooling, ("no", "yes"), "classifier") for pooling in ("pooler", "cls", "mean")), ("mean", (), "mean")],
)
def test_the_last_product_alone_is_opened(pooling: str, labels: tuple[str, ...], last: str) -> None:
    checkpoint = make_random_checkpoint(pooling=pooling, labels=labels)
    hidden, mask = embed(checkpoint, "a very fine film", 12)
    ops = Watching(mask)
    two_party.run(ops, model_of(checkpoint), hidden)
    assert ops.told == [last]


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
def test_a_stack_of_texts_is_each_of_them(pooling: str) -> None:
    checkpoint = make_random_checkpoint(layers=1, pooling=pooling)
    samples = [embed(checkpoint, text, 8) for text in ("dull", "a fine film", "never boring , very good")]
    hidden, mask = (np.stack(parts) for parts in zip(*samples, strict=True))
    found = two_party.run(PlainTensors(mask), model_of(checkpoint), hidden)[:, 0]
    for answer, sample in zip(found, samples, strict=True):
        np.testing.assert_allclose(answer, reference(checkpoint, *sample).logits, atol=1e-12)


def test_the_client_builds_the_same_parts_without_weights() -> None:
    checkpoint = make_random_checkpoint()
    config, bounds = checkpoint.config, (UNKNOWN,) * 2
    mine = two_party.build(config, bounds, (-1.0, 1.0), None)
    theirs = two_party.build(config, bounds, (-1.0, 1.0), checkpoint.tensors)
    for ours, other in zip(mine.layers, theirs.layers, strict=True):
        assert len(ours.projections) == len(other.projections) and ours.first_only == other.first_only
        pairs = [(getattr(ours, name), getattr(other, name)) for name in ("attended", "wide", "narrow")]
        for left, right in [*zip(ours.projections, other.projections, strict=True), *pairs]:
            assert (left.inputs, left.outputs) == (right.inputs, right.outputs)
            assert left.weight is None and right.weight.shape == (right.outputs, right.inputs)
