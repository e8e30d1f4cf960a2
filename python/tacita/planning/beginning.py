"""What a decoder's public beginning leaves behind, in the clear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.floats import FloatTensors
from tacita.blocks.meaning import Meaning
from tacita.blocks.sequence.past import Past
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.front.embed import embedded
from tacita.models.registry import forward


def beginning(model: Checkpoint, ids: Sequence[int]) -> Past[NDArray[np.float64]]:
    """Keys and values of these tokens, with which every text begins, in floats. Cost: a walk over so many
    rows."""
    ops = FloatTensors(Weights(model.tensors), np.ones(len(ids)), past=Past())
    forward(Meaning(ops), model.config, embedded(model, list(ids), [0] * len(ids)))
    return ops.past
