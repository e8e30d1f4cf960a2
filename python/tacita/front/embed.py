"""The client's part of the model: text -> tokens -> hidden states after the embedding tables and their
LayerNorm, if any.

Padding rows are copies of row 0. Their keys are masked, so they change no answer, and every value that a
padded row takes inside the circuit is one that row 0 takes: intervals calibrated on real rows hold for
padded ones exactly, where a row of zeros would have variance 0 at every LayerNorm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError, InputError
from tacita.front.front import WORDS

if TYPE_CHECKING:
    from tokenizers import Encoding

    from tacita.front.front import Embedder

Array = NDArray[np.float64]
Text = str | tuple[str, str]  # one sentence, or a pair as in RTE and QNLI

MAX_CHARACTERS = 1 << 20


def embed(front: Embedder, text: Text, tokens: int) -> tuple[Array, Array]:
    """Text -> (hidden states (tokens, hidden), mask (tokens,) of 1 for real and 0 for padding).

    tokens: of the plan; up to the power of two at or above the model's positions, since plans come in powers
    of two.
    Errors: InputError for empty text, text over `tokens` or the model's positions, tokens out of range;
    CheckpointError for a front without a tokenizer.
    """
    positions = front.config.positions
    if not 1 <= tokens <= 1 << (positions - 1).bit_length():
        raise InputError(
            f"embed: {tokens} tokens, the model has {positions} positions", hint="use fewer tokens"
        )
    ids, types = tokenize(front, text)
    if len(ids) > min(tokens, positions):
        limit = f"the plan {tokens}" if tokens <= positions else f"the model {positions} positions"
        raise InputError(
            f"embed: the text has {len(ids)} tokens, {limit}", hint="shorten it, or plan for more"
        )
    return pad_hidden(_embedding(front, ids, types), tokens)


def tokenize(front: Embedder, text: Text) -> tuple[list[int], list[int]]:
    """Token ids and type ids with what the tokenizer adds ([CLS] and [SEP]). Errors: InputError on empty or
    huge text, or on a word that a closed vocabulary lacks; CheckpointError.
    """
    if front.tokenizer is None:
        raise CheckpointError(
            "embed: the model has no tokenizer", hint="load it with embeddings, or pass hidden states"
        )
    parts = (text,) if isinstance(text, str) else text
    if not all(part.strip() for part in parts):
        raise InputError("embed: the text is empty", hint="pass at least one word")
    if sum(map(len, parts)) > MAX_CHARACTERS:
        raise InputError(f"embed: the text has more than {MAX_CHARACTERS} characters", hint="split it")
    encoding = _encoding(front.tokenizer, parts)
    if all(encoding.special_tokens_mask):
        raise InputError("embed: the text has no token of the vocabulary", hint="pass at least one word")
    if front.config.first_token and not encoding.special_tokens_mask[0]:
        raise CheckpointError(
            "embed: the tokenizer adds no [CLS] token", hint="its post-processor is missing"
        )
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


def padded_words(front: Embedder, text: Text, tokens: int) -> tuple[list[int], Array]:
    """Token ids, cut or padded with the first, and the mask."""
    ids = tokenize(front, text)[0][:tokens]
    mask = (np.arange(tokens) < len(ids)).astype(np.float64)
    return ids + [ids[0]] * (tokens - len(ids)), mask


def _embedding(front: Embedder, ids: list[int], types: list[int]) -> Array:
    """Sum of the tables, then LayerNorm where the model has one."""
    table, config = front.tensors, front.config
    x = table[WORDS][ids]
    x = x + table["embeddings.position_embeddings.weight"][: len(ids)]
    if config.types:
        x = x + table["embeddings.token_type_embeddings.weight"][np.minimum(types, config.types - 1)]
    if not config.embedding_norm:
        return np.asarray(x)
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + config.norm_eps)
    return np.asarray(x * table["embeddings.LayerNorm.weight"] + table["embeddings.LayerNorm.bias"])


def _encoding(tokenizer: Any, parts: tuple[str, ...]) -> Encoding:
    try:
        found: Encoding = tokenizer.encode(*parts)
    except Exception:  # the library raises a bare one where a closed vocabulary lacks a word
        raise InputError(
            "embed: the text has a word outside the vocabulary", hint="see tokenizer.json"
        ) from None
    return found
