"""Sentences to calibrate on: a file of them, those that came with a model, or the package's."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from tacita.errors import CheckpointError, InputError

FILE = "calibration.txt"  # also in a model's folder: texts of the kind that it was made for
MAX_TEXT_BYTES = 16 << 20


def load_texts(path: str | Path | None = None) -> tuple[str, ...]:
    """One text a line, `#` lines left out; default: the shipped file. Errors: InputError (absent, too
    large, empty).
    """
    shipped = resources.files("tacita.data").joinpath(FILE)
    content = shipped.read_text(encoding="utf-8") if path is None else _read(Path(path))
    texts = tuple(line.strip() for line in content.splitlines() if line.strip() and not line.startswith("#"))
    if not texts:
        raise InputError(f"load_texts: {path} holds no text", hint="one text a line")
    return texts


def _read(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > MAX_TEXT_BYTES:
        raise InputError(
            f"load_texts: {path} is absent or over {MAX_TEXT_BYTES} bytes", hint="one text a line"
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"load_texts: {path} is not UTF-8 ({error.reason})", hint="save it as UTF-8"
        ) from None


def own_texts(folder: Path) -> tuple[str, ...]:
    """Those that came with the model of this folder, none without the file. Raises CheckpointError."""
    path = folder / FILE
    try:
        return load_texts(path) if path.is_file() else ()
    except InputError as error:
        raise CheckpointError(str(error), hint=error.hint) from None
