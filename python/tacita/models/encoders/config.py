"""What the configurations of encoders have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacita.errors import CheckpointError
from tacita.front.front import ImageConfig
from tacita.models.base import EVERY_TOKEN, LAST, LATEST, NEXT, PROBLEMS, SINGLE_LABEL, TASKS, TEXT, WORDS
from tacita.omitted import AT_DEFAULT
from tacita.tasks.task import labelled


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes and options of one checkpoint: the fields of `models.base`.

    labels: one per class; none where there is no classifier: the answer is then the pooled vector.
    embeddings: False for a model that starts from hidden states and has no embedding tables. types: 0
    without token types. normalise: whether the answer, then without a classifier, is divided by its length
    (`tasks.embedding`).
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
        """Whether rows are in reverse, the last token first: see `blocks.sequence.latest`."""
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
    if m.task not in TASKS or m.problem not in PROBLEMS:
        raise CheckpointError(
            f"task {m.task!r}, problem {m.problem!r}",
            hint=f"supported: {', '.join(TASKS)}; {', '.join(PROBLEMS)}",
        )
    if not labelled(m):
        raise CheckpointError(
            f"task {m.task!r} with {len(m.labels)} labels",
            hint="tokens have labels, span has a start and an end, words and next have none",
        )
    if m.every_token != (m.pooling == EVERY_TOKEN):
        raise CheckpointError(
            f"task {m.task!r} with pooling {m.pooling!r}",
            hint=f"{EVERY_TOKEN!r} is the pooling of answers for every token, and of no other",
        )
    if m.last_token != (m.task == NEXT):
        raise CheckpointError(
            f"task {m.task!r} with pooling {m.pooling!r}",
            hint=f"{LAST!r} is the pooling of task {NEXT!r} alone",
        )
