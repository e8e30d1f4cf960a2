"""Where `python -m bench dashformer` finds model and sequences: in a converted folder, or in the published
data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacita.checkpoint.dashformer import LIST, SEQUENCES, WEIGHTS, convert, is_published
from tacita.errors import InputError

HINT = "python -m bench dashformer --data DIR, with the DASHformer that gausslabs published for iDASH 2024"


@contextmanager
def dashformer_folder(model: Path | None, data: Path | None) -> Iterator[tuple[Path, Path]]:
    """(model folder, file of sequences). Published data are converted for as long as the block lasts.

    model: a converted folder. data: the published data, or a folder with sequences.tsv (default: the
    model's). Raises InputError for folders that are neither, CheckpointError for damaged data.
    """
    if data is not None and is_published(data):
        with tempfile.TemporaryDirectory(prefix="tacita-dashformer-") as folder:
            made = convert(data, Path(folder) / "dashformer")
            yield model or made, made / SEQUENCES
        return
    sequences = (data or model or Path()) / SEQUENCES
    if data is not None and not sequences.is_file():
        raise InputError(f"{data}: has neither {WEIGHTS}/ and {LIST} nor {SEQUENCES}", hint=HINT)
    if model is None:
        raise InputError("bench dashformer: no model", hint=HINT)
    yield model, sequences
