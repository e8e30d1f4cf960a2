"""The client's part of the model: text -> tokens -> hidden states after the embedding LayerNorm.

Padding rows are copies of row 0. Their keys are masked, so they change no answer, and every value that a
padded row takes inside the circuit is one that row 0 takes: intervals calibrated on real rows hold for
padded ones exactly, where a row of zeros would have variance 0 at every LayerNorm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError, InputError

if TYPE_CHECKING:
    from tacita.checkpoint.load import Checkpoint

Array = NDArray[np.float64]
Text = str | tuple[str, str]  # one sentence, or a pair as in RTE and QNLI

MAX_CHARACTERS = 1 << 20


def embed(checkpoint: Checkpoint, text: Text, tokens: int) -> tuple[Array, Array]:
    """Text -> (hidden states (tokens, hidden), mask (tokens,) of 1 for real and 0 for padding).

    Errors: InputError for empty text, text over `tokens`, tokens over the model's positions;
    CheckpointError for a checkpoint without embeddings.
    """
    config = checkpoint.config
    if not 1 <= tokens <= config.positions:
        raise InputError(f"embed: {tokens} tokens, the model has {config.positions} positions", hint="use fewer tokens")
    ids, types = tokenize(checkpoint, text)
    if len(ids) > tokens:
        raise InputError(
            f"embed: the text has {len(ids)} tokens, the plan {tokens}", hint="shorten it, or plan for more"
        )
    return pad_hidden(_embedding(checkpoint, ids, types), tokens)


def tokenize(checkpoint: Checkpoint, text: Text) -> tuple[list[int], list[int]]:
    """Token ids and type ids with [CLS] and [SEP]. Errors: InputError on empty or huge text;
    CheckpointError.
    """
    if checkpoint.tokenizer is None:
        raise CheckpointError(
            "embed: the checkpoint has no tokenizer", hint="load it with embeddings, or pass hidden states"
        )
    parts = (text,) if isinstance(text, str) else text
    if not all(part.strip() for part in parts):
        raise InputError("embed: the text is empty", hint="pass at least one word")
    if sum(map(len, parts)) > MAX_CHARACTERS:
        raise InputError(f"embed: the text has more than {MAX_CHARACTERS} characters", hint="split it")
    encoding = checkpoint.tokenizer.encode(*parts)
    if all(encoding.special_tokens_mask):
        raise InputError("embed: the text has no token of the vocabulary", hint="pass at least one word")
    if checkpoint.config.pooling == "cls" and not encoding.special_tokens_mask[0]:
        raise CheckpointError("embed: the tokenizer adds no [CLS] token", hint="its post-processor is missing")
    return list(encoding.ids), list(encoding.type_ids)


def pad_hidden(hidden: Array, tokens: int) -> tuple[Array, Array]:
    """Hidden states of the real tokens -> (states (tokens, hidden), mask): rows are padded with copies of
    row 0.

    Errors: InputError when there is no row, more than `tokens` rows, or a value that is not finite.
    """
    hidden = np.asarray(hidden, dtype=np.float64)
    if hidden.ndim != 2 or not 1 <= len(hidden) <= tokens:
        raise InputError(
            f"pad_hidden: hidden states {hidden.shape} for {tokens} tokens", hint="pass (1..tokens, hidden)"
        )
    if not np.isfinite(hidden).all():
        raise InputError("pad_hidden: hidden states hold NaN or infinity", hint="check the embedding step")
    mask = np.zeros(tokens)
    mask[: len(hidden)] = 1.0
    return np.concatenate([hidden, np.repeat(hidden[:1], tokens - len(hidden), axis=0)]), mask


def _embedding(checkpoint: Checkpoint, ids: list[int], types: list[int]) -> Array:
    """Sum of the three tables, then LayerNorm."""
    table = checkpoint.tensors
    x = table["embeddings.word_embeddings.weight"][ids]
    x = x + table["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + table["embeddings.token_type_embeddings.weight"][np.minimum(types, checkpoint.config.types - 1)]
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + checkpoint.config.norm_eps)
    return np.asarray(x * table["embeddings.LayerNorm.weight"] + table["embeddings.LayerNorm.bias"])
