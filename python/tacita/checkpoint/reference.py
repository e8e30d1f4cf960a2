"""The float64 reference of a model, which every encrypted run is compared with, and its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.floats import FloatTensors, See, record_nothing
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.errors import InputError
from tacita.models.registry import Config, forward
from tacita.texts.vectors import finished

if TYPE_CHECKING:
    from tacita.checkpoint.load import Checkpoint

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """What the model answers. logits: shape (outputs,), as a client sees the answer: normalised where the
    model normalises; (tokens, outputs) of a model that answers for every token.

    trace: every recorded intermediate by name (see `blocks.floats`), and "answer", before it is normalised.
    """

    logits: Array
    trace: Mapping[str, Array]


def reference(
    checkpoint: Checkpoint, hidden: Array, mask: Array, record: See = record_nothing, *, all_rows: bool = True
) -> Reference:
    """Runs the forward pass of one input in float64.

    hidden: (tokens, hidden) after the embedding; mask: (tokens,), 1 for a real token, 0 for padding, whose
    rows are computed like all others; so are all rows of the last layer, or with all_rows=False only those
    that the answer is read from. record: called with (name, value) as each intermediate appears; the trace
    holds the same pairs. Raises InputError on shapes, values or an empty mask.
    """
    _check(checkpoint.config, hidden, mask)
    trace: dict[str, Array] = {}

    def see(name: str, value: Array) -> None:
        trace[name] = value
        record(name, value)

    blocks = TensorBlocks(FloatTensors(Weights(checkpoint.tensors), mask, see))
    rows = forward(blocks, checkpoint.config, hidden, all_rows=all_rows)
    answer = rows if checkpoint.config.every_token else rows[0]
    see("answer", answer)
    return Reference(finished(answer, checkpoint.config.normalise), trace)


def _check(config: Config, hidden: Array, mask: Array) -> None:
    if hidden.ndim != 2 or hidden.shape[1] != config.hidden or mask.shape != hidden.shape[:1]:
        raise InputError(
            f"reference: hidden states {hidden.shape} and mask {mask.shape} do not fit hidden size "
            f"{config.hidden}",
            hint="pass arrays of shape (tokens, hidden) and (tokens,)",
        )
    if not np.isfinite(hidden).all() or not set(np.unique(mask)) <= {0.0, 1.0} or not mask.any():
        raise InputError(
            "reference: hidden states must be finite and the mask 0 or 1 with a real token",
            hint="check the embedding step",
        )
