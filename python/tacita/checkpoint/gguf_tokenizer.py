"""The byte-level encoding that a GGUF file holds, as the tokenizers library's own object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacita.checkpoint.gguf import Header
from tacita.errors import CheckpointError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

AT = "tokenizer.ggml."
BESIDE = "put the model's tokenizer.json beside it"
CONTROL, OWN = 3, 4  # types of tokens that are not made of pieces
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
# how a text is cut before its pieces are joined, by llama.cpp's names; "" for GPT-2's own way
CUTS = {
    "gpt-2": "",
    "default": "",
    "smollm": "",
    "llama-bpe": rf"{SHORT}|{LETTERS}|\p{{N}}{{1,3}}|{SPACES}",
    "qwen2": rf"{SHORT}|{LETTERS}|\p{{N}}|{SPACES}",
}
SINGLE_DIGITS = ("smollm",)


def tokenizer_of(header: Header) -> Tokenizer:
    """Builds the tokenizer of a file. Errors: CheckpointError for another kind of tokenizer, an unknown way
    of cutting, a damaged table."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    fields = header.fields
    if (kind := fields.get(f"{AT}model")) != "gpt2":
        raise _error(header, "model", kind, f"byte-level BPE alone is read; {BESIDE}")
    pieces, types = _pieces(header)
    ids = {piece: i for i, piece in enumerate(pieces)}
    joined = fields.get(f"{AT}pre") == "llama-bpe"  # a word that is a piece is not put together
    tokenizer = Tokenizer(models.BPE(ids, _merges(header, ids), ignore_merges=joined))
    tokenizer.pre_tokenizer, tokenizer.decoder = _cut(header), decoders.ByteLevel()
    special = [piece for piece, type_ in zip(pieces, types, strict=True) if type_ == CONTROL]
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])
    own = [piece for piece, type_ in zip(pieces, types, strict=True) if type_ == OWN]
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in own])
    if fields.get(f"{AT}add_bos_token", False):
        tokenizer.post_processor = _bos_template(header, pieces)
    return tokenizer


def _pieces(header: Header) -> tuple[list[str], list[int]]:
    """Returns the pieces of the vocabulary and the type of each."""
    pieces, types = header.fields.get(f"{AT}tokens"), header.fields.get(f"{AT}token_type")
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise _error(header, "tokens", type(pieces), "a list of texts")
    if len(set(pieces)) < len(pieces):
        raise _error(header, "tokens", f"{len(pieces) - len(set(pieces))} of them twice", BESIDE)
    types = types if isinstance(types, list) else [1] * len(pieces)
    if len(types) != len(pieces):
        raise _error(header, "token_type", f"{len(types)} of {len(pieces)} tokens", BESIDE)
    return pieces, types


def _merges(header: Header, ids: dict[str, int]) -> list[tuple[str, str]]:
    """Returns pairs of pieces in the order in which they are joined; each, and what it makes, has a
    number."""
    lines = header.fields.get(f"{AT}merges")
    if not isinstance(lines, list):
        raise _error(header, "merges", type(lines), BESIDE)
    pairs = [tuple(str(line).split(" ")) for line in lines]
    for number, pair in enumerate(pairs):
        if len(pair) != 2 or not {*pair, "".join(pair)} <= ids.keys():
            raise _error(header, f"merges[{number}]", "pieces that are no tokens", BESIDE)
    return [(left, right) for left, right in pairs]


def _cut(header: Header) -> Any:
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

    way = header.fields.get(f"{AT}pre", "default")
    if not isinstance(way, str) or way not in CUTS:
        raise _error(header, "pre", way, f"known are {', '.join(CUTS)}; {BESIDE}")
    if way in SINGLE_DIGITS:
        return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    if not CUTS[way]:
        return ByteLevel(add_prefix_space=False)
    bytes_alone = ByteLevel(add_prefix_space=False, use_regex=False)
    return Sequence([Split(Regex(CUTS[way]), "isolated"), bytes_alone])


def _bos_template(header: Header, pieces: list[str]) -> Any:
    """Puts one token before every text."""
    from tokenizers.processors import TemplateProcessing

    first = header.fields.get(f"{AT}bos_token_id")
    if type(first) is not int or not 0 <= first < len(pieces):
        raise _error(header, "bos_token_id", first, "a token of the file")
    piece = pieces[first].replace("\\", "\\\\")
    return TemplateProcessing(
        single=[piece, "$A"], pair=[piece, "$A", "$B:1"], special_tokens=[(piece, first)]
    )


def _error(header: Header, field: str, value: object, hint: str) -> CheckpointError:
    return CheckpointError(f"{header.path}: {AT}{field} is {value!r:.80}", hint=hint)
