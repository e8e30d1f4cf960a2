"""Where a GGUF file is: named itself, or the only one of a folder without config.json."""

from __future__ import annotations

from pathlib import Path

from tacita.checkpoint.gguf.weights import GgufFile
from tacita.errors import CheckpointError

ENDING = ".gguf"


def gguf_of(path: Path) -> GgufFile | None:
    """None for a folder of another kind. Raises CheckpointError for one with several such files."""
    if path.suffix == ENDING and path.is_file():
        return GgufFile(path)
    if not path.is_dir() or (path / "config.json").exists():
        return None
    found = sorted(path.glob(f"*{ENDING}"))
    if len(found) > 1:
        raise CheckpointError(f"{path}: {len(found)} GGUF files", hint="name one of them")
    return GgufFile(found[0]) if found else None
