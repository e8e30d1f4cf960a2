"""A model that answers with scores of a server's documents: an embedding model, and their vectors as a last
linear map.

The score of a document is the dot product of its vector, of length 1, with the query's, which is not divided
by its length: nothing encrypted is normalised, and the order is that of the cosines. To the schemes it is a
classifier like any other, with as many outputs as there are documents.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacita.checkpoint.load import Checkpoint, from_tensors
from tacita.errors import InputError
from tacita.models.registry import tensor_shapes
from tacita.texts.embedding import MAX_CLASSES
from tacita.texts.task import SEARCH, require_kind
from tacita.texts.vectors import LEAST_LENGTH, Index


def with_documents(model: Checkpoint, index: Index) -> Checkpoint:
    """The same model with the index's vectors behind it. Its labels are the documents' numbers from 0, as
    text: labels are public, the documents need not be.

    Raises InputError for a model with labels or another one than the index's, more than 4,096 documents, or a
    family whose labels are no linear map of the vector.
    """
    require_kind("embed", model.config)
    index.require(model.name, model.sha256)
    count = len(index.texts)
    if count > MAX_CLASSES:
        raise InputError(f"{count} documents, a model has at most {MAX_CLASSES} outputs", hint="split them")
    numbers = tuple(map(str, range(count)))
    changed: Any = model.config
    config = replace(changed, labels=numbers, problem=SEARCH, normalise=False)
    added = {name: shape for name, shape in tensor_shapes(config).items() if name not in model.tensors}
    names = {shape: name for name, shape in added.items()}
    map_ = {(count, model.config.hidden), (count,)}
    if set(names) != map_ or len(added) != len(map_):
        raise InputError(
            "documents: labels of this family are no linear map of the vector",
            hint="score an index of the client's own: tacita search --index",
        )
    lengths = np.maximum(np.linalg.norm(index.vectors, axis=1, keepdims=True), LEAST_LENGTH)
    own = {names[index.vectors.shape]: index.vectors / lengths, names[(count,)]: np.zeros(count)}
    return from_tensors(config, {**model.tensors, **own}, model.tokenizer, name=model.name)
