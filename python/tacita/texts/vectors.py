"""Embeddings: vectors that the client divides by their length where the model does; how alike two are.

An index of a client's own documents: their vectors in a file, scored where the query is decrypted.

>>> index = Index("minilm", "", ("tea", "ships"), np.array([[1.0, 0.0], [0.6, 0.8]]))
>>> [(each.label, round(each.score, 2)) for each in index.nearest(np.array([0.0, 2.0]), 1)]
[('ships', 0.8)]

The file is a safetensors file with two tensors: `vectors` (documents, outputs), and the bytes of a JSON text
that names the model and holds the documents. Whoever has it can read them; the server of a search never does.

Which documents are nearest: the numbers of a search are scores of documents, the largest the nearest.

>>> nearest = search(("tea", "ships", "rain"), (0.1, 0.9, 0.3), ())
>>> [each.label for each in nearest.best(2)]
['ships', 'rain']

A server that scores a query against its own vectors (`tacita.documents`) sends the dot product with each of
them: the client, which alone can decrypt them, sorts. Of an index of the client's own (`index`), it computes
the scores as well.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError, FileError, InputError
from tacita.texts.answer import Answer, Score, ordered
from tacita.texts.embedding import decode, parse_raw

Array = NDArray[np.float64]
LEAST_LENGTH = 1e-12  # below it a vector is divided by this, as torch.nn.functional.normalize does


@dataclass(frozen=True, repr=False)
class Embedding(Answer):
    """The vector of a text: `vector`, (outputs,).

    >>> near, far = Embedding(None, (0.6, 0.8), ()), Embedding(None, (-0.8, 0.6), ())
    >>> [round(near.similarity(other), 6) for other in (near, far)]
    [1.0, 0.0]
    """

    def similarity(self, other: Answer) -> float:
        """The cosine of the angle between two vectors of one model: 1 for texts that it finds alike."""
        return float(cosines(self.vector, other.vector[None, :])[0])


def cosines(query: Array, vectors: Array) -> Array:
    """Computes the cosines of the angles: query (outputs,), vectors (count, outputs) -> (count,)."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.asarray(vectors @ query / np.maximum(lengths, LEAST_LENGTH))


def finished(values: Array, normalise: bool) -> Array:
    """What the client makes of a decrypted answer (outputs,): it divides it by its Euclidean length, or
    leaves it.

    The length is that of sentence-transformers' module Normalize. No ciphertext is normalised: the client
    has the vector.
    """
    return np.asarray(values / max(length(values), LEAST_LENGTH)) if normalise else values


def length(values: Array) -> float:
    """Computes the Euclidean length; infinite where it leaves the range of floats."""
    return math.hypot(*values.tolist())


FORMAT, VERSION = "tacita-index", 1
MAX_BYTES = 1 << 30
REMAKE = "make it with `tacita embed --file docs.txt --index FILE`"


@dataclass(frozen=True)
class Index:
    """Vectors of documents. model, sha256: which made the vectors; sha256 is empty where a server did. texts:
    the documents. vectors: (documents, outputs)."""

    model: str
    sha256: str
    texts: tuple[str, ...]
    vectors: Array = field(repr=False)

    def nearest(self, query: Array, most: int) -> tuple[Score, ...]:
        """The documents of the largest cosines, the nearest first. query: (outputs,), a vector of the same
        model; raises InputError for one of another length."""
        if query.shape != self.vectors.shape[1:]:
            raise InputError(
                f"search: a query of {query.size} numbers, the index has {self.vectors.shape[1]}",
                hint="both must be of one model",
            )
        return ordered(self.texts, cosines(query, self.vectors).tolist())[:most]

    def require(self, model: str, sha256: str) -> None:
        """Raises InputError unless this model made the vectors: by its hash, by its name where one of both is
        a server's."""
        identities = (self.sha256, sha256) if self.sha256 and sha256 else (self.model, model)
        if identities[0] != identities[1]:
            raise InputError(
                f"search: the index is of model {self.model}, the query of {model}",
                hint="vectors of two models do not compare: make the index again",
            )

    def save(self, path: Path) -> None:
        """Writes the file, replacing one that is there. Raises FileError."""
        from safetensors.numpy import save

        head = {"format": FORMAT, "version": VERSION, "model": self.model, "sha256": self.sha256}
        named = json.dumps({**head, "texts": list(self.texts)}).encode()
        data = save({"vectors": np.ascontiguousarray(self.vectors), "head": np.frombuffer(named, np.uint8)})
        try:
            path.write_bytes(data)
        except OSError as error:
            raise FileError(f"{path}: cannot be written ({error})", hint="choose another file") from error

    @staticmethod
    def load(path: Path) -> Index:
        """Reads and checks a file. Raises FileError: missing, too large, damaged, of another version."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise FileError(f"{path}: over {MAX_BYTES} bytes", hint="split the documents")
            raw = parse_raw(path.read_bytes(), str(path))
            head = json.loads(bytes(raw["head"]["data"]))
            vectors = decode(str(path), "vectors", raw["vectors"])
        except (OSError, CheckpointError, KeyError, ValueError, RecursionError) as error:
            raise FileError(f"{path}: not an index ({error!s:.200})", hint=REMAKE) from None
        return _check(path, head, vectors)


def _check(path: Path, head: Any, vectors: Array) -> Index:
    version = (head.get("format"), head.get("version")) if isinstance(head, dict) else None
    if version != (FORMAT, VERSION):
        raise FileError(f"{path}: found {version!s:.80}, expected {(FORMAT, VERSION)}", hint=REMAKE)
    texts, named = head.get("texts"), (head.get("model"), head.get("sha256"))
    strings = isinstance(texts, list) and all(isinstance(each, str) for each in (*texts, *named))
    if not strings or vectors.ndim != 2 or not len(texts) == len(vectors) > 0:
        raise FileError(f"{path}: vectors {vectors.shape} do not fit its documents", hint=REMAKE)
    if not np.isfinite(vectors).all():
        raise FileError(f"{path}: holds NaN or infinity", hint=REMAKE)
    return Index(str(named[0]), str(named[1]), tuple(texts), vectors)


@dataclass(frozen=True, repr=False)
class Search(Answer):
    """Documents by their nearness to a query. scores: of all documents, the nearest first. label: that of the
    nearest."""

    scores: tuple[Score, ...] = ()

    def best(self, most: int) -> tuple[Score, ...]:
        """Returns the nearest `most` documents."""
        return self.scores[:most]


def search(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Search:
    """Builds the answer of a search. labels: of the documents. logits: their scores, rounded."""
    scores = ordered(labels, logits)
    return Search(scores[0].label, logits, warnings, scores)
