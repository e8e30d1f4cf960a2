"""The weights of a folder, whatever its files -> tensors, each checked: present, a float type.

Tensors stay in the types of their files and are converted where they are used (`texts.embedding.Tensor`);
large safetensors and GGUF files are mapped, so that what is not used takes no memory.

`model.safetensors`, the same in shards, or `pytorch_model.bin`, in this order (`checkpoint`).
Names of tensors are known before one is read; a family says what its are called in files
(`models.config`). Shapes and finite values are checked by `texts.embedding`.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tacita.checkpoint.gguf import gguf_of
from tacita.checkpoint.pickles import Described, described
from tacita.errors import CheckpointError
from tacita.models.config import Names
from tacita.models.fields import MAX_READ_BYTES, MAX_WEIGHT_BYTES, check_size, content, read_json
from tacita.texts.embedding import POSITIONS, Array, check_file, decode, parse_raw, stored_tensor


class Stored(Protocol):
    """A file of tensors, or several."""

    @property
    def path(self) -> Path:
        """The file, or the index of several."""

    @property
    def names(self) -> Collection[str]:
        """Lists the names of the tensors, from the file's head alone."""

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads tensors: name -> dtype, shape, data (`texts.embedding.decode`). Raises CheckpointError."""


def open_weights(folder: Path) -> Stored:
    """Opens the folder's weights, or a GGUF file's. Errors: CheckpointError (absent, too large, damaged)."""
    if file := gguf_of(folder):
        return file
    whole = folder / "model.safetensors"
    for path in (folder / "model.safetensors.index.json", folder / "pytorch_model.bin.index.json"):
        if path.is_file() and not whole.is_file():
            return Shards(path)
    path = folder / "pytorch_model.bin"
    if path.is_file() and not whole.is_file():
        return TorchFile(path)
    return SafetensorsFile(whole)


def read_tensors(
    stored: Stored, names: Names, shapes: Mapping[str, tuple[int, ...]], *, longer: bool = False
) -> dict[str, Array]:
    """The tensors named in `shapes`, converted where they are used; the floats are cached of a model of up to
    `MOST_CACHED` numbers. Extra tensors are ignored, but for those of a module of which others are read.
    longer: whether the table of positions may have more rows than that, which are left out. Errors:
    CheckpointError naming the tensor.
    """
    spellings = {name: names.find(name, stored.names) for name in shapes}
    if missing := [name for name, spelled in spellings.items() if spelled is None]:
        some = f"{len(stored.names)} tensors, such as {', '.join(sorted(stored.names)[:2])}"
        raise CheckpointError(
            f"{stored.path}: {len(missing)} tensors missing, first {missing[0]}",
            hint=f"the file holds {some}" if stored.names else "the file is empty",
        )
    spelled = {name: str(theirs) for name, theirs in spellings.items()}
    _refuse_unread(stored, set(spelled.values()))
    raw = stored.read(spelled.values())
    decoded = {theirs: decode(str(stored.path), name, raw[theirs]) for name, theirs in spelled.items()}
    tensors = {name: decoded[theirs] for name, theirs in spelled.items()}
    if names.square_after is not None and POSITIONS in tensors:
        tensors[POSITIONS] = for_size(tensors[POSITIONS], names.square_after, shapes[POSITIONS][0])
    for name in names.flat:
        if name in tensors and tensors[name].size == np.prod(shapes[name]):
            tensors[name] = tensors[name].reshape(shapes[name])
    for name in names.transposed:
        if name in tensors and tensors[name].ndim == 2:
            tensors[name] = tensors[name].T
    for name, (count, ours) in names.rows.items():
        if tensors[name].shape[:1] != (count,):
            raise CheckpointError(
                f"{stored.path}: tensor {spelled[name]} has shape {tensors[name].shape}, not {count} rows",
                hint="config.json and model.safetensors belong to different models",
            )
        tensors[name] = tensors[name][ours]
    for name in names.affine.keys() & tensors.keys():
        factor, addend = names.affine[name]
        tensors[name] = factor * tensors[name] + addend
    if longer and POSITIONS in tensors and tensors[POSITIONS].ndim == 2:
        tensors[POSITIONS] = tensors[POSITIONS][: shapes[POSITIONS][0]]
    small = sum(tensor.size for tensor in tensors.values()) <= MOST_CACHED
    for tensor in tensors.values():
        if (each := stored_tensor(tensor)) is not None:
            each.keeps = small
    return tensors


MOST_PARTS = 16  # of a tensor's name, between its dots, that are looked at


def _refuse_unread(stored: Stored, read: Collection[str]) -> None:
    """Refuses a tensor that belongs to a map or a norm whose weight is read, and is not read itself: a bias
    that the configuration does not mention, scales of quantised numbers, an adapter that is not merged."""
    modules = {name.removesuffix(".weight").removesuffix(".gamma") for name in read}
    for name in sorted(set(stored.names) - set(read)):
        parts = name.split(".", MOST_PARTS)
        if any(".".join(parts[:count]) in modules for count in range(1, len(parts))):
            raise CheckpointError(
                f"{stored.path}: tensor {name:.200} would be ignored, others of its module are read",
                hint="config.json and the weights belong to different models, or it is of another kind",
            )


MOST_CACHED = 1 << 28  # numbers: 2 GiB of floats


# A safetensors file, whose head says the names of its tensors before one of them is read.
#
# The models of the package have the lower bytes of all numbers of a tensor before the upper ones, which packs
# a tenth better (docs/decisions/0067). Their head says so in its metadata.

PLANES = {"bytes": "planes"}  # each tensor of float16 is one of U8, (2, *shape)
MAX_HEAD_BYTES = 100 << 20  # the library's own limit


@dataclass(frozen=True)
class SafetensorsFile:
    """A safetensors file as `weights.Stored`. total: bytes of all files of its model, by default its own."""

    path: Path
    total: int = 0

    @cached_property
    def names(self) -> Collection[str]:
        """The tensors' names. Raises CheckpointError (absent, too large, truncated, damaged)."""
        return frozenset(self._head) - {"__metadata__"}

    @cached_property
    def _head(self) -> Mapping[str, Any]:
        check_size(self.path, MAX_WEIGHT_BYTES)
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MAX_HEAD_BYTES, self.path.stat().st_size - 8):
                raise self._damage_error(f"a head of {length} bytes")
            head = file.read(length)
        try:
            entries = json.loads(head)
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise self._damage_error(f"{error!s:.80}") from None
        if not isinstance(entries, dict):
            raise self._damage_error("its head is no object")
        return entries

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads or maps the whole file; the library checks offsets, types and lengths."""
        check_size(self.path, MAX_WEIGHT_BYTES)
        data = content(self.path, self.total)
        if isinstance(data.obj, mmap.mmap):
            return self._mapped(names, data)
        raw = parse_raw(bytes(data.obj), str(self.path))
        if self._head.get("__metadata__") != PLANES:
            return {name: raw[name] for name in names}
        return {name: self._joined(name, raw[name]) for name in names}

    def _mapped(self, names: Iterable[str], data: memoryview) -> Mapping[str, Mapping[str, Any]]:
        check_file(self.path)
        if self._head.get("__metadata__") == PLANES:
            raise self._damage_error("planes of bytes, of a file that is mapped")
        first, entries = 8 + int.from_bytes(data[:8], "little"), {name: self._head[name] for name in names}
        places = {name: slice(*(first + at for at in e["data_offsets"])) for name, e in entries.items()}
        return {name: {**entry, "data": data[places[name]]} for name, entry in entries.items()}

    def _joined(self, name: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        if entry["dtype"] != "U8" or entry["shape"][:1] != [2]:
            raise self._damage_error(f"{name:.40}: no planes of bytes")
        data = np.frombuffer(entry["data"], np.uint8).reshape(2, -1).T.tobytes()
        return {"dtype": "F16", "shape": entry["shape"][1:], "data": data}

    def _damage_error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: not a safetensors file ({what})", hint="truncated download?")


# `pytorch_model.bin`, as torch 1.6 and later write it: a zip of a pickle and one file a storage.
#
# The pickle is read by `pickles`, which executes nothing. Entries must be stored, not compressed, so that no
# small file becomes a large one.

MAX_PICKLE_BYTES = 16 << 20
MOST_ENTRIES = 100_000
ORDER = "byteorder"  # an entry of torch 2.1 and later
HINT = "save it again with torch.save of torch 1.6 or later, or convert it to model.safetensors"
ITEMS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "BOOL": 1, "U8": 1}
# what the library raises for archives that are damaged, encrypted or of kinds that it does not know
DAMAGE = (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, OverflowError, struct.error)


@dataclass(frozen=True)
class TorchFile:
    """A file of `torch.save` as `weights.Stored`. total: see `SafetensorsFile`; it is read all the same."""

    path: Path
    total: int = 0

    @property
    def names(self) -> Collection[str]:
        """Reads the tensors' names from the pickle alone. Raises CheckpointError."""
        return self._tensors.keys()

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads tensors one by one; a storage that several share is read once for each."""
        try:
            with zipfile.ZipFile(self.path) as file:
                return {name: self._entry(file, name) for name in names}
        except DAMAGE as error:
            raise self._damage_error(f"{error!s:.80}") from None

    @cached_property
    def _tensors(self) -> Mapping[str, Described]:
        check_size(self.path, MAX_READ_BYTES)
        try:
            with zipfile.ZipFile(self.path) as file:
                data = self._content(file, "data.pkl", MAX_PICKLE_BYTES)
                stated = any(info.filename.partition("/")[2] == ORDER for info in self._list(file))
                if stated and self._content(file, ORDER, 16) != b"little":
                    raise self._damage_error("its numbers have their upper bytes first")
        except DAMAGE as error:
            raise self._damage_error(f"{error!s:.80}") from None
        return described(data, str(self.path))

    def _entry(self, file: zipfile.ZipFile, name: str) -> Mapping[str, Any]:
        tensor = self._tensors[name]
        size = ITEMS[tensor.storage.dtype]
        data = self._content(file, f"data/{tensor.storage.key}", MAX_READ_BYTES)
        if len(data) != size * tensor.storage.count:
            raise self._damage_error(f"tensor {name}: {len(data)} bytes for {tensor.storage.count} numbers")
        numbers = np.frombuffer(data, np.dtype(f"V{size}"))[tensor.offset :]
        strides = tuple(size * step for step in tensor.strides)
        view = np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, writeable=False)
        return {"dtype": tensor.storage.dtype, "shape": tensor.shape, "data": view.tobytes()}

    def _content(self, file: zipfile.ZipFile, name: str, most: int) -> bytes:
        """Returns the bytes of an entry in the archive's one folder, checked before it is read."""
        matches = [info for info in self._list(file) if info.filename.partition("/")[2] == name]
        if len(matches) != 1:
            raise self._damage_error(f"{len(matches)} entries {name!r:.40}")
        (info,) = matches
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
            raise self._damage_error(f"entry {name!r:.40}: compressed, or of {info.file_size} bytes")
        return file.read(info)

    def _list(self, file: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        if len(infos := file.infolist()) > MOST_ENTRIES:
            raise self._damage_error(f"{len(infos)} entries")
        return infos

    def _damage_error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: not a file of torch.save ({what})", hint=HINT)


# Weights in several files: an index says which file holds which tensor.

MAX_INDEX_BYTES = 16 << 20
MOST_SHARDS = 1000
KINDS: dict[str, type[SafetensorsFile] | type[TorchFile]] = {
    ".safetensors": SafetensorsFile,
    ".bin": TorchFile,
}


@dataclass(frozen=True)
class Shards:
    """Several files with an index, as `weights.Stored`. path: of the index."""

    path: Path

    @property
    def names(self) -> Collection[str]:
        """Returns the names that the index lists."""
        return self._files.keys()

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads each shard that holds a tensor that is asked for, once."""
        wanted = set(names)
        tensors: dict[str, Mapping[str, Any]] = {}
        for file in sorted({self._files[name] for name in wanted}):
            here = [name for name in wanted if self._files[name] == file]
            shard = KINDS[Path(file).suffix](self.path.parent / file, self._total)
            if absent := sorted(set(here) - set(shard.names)):
                raise CheckpointError(
                    f"{shard.path}: tensor {absent[0]} is missing", hint=f"{self.path.name} says it is there"
                )
            tensors |= shard.read(here)
        return tensors

    @cached_property
    def _total(self) -> int:
        total = sum((self.path.parent / file).stat().st_size for file in set(self._files.values()))
        if total > MAX_WEIGHT_BYTES:
            raise CheckpointError(f"{self.path}: shards of {total} bytes", hint=f"at most {MAX_WEIGHT_BYTES}")
        return total

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """Maps a tensor to its file. Raises CheckpointError for a name outside the folder."""
        listed = read_json(self.path, MAX_INDEX_BYTES).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
            raise CheckpointError(f"{self.path}: no weight_map of names", hint="damaged or another file?")
        files = set(listed.values())
        if len(files) > MOST_SHARDS:
            raise CheckpointError(f"{self.path}: {len(files)} shards", hint=f"at most {MOST_SHARDS}")
        for file in files:
            self._require_inside(file)
        return listed

    def _require_inside(self, file: str) -> None:
        """A plain name of a file that is there, of a known kind."""
        plain = file == Path(file).name and "\\" not in file and not file.startswith(".")
        if not plain or Path(file).suffix not in KINDS:
            raise CheckpointError(
                f"{self.path}: shard {file!r:.80} is no file of this folder",
                hint="such as model-00001-of-00002.safetensors",
            )
        if not (self.path.parent / file).is_file():
            raise CheckpointError(f"{self.path.parent / file}: no such file", hint="download all shards")


# A table of positions that was learned for images of another size, as DINOv2's (arXiv 2304.07193): trained
# on 518 pixels, used on 224.

BEND = -0.75  # of the cubic between two points, as torch's and ONNX's `cubic_coeff_a`


def for_size(table: Array, first: int, tokens: int) -> Array:
    """Resizes positions (1, rows, hidden) or (rows, hidden) to (tokens, hidden): a square, row by row, behind
    the `first` tokens that have no place in the image.

    Between the places of the learned square it is bicubic interpolation, without smoothing where there are
    fewer now: what transformers does for the size of an image, and ONNX's Resize with half pixels. A table
    that is no square is returned as it is.
    """
    rows = np.asarray(table).reshape(-1, table.shape[-1])
    across, wanted = math.isqrt(max(len(rows) - first, 0)), math.isqrt(tokens - first)
    if across == 0 or across**2 != len(rows) - first or wanted**2 != tokens - first or across == wanted:
        return table
    square = rows[first:].reshape(across, across, -1)
    between = cubic(across, wanted)
    resized = np.einsum("ia,jb,abh->ijh", between, between, square, optimize=True)
    return np.concatenate([rows[:first], resized.reshape(wanted**2, -1)])


def cubic(points: int, wanted: int) -> Array:
    """Returns (wanted, points): what each new place takes of each old one. Places beyond an end take the
    end's."""
    weights = np.zeros((wanted, points))
    for i in range(wanted):
        place = (i + 0.5) * points / wanted - 0.5
        for j in range(math.floor(place) - 1, math.floor(place) + 3):
            weights[i, min(max(j, 0), points - 1)] += _share(abs(place - j))
    return weights


def _share(distance: float) -> float:
    """Computes Keys' cubic kernel: 1 at the place itself, 0 at the other places and beyond two of them."""
    if distance <= 1.0:
        return ((BEND + 2.0) * distance - (BEND + 3.0)) * distance**2 + 1.0
    if distance < 2.0:
        return (((distance - 5.0) * distance + 8.0) * distance - 4.0) * BEND
    return 0.0
