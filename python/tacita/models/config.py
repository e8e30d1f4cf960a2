"""What the house needs to know of a model's configuration, whatever the family."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.texts.embedding import ImageConfig
from tacita.texts.task import NEXT, PROBLEMS, SINGLE_LABEL, TASKS, TEXT, WORDS, labelled

EVERY_TOKEN = "none"  # the pooling of a model that answers for every token
LAST = "last"  # of one that goes on behind the last
LATEST = "latest"  # the same of rows in reverse, as slots hold them: see `blocks.sequence`


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes and options of one checkpoint, those of the embedding too; a family's own class has these fields
    and more.

    activation, pooling: names of the family's own; `registry.Family.options` lists them. labels: one per
    class; none where there is no classifier: the answer is then the pooled vector. embeddings: False for a
    model that starts from hidden states and has no embedding tables. types: 0 without token types.
    embedding_norm: whether a LayerNorm follows the embedding tables. normalise: whether the client divides
    the answer, then without a classifier, by its length (`texts.vectors`).

    task: what an answer is. "text": one row (outputs,) for the whole input, which may be an image: scores of
    the labels, or without labels the pooled vector. "next": one row, a score for each word of the vocabulary
    (no labels), read from the last token. For the others one row for every token (tokens, outputs):
    "tokens" scores of the labels (entities, BIO tags), "span" a start and an end score (answers to questions;
    labels are then "start" and "end"), "words" a score for each word of the vocabulary (fill-mask; no
    labels).
    problem: what the scores of labels mean to the client. "single_label": softmax over them; "multi_label":
    a sigmoid of each; "regression": the numbers themselves.

    first_position: row of the position table at the first token (RoBERTa: 2). position_table: False for
    models whose positions are inside the attention. embedding_size: features of the embedding tables, 0 where
    they are those of the hidden states; else a linear map `embeddings.projection` follows. embedding_beta:
    whether the LayerNorm after the tables has a bias. image: of a model that takes images in place of texts.
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab: int
    positions: int
    types: int
    activation: str
    pooling: str
    norm_eps: float
    labels: tuple[str, ...]
    embeddings: bool = True
    embedding_norm: bool = True
    normalise: bool = False
    task: str = field(default=TEXT, metadata=AT_DEFAULT)
    problem: str = field(default=SINGLE_LABEL, metadata=AT_DEFAULT)
    first_position: int = field(default=0, metadata=AT_DEFAULT)
    position_table: bool = field(default=True, metadata=AT_DEFAULT)
    embedding_size: int = field(default=0, metadata=AT_DEFAULT)
    embedding_beta: bool = field(default=True, metadata=AT_DEFAULT)
    image: ImageConfig | None = field(default=None, metadata=AT_DEFAULT)

    @property
    def first_token(self) -> bool:
        """Whether only the first token of the last layer is read: that layer then runs on one query."""
        return self.pooling in ("pooler", "cls")

    @property
    def last_token(self) -> bool:
        """Whether only the last token is read."""
        return self.pooling in (LAST, LATEST)

    @property
    def backwards(self) -> bool:
        """Whether rows are in reverse, the last token first: see `blocks.sequence`."""
        return self.pooling == LATEST

    @property
    def every_token(self) -> bool:
        """Whether the answer has a row for every token."""
        return self.task not in (TEXT, NEXT)

    @property
    def outputs(self) -> int:
        """Length of a row of the answer: a number a label or a word, or `hidden` without a classifier."""
        return self.vocab if self.task in (WORDS, NEXT) else len(self.labels) or self.hidden


def check_task(m: EncoderConfig) -> None:
    """Raises CheckpointError for a task or a problem that is unknown, or that the rest does not fit."""
    task, pooling = f"task {m.task!r}", f"pooling {m.pooling!r}"
    known = f"supported: {', '.join(TASKS)}; {', '.join(PROBLEMS)}"
    labels = "tokens have labels, span has a start and an end, words and next have none"
    every = f"{EVERY_TOKEN!r} is the pooling of answers for every token, and of no other"
    last = f"{LAST!r} is the pooling of task {NEXT!r} alone"
    for good, what, hint in (
        (m.task in TASKS and m.problem in PROBLEMS, f"{task}, problem {m.problem!r}", known),
        (labelled(m), f"{task} with {len(m.labels)} labels", labels),
        (m.every_token == (m.pooling == EVERY_TOKEN), f"{task} with {pooling}", every),
        (m.last_token == (m.task == NEXT), f"{task} with {pooling}", last),
    ):
        if not good:
            raise CheckpointError(what, hint=hint)


# Hugging Face's names of activations -> ours (`blocks.floats.FUNCTIONS`).

OF_TANH = ("gelu_accurate", "gelu_fast", "gelu_new", "gelu_python_tanh", "gelu_pytorch_tanh")
BY_NAME = {
    "elu": "elu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    **dict.fromkeys(OF_TANH, "gelu_tanh"),
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
}
KNOWN = tuple(dict.fromkeys(BY_NAME.values()))


# What a file calls the tensors that a family names: a declared table, and what old files say.

OLD = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


@dataclass(frozen=True)
class Names:
    """Maps our names of tensors to the file's. prefixes: of the architecture, which encoders alone are stored
    without.

    parts: pieces of our names -> pieces of the file's, replaced in this order. also: one of our names ->
    names by which it may be found instead, as the file spells them. Ours are Hugging Face's of BERT, so that
    families of BERT's shape differ in this table alone. flat: tensors that files keep with other axes, in the
    same order. transposed: matrices that files keep with their inputs first. rows: how many rows a tensor has
    in the file, which may be several of ours, and which of them are ours. affine: a factor and an addend that
    make the file's numbers ours. square_after: how many positions
    stand before those of a square, which may be larger or smaller in the file (`checkpoint.vocabulary`); None
    where they may not.

    >>> names = Names(("distilbert.",), {"encoder.": "transformer."})
    >>> names.find("encoder.layer.0.a", {"distilbert.transformer.layer.0.a"})
    'distilbert.transformer.layer.0.a'
    """

    prefixes: tuple[str, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flat: Collection[str] = ()
    transposed: Collection[str] = ()
    rows: Mapping[str, tuple[int, NDArray[np.intp]]] = field(default_factory=dict)
    affine: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    square_after: int | None = None

    def find(self, name: str, stored: Collection[str]) -> str | None:
        """Returns the name in the file of the tensor that we call `name`; None where it has none."""
        return next((spelling for spelling in self.spellings(name) if spelling in stored), None)

    def spellings(self, name: str) -> Iterator[str]:
        """Yields the spellings of a name in the order in which they are looked for."""
        theirs = name
        for part in self.parts.items():
            theirs = theirs.replace(*part)
        for spelled in (theirs, *self.also.get(name, ())):
            old = (spelled.removesuffix(n) + o for n, o in OLD.items() if spelled.endswith(n))
            for each in (spelled, *old):
                yield from (prefix + each for prefix in (*self.prefixes, ""))


def tied(decoder: str, bias: str, words: str) -> dict[str, tuple[str, ...]]:
    """Returns other names for a decoder that shares the table of words where the file holds none, and for its
    bias."""
    return {f"{decoder}.weight": (words,), f"{decoder}.bias": (bias,)}
