"""What a family is, and what most share: encoder layers with their norms after the blocks (BERT) or before
them (ViT), the steps from the last layer to an answer, and the embedding as blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Positions, T
from tacita.blocks.sequence import latest
from tacita.errors import PlanError
from tacita.models.config import EVERY_TOKEN, LAST, LATEST, EncoderConfig, Names, check_task
from tacita.texts.embedding import POSITIONS, PROJECTION
from tacita.texts.task import SPAN, TOKENS, WORDS

A = TypeVar("A")  # an interpreter's answer


@dataclass(frozen=True)
class Layer:
    """The declarations of one layer. norm1 belongs to the attention and norm2 to the feed-forward; norm1 is
    None where the first layer starts from rows that are normalised already (ModernBERT)."""

    attention: Attention
    norm1: Norm | None
    feed_forward: FeedForward
    norm2: Norm


Declare = Callable[[int], Layer]  # number of a layer -> its declarations


def layer_rows(m: EncoderConfig, i: int, all_rows: bool) -> int | None:
    """Which tokens layer i computes (see `Blocks.take`): the last gives one where only one is read."""
    if i < m.layers - 1 or all_rows:
        return None
    return 1 if m.first_token or m.backwards else -1 if m.last_token else None


def post_norm(b: Blocks[T, A], m: EncoderConfig, x: T, declare: Declare, *, all_rows: bool) -> T:
    """Computes norm2(y + feed_forward(y)) with y = norm1(x + attention(x)), layer by layer."""
    for i in range(m.layers):
        p, at, rows = declare(i), f"layer{i}", layer_rows(m, i, all_rows)
        y = b.add(b.take(x, rows), b.attention(x, p.attention, f"{at}.attention", rows))
        y = y if p.norm1 is None else b.norm(y, p.norm1, f"{at}.norm1")
        y = b.add(y, b.feed_forward(y, p.feed_forward, f"{at}.feed_forward"))
        x = b.norm(y, p.norm2, f"{at}.norm2")
    return x


def pre_norm(b: Blocks[T, A], m: EncoderConfig, x: T, declare: Declare, *, all_rows: bool) -> T:
    """Computes y + feed_forward(norm2(y)) with y = x + attention(norm1(x)), layer by layer; without the final
    norm."""
    for i in range(m.layers):
        p, at, rows = declare(i), f"layer{i}", layer_rows(m, i, all_rows)
        y = x if p.norm1 is None else b.norm(x, p.norm1, f"{at}.norm1")
        y = b.add(b.take(x, rows), b.attention(y, p.attention, f"{at}.attention", rows))
        z = b.norm(y, p.norm2, f"{at}.norm2")
        x = b.add(y, b.feed_forward(z, p.feed_forward, f"{at}.feed_forward"))
    return x


# What comes after the last layer: which rows are read, and the dense maps from them to the answer.

# tanh(W x + b) of [CLS]; [CLS] as the last layer leaves it; mean over the real tokens
POOLINGS = ("pooler", "cls", "mean")
WITHOUT_POOLER = ("cls", "mean", EVERY_TOKEN)
ALL = (*POOLINGS, EVERY_TOKEN)
DECODER = (LAST, LATEST)
# what an architecture gives: an encoder, a classifier, or the answer of a task
MODEL, CLASS = "model", "class"
HEADS = {
    "Model": MODEL,
    "ForSequenceClassification": CLASS,
    "ForTokenClassification": TOKENS,
    "ForQuestionAnswering": SPAN,
    "ForMaskedLM": WORDS,
}


def architectures(*prefixes: str, **more: str) -> dict[str, str]:
    """Names that config.json gives under `architectures` -> which head that is. more: beside `HEADS`."""
    return {prefix + head: kind for prefix in prefixes for head, kind in (HEADS | more).items()}


@dataclass(frozen=True)
class Step:
    """norm(function(dense(x))): without a function or a norm where there is none. node: of the dense map;
    the others are NODE.FUNCTION and NODE.norm. called: in place of FUNCTION where plans do not state which
    function that is."""

    node: str
    dense: Dense
    function: str = ""
    norm: Norm | None = None
    called: str = ""


def answer(b: Blocks[T, A], m: EncoderConfig, x: T, steps: Sequence[Step]) -> A:
    """The rows that are read, step by step -> answer."""
    x = pooled(b, m, x)
    for step in steps:
        x = b.linear(x, step.dense, step.node)
        name = f"{step.node}.{step.called or step.function}"
        x = b.function(x, step.function, name) if step.function else x
        x = b.norm(x, step.norm, f"{step.node}.norm") if step.norm else x
    return b.answer(x)


def pooled(b: Blocks[T, A], m: EncoderConfig, x: T) -> T:
    """Returns (1, hidden), or every row. The pooler's own map is a step of the family."""
    match m.pooling:
        case "pooler" | "cls" | "latest":
            return b.take(x, 1)
        case "mean":
            return b.mean(x, "mean")
        case "none":
            return x
        case "last":
            return b.take(x, -1)
        case unknown:
            raise PlanError(f"pooling {unknown!r}", hint=f"supported: {', '.join((*ALL, *DECODER))}")


def classifier(m: EncoderConfig, name: str = "classifier") -> Sequence[Step]:
    """The last map, to the labels; none where there are none. Of questions: `qa_outputs`."""
    name = "qa_outputs" if m.task == SPAN else name
    return [Step("classifier", Dense(name, m.hidden, len(m.labels)))] if m.labels else []


def pooler_and_classifier(m: EncoderConfig) -> Sequence[Step]:
    """The map of [CLS] that BERT was trained with and the last one, each where the model has it."""
    pooler = Step("pooler", Dense("pooler.dense", m.hidden, m.hidden), "tanh")
    return [*([pooler] if m.pooling == "pooler" else []), *classifier(m)]


def words(m: EncoderConfig, at: tuple[str, str, str], function: str) -> Sequence[Step]:
    """Returns the steps to scores of every word of the vocabulary. at: names of the dense map, of the norm
    and of the decoder."""
    dense, norm, decoder = at
    width = m.embedding_size or m.hidden
    return [
        Step("words", Dense(dense, m.hidden, width), function, Norm(norm, width, m.norm_eps)),
        Step("decoder", Dense(decoder, width, m.vocab)),
    ]


def front(b: Blocks[T, A], m: EncoderConfig, words: T) -> T:
    """Maps rows of the word table (tokens, embedding size) of a single text to hidden states."""
    size, x = m.embedding_size or m.hidden, words
    if m.position_table:
        types = "embeddings.token_type_embeddings.weight" if m.types else None
        x = b.positions(x, Positions(POSITIONS, types, size, m.first_position), "embedding.positions")
    if m.embedding_norm:
        norm = Norm("embeddings.LayerNorm", size, m.norm_eps, beta=m.embedding_beta)
        x = b.norm(x, norm, "embedding.norm")
    projection = Dense(PROJECTION, size, m.hidden)  # where the tables and the hidden states differ in size
    return b.linear(x, projection, "embedding.projection") if m.embedding_size else x


def forward_of(
    layer: Callable[[Any, int], Layer],
    steps: Callable[[Any], Sequence[Step]],
    final_norm: Callable[[Any], Norm] | None = None,
) -> Callable[..., Any]:
    """Returns a family's `forward`: hidden states (tokens, hidden) -> answer (1, outputs), or (tokens,
    outputs) for a task that has an answer for every token.

    layer: the declarations of layer i. final_norm: of a family whose norms come before the blocks. steps:
    what comes after. all_rows: the last layer gives every token, also where only one is read (for the records
    of a calibration).
    """

    def forward(b: Blocks[T, A], m: Any, x: T, *, all_rows: bool = False) -> A:
        def declare(i: int) -> Layer:
            p = layer(m, i)
            return replace(p, attention=latest(p.attention)) if m.backwards else p

        if final_norm:
            x = pre_norm(b, m, x, declare, all_rows=all_rows)
            return answer(b, m, b.norm(x, final_norm(m), "final_norm"), steps(m))
        return answer(b, m, post_norm(b, m, x, declare, all_rows=all_rows), steps(m))

    return forward


@dataclass(frozen=True)
class Family:
    """A family of models: what its file says of it.

    config: its type, an `EncoderConfig`. options: names that a field of it may have. forward: hidden states
    -> answer (`forward_of`). read: config.json and the fields that follow from the head
    (`checkpoint.config`) -> configuration. names: of its tensors in files. architectures: what config.json
    says -> head; model_types: what it says where it names no architecture. pooling: of its classifiers, and
    whether a field `classifier_pooling` may say another. vector_pooling: of its vectors, unless files say so.
    check: raises CheckpointError for what no field alone can say. front: the embedding as blocks, for one
    that stays at the server.
    """

    config: type[Any]
    options: Mapping[str, tuple[str, ...]]
    forward: Callable[..., Any]
    read: Callable[..., Any]
    names: Callable[[Any], Names]
    architectures: Mapping[str, str] = field(default_factory=dict)
    model_types: tuple[str, ...] = ()
    pooling: str = "cls"
    pooling_stated: bool = False
    vector_pooling: Callable[[Any], str] = lambda m: "pooler"
    check: Callable[[Any], None] = check_task
    front: Callable[..., Any] = front
