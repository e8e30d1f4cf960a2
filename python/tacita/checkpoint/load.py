"""A Hugging Face folder -> Checkpoint. The only way in: what is returned has been checked completely."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint.config import read_config
from tacita.checkpoint.files import check_size
from tacita.checkpoint.weights import has_tensor, read_raw, read_tensors
from tacita.errors import CheckpointError
from tacita.front.tensors import check_tensors
from tacita.front.tokenizer import MAX_TOKENIZER_BYTES, parse_tokenizer
from tacita.models.registry import Config, check, tensor_shapes
from tacita.models.retrained import ORDINARY

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Checkpoint:
    """A checked model. tensors: read-only float64 arrays by name (see `models`). tokenizer: None without
    one.

    sha256: hex, of the configuration and all tensors; the same weights in another file format have the same
    hash.
    """

    name: str
    config: Config
    tensors: Mapping[str, Array] = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False, compare=False)
    sha256: str


def load(folder: str | Path, *, pooling: str | None = None, embeddings: bool = True) -> Checkpoint:
    """Read config.json, model.safetensors and tokenizer.json of `folder`.

    pooling: "pooler", "cls" or "mean" (see `models`); by default what the folder says: a classifier's own;
    else the files of sentence-transformers; else the pooler, if its weights are there. The user's word goes
    before the files, but not before what a classifier was trained on. embeddings=False: start from hidden
    states; embedding tables and tokenizer are not needed. Errors: CheckpointError naming the file, the tensor
    or field, both values, and a hint.
    """
    path = Path(folder)
    if not path.is_dir():
        raise CheckpointError(f"load: {path} is not a folder", hint="pass a local Hugging Face model folder")
    weights = path / "model.safetensors"
    raw = read_raw(weights)
    config = read_config(path, pooling, embeddings, has_tensor(raw, "pooler.dense.weight"))
    check(config)
    tensors = read_tensors(weights, raw, tensor_shapes(config))
    tokenizer = _tokenizer(path / "tokenizer.json", config) if embeddings else None
    return from_tensors(config, tensors, tokenizer, name=path.resolve().name, where=str(weights))


def from_tensors(
    config: Config,
    tensors: Mapping[str, Array],
    tokenizer: Tokenizer | None = None,
    *,
    name: str = "model",
    where: str = "from_tensors",
) -> Checkpoint:
    """A Checkpoint from arrays: the same checks as `load`. Errors: CheckpointError."""
    check(config)
    shapes = tensor_shapes(config)
    check_tensors(where, tensors, shapes)
    frozen = {key: _frozen(tensors[key]) for key in shapes}
    return Checkpoint(name, config, MappingProxyType(frozen), tokenizer, _hash(config, frozen))


def _frozen(tensor: Array) -> Array:
    copy = np.array(tensor, dtype=np.float64)
    copy.flags.writeable = False
    return copy


def _hash(config: Config, tensors: Mapping[str, Array]) -> str:
    described = asdict(config)  # type: ignore[call-overload]
    if described.get("retrained") == asdict(
        ORDINARY
    ):  # so that an ordinary model keeps the hash that its plans name
        del described["retrained"]
    if config.embedding_norm:
        del described["embedding_norm"]
    if not config.normalise:
        del described["normalise"]
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f8").tobytes())
    return digest.hexdigest()


def _tokenizer(path: Path, config: Config) -> Tokenizer:
    check_size(path, MAX_TOKENIZER_BYTES)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path}: not a tokenizer file ({error})", hint="truncated or damaged?"
        ) from None
    return parse_tokenizer(text, config.vocab, str(path))
