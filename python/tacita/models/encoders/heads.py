"""What comes after the last layer: which rows are read, and the dense maps from them to the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tacita.blocks.base import Blocks, Dense, Norm, T
from tacita.errors import PlanError
from tacita.models.base import EVERY_TOKEN, LAST, LATEST
from tacita.models.encoders.config import EncoderConfig

A = TypeVar("A")  # an interpreter's answer
# tanh(W x + b) of [CLS]; [CLS] as the last layer leaves it; mean over the real tokens
POOLINGS = ("pooler", "cls", "mean")
WITHOUT_POOLER = ("cls", "mean", EVERY_TOKEN)
ALL = (*POOLINGS, EVERY_TOKEN)
DECODER = (LAST, LATEST)
# what an architecture gives
MODEL, CLASS, EACH, ANSWER, FILL, CAUSAL = "model", "class", "tokens", "span", "words", "next"
HEADS = {
    "Model": MODEL,
    "ForSequenceClassification": CLASS,
    "ForTokenClassification": EACH,
    "ForQuestionAnswering": ANSWER,
    "ForMaskedLM": FILL,
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
    """(1, hidden), or every row. The pooler's own map is a step of the family (`pooler`)."""
    match m.pooling:
        case "pooler" | "cls":
            return b.take(x, 1)
        case "mean":
            return b.mean(x, "mean")
        case "none":
            return x
        case "last" | "latest":
            return b.take(x, -1)
        case unknown:
            raise PlanError(f"pooling {unknown!r}", hint=f"supported: {', '.join((*ALL, *DECODER))}")


def pooler(m: EncoderConfig, name: str = "pooler.dense") -> Sequence[Step]:
    """The map of [CLS] that BERT was trained with, where the pooling is this one."""
    return [Step("pooler", Dense(name, m.hidden, m.hidden), "tanh")] if m.pooling == "pooler" else []


def classifier(m: EncoderConfig, name: str = "classifier") -> Sequence[Step]:
    """The last map, to the labels; none where there are none. Of questions: `qa_outputs`."""
    name = "qa_outputs" if m.task == "span" else name
    return [Step("classifier", Dense(name, m.hidden, len(m.labels)))] if m.labels else []


def words(m: EncoderConfig, at: tuple[str, str, str], function: str) -> Sequence[Step]:
    """Scores of every word of the vocabulary. at: names of the dense map, of the norm and of the decoder."""
    dense, norm, decoder = at
    width = m.embedding_size or m.hidden
    return [
        Step("words", Dense(dense, m.hidden, width), function, Norm(norm, width, m.norm_eps)),
        Step("decoder", Dense(decoder, width, m.vocab)),
    ]
