"""A Hugging Face folder -> Checkpoint. The only way in: what is returned has been checked completely."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint.adapter import BASE, Adapted, adapter_of
from tacita.checkpoint.config import read_config
from tacita.checkpoint.gguf import gguf_of
from tacita.checkpoint.hub import fetch, name_of, parse_name
from tacita.checkpoint.texts import own_texts
from tacita.checkpoint.vocabulary import read_tokenizer
from tacita.checkpoint.weights import Stored, open_weights, read_tensors
from tacita.data import read_list, shipped
from tacita.errors import CheckpointError, nearest
from tacita.extras import omitted
from tacita.models.registry import FAMILIES, Config, check, family_of, tensor_shapes
from tacita.models.retrained import ORDINARY
from tacita.texts.embedding import MAX_POSITIONS, blocks, check_tensors, stored_tensor

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Checkpoint:
    """A checked model. tensors: read-only float64 arrays by name (see `models`), or what stands for them in
    the type of its file (`texts.embedding.Tensor`). tokenizer: None without one. texts: that came with it, to
    calibrate on where the user brings none. hashed: returns `sha256`.
    """

    name: str
    config: Config
    tensors: Mapping[str, Array] = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False, compare=False)
    hashed: Callable[[], str] = field(repr=False, compare=False)
    texts: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def sha256(self) -> str:
        """Hex, of the configuration and all tensors; the same weights in another file format have the same
        hash. Computed at the first call, with half a second a GB of floats."""
        return self.hashed()

    def __repr__(self) -> str:
        """Returns at most 300 characters."""
        config, sizes = (
            type(self.config).__name__,
            f"layers={self.config.layers}, hidden={self.config.hidden}",
        )
        return f"Checkpoint({self.name[:80]!r}, {config}({sizes}), sha256='{self.sha256[:12]}...')"


def load(
    folder: str | Path, *, revision: str | None = None, pooling: str | None = None, embeddings: bool = True
) -> Checkpoint:
    """Read config.json, then the weights (`checkpoint.weights`), the tokenizer (`checkpoint.vocabulary`) and
    texts (`checkpoint.texts`) of `folder`, or a GGUF file, which holds the first three. Where there is no
    such folder, the name of a model that comes with the package means that one, and "org/name" or
    "org/name@revision" a model of the Hugging Face Hub (`checkpoint.hub`). A folder of a LoRA adapter
    (adapter_config.json) stands for the base model that it names, with the adapter merged in.

    pooling: "pooler", "cls" or "mean" (see `models`); by default what the folder says: a classifier's own;
    else the files of sentence-transformers; else the pooler, if its weights are there. The user's word goes
    before the files, but not before what a classifier was trained on. embeddings=False: start from hidden
    states; embedding tables and tokenizer are not needed. Errors: CheckpointError naming the file, the tensor
    or field, both values, and a hint.
    """
    path = place = resolve(folder, revision)
    if adapter := adapter_of(path):
        path = resolve(adapter.data[BASE], adapter.data.get("revision"))
    stored: Stored = Adapted(open_weights(path), adapter) if adapter else open_weights(path)
    config = read_config(path, pooling, embeddings, lambda: stored.names)
    check(config)
    longer = config.positions == MAX_POSITIONS  # a longer table is cut to what plans have
    names = FAMILIES[family_of(config)].names(config)
    if adapter and adapter.flag("fan_in_fan_out", False) != bool(names.transposed):
        adapter.refuse("fan_in_fan_out", "the base's matrices lie the other way, as of GPT-2 alone they do")
    tensors = read_tensors(stored, names, tensor_shapes(config), longer=longer)
    tokenizer = read_tokenizer(path, config.vocab) if embeddings and config.image is None else None
    checkpoint = from_tensors(
        config, tensors, tokenizer, name=name_of(place.resolve()), where=str(stored.path)
    )
    return replace(checkpoint, texts=own_texts(path)) if path.is_dir() else checkpoint


def resolve(model: str | Path, revision: str | None = None) -> Path:
    """Returns the folder or GGUF file, before the shipped model of that name, before that of the Hugging Face
    Hub, fetched where it is not cached. revision: of the Hub's. Raises CheckpointError."""
    path, folders = Path(model), shipped()
    if revision is None and (path.is_dir() or gguf_of(path) is not None):
        return path
    if revision is None and str(path) in folders:
        return folders[str(path)]
    if (named := parse_name(path.as_posix())) is None or (revision and named[1]):
        fetching = f"tacita models fetch {path}; or " if "inside" in read_list()[0].get(str(path), {}) else ""
        raise CheckpointError(
            f"load: {path} is not a folder"
            if revision is None
            else f"load: revision {revision!r} of {path}, which is no org/name of the Hugging Face Hub",
            hint=f"{fetching}pass a local Hugging Face model folder, or org/name of the Hugging Face Hub; "
            + nearest(str(path), folders),
        )
    return fetch(named[0], revision or named[1])


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
    copies = {id(tensors[key]): _freeze(tensors[key]) for key in shapes}  # one of layers that share it
    frozen = {key: copies[id(tensors[key])] for key in shapes}
    return Checkpoint(
        name, config, MappingProxyType(frozen), tokenizer, cache(partial(_hash, config, frozen))
    )


def _freeze(tensor: Array) -> Array:
    if stored_tensor(tensor) is not None:  # nobody writes to it
        return tensor
    copy = np.array(tensor, dtype=np.float64)
    copy.flags.writeable = False
    return copy


# Fields that came later, left out at these values: an ordinary model keeps the hash that its plans name.
LATER = {"retrained": asdict(ORDINARY), "embedding_norm": True, "normalise": False}


def _hash(config: Config, tensors: Mapping[str, Array]) -> str:
    described = asdict(config)
    if config.image and not config.image.square:
        del described["image"]["square"]
    for each in fields(config):
        name = each.name
        if omitted(each, getattr(config, name)) or (name in LATER and described[name] == LATER[name]):
            del described[name]
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        tensor = tensors[name]
        for rows in blocks(tensor.shape):
            digest.update(np.ascontiguousarray(tensor[rows], dtype="<f8").data)
    return digest.hexdigest()
