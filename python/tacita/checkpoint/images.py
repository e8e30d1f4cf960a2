"""preprocessor_config.json -> what a client makes of an image before the model sees it."""

from __future__ import annotations

from dataclasses import replace

from tacita.checkpoint.fields import Fields
from tacita.front.front import ImageConfig
from tacita.front.limits import MAX_PIXELS

NAME = "preprocessor_config.json"
RESAMPLE = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers


def read_image(f: Fields, extra: int, *, any_size: bool = False) -> ImageConfig:
    """f: of config.json. extra: tokens before the patches. any_size: of a model that takes images of other
    sizes than it was trained on; the other file says then which. Without the other file, ViT's own defaults.
    Raises CheckpointError naming file and field."""
    size, patch = f.integer("image_size", MAX_PIXELS), f.integer("patch_size", MAX_PIXELS)
    if size % patch:
        raise f.refused("image_size", f"it must be a multiple of patch_size, {patch}")
    found = ImageConfig(size, patch, extra)
    other = f.beside(NAME)
    if other is None:
        return found
    return _prepared(other, _as_prepared(other, found) if any_size else found)


def _as_prepared(f: Fields, image: ImageConfig) -> ImageConfig:
    """Of the size that images are cut or squeezed to."""
    field = "crop_size" if f.flag("do_center_crop", False) else "size"
    size = _side(f, field, image.size)
    if size % image.patch:
        raise f.refused(field, f"it must be a multiple of patch_size, {image.patch}")
    return replace(image, size=size)


def _prepared(f: Fields, image: ImageConfig) -> ImageConfig:
    """With what the file says."""
    for name in ("do_resize", "do_rescale", "do_normalize"):
        f.only(name, True)
    if not abs(f.number("rescale_factor", 1 / 255, 0.0, 1.0) - 1 / 255) < 1e-9:
        raise f.refused("rescale_factor", "only 1/255 is supported")
    shortest = 0
    if f.flag("do_center_crop", False):
        shortest = _side(f, "size", image.size)
        if shortest < image.size:
            raise f.refused("size", f"it must be at least what is cut out, {image.size} pixels")
        if _side(f, "crop_size", image.size) != image.size:
            raise f.refused("crop_size", f"the model takes {image.size} pixels")
    elif _side(f, "size", image.size) != image.size:
        raise f.refused("size", f"the model takes {image.size} pixels")
    number = f.integer("resample", 3, default=2, least=2)
    means = f.numbers("image_mean", image.mean, -10.0, 10.0)
    spreads = f.numbers("image_std", image.spread, 1e-3, 10.0)
    return replace(image, mean=means, spread=spreads, shortest=shortest, resample=RESAMPLE[number])


def _side(f: Fields, field: str, default: int) -> int:
    """Pixels: a number, or an object with equal height and width, or with the shortest edge."""
    if not isinstance(f.data.get(field), dict):
        return f.integer(field, MAX_PIXELS, default)
    of = Fields(f.path, f.data[field])
    if "shortest_edge" in of.data:
        return of.integer("shortest_edge", MAX_PIXELS)
    height, width = of.integer("height", MAX_PIXELS), of.integer("width", MAX_PIXELS)
    if height != width:
        raise f.refused(field, "only squares are supported")
    return height
