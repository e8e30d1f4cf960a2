"""Stores a folder's model as the package ships it: the lower bytes of all numbers of a tensor before the
upper ones, which a wheel packs to a tenth less (docs/decisions/0067). The last step, after `verify.py`.

    python training/planes.py python/tacita/data/models/sst2-tiny
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from tacita.checkpoint.weights import PLANES


def main(folder: Path) -> None:
    """Replaces model.safetensors, of float16. Other tools then refuse it: its tensors have another shape."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    if wrong := [name for name, tensor in tensors.items() if tensor.dtype != np.float16]:
        raise SystemExit(f"{path}: {wrong[0]} is {tensors[wrong[0]].dtype}, not float16")
    planes = {name: _split(tensor) for name, tensor in tensors.items()}
    save_file(planes, path, metadata=PLANES)


def _split(tensor: np.ndarray) -> np.ndarray:
    pairs = np.ascontiguousarray(tensor).view(np.uint8).reshape(-1, 2)
    return np.ascontiguousarray(pairs.T).reshape(2, *tensor.shape)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
