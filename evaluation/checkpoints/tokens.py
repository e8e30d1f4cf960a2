"""Tokenizers of vocabularies without pieces: a token is a letter (an amino acid) or a match (an atom)."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing

# the tokens of SMILES as rxnfp splits them (rxnfp/tokenization.py, SMI_REGEX_PATTERN); rxnmapper's pattern is
# the same without two signs that its reactions do not have
SMILES = (
    r"(\%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$"
    r"|\%[0-9]{2}|[0-9])"
)
LETTER = r"\S"
BERT = ("[CLS]", "[SEP]", "[UNK]", "[MASK]", "[PAD]")
ROBERTA = ("<s>", "</s>", "<unk>", "<mask>", "<pad>")


def smiles_tokenizer(lines: Sequence[str]) -> Tokenizer:
    """lines: of vocab.txt, a token each; the number of a token is the number of its line.

    >>> smiles_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "C", "Cl", "O"]).encode("CCl").ids
    [2, 4, 5, 3]
    """
    return matching_tokenizer(lines, SMILES, BERT)


def letter_tokenizer(lines: Sequence[str], special: Sequence[str] = BERT) -> Tokenizer:
    """A letter a token. special: what begins a text, ends it, is unknown, is masked, pads.

    >>> letter_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "A", "C"]).encode("A[MASK]C").ids
    [2, 5, 4, 6, 3]
    """
    return matching_tokenizer(lines, LETTER, special)


def matching_tokenizer(lines: Sequence[str], pattern: str, special: Sequence[str]) -> Tokenizer:
    """Tokens are the matches of the pattern; what lies between them is left out."""
    numbers = {token: number for number, token in enumerate(lines) if token}
    first, last, unknown = special[:3]
    found = Tokenizer(WordLevel(numbers, unk_token=unknown))
    found.pre_tokenizer = Split(Regex(pattern), behavior="removed", invert=True)
    ends = [(name, numbers[name]) for name in (first, last)]
    found.post_processor = TemplateProcessing(single=f"{first} $A {last}", special_tokens=ends)
    found.add_special_tokens([AddedToken(name) for name in special if name in numbers])
    return found
