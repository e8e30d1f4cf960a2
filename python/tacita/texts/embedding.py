"""The largest models that are read. Whoever reads sizes that somebody else wrote compares them with these
first."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.limits import Range

if TYPE_CHECKING:
    from tokenizers import Tokenizer


MAX_LAYERS, MAX_HIDDEN, MAX_POSITIONS, MAX_VOCAB, MAX_CLASSES, MAX_TYPES = 48, 4096, 8192, 1 << 20, 4096, 16
MAX_EPSILON, MAX_ENDS = 0.1, 16  # of a norm; tokens that end a text
MAX_PIXELS, MAX_DOCUMENTS = 4096, 1 << 16  # a side of an image; documents that two parties score
MAX_STATED = 1 << 20  # positions that a model states; only the first MAX_POSITIONS are kept


# What a client needs of a model to embed a text, and the shapes of its tables. A checkpoint has it, too.

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
    """What a client makes of an image: tokens (see `texts.images`).

    size: pixels a side that the model takes, cut into squares of `patch` pixels. extra: tokens before the
    patches: [CLS], and DeiT's for distillation. mean, spread: of each colour, after division by 255.
    shortest: the shorter side, if `square` both, is scaled to this before the middle is cut out; 0 where the
    image is squeezed to the size at once. resample: "bilinear" or "bicubic".
    """

    size: int
    patch: int
    extra: int
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    spread: tuple[float, ...] = (0.5, 0.5, 0.5)
    shortest: int = 0
    resample: str = "bilinear"
    square: bool = field(default=False, metadata=AT_DEFAULT)

    @property
    def tokens(self) -> int:
        """Number of tokens of every image."""
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
    """Sizes and options of an embedding. vocab, positions, types: rows of the tables, 0 types where there are
    no token types. norm_eps: of the LayerNorm after their sum. embedding_norm: whether there is one.
    first_token: whether the answer is read from [CLS], which the tokenizer must add. last_token: whether it
    is read from the last token, so that padding stands before a text. backwards: whether the client reverses
    the rows of a text, behind which padding then stands (`blocks.sequence`). The others are those of
    `models.config`."""

    vocab: Annotated[int, Range(1, MAX_VOCAB, "vocabulary")]
    positions: Annotated[int, Range(1, MAX_POSITIONS)]
    types: Annotated[int, Range(0, MAX_TYPES, "token types")]
    norm_eps: Annotated[float, Range(0.0, MAX_EPSILON, "epsilon of the embedding's norm")]
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
    """The embedding of a model. config: a `FrontConfig`, or a whole model's. tensors: the tables by name,
    read-only (see `table_shapes`)."""

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


# Bytes of a safetensors file <-> tensors, each checked: of the right shape, a float type, finite.
#
# Reads with the safetensors library (header caps, offsets, overlaps are its checks), widens fp16, bf16, fp32
# exactly, when they are used.

# as numpy calls them, and the bits of a number's exponent; BF16 is the upper half of a float32
TYPES = {
    "F64": ("<f8", 0x7FF << 52),
    "F32": ("<f4", 0xFF << 23),
    "F16": ("<f2", 0x1F << 10),
    "BF16": ("<u2", 0xFF << 7),
}
NARROWEST = ("<f2", "<f4", "<f8")


def parse_raw(data: bytes, where: str) -> Mapping[str, Mapping[str, Any]]:
    """Returns dtype, shape and data of all tensors. Errors: CheckpointError (truncated, damaged)."""
    from safetensors import SafetensorError, deserialize

    try:
        return dict(deserialize(data))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise CheckpointError(
            f"{where}: not a safetensors file ({error})", hint="truncated download?"
        ) from None


def check_file(path: Path) -> None:
    """Checks the head of a safetensors file as `parse_raw` does, without reading the tensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy"):
            return
    except SafetensorError as error:
        why = f"{path}: not a safetensors file ({error})"
    raise CheckpointError(why, hint="truncated download?")


def to_bytes(tensors: Mapping[str, Array]) -> bytes:
    """A safetensors file of these tensors, each in the fewest bytes that keep it exactly."""
    from safetensors.numpy import save

    return bytes(save({name: np.ascontiguousarray(narrowest(tensor)) for name, tensor in tensors.items()}))


def narrowest(tensor: Array) -> NDArray[np.floating]:
    """Converts a tensor to the type of the fewest bytes an element that keeps its numbers exactly."""
    tensor = np.asarray(tensor)
    with np.errstate(over="ignore"):
        candidates = (tensor.astype(kind) for kind in NARROWEST)
        return next(narrow for narrow in candidates if np.array_equal(narrow.astype(np.float64), tensor))


def check_tensors(where: str, tensors: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises CheckpointError unless every tensor of `shapes` is there, of that shape, floating and finite."""
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise CheckpointError(f"{where}: tensor {name} is missing", hint=f"expected shape {shape}")
        if tensor.shape != shape:
            raise CheckpointError(
                f"{where}: tensor {name} has shape {tensor.shape}, the configuration says {shape}",
                hint="config.json and model.safetensors belong to different models",
            )
        if not np.issubdtype(tensor.dtype, np.floating):
            raise CheckpointError(f"{where}: tensor {name} has type {tensor.dtype}", hint="export as float32")
        stored = stored_tensor(tensor)
        if not (stored.finite() if stored is not None else np.isfinite(tensor).all()):
            raise CheckpointError(
                f"{where}: tensor {name} holds NaN or infinity", hint="training diverged, or damage"
            )


def decode(where: str, name: str, entry: Mapping[str, Any]) -> Array:
    """A float tensor of any width, in place: a `Tensor`, converted where it is used, or one that is under
    "tensor" already. entry: dtype, shape, data. Errors: CheckpointError."""
    if "tensor" in entry:
        return cast(Array, entry["tensor"])
    dtype, shape = str(entry["dtype"]), tuple(entry["shape"])
    if dtype not in TYPES:
        raise CheckpointError(
            f"{where}: tensor {name} has type {dtype}",
            hint=f"supported: {', '.join(TYPES)}; export as float32",
        )
    kind, exponent = TYPES[dtype]
    widen = _upper_half if dtype == "BF16" else _float64
    stored = np.frombuffer(entry["data"], kind).reshape(shape)
    return cast(Array, Tensor(stored, shape, widen, exponent=exponent))


def _upper_half(bits: NDArray[np.uint16]) -> Array:
    return _float64((bits.astype(np.uint32) << 16).view(np.float32))


def _float64(values: NDArray[Any]) -> Array:
    with np.errstate(invalid="ignore"):  # of a signalling NaN, which `check_tensors` refuses
        return values.astype(np.float64)


def stored_tensor(tensor: object) -> Tensor | None:
    """Returns what stands for an array in the type of its file; None for an array."""
    return tensor if isinstance(tensor, Tensor) else None


BLOCK = 1 << 20  # numbers that are converted at a time where all of a tensor are looked at


def blocks(shape: tuple[int, ...], most: int = BLOCK) -> Iterator[slice]:
    """Yields slices of rows, of about so many numbers, that come to the whole tensor.

    >>> list(blocks((5, 4), 8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, most // max(1, math.prod(shape[1:])))
    yield from (slice(first, min(first + step, shape[0])) for first in range(0, shape[0], step))


class Tensor(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor in the type of its file, read or mapped, which stands for a read-only array of float64 of this
    shape: what is taken of it is converted then, exactly. An index takes rows and converts these alone.

    stored: the numbers in their own type, or a row's bytes where it is quantised. widen: from some rows of
    these to float64. order: which stored row is which. exponent: its bits of a number, all set in NaN and
    infinity; 0 where `widen` has to tell. keeps: whether the converted whole is cached, once it was asked
    for.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        stored: NDArray[Any],
        shape: tuple[int, ...],
        widen: Callable[[NDArray[Any]], Array],
        *,
        order: NDArray[np.int64] | None = None,
        exponent: int = 0,
    ) -> None:
        self.stored, self.shape, self._widen = stored, shape, widen
        self._order, self._exponent, self.keeps = order, exponent, False
        self._whole: Array | None = None

    @property
    def ndim(self) -> int:
        """Number of its sizes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of its numbers."""
        return math.prod(self.shape)

    @property
    def T(self) -> Tensor:
        """The transposed tensor; of numbers that are not quantised."""
        return Tensor(self.stored.T, self.shape[::-1], self._widen, exponent=self._exponent)

    def reshape(self, *sizes: Any) -> Tensor:
        """Returns it in another shape, one tuple or so many sizes; of numbers that are not quantised."""
        shape = sizes[0] if isinstance(sizes[0], tuple) else sizes
        return Tensor(self.stored.reshape(shape), shape, self._widen, exponent=self._exponent)

    def finite(self) -> bool:
        """Tells whether no number is NaN or infinite."""
        if not self._exponent:
            return all(bool(np.isfinite(self[rows]).all()) for rows in blocks(self.shape))
        words, most = self.stored.view(f"<u{self.stored.itemsize}"), self._exponent
        checked = (
            (words[rows] & words.dtype.type(most)).max(initial=0) < most for rows in blocks(self.shape)
        )
        return all(map(bool, checked)) and self._release()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        if self._whole is not None or isinstance(key, tuple):
            return np.asarray(np.asarray(self)[key])
        values = self._widen(self.stored[key if self._order is None else self._order[key]])
        if isinstance(key, slice) and (key.stop is None or key.stop >= len(self)):
            self._release()  # whoever takes all of it has come to its end
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = self._whole
        if whole is None:
            whole = self[:] if self.ndim else self._widen(self.stored)
            whole.flags.writeable = False
            self._whole = whole if self.keeps else None
        return whole.astype(dtype or np.float64, copy=bool(copy))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = (np.asarray(each) if isinstance(each, Tensor) else each for each in inputs)
        return getattr(ufunc, method)(*arrays, **options)

    def _release(self) -> bool:
        """Gives the pages of a mapped file back, which stay in the system's cache."""
        source: Any = self.stored
        while isinstance(source, np.ndarray) and source.base is not None:
            source = source.base
        source = source.obj if isinstance(source, memoryview) else source
        if isinstance(source, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            source.madvise(mmap.MADV_DONTNEED)
        return True
