"""What the house needs to know of a model's configuration, whatever the family."""

from __future__ import annotations

from typing import Protocol

from tacita.texts import task as tasks
from tacita.texts.embedding import EmbeddingConfig

TEXT, TOKENS, SPAN, WORDS, NEXT = TASKS = tasks.TASKS
SINGLE_LABEL, MULTI_LABEL, REGRESSION = tasks.SINGLE_LABEL, tasks.MULTI_LABEL, tasks.REGRESSION
PROBLEMS = tasks.PROBLEMS
EVERY_TOKEN = "none"  # the pooling of a model that answers for every token
LAST = "last"  # of one that goes on behind the last
LATEST = "latest"  # the same of rows in reverse, as slots hold them: see `blocks.sequence`


class Config(EmbeddingConfig, Protocol):
    """Sizes and options, those of the embedding too; a family's own class has these fields and more.

    activation, pooling: names of the family's own; `registry.Family.options` lists them. embeddings: False
    for a model that starts from hidden states. embedding_norm: whether a LayerNorm follows the embedding
    tables.
    normalise: whether the client divides the answer by its length. first_token, last_token: whether it is
    read from the first token, or from the last, before which texts are then padded.

    task: what an answer is. "text": one row (outputs,) for the whole input, which may be an image: scores of
    the labels, or without labels the pooled vector. "next": one row, a score for each word of the vocabulary
    (no labels), read from the last token. For the others one row for every token (tokens, outputs):
    "tokens" scores of the labels (entities, BIO tags), "span" a start and an end score (answers to questions;
    labels are then "start" and "end"), "words" a score for each word of the vocabulary (fill-mask; no
    labels).
    problem: what the scores of labels mean to the client. "single_label": softmax over them; "multi_label":
    a sigmoid of each; "regression": the numbers themselves.
    outputs: length of a row of the answer. every_token: whether there is one for every token.

    first_position: row of the position table at the first token (RoBERTa: 2). position_table: False for
    models whose positions are inside the attention. embedding_size: features of the embedding tables, 0 where
    they are those of the hidden states; else a linear map `embeddings.projection` follows. embedding_beta:
    whether the LayerNorm after the tables has a bias. image: of a model that takes images in place of texts.
    """

    def __hash__(self) -> int: ...

    @property
    def layers(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def intermediate(self) -> int: ...
    @property
    def activation(self) -> str: ...
    @property
    def pooling(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def embeddings(self) -> bool: ...
    @property
    def normalise(self) -> bool: ...
    @property
    def outputs(self) -> int: ...
    @property
    def task(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def every_token(self) -> bool: ...
