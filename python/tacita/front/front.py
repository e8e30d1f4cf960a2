"""What a client needs of a model to embed a text, and the shapes of its tables. A checkpoint is a front
too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tacita.front.limits import MAX_HIDDEN, MAX_PIXELS, MAX_POSITIONS
from tacita.omitted import AT_DEFAULT

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Array = NDArray[np.float64]
WORDS = "embeddings.word_embeddings.weight"  # the table that a hidden embedding looks words up in
POSITIONS = "embeddings.position_embeddings.weight"
PROJECTION = "embeddings.projection"
FIRST = ("embeddings.cls_token", "embeddings.distillation_token")  # of images
PATCHES = "embeddings.patch_embeddings.projection"
CHANNELS = 3  # of an image
RESAMPLE = ("bilinear", "bicubic")


@dataclass(frozen=True)
class ImageConfig:
    """What a client makes of an image: tokens (see `front.images`).

    size: pixels a side that the model takes, cut into squares of `patch` pixels. shortest: the shorter side
    is scaled to this before the middle is cut out; 0 where the image is squeezed to the size at once.
    resample: "bilinear" or "bicubic". mean, spread: of each colour, after division by 255. extra: tokens
    before the patches: [CLS], and DeiT's for distillation.
    """

    size: int
    patch: int
    extra: int
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    spread: tuple[float, ...] = (0.5, 0.5, 0.5)
    shortest: int = 0
    resample: str = "bilinear"

    @property
    def tokens(self) -> int:
        """Of every image."""
        return (self.size // self.patch) ** 2 + self.extra


class EmbeddingConfig(Protocol):
    """Sizes and options between token ids and hidden states; see `FrontConfig`."""

    @property
    def vocab(self) -> int: ...
    @property
    def positions(self) -> int: ...
    @property
    def types(self) -> int: ...
    @property
    def norm_eps(self) -> float: ...
    @property
    def embedding_norm(self) -> bool: ...
    @property
    def first_token(self) -> bool: ...
    @property
    def last_token(self) -> bool: ...
    @property
    def backwards(self) -> bool: ...
    @property
    def first_position(self) -> int: ...
    @property
    def position_table(self) -> bool: ...
    @property
    def embedding_size(self) -> int: ...
    @property
    def embedding_beta(self) -> bool: ...
    @property
    def image(self) -> ImageConfig | None: ...


class Embedder(Protocol):
    """Whoever can embed a text: a `Front`, or a whole checkpoint."""

    @property
    def config(self) -> EmbeddingConfig: ...
    @property
    def tensors(self) -> Mapping[str, Array]: ...
    @property
    def tokenizer(self) -> Tokenizer | None: ...


@dataclass(frozen=True)
class FrontConfig:
    """vocab, positions, types: rows of the tables, 0 types where there are no token types. norm_eps: of the
    LayerNorm after their sum. embedding_norm: whether there is one. first_token: whether the answer is read
    from [CLS], which the tokenizer must add. last_token: whether it is read from the last token, so that
    padding stands before a text. backwards: whether the client reverses the rows of a text, behind which
    padding then stands (`blocks.sequence.latest`). The others are those of `models.base`."""

    vocab: int
    positions: int
    types: int
    norm_eps: float
    embedding_norm: bool
    first_token: bool
    last_token: bool = field(default=False, metadata=AT_DEFAULT)
    backwards: bool = field(default=False, metadata=AT_DEFAULT)
    first_position: int = field(default=0, metadata=AT_DEFAULT)
    position_table: bool = field(default=True, metadata=AT_DEFAULT)
    embedding_size: int = field(default=0, metadata=AT_DEFAULT)
    embedding_beta: bool = field(default=True, metadata=AT_DEFAULT)
    image: ImageConfig | None = field(default=None, metadata=AT_DEFAULT)

    @staticmethod
    def of(config: EmbeddingConfig) -> FrontConfig:
        """The same of a model's configuration."""
        return FrontConfig(**{each.name: getattr(config, each.name) for each in fields(FrontConfig)})


@dataclass(frozen=True)
class Front:
    """config: a `FrontConfig`, or a whole model's. tensors: the tables by name, read-only (see
    `table_shapes`)."""

    config: EmbeddingConfig
    tensors: Mapping[str, Array] = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False, compare=False)


def limits(config: EmbeddingConfig) -> Iterator[tuple[str, bool]]:
    """What of a front that somebody else wrote is wrong, and whether it is right: sizes that tables are made
    of, and of an image what the client makes of its own."""
    yield "first position", 0 <= config.first_position <= MAX_POSITIONS
    yield "embedding size", 0 <= config.embedding_size <= MAX_HIDDEN
    if image := config.image:
        yield "image", 1 <= image.patch <= image.size <= MAX_PIXELS and image.size % image.patch == 0
        yield "image's tokens", 1 <= image.extra <= len(FIRST) and image.tokens == config.positions
        colours = (*image.mean, *image.spread)
        yield "image's colours", len(image.mean) == len(image.spread) == CHANNELS
        yield "image's colours", all(map(math.isfinite, colours)) and min(image.spread) > 0.0
        yield "image's shorter side", image.shortest == 0 or image.size <= image.shortest <= MAX_PIXELS
        yield "image's resampling", image.resample in RESAMPLE


def table_shapes(config: EmbeddingConfig, hidden: int) -> dict[str, tuple[int, ...]]:
    """Name (Hugging Face's) -> shape of the tensors between token ids and hidden states of so many
    features."""
    if config.image:
        return _image_shapes(config.image, hidden)
    size = config.embedding_size or hidden
    rows = {"word": config.vocab, "position": 0, "token_type": config.types}
    if config.position_table:
        rows["position"] = config.first_position + config.positions
    shapes: dict[str, tuple[int, ...]] = {
        f"embeddings.{name}_embeddings.weight": (count, size) for name, count in rows.items() if count
    }
    if config.embedding_norm:
        shapes["embeddings.LayerNorm.weight"] = (size,)
        shapes |= {"embeddings.LayerNorm.bias": (size,)} if config.embedding_beta else {}
    if config.embedding_size:
        shapes |= {f"{PROJECTION}.weight": (hidden, size), f"{PROJECTION}.bias": (hidden,)}
    return shapes


def _image_shapes(image: ImageConfig, hidden: int) -> dict[str, tuple[int, ...]]:
    """The first tokens, which are the same for every image, the map of a patch, and the positions."""
    pixels = CHANNELS * image.patch**2
    return {
        **dict.fromkeys(FIRST[: image.extra], (1, hidden)),
        POSITIONS: (image.tokens, hidden),
        f"{PATCHES}.weight": (hidden, pixels),
        f"{PATCHES}.bias": (hidden,),
    }
