"""Calibration of a model whose embedding stays at the server: bounds of the tables, and samples as such a
request holds them.

A client that looks words up cannot pad with copies of a whole row, since the server adds the positions. It
pads with the first token instead, so padded rows are its word at later positions: they are part of the
samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Norm
from tacita.blocks.floats import FloatTensors
from tacita.blocks.meaning import Meaning
from tacita.blocks.weights import Weights
from tacita.calibrate.calibrate import Sample
from tacita.calibrate.outwards import outwards, up
from tacita.checkpoint import Checkpoint
from tacita.front.embed import Text, padded_words
from tacita.front.front import WORDS
from tacita.models.registry import front, shapes
from tacita.two_party.base import EmbeddingBounds, NormBounds

Array = NDArray[np.float64]
MOST_SAMPLES = 64  # every one is as long as a request


def hidden_embedding(
    checkpoint: Checkpoint, tokens: int, texts: Sequence[Text], margin: float
) -> tuple[EmbeddingBounds, dict[str, NormBounds], list[Sample]]:
    """Bounds of the tables, of each norm after them by its node, and (hidden states, mask) of the first
    `MOST_SAMPLES` texts with padding."""
    words, walk = checkpoint.tensors[WORDS], _Fronts(checkpoint)
    rows = [padded_words(checkpoint, text, tokens) for text in texts[:MOST_SAMPLES]]
    samples = [(walk.hidden(words[ids]), mask) for ids, mask in rows]
    nodes = shapes(checkpoint.config, tokens, hidden_embedding=True).nodes
    norms = {name: walk.bounds(name, node, margin) for name, node in nodes.items() if name in walk.norms}
    entry = float(np.abs(words).max()) + _Fronts(checkpoint).largest(np.zeros((tokens, words.shape[1])))
    return EmbeddingBounds(power_above(np.array(entry))), norms, samples


class _Fronts:
    """The part of a model before its hidden states, walked in floats; it remembers what its norms saw."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._config, self._weights = checkpoint.config, Weights(checkpoint.tensors)
        self._seen: dict[str, list[Array]] = defaultdict(list)

    @property
    def norms(self) -> list[str]:
        """Their nodes."""
        return [name.removesuffix(".sum") for name in self._seen if name.endswith(".sum")]

    def hidden(self, words: Array) -> Array:
        """Rows of the word table (tokens, hidden) -> hidden states."""
        ops = FloatTensors(self._weights, np.ones(len(words)), lambda name, x: self._seen[name].append(x))
        blocks = Meaning(ops)
        return np.asarray(blocks.answer(front(blocks, self._config, words)))

    def largest(self, words: Array) -> float:
        """Of the sum before the first norm, or of the result where there is none."""
        hidden = self.hidden(words)
        sums = self._seen[f"{self.norms[0]}.sum"] if self.norms else [hidden]
        return float(np.abs(sums[0]).max())

    def bounds(self, name: str, norm: object, margin: float) -> NormBounds:
        """What is public of a norm: its values, widened."""
        assert isinstance(norm, Norm)  # or it would have recorded no sum
        wider = 1.0 + 4.0 * margin
        centred, variance = (np.stack(self._seen[f"{name}.{part}"]) for part in ("centred", "variance"))
        interval = outwards((float(variance.min()) / wider, float(variance.max()) * wider))
        gamma, _ = self._weights.norm(norm)
        return NormBounds(up(float(np.abs(centred).max()) * wider), interval, power_above(gamma))


def power_above(values: Array) -> float:
    """The least power of two above every magnitude; 1 for zeros."""
    largest = float(np.abs(values).max())
    return float(2.0 ** (math.floor(math.log2(largest)) + 1)) if largest > 0.0 else 1.0
