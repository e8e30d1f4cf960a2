"""Weights in several files: an index says which file holds which tensor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tacita.checkpoint.files import read_json
from tacita.checkpoint.formats.safetensors_file import MAX_WEIGHT_BYTES, SafetensorsFile
from tacita.checkpoint.formats.torch_file import TorchFile
from tacita.errors import CheckpointError

MAX_INDEX_BYTES = 16 << 20
MOST_SHARDS = 1000
KINDS: dict[str, type[SafetensorsFile] | type[TorchFile]] = {
    ".safetensors": SafetensorsFile,
    ".bin": TorchFile,
}


@dataclass(frozen=True)
class Shards:
    """See `weights.Stored`. path: of the index."""

    path: Path

    @property
    def where(self) -> str:
        """For errors."""
        return str(self.path)

    @property
    def names(self) -> Collection[str]:
        """As the index lists them."""
        return self._files.keys()

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """See the contract. A shard is read once, and only where it holds a tensor that is asked for."""
        wanted = set(names)
        found: dict[str, Mapping[str, Any]] = {}
        for file in sorted({self._files[name] for name in wanted}):
            here = [name for name in wanted if self._files[name] == file]
            shard = KINDS[Path(file).suffix](self.path.parent / file)
            if absent := sorted(set(here) - set(shard.names)):
                raise CheckpointError(
                    f"{shard.where}: tensor {absent[0]} is missing", hint=f"{self.path.name} says it is there"
                )
            found |= shard.read(here)
        return found

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """Tensor -> file. Raises CheckpointError for a name outside the folder, and for too many bytes."""
        listed = read_json(self.path, MAX_INDEX_BYTES).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
            raise CheckpointError(f"{self.path}: no weight_map of names", hint="damaged or another file?")
        files = set(listed.values())
        if len(files) > MOST_SHARDS:
            raise CheckpointError(f"{self.path}: {len(files)} shards", hint=f"at most {MOST_SHARDS}")
        for file in files:
            self._require_inside(file)
        if (total := sum((self.path.parent / file).stat().st_size for file in files)) > MAX_WEIGHT_BYTES:
            raise CheckpointError(f"{self.path}: shards of {total} bytes", hint=f"at most {MAX_WEIGHT_BYTES}")
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
