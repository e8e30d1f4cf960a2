"""What a client needs of a model to embed a text, and the shapes of its tables. A checkpoint is a front
too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Array = NDArray[np.float64]
WORDS = "embeddings.word_embeddings.weight"  # the table that a hidden embedding looks words up in
TABLES = {
    "word": "vocab",
    "position": "positions",
    "token_type": "types",
}  # -> the field with its number of rows


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
    from [CLS], which the tokenizer must add."""

    vocab: int
    positions: int
    types: int
    norm_eps: float
    embedding_norm: bool
    first_token: bool

    @staticmethod
    def of(config: EmbeddingConfig) -> FrontConfig:
        """The same of a model's configuration."""
        return FrontConfig(
            vocab=config.vocab,
            positions=config.positions,
            types=config.types,
            norm_eps=config.norm_eps,
            embedding_norm=config.embedding_norm,
            first_token=config.first_token,
        )


@dataclass(frozen=True)
class Front:
    """config: a `FrontConfig`, or a whole model's. tensors: the tables by name, read-only (see
    `table_shapes`)."""

    config: EmbeddingConfig
    tensors: Mapping[str, Array] = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False, compare=False)


def table_shapes(config: EmbeddingConfig, hidden: int) -> dict[str, tuple[int, ...]]:
    """Name (Hugging Face's) -> shape of the tensors between token ids and hidden states of so many
    features."""
    shapes: dict[str, tuple[int, ...]] = {
        f"embeddings.{name}_embeddings.weight": (rows, hidden)
        for name, size in TABLES.items()
        if (rows := getattr(config, size))
    }
    for part in ("weight", "bias") if config.embedding_norm else ():
        shapes[f"embeddings.LayerNorm.{part}"] = (hidden,)
    return shapes
