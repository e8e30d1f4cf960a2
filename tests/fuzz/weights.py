"""The decoder of weight files whose bytes a stranger may have made."""

from __future__ import annotations

import math
from pathlib import Path

from promises import tacita_errors

from tacita.checkpoint import pickles

TORCH_FILE = Path(__file__).parents[1] / "vectors" / "torch" / "state.bin"  # written by torch 1.13.1


def torch_pickle(data: bytes) -> None:
    """The pickle of a weight file of torch: whatever it says, tensors inside their storages come of it."""

    def read() -> None:
        for tensor in pickles.described(data, "data.pkl").values():
            room, reach = tensor.storage.count, zip(tensor.shape, tensor.strides, strict=True)
            assert math.prod(tensor.shape) <= room
            assert not all(tensor.shape) or tensor.offset + sum((n - 1) * s for n, s in reach) < room

    tacita_errors(read)
