"""A model that answers with scores of a server's documents: an embedding model, and their vectors as a last
linear map.

    index = read_documents(Path("docs.txt"), model)      # or docs.index, docs.npz
    searching = with_documents(model, index)

The score of a document is the dot product of its vector, of length 1, with the query's, which is not divided
by its length: nothing encrypted is normalised, and the order is that of the cosines. To the schemes it is a
classifier like any other, with as many outputs as there are documents.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacita.checkpoint.load import Checkpoint, from_tensors
from tacita.checkpoint.reference import reference
from tacita.errors import FileError, InputError
from tacita.models.registry import tensor_shapes
from tacita.progress import Progress
from tacita.texts.embed import embed, length_of
from tacita.texts.embedding import MAX_DOCUMENTS
from tacita.texts.task import SEARCH, require_kind
from tacita.texts.vectors import LEAST_LENGTH, MAX_BYTES, Index

LINES, ARRAYS = ".txt", ".npz"  # files of documents that are no index
MOST_TITLE, MOST_TITLES = 200, 6_000_000  # characters of one; bytes of all as a client gets them


def with_documents(model: Checkpoint, index: Index, labels: Sequence[str] | None = None) -> Checkpoint:
    """Returns the same model with the index's vectors behind it. labels: what a client is told of a document;
    by default its number from 0, as text: labels are public, the documents need not be.

    Raises InputError for a model with labels or another one than the index's, more than 65,536 documents, or
    a family whose labels are no linear map of the vector.
    """
    require_kind("embed", model.config)
    index.require(model.name, model.sha256)
    count = _require_count(len(index.texts))
    changed: Any = model.config
    names = tuple(map(str, range(count)) if labels is None else labels)
    config = replace(changed, labels=names, problem=SEARCH, normalise=False)
    added = {name: shape for name, shape in tensor_shapes(config).items() if name not in model.tensors}
    tensors = {shape: name for name, shape in added.items()}
    map_ = {(count, model.config.hidden), (count,)}
    if set(tensors) != map_ or len(added) != len(map_):
        raise InputError(
            "documents: labels of this family are no linear map of the vector",
            hint="score an index of the client's own: tacita search --index",
        )
    if index.vectors.shape not in tensors:
        raise InputError(
            f"documents: vectors of {index.vectors.shape[1]} numbers, the model's have {model.config.hidden}",
            hint="make them with this model",
        )
    lengths = np.maximum(np.linalg.norm(index.vectors, axis=1, keepdims=True), LEAST_LENGTH)
    own = {tensors[index.vectors.shape]: index.vectors / lengths, tensors[(count,)]: np.zeros(count)}
    return from_tensors(config, {**model.tensors, **own}, model.tokenizer, name=model.name)


def read_documents(
    path: Path, model: Checkpoint, report: Callable[[Progress], None] = lambda now: None
) -> Index:
    """Reads the documents of a search. path: an index of `tacita embed --index`; a .txt file with a document
    a line, which the model embeds here in floats, one after the other; or an .npz file with `vectors`
    (documents, outputs) of the same model and, if there, `names` (documents,). report: is called after each
    document that is embedded.

    Raises FileError, InputError for a document that is longer than the model takes.
    """
    if path.suffix == LINES:
        return _embedded(path, model, report)
    if path.suffix != ARRAYS:
        return Index.load(path)
    vectors, names = _read_arrays(path)
    return Index(model.name, "", names, vectors)


def document_names(path: Path) -> tuple[str, ...]:
    """Returns the documents' texts or names in a file of them, in the order of their numbers. Raises
    FileError."""
    if path.suffix == LINES:
        return tuple(_lines(path))
    return _read_arrays(path)[1] if path.suffix == ARRAYS else Index.load(path).texts


def titles_of(index: Index) -> tuple[str, ...]:
    """Returns the documents' texts as labels: printable, of at most 200 characters. Raises InputError where
    they are more than a client takes."""
    printable = ("".join(c if c.isprintable() else " " for c in text) for text in index.texts)
    titles = tuple(text[:MOST_TITLE].strip() or str(number) for number, text in enumerate(printable))
    if (length := len(json.dumps(titles))) > MOST_TITLES:
        raise InputError(
            f"titles of {length} bytes, a client takes {MOST_TITLES}",
            hint="shorter ones: an .npz file with vectors and names",
        )
    return titles


def _embedded(path: Path, model: Checkpoint, report: Callable[[Progress], None]) -> Index:
    require_kind("embed", model.config)
    texts, vectors, began = _lines(path), [], time.monotonic()
    _require_count(len(texts))
    for number, text in enumerate(texts, 1):
        tokens = length_of(model, text)
        if tokens > model.config.positions:
            raise InputError(
                f"{path}: document {number} has {tokens} tokens, the model takes {model.config.positions}",
                hint="split it",
            )
        vectors.append(reference(model, *embed(model, text, tokens), all_rows=False).logits)
        spent = time.monotonic() - began
        left = spent / number * (len(texts) - number)
        report(Progress(f"document {number} of {len(texts)}", number, len(texts), spent, left))
    return Index(model.name, model.sha256, tuple(texts), np.stack(vectors))


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FileError(f"{path}: over {MAX_BYTES} bytes", hint="split the documents")
        lines = path.read_text(encoding="utf-8").split("\n")  # as editors and `--file` count them
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read ({error})", hint="UTF-8, a document a line") from error
    if not (texts := [line.strip() for line in lines if line.strip()]):
        raise FileError(f"{path}: holds no document", hint="one a line")
    return texts


def _read_arrays(path: Path) -> tuple[Any, tuple[str, ...]]:
    hint = "numpy.savez(FILE, vectors=..., names=...): finite numbers, a row and a name a document"
    try:
        with zipfile.ZipFile(path) as parts:
            if sum(part.file_size for part in parts.infolist()) > MAX_BYTES:
                raise FileError(f"{path}: over {MAX_BYTES} bytes", hint="split the documents")
        with np.load(path, allow_pickle=False) as arrays:
            vectors = np.asarray(arrays["vectors"], np.float64)
            names = tuple(map(str, arrays["names"] if "names" in arrays else range(len(vectors))))
    except (OSError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(f"{path}: no arrays of documents ({error!s:.200})", hint=hint) from None
    if vectors.ndim != 2 or not len(names) == len(vectors) > 0 or not np.isfinite(vectors).all():
        raise FileError(f"{path}: vectors {vectors.shape} with {len(names)} names", hint=hint)
    return vectors, names


def _require_count(count: int) -> int:
    if count > MAX_DOCUMENTS:
        raise InputError(f"{count} documents, a search takes at most {MAX_DOCUMENTS}", hint="split them")
    return count
