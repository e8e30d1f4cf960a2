"""The client's part of a model of images: image -> pixels -> patches -> hidden states with positions.

Needs Pillow, which the extra `images` brings. What comes of an image follows transformers' image
processors of ViT, DeiT and DINOv2: resized as `ImageConfig` says, its colours shifted and divided, and the
squares mapped by one matrix.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError, InputError
from tacita.extras import how_to_install
from tacita.texts.embed import pad_hidden
from tacita.texts.embedding import FIRST, PATCHES, POSITIONS, ImageConfig

if TYPE_CHECKING:
    from PIL.Image import Image

    from tacita.texts.embedding import Embedder

Array = NDArray[np.float64]
MOST_PIXELS = 1 << 26  # of an image file, before it is opened


def embed_image(front: Embedder, image: str | Path | Image, tokens: int) -> tuple[Array, Array]:
    """A file or an opened image -> (hidden states (tokens, hidden), mask), as `texts.embed.embed` gives them.

    Errors: InputError for a file that is no image or is too large, and for fewer tokens than an image has;
    CheckpointError for a model of texts, or without its tables.
    """
    config = front.config.image
    if config is None:
        raise CheckpointError("embed_image: the model takes texts", hint="pass a text to `embed`")
    if POSITIONS not in front.tensors:
        raise CheckpointError("embed_image: the model has no tables", hint="load it with embeddings")
    if tokens < config.tokens:
        raise InputError(
            f"embed_image: an image has {config.tokens} tokens, the plan {tokens}", hint="plan for more"
        )
    return pad_hidden(hidden_of(front, pixels(_open(image), config)), tokens)


def hidden_of(front: Embedder, values: Array) -> Array:
    """Normalised pixels (3, size, size) -> hidden states (tokens, hidden)."""
    config, table = front.config.image, front.tensors
    assert config is not None  # `embed_image` saw to it
    patches = flattened(values, config.patch) @ table[f"{PATCHES}.weight"].T + table[f"{PATCHES}.bias"]
    first = [table[name] for name in FIRST[: config.extra]]
    return np.asarray(np.concatenate([*first, patches]) + table[POSITIONS])


def flattened(values: Array, patch: int) -> Array:
    """Cuts pixels into patches: (3, size, size) -> (patches, 3 patch^2), row by row, as a convolution's
    weights are laid out."""
    colours, size, _ = values.shape
    across = size // patch
    cut = values.reshape(colours, across, patch, across, patch)
    return cut.transpose(1, 3, 0, 2, 4).reshape(across**2, colours * patch**2)


def pixels(image: Image, config: ImageConfig) -> Array:
    """Returns pixels (3, size, size), shifted and divided by colour."""
    from PIL.Image import Resampling

    size, across, down = config.size, image.width, image.height
    side = config.shortest or size
    scaled = (side, side)
    if config.shortest and not config.square:
        least = min(across, down)
        scaled = int(side * across / least), int(side * down / least)
    kinds = {"bilinear": Resampling.BILINEAR, "bicubic": Resampling.BICUBIC}
    image = image.resize(scaled, resample=kinds[config.resample])
    if config.shortest:  # the middle; black where the image is smaller
        left, top = (image.width - size) // 2, (image.height - size) // 2
        image = image.crop((left, top, left + size, top + size))
    values = np.moveaxis(np.asarray(image, np.float64) / 255.0, -1, 0)
    mean, spread = (np.asarray(each)[:, None, None] for each in (config.mean, config.spread))
    return np.asarray((values - mean) / spread)


def _open(image: Any) -> Image:
    """Opens an image upright, as its file says which way up it is, and with three colours: as transformers
    opens images."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise InputError("embed_image: Pillow is not installed", hint=how_to_install("images")) from None
    if isinstance(image, Image.Image):
        return ImageOps.exif_transpose(image).convert("RGB")
    try:
        with Image.open(image) as file:
            if file.width * file.height > MOST_PIXELS:
                raise InputError(f"{image}: more than {MOST_PIXELS} pixels", hint="make it smaller")
            return ImageOps.exif_transpose(file).convert("RGB")
    except InputError:
        raise
    except Exception as error:  # Pillow's readers of formats raise what they come upon in a broken file
        raise InputError(
            f"{image}: not an image ({error!s:.80})", hint="such as a PNG or JPEG file"
        ) from None
