"""The client's part of the model: text -> tokens -> hidden states after the embedding tables, their LayerNorm
and the map to the width of the hidden states, if any.

Padding rows are copies of row 0. Their keys are masked, so they change no answer, and every value that a
padded row takes inside the circuit is one that row 0 takes: intervals calibrated on real rows hold for
padded ones exactly, where a row of zeros would have variance 0 at every LayerNorm. Of a decoder the copies
stand before the text (see `blocks.sequence.visible`); in slots all rows are reversed, and they
stand behind it (see `blocks.sequence`).

Where each token stands in a text: what an answer about tokens is told by.

>>> import tacita
>>> text = tokens_of(tacita.load(), "Quiet beauty")
>>> [(token.piece, token.start, token.end) for token in text.tokens if token.part is not None]
[('quiet', 0, 5), ('beauty', 6, 12)]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError, InputError
from tacita.texts.embedding import POSITIONS, PROJECTION, WORDS

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from tacita.texts.embedding import Embedder


Array = NDArray[np.float64]
# one sentence, or a pair as in RTE and QNLI; of a model of images the name of a file
Text = str | tuple[str, str]

MAX_CHARACTERS = 1 << 20


def embed(front: Embedder, text: Text, tokens: int, *, backwards: bool | None = None) -> tuple[Array, Array]:
    """Embeds a text: (hidden states (tokens, hidden), mask (tokens,) of 1 for real and 0 for padding).

    backwards: whether rows are reversed; by default what the front's configuration says.
    tokens: of the plan; up to the power of two at or above the model's positions, since plans come in powers
    of two.
    Errors: InputError for empty text, text over `tokens` or the model's positions, tokens out of range;
    CheckpointError for a front without a tokenizer. Of a model of images the text is a file's name; see
    `images.embed_image`.
    """
    if front.config.image is not None:
        from tacita.texts.images import embed_image  # which pads as this module does

        return embed_image(front, named(text), tokens)
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
    back = front.config.backwards if backwards is None else backwards
    return arranged(embedded(front, ids, types), tokens, last=front.config.last_token, backwards=back)


def arranged(
    hidden: Array, tokens: int, *, last: bool = False, backwards: bool = False
) -> tuple[Array, Array]:
    """Arranges the hidden states of the real tokens, in the order of the text, as the model takes them: see
    `pad_hidden`. last, backwards: of `texts.FrontConfig`. Raises InputError."""
    states, mask = pad_hidden(hidden, tokens, left=last)
    return (states[::-1], mask[::-1]) if backwards else (states, mask)


def tokenize(front: Embedder, text: Text, *, special: bool = True) -> tuple[list[int], list[int]]:
    """Returns token ids and type ids with what the tokenizer adds ([CLS] and [SEP]), or without. Errors:
    InputError on empty or huge text, or on a word that a closed vocabulary lacks; CheckpointError."""
    encoding = encoded(front, text, special=special)
    return list(encoding.ids), list(encoding.type_ids)


def length_of(front: Embedder, text: Text) -> int:
    """Counts the tokens of a text or an image, the tokenizer's own included. Errors: as `tokenize`."""
    image = front.config.image
    return image.tokens if image is not None else len(tokenize(front, text)[0])


def named(text: Text) -> str:
    """The name of an image's file. Raises InputError for a pair."""
    if not isinstance(text, str):
        raise InputError("a pair, and the model takes images", hint="pass the name of one file")
    return text


def parts_of(text: Text) -> tuple[str, ...]:
    """A text as the only one of its parts, or both of a pair."""
    return (text,) if isinstance(text, str) else text


def encoded(front: Embedder, text: Text, *, special: bool = True) -> Encoding:
    """What the tokenizer makes of a text. Errors: as `tokenize`."""
    if front.config.image is not None:
        raise InputError("embed: the model takes images, not texts", hint="see front.images.embed_image")
    if front.tokenizer is None:
        raise CheckpointError(
            "embed: the model has no tokenizer", hint="load it with embeddings, or pass hidden states"
        )
    parts, tokenizer = parts_of(text), cast(Any, front.tokenizer)
    if not all(part.strip() for part in parts):
        raise InputError("embed: the text is empty", hint="pass at least one word")
    if sum(map(len, parts)) > MAX_CHARACTERS:
        raise InputError(f"embed: the text has more than {MAX_CHARACTERS} characters", hint="split it")
    try:
        encoding: Encoding = tokenizer.encode(*parts, add_special_tokens=special)
    except Exception:  # the library raises a bare one where a closed vocabulary lacks a word
        raise InputError(
            "embed: the text has a word outside the vocabulary", hint="see tokenizer.json"
        ) from None
    if all(encoding.special_tokens_mask):
        raise InputError("embed: the text has no token of the vocabulary", hint="pass at least one word")
    if front.config.first_token and not encoding.special_tokens_mask[0]:
        raise CheckpointError(
            "embed: the tokenizer adds no [CLS] token", hint="its post-processor is missing"
        )
    return encoding


def pad_hidden(hidden: Array, tokens: int, *, left: bool = False) -> tuple[Array, Array]:
    """Pads hidden states of the real tokens: (states (tokens, hidden), mask). Rows are padded with copies of
    row 0, behind them or on the left.

    Errors: InputError when there is no row, more than `tokens` rows, or a value that is not finite.
    """
    hidden = np.asarray(hidden, dtype=np.float64)
    if hidden.ndim != 2 or not 1 <= len(hidden) <= tokens:
        raise InputError(
            f"pad_hidden: hidden states {hidden.shape} for {tokens} tokens", hint="pass (1..tokens, hidden)"
        )
    if not np.isfinite(hidden).all():
        raise InputError("pad_hidden: hidden states hold NaN or infinity", hint="check the embedding step")
    mask, copies = np.zeros(tokens), np.repeat(hidden[:1], tokens - len(hidden), axis=0)
    mask[len(copies) if left else 0 :][: len(hidden)] = 1.0
    return np.concatenate([copies, hidden] if left else [hidden, copies]), mask


def padded_words(front: Embedder, text: Text, tokens: int) -> tuple[list[int], Array]:
    """Returns token ids, cut or padded with the first, and the mask."""
    ids = tokenize(front, text)[0][:tokens]
    mask = (np.arange(tokens) < len(ids)).astype(np.float64)
    return ids + [ids[0]] * (tokens - len(ids)), mask


def embedded(front: Embedder, ids: list[int], types: list[int], past: int = 0) -> Array:
    """Sums the tables, then applies a LayerNorm and a linear map, each where the model has it. past: tokens
    before these."""
    table, config = front.tensors, front.config
    x = table[WORDS][ids]
    if config.position_table:
        first = config.first_position + past
        x = x + table[POSITIONS][first : first + len(ids)]
    if config.types:
        x = x + table["embeddings.token_type_embeddings.weight"][np.minimum(types, config.types - 1)]
    if config.embedding_norm:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + config.norm_eps)
        x = x * table["embeddings.LayerNorm.weight"]
        x = x + table["embeddings.LayerNorm.bias"] if config.embedding_beta else x
    if config.embedding_size:
        x = x @ table[f"{PROJECTION}.weight"].T + table[f"{PROJECTION}.bias"]
    return np.asarray(x)


UNKNOWN = ("[UNK]", "<unk>")  # what they call a token that stands for what they do not know
MASKS = ("[MASK]", "<mask>")  # what tokenizers call the token that stands for an unknown one


@dataclass(frozen=True)
class Token:
    """A token of a text. piece: as the vocabulary spells it. part: 0 for the text or the first of a pair, 1
    for the second, None for what the tokenizer adds. start, end: characters of that part. word: (start, end)
    of its whole word."""

    piece: str
    id: int
    part: int | None
    start: int
    end: int
    word: tuple[int, int]


@dataclass(frozen=True)
class Tokens:
    """A text as its tokens, those that the tokenizer adds included. parts: the text, or both of a pair.
    named: id -> piece of the vocabulary. mask: id of the token that `fill` is about, None without one."""

    parts: tuple[str, ...]
    tokens: tuple[Token, ...]
    named: Callable[[int], str | None] = field(repr=False, compare=False)
    mask: int | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def piece(self, id_: int) -> str:
        """Returns the piece with this id, or the id as text where the vocabulary has a hole."""
        return self.named(id_) or str(id_)


def tokens_of(front: Embedder, text: Text) -> Tokens:
    """Returns the tokens of a text in the order in which the model sees them. Errors: as `embed.tokenize`."""
    encoding, tokenizer = encoded(front, text), front.tokenizer
    assert tokenizer is not None  # or `encoded` would have refused
    mask = next((number for name in MASKS if (number := tokenizer.token_to_id(name)) is not None), None)
    lists = encoding.tokens, encoding.ids, encoding.sequence_ids, encoding.word_ids, encoding.offsets
    tokens = tuple(_token(encoding, each) for each in zip(*lists, strict=True))
    return Tokens(parts_of(text), tokens, tokenizer.id_to_token, mask)


def unknown_only(front: Embedder, text: Text) -> bool:
    """Whether the tokenizer knows nothing of the text, so that any other such text looks the same to the
    model. Errors: as `embed.tokenize`."""
    own = [token for token in tokens_of(front, text).tokens if token.part is not None]
    return bool(own) and all(token.piece in UNKNOWN for token in own)


def _token(encoding: Encoding, each: tuple[Any, ...]) -> Token:
    piece, id, part, word, (start, end) = each
    whole = encoding.word_to_chars(word, part) if part is not None and word is not None else None
    return Token(piece, id, part, start, end, whole or (start, end))


# tokenizer.json -> tokenizer, checked against the vocabulary of the model.

MAX_TOKENIZER_BYTES = 64 << 20


def parse_tokenizer(text: str, vocab: int, where: str) -> Tokenizer:
    """Parses the content of a tokenizer.json; the ids must be below `vocab`. Errors: CheckpointError naming
    `where`.

    Padding and truncation are switched off: the client pads itself and must refuse, not cut, a long text.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises a bare Exception
        raise CheckpointError(
            f"{where}: not a tokenizer file ({error})", hint="truncated or damaged?"
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    top = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if not 0 <= top < vocab:
        raise CheckpointError(
            f"{where}: token ids reach {top}, vocab_size is {vocab}", hint="tokenizer of another model?"
        )
    return tokenizer
