"""A Hugging Face folder -> Checkpoint. The only way in: what is returned has been checked completely."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint.config import read_config
from tacita.checkpoint.gguf.place import gguf_of
from tacita.checkpoint.vocabulary import read_tokenizer
from tacita.checkpoint.weights import open_weights, read_tensors
from tacita.errors import CheckpointError
from tacita.front.limits import MAX_POSITIONS
from tacita.front.tensors import check_tensors
from tacita.models.encoders.retrained import ORDINARY
from tacita.models.registry import Config, check, module_of, tensor_shapes
from tacita.omitted import omitted

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
    """Read config.json, then the weights (`checkpoint.weights`) and the tokenizer (`checkpoint.vocabulary`)
    of `folder`, or a GGUF file, which holds all three.

    pooling: "pooler", "cls" or "mean" (see `models`); by default what the folder says: a classifier's own;
    else the files of sentence-transformers; else the pooler, if its weights are there. The user's word goes
    before the files, but not before what a classifier was trained on. embeddings=False: start from hidden
    states; embedding tables and tokenizer are not needed. Errors: CheckpointError naming the file, the tensor
    or field, both values, and a hint.
    """
    path = Path(folder)
    if not path.is_dir() and gguf_of(path) is None:
        raise CheckpointError(f"load: {path} is not a folder", hint="pass a local Hugging Face model folder")
    config = read_config(path, pooling, embeddings, lambda: open_weights(path).names)
    check(config)
    stored = open_weights(path)
    longer = config.positions == MAX_POSITIONS  # a longer table is cut to what plans have
    tensors = read_tensors(stored, module_of(config).names(config), tensor_shapes(config), longer=longer)
    tokenizer = read_tokenizer(path, config.vocab) if embeddings and config.image is None else None
    return from_tensors(config, tensors, tokenizer, name=path.resolve().name, where=stored.where)


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
    copies = {id(tensors[key]): _frozen(tensors[key]) for key in shapes}  # one of layers that share it
    frozen = {key: copies[id(tensors[key])] for key in shapes}
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
    for each in fields(config):  # type: ignore[arg-type]
        if omitted(each, getattr(config, each.name)):
            del described[each.name]
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f8").tobytes())
    return digest.hexdigest()
