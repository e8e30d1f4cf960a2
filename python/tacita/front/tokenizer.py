"""tokenizer.json -> tokenizer, checked against the vocabulary of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacita.errors import CheckpointError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_TOKENIZER_BYTES = 64 << 20


def parse_tokenizer(text: str, vocab: int, where: str) -> Tokenizer:
    """The content of a tokenizer.json -> tokenizer whose ids are below `vocab`. Errors: CheckpointError
    naming `where`.

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
