"""Where each token stands in a text: what an answer about tokens is told by.

>>> import tacita
>>> text = tokens_of(tacita.load(), "Quiet beauty")
>>> [(token.piece, token.start, token.end) for token in text.tokens if token.part is not None]
[('quiet', 0, 5), ('beauty', 6, 12)]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tacita.errors import CheckpointError
from tacita.texts.embed import Text, encoded, parts_of

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from tacita.texts.embedding import Embedder


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
    tokens = tuple(_token(encoding, i) for i in range(len(encoding.ids)))
    return Tokens(parts_of(text), tokens, tokenizer.id_to_token, mask)


def unknown_only(front: Embedder, text: Text) -> bool:
    """Whether the tokenizer knows nothing of the text, so that any other such text looks the same to the
    model. Errors: as `embed.tokenize`."""
    own = [token for token in tokens_of(front, text).tokens if token.part is not None]
    return bool(own) and all(token.piece in UNKNOWN for token in own)


def _token(encoding: Encoding, i: int) -> Token:
    start, end = encoding.offsets[i]
    part, word = encoding.sequence_ids[i], encoding.word_ids[i]
    whole = encoding.word_to_chars(word, part) if part is not None and word is not None else None
    return Token(encoding.tokens[i], encoding.ids[i], part, start, end, whole or (start, end))


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
