"""Cut MiniLM's WordPiece vocabulary to the corpus.

Keeps the five special tokens, every single ASCII character (so that any word
can still be spelled), every piece that an SST-2 training row uses, and then the
most frequent IMDB pieces until `size` is reached.
"""

import string
from collections import Counter

import data
import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def spelling_pieces() -> list[str]:
    """Single characters, and their continuation forms for letters and digits."""
    alone = [c for c in string.printable if c.strip() and not c.isupper()]
    return alone + ["##" + c for c in string.ascii_lowercase + string.digits]


def piece_counts(tokenizer: Tokenizer, examples) -> Counter:
    """How often each piece of `tokenizer` occurs in the examples."""
    return Counter(np.concatenate(data.encode(tokenizer, examples)).tolist())


def choose_pieces(full: Tokenizer, train, unlabelled, size: int) -> list[str]:
    """At most `size` pieces, special tokens first ([PAD] is id 0)."""
    known = full.get_vocab()
    ranked = [*piece_counts(full, train)] + [i for i, _ in piece_counts(full, unlabelled).most_common()]
    candidates = SPECIAL + spelling_pieces() + [full.id_to_token(i) for i in ranked]
    return [p for p in dict.fromkeys(candidates) if p in known][:size]


def build_tokenizer(pieces: list[str]) -> Tokenizer:
    """Lower-casing BERT tokenizer that adds [CLS] and [SEP]; no padding, no cut."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, ids[t]) for t in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer
