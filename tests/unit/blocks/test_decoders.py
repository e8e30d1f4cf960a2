"""Decoders in floats: their families against references in numpy, and the cache, which changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiny_decoders import gpt2, hidden_of, llama, logits

from tacita.blocks.floats import FloatTensors
from tacita.blocks.sequence import Past
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.models.registry import forward

IDS = [int(i) for i in np.random.default_rng(5).integers(0, 41, 21)]
SHAPES: list[dict[str, Any]] = [
    {"shared": 1},
    {"shared": 2},
    {"shared": 6, "layers": 1},
    {"heads": 3, "shared": 3, "hidden": 18, "intermediate": 7, "biases": (True, False, False)},
    {"biases": (True, True, True), "layers": 3},
    {"head_size": 10, "scales": (1.0, 0.7, 0.4, 0.125, 0.0)},
]


def stepped(model: Checkpoint, ids: list[int], prompt: int) -> np.ndarray:
    """Logits after the prompt and after each token behind it, (1 + tokens, vocab), with a cache."""
    rows, past, weights = hidden_of(model, ids), Past[np.ndarray](), Weights(model.tensors)
    found = []
    for end in range(prompt, len(ids) + 1):
        ops = FloatTensors(weights, np.ones(end), past=past)
        found.append(forward(TensorBlocks(ops), model.config, rows[past.rows : end])[0])
        past = ops.past
        assert past.rows == end
    return np.array(found)


@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_llama_is_what_numpy_says(options: dict[str, Any]) -> None:
    model = llama(**options)
    wanted = logits(model, IDS)
    hidden = hidden_of(model, IDS)
    assert np.abs(reference(model, hidden, np.ones(21)).logits - wanted[-1]).max() < 1e-10
    assert np.abs(stepped(model, IDS, 1) - wanted).max() < 1e-10  # caches of 1 to 20 tokens


@pytest.mark.parametrize("options", [{}, {"heads": 3, "hidden": 21, "intermediate": 40}], ids=str)
def test_gpt2_is_what_numpy_says(options: dict[str, Any]) -> None:
    model = gpt2(**options)
    wanted = logits(model, IDS)
    assert np.abs(reference(model, hidden_of(model, IDS), np.ones(21)).logits - wanted[-1]).max() < 1e-10
    assert np.abs(stepped(model, IDS, 1) - wanted).max() < 1e-10
    assert np.abs(stepped(model, IDS, 9) - wanted[8:]).max() < 1e-10


@pytest.mark.parametrize("prompt", [2, 7, 20, 21])
def test_a_prompt_at_once_is_the_same_as_token_by_token(prompt: int) -> None:
    model = llama()
    assert np.abs(stepped(model, IDS, prompt) - logits(model, IDS)[prompt - 1 :]).max() < 1e-10


@pytest.mark.parametrize("made", [llama, gpt2])
@pytest.mark.parametrize("tokens", [5, 6, 16])
def test_padding_on_the_left_changes_nothing(tokens: int, made: Callable[[], Checkpoint]) -> None:
    """Rows of padding are those of the first token in every record, so that intervals hold for them."""
    model = made()
    hidden, mask = pad_hidden(hidden_of(model, IDS[:5]), tokens, left=True)
    assert mask.tolist() == [0.0] * (tokens - 5) + [1.0] * 5
    found = reference(model, hidden, mask)
    assert np.abs(found.logits - logits(model, IDS[:5])[-1]).max() < 1e-10
    for name in ("layer1.attention.context", "layer1.feed_forward.result"):
        rows = found.trace[name]
        assert np.abs(rows[: tokens - 5] - rows[tokens - 5]).max(initial=0.0) < 1e-10


def test_a_past_is_not_changed_by_the_step_after_it() -> None:
    """A step can be made again, with another token or after a failure."""
    model, weights = llama(), None
    weights, rows = Weights(model.tensors), hidden_of(model, IDS[:6])
    ops = FloatTensors(weights, np.ones(4), past=Past())
    forward(TensorBlocks(ops), model.config, rows[:4])
    found = [
        forward(TensorBlocks(FloatTensors(weights, np.ones(5), past=ops.past)), model.config, rows[i : i + 1])
        for i in (5, 4)
    ]
    assert np.abs(found[1][0] - logits(model, IDS[:5])[-1]).max() < 1e-10
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_without_a_past_nothing_is_kept() -> None:
    model = llama()
    ops = FloatTensors(Weights(model.tensors), np.ones(4))
    forward(TensorBlocks(ops), model.config, hidden_of(model, IDS[:4]))
    assert not ops.past.nodes
