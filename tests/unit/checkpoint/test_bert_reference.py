"""The float64 reference against ARION's published values, and its own invariants."""

from __future__ import annotations

import dashformer
import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from bench.models import published
from tacita.checkpoint import embed, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.errors import InputError

needs_arion = pytest.mark.skipif(not published.available(), reason=published.MISSING)


@needs_arion
@pytest.mark.parametrize(
    ("weights", "layer"), [("sst2", 0), ("pretrained", 0), ("base", 0), ("base", 11), ("head", 0)]
)
def test_logits_and_every_value_equal_the_published_ones(weights, layer):
    example = published.load_example(weights, layer)
    result = reference(example.checkpoint, example.hidden, np.ones(len(example.hidden)))
    if example.logits.size:
        np.testing.assert_allclose(result.logits, example.logits, atol=1e-5)
    for name, expected in example.trace.items():
        np.testing.assert_allclose(result.trace[name], expected, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(("weights", "layer"), [("bse", 0), ("base", 12), ("base", -1), ("sst2", 1)])
def test_weights_and_layers_that_there_are_not_are_refused(weights, layer):
    with pytest.raises(InputError, match=r"no weights 'bse'|layer (12|-1|1) of (base|sst2)"):
        published.load_example(weights, layer)


@needs_arion
def test_padding_changes_no_logit_of_a_real_model():
    example = published.load_example()
    padded = reference(example.checkpoint, *pad_hidden(example.hidden, 32))
    np.testing.assert_allclose(padded.logits, example.logits, atol=1e-5)


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("labels", [(), ("no", "yes", "maybe")])
def test_answer_does_not_depend_on_padding_content(pooling, activation, labels):
    checkpoint = make_random_checkpoint(activation=activation, pooling=pooling, labels=labels)
    hidden, mask = embed(checkpoint, "a very fine film", 12)
    other = np.where(mask[:, None] > 0, hidden, 7.0 * np.random.default_rng(0).normal(size=hidden.shape))
    answer = reference(checkpoint, hidden, mask).logits
    assert answer.shape == (len(labels) or 16,)
    np.testing.assert_allclose(reference(checkpoint, other, mask).logits, answer, atol=1e-12)
    alone = reference(checkpoint, hidden[mask > 0], np.ones(int(mask.sum()))).logits
    np.testing.assert_allclose(alone, answer, atol=1e-12)


def test_trace_is_complete_and_recorded():
    checkpoint, seen = make_random_checkpoint(layers=1), {}
    hidden, mask = embed(checkpoint, "dull", 8)
    result = reference(checkpoint, hidden, mask, seen.__setitem__)
    assert list(seen) == list(result.trace)
    shapes = {name: value.shape for name, value in seen.items()}
    assert shapes["layer0.attention.scores"] == (2, 8, 8)
    assert shapes["layer0.attention.log_sum_exp"] == (2, 8)
    assert shapes["layer0.norm1.variance"] == shapes["layer0.norm2.variance"] == (8,)
    assert shapes["layer0.feed_forward.argument"] == (8, 32)
    assert shapes["pooler.tanh.argument"] == (1, 16)
    kept = np.exp(seen["layer0.attention.scores"][:, :, mask > 0]).sum(axis=-1)
    np.testing.assert_allclose(np.exp(seen["layer0.attention.log_sum_exp"]), kept, rtol=1e-12)


def test_bad_arrays_are_refused():
    checkpoint = make_random_checkpoint()
    good, mask = np.zeros((4, 16)), np.ones(4)
    for hidden, bad_mask in ((np.zeros((4, 15)), mask), (good, np.ones(5)), (np.zeros(16), mask)):
        with pytest.raises(InputError, match="do not fit hidden size 16"):
            reference(checkpoint, hidden, bad_mask)
    for hidden, bad_mask in ((good + np.nan, mask), (good, mask * 0), (good, mask * 0.5)):
        with pytest.raises(InputError, match="finite and the mask"):
            reference(checkpoint, hidden, bad_mask)


@pytest.mark.skipif(not dashformer.available(), reason=dashformer.MISSING)
def test_dashformer_relu_and_mean_pooling_equal_the_published_outputs():
    model, (inputs, expected) = dashformer.load_model(), dashformer.load_inputs()
    for hidden, outputs in zip(inputs[::10], expected[::10], strict=True):
        logits = reference(model, hidden, np.ones(50)).logits
        probabilities = np.exp(logits - logits.max())
        np.testing.assert_allclose(probabilities / probabilities.sum(), outputs, atol=5e-6)
