"""A safetensors file, whose head says the names of its tensors before one of them is read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tacita.checkpoint.files import check_size
from tacita.errors import CheckpointError
from tacita.front.tensors import parse_raw

MAX_WEIGHT_BYTES = 4 << 30  # BERT-large in fp32 is 1.3 GB
MAX_HEAD_BYTES = 100 << 20  # the library's own limit


@dataclass(frozen=True)
class SafetensorsFile:
    """See `weights.Stored`."""

    path: Path

    @property
    def where(self) -> str:
        """For errors."""
        return str(self.path)

    @cached_property
    def names(self) -> Collection[str]:
        """From the head. Raises CheckpointError (absent, too large, truncated, damaged)."""
        check_size(self.path, MAX_WEIGHT_BYTES)
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MAX_HEAD_BYTES, self.path.stat().st_size - 8):
                raise self._damaged(f"a head of {length} bytes")
            head = file.read(length)
        try:
            found = json.loads(head)
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise self._damaged(f"{error!s:.80}") from None
        if not isinstance(found, dict):
            raise self._damaged("its head is no object")
        return frozenset(found) - {"__metadata__"}

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """See the contract: the library checks offsets, types and lengths."""
        check_size(self.path, MAX_WEIGHT_BYTES)
        raw = parse_raw(self.path.read_bytes(), str(self.path))
        return {name: raw[name] for name in names}

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: not a safetensors file ({what})", hint="truncated download?")
