"""config.json, field by field: each is checked as it is read, and refused with what it may be."""

from __future__ import annotations

import json
import mmap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from tacita.errors import CheckpointError
from tacita.models.config import BY_NAME
from tacita.texts.embedding import (
    MAX_CLASSES,
    MAX_EPSILON,
    MAX_HIDDEN,
    MAX_LAYERS,
    MAX_PIXELS,
    MAX_POSITIONS,
    MAX_STATED,
    MAX_VOCAB,
    ImageConfig,
)
from tacita.texts.task import MULTI_LABEL, REGRESSION, SINGLE_LABEL

# Files of a model's folder, capped and parsed before anyone looks inside.

MAX_JSON_BYTES = 1 << 20
MAX_WEIGHT_BYTES = 32 << 30  # LLaMA-7B in fp16 is 13.5 GB; files of this size are mapped
MAX_READ_BYTES = 4 << 30  # of a file that is read whole
MAPPED = 1 << 30  # bytes from which files are mapped; smaller ones may be replaced while a model is used
NEEDED = "need config.json, model.safetensors, tokenizer.json (or older files)"
LFS = b"version https://git-lfs"  # how a pointer begins that git leaves where a large file shall be


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file of at most max_bytes. Errors: CheckpointError (absent, too large, not an
    object).
    """
    data = _parse(path, max_bytes)
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: holds a {type(data).__name__}, not an object", hint="wrong file?")
    return data


def read_objects(path: Path, max_bytes: int = MAX_JSON_BYTES) -> list[dict[str, Any]]:
    """A JSON list of objects, likewise. Errors: CheckpointError."""
    data = _parse(path, max_bytes)
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise CheckpointError(f"{path}: holds no list of objects", hint="wrong file?")
    return data


def content(path: Path, total: int = 0) -> memoryview:
    """Returns the bytes of a file: mapped, where the files of its model come to MAPPED bytes or more, else
    read. total: of them all, where there are others."""
    if max(total, path.stat().st_size) < MAPPED:
        return memoryview(path.read_bytes())
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def check_size(path: Path, max_bytes: int) -> None:
    """CheckpointError unless `path` is a file of 1..max_bytes bytes, and no pointer of Git LFS."""
    if not path.is_file():
        onnx = next(iter(sorted(path.parent.glob("*.onnx"))), None)
        raise CheckpointError(
            f"{path}: no such file",
            hint=f"{NEEDED}; {onnx.name} is ONNX, which is not read" if onnx else NEEDED,
        )
    size = path.stat().st_size
    if not 0 < size <= max_bytes:
        raise CheckpointError(
            f"{path}: {size} bytes, allowed are 1..{max_bytes}", hint="empty or not a model's file"
        )
    with path.open("rb") as file:
        if file.read(len(LFS)) == LFS:
            raise CheckpointError(f"{path}: a pointer of Git LFS, not the file", hint="git lfs pull")


def _parse(path: Path, max_bytes: int) -> Any:
    check_size(path, max_bytes)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: not JSON ({error})", hint="the file is damaged or truncated"
        ) from None


PROBLEMS = {
    "single_label_classification": SINGLE_LABEL,
    "multi_label_classification": MULTI_LABEL,
    "regression": REGRESSION,
}


@dataclass(frozen=True)
class Fields:
    """The fields of one file. Every function raises CheckpointError naming file, field, value and what is
    supported."""

    path: Path
    data: Mapping[str, Any]

    def integer(self, field: str, top: int, default: int | None = None, least: int = 1) -> int:
        """Returns an integer from `least` to `top`."""
        value = self.data.get(field, default)
        if type(value) is not int or not least <= value <= top:
            self.refuse(field, f"it must be an integer from {least} to {top}")
        return value

    def number(self, field: str, default: float, low: float, high: float) -> float:
        """Returns a number from `low` to `high`, as a float."""
        value = self.data.get(field, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.refuse(field, f"it must be a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, field: str, default: bool) -> bool:
        """Returns true or false."""
        value = self.data.get(field, default)
        if not isinstance(value, bool):
            self.refuse(field, "it must be true or false")
        return value

    def name(self, field: str, known: Collection[str], default: str) -> str:
        """Returns one of `known`; `default`, which need not be one, where the field is absent or null."""
        value = self.data.get(field)
        if value is None:
            return default
        if not isinstance(value, str) or value not in known:
            self.refuse(field, f"supported: {', '.join(known)}")
        return value

    def only(self, field: str, value: Any) -> None:
        """Refuses every value but one, which an absent field or null stands for."""
        actual = self.data.get(field)
        if actual is not None and (type(actual) is not type(value) or actual != value):
            self.refuse(field, f"only {value!r} is supported")

    def sizes(
        self,
        layers: str = "num_hidden_layers",
        hidden: str = "hidden_size",
        heads: str = "num_attention_heads",
        *,
        intermediate: str | None = "intermediate_size",
        vocab: str | None = "vocab_size",
        positions: str | None = "max_position_embeddings",
        head_size: str = "",
    ) -> dict[str, Any]:
        """Reads the sizes that every configuration has, by the names that most files give them; no token
        types. intermediate: None where it is four times `hidden`. Others that are None are left to the
        family. head_size: a field in which heads may have a size of their own."""
        width = self.integer(hidden, MAX_HIDDEN)
        sizes = {"layers": self.integer(layers, MAX_LAYERS), "hidden": width, "types": 0}
        apart = self.data.get(head_size) is not None
        sizes["heads"] = self.integer(heads, MAX_HIDDEN) if apart else self._heads(heads, hidden, width)
        sizes["intermediate"] = self.integer(intermediate, 4 * MAX_HIDDEN) if intermediate else 4 * width
        sizes |= {"vocab": self.integer(vocab, MAX_VOCAB)} if vocab else {}
        return sizes | ({"positions": self.positions(positions)} if positions else {})

    def _heads(self, field: str, width: str, features: int) -> int:
        """Reads the number of heads, which divide the width, another field."""
        heads = self.integer(field, MAX_HIDDEN)
        if features % heads:
            raise CheckpointError(
                f"{self.path}: {width} {features} is not a multiple of {field} {heads}",
                hint="the configuration does not belong to this model",
            )
        return heads

    def positions(self, field: str, first: int = 0) -> int:
        """Counts the tokens that have positions, up to the most of a plan: a longer table is cut."""
        return min(self.integer(field, MAX_STATED, least=first + 1) - first, MAX_POSITIONS)

    def activation(self, field: str, default: str) -> str:
        """Returns our name of the activation."""
        return BY_NAME[self.name(field, BY_NAME, default)]

    def epsilon(self, field: str, default: float) -> float:
        """What a LayerNorm adds to the variance."""
        return self.number(field, default, 0.0, MAX_EPSILON)

    def labels(self) -> tuple[str, ...]:
        """Returns id2label in id order; num_labels (default 2) names when it is absent."""
        names = self.data.get("id2label")
        if not isinstance(names, dict):
            count = self.integer("num_labels", MAX_CLASSES, default=2)
            return tuple(f"LABEL_{i}" for i in range(count))
        if not 1 <= len(names) <= MAX_CLASSES or set(names) != {str(i) for i in range(len(names))}:
            raise CheckpointError(
                f"{self.path}: id2label has keys {sorted(names)[:8]}", hint="they must be 0..classes-1"
            )
        return tuple(str(names[str(i)]) for i in range(len(names)))

    def problem(self, labels: int) -> str:
        """What scores of labels mean. As in transformers, a single score without a word about it is a
        number, and that of the only label of a classification is its sigmoid."""
        default = "regression" if labels == 1 else "single_label_classification"
        problem = PROBLEMS[self.name("problem_type", PROBLEMS, default)]
        return MULTI_LABEL if problem == SINGLE_LABEL and labels == 1 else problem

    def part(self, field: str) -> Fields | None:
        """The object that a field holds; None where it is absent or null."""
        value = self.data.get(field)
        if value is not None and not isinstance(value, dict):
            self.refuse(field, "it must be an object")
        return None if value is None else Fields(self.path, value)

    def numbers(self, field: str, default: tuple[float, ...], low: float, high: float) -> tuple[float, ...]:
        """Returns as many numbers from `low` to `high` as the default has."""
        values = self.data.get(field)
        if values is None:
            return default
        if not isinstance(values, list) or len(values) != len(default):
            self.refuse(field, f"it must hold {len(default)} numbers")
        each = [Fields(self.path, {field: value}) for value in values]
        return tuple(of.number(field, 0.0, low, high) for of in each)

    def beside(self, name: str) -> Fields | None:
        """Returns the fields of another file of the folder; None without it."""
        path = self.path.parent / name
        return Fields(path, read_json(path)) if path.is_file() else None

    def refuse(self, field: str, hint: str) -> NoReturn:
        """Raises the error that names a field and its value."""
        raise CheckpointError(f"{self.path}: {field} is {self.data.get(field)!r:.200}", hint=hint)


# preprocessor_config.json -> what a client makes of an image before the model sees it.

NAME = "preprocessor_config.json"
RESAMPLE = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers
SHORTER = ("Bit", "CLIP")  # classes of processors to which a number is the shorter side; to others it is both


def read_image(f: Fields, extra: int, *, any_size: bool = False) -> ImageConfig:
    """Reads what a client makes of an image. f: of config.json. extra: tokens before the patches. any_size:
    of a model that takes images of other sizes than it was trained on; the other file says then which.
    Without the other file, ViT's own defaults. Raises CheckpointError naming file and field."""
    size, patch = f.integer("image_size", MAX_PIXELS), f.integer("patch_size", MAX_PIXELS)
    if size % patch:
        f.refuse("image_size", f"it must be a multiple of patch_size, {patch}")
    image = ImageConfig(size, patch, extra)
    other = f.beside(NAME)
    if other is None:
        return image
    prepared = _read_preparation(other, _with_prepared_size(other, image) if any_size else image)
    both = _scales_both(other, any_size)
    if not both and not prepared.shortest:
        other.refuse(
            "do_center_crop", "it must be true: one side alone is scaled, and the model takes squares"
        )
    return replace(prepared, square=both and prepared.shortest > 0)


def _with_prepared_size(f: Fields, image: ImageConfig) -> ImageConfig:
    """Returns the configuration with the size that images are cut or squeezed to."""
    field = "crop_size" if f.flag("do_center_crop", False) else "size"
    size = _side(f, field, image.size)
    if size % image.patch:
        f.refuse(field, f"it must be a multiple of patch_size, {image.patch}")
    return replace(image, size=size)


def _read_preparation(f: Fields, image: ImageConfig) -> ImageConfig:
    """Returns the configuration with what the preprocessor's file says."""
    for name in ("do_resize", "do_rescale", "do_normalize"):
        f.only(name, True)
    f.only("crop_pct", None)
    if not abs(f.number("rescale_factor", 1 / 255, 0.0, 1.0) - 1 / 255) < 1e-9:
        f.refuse("rescale_factor", "only 1/255 is supported")
    shortest = 0
    if f.flag("do_center_crop", False):
        shortest = _side(f, "size", image.size)
        if shortest < image.size:
            f.refuse("size", f"it must be at least what is cut out, {image.size} pixels")
        if _side(f, "crop_size", image.size) != image.size:
            f.refuse("crop_size", f"the model takes {image.size} pixels")
    elif _side(f, "size", image.size) != image.size:
        f.refuse("size", f"the model takes {image.size} pixels")
    number = f.integer("resample", 3, default=2, least=2)
    means = f.numbers("image_mean", image.mean, -10.0, 10.0)
    spreads = f.numbers("image_std", image.spread, 1e-3, 10.0)
    return replace(image, mean=means, spread=spreads, shortest=shortest, resample=RESAMPLE[number])


def _scales_both(f: Fields, shorter: bool) -> bool:
    """Whether an image that is cut afterwards is scaled to a square, as DeiT's are. shorter: what a number is
    where no class of the processor is mentioned."""
    size = f.data.get("size")
    if isinstance(size, dict):
        return "shortest_edge" not in size
    kind = f.data.get("image_processor_type") or f.data.get("feature_extractor_type")
    return not (str(kind).startswith(SHORTER) if kind else shorter)


def _side(f: Fields, field: str, default: int) -> int:
    """Reads pixels a side: a number, or an object with equal height and width, or with the shortest edge."""
    if not isinstance(f.data.get(field), dict):
        return f.integer(field, MAX_PIXELS, default)
    of = Fields(f.path, f.data[field])
    if "shortest_edge" in of.data:
        return of.integer("shortest_edge", MAX_PIXELS)
    height, width = of.integer("height", MAX_PIXELS), of.integer("width", MAX_PIXELS)
    if height != width:
        f.refuse(field, "only squares are supported")
    return height
