"""The tokenizer of a folder: tokenizer.json, or what older folders have in its place.

`vocab.txt` is a list of word pieces (BERT, DistilBERT, ELECTRA, MPNet); `vocab.json` with `merges.txt` a
byte-level encoding (RoBERTa). Both become the tokenizers library's own objects, with the choices of
tokenizer_config.json.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint.gguf import gguf_of
from tacita.checkpoint.gguf_tokenizer import tokenizer_of
from tacita.errors import CheckpointError
from tacita.models.shared.fields import Fields, check_size, read_json
from tacita.texts.embedding import MAX_VOCAB
from tacita.texts.tokens import MAX_TOKENIZER_BYTES, parse_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


OPTIONS = "tokenizer_config.json"
ADDED = ("unk_token", "cls_token", "sep_token")
PIECES = dict(zip(ADDED, ("[UNK]", "[CLS]", "[SEP]"), strict=True))
PIECES |= {"pad_token": "[PAD]", "mask_token": "[MASK]"}
BYTES = dict(zip(ADDED, ("<unk>", "<s>", "</s>"), strict=True))
BYTES |= {"pad_token": "<pad>", "mask_token": "<mask>"}


def read_tokenizer(folder: Path, vocab: int) -> Tokenizer:
    """The folder's tokenizer, whose ids are below `vocab`, or what a GGUF file holds where none stands beside
    it. Errors: CheckpointError naming the file."""
    file = gguf_of(folder)
    folder = file.path.parent if file else folder
    whole = folder / "tokenizer.json"
    if file and not whole.is_file():
        return parse_tokenizer(tokenizer_of(file.header).to_str(), vocab, file.where)
    if not whole.is_file() and (folder / "vocab.txt").is_file():
        return parse_tokenizer(_word_pieces(folder).to_str(), vocab, str(folder / "vocab.txt"))
    if not whole.is_file() and (folder / "merges.txt").is_file():
        return parse_tokenizer(_byte_pairs(folder).to_str(), vocab, str(folder / "vocab.json"))
    return parse_tokenizer(_text(whole), vocab, str(whole))


def _word_pieces(folder: Path) -> Tokenizer:
    """Builds BertTokenizer: lower case unless the options say otherwise, [CLS] and [SEP] around the texts; or
    MPNetTokenizer, which puts two separators between them, where the first token is RoBERTa's."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    options = _options(folder)
    pieces = _lines(folder / "vocab.txt")
    ids = {piece: number for number, piece in enumerate(pieces)}
    unknown, first, last = (_special(options, name, ids, PIECES) for name in ADDED)
    lower = options.flag("do_lower_case", True)
    accents = options.flag("strip_accents", lower) if options.data.get("strip_accents") is not None else None
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=unknown, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.flag("tokenize_chinese_chars", True),
        strip_accents=accents,
        lowercase=lower,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = _around((first, ids[first]), (last, ids[last]))
    tokenizer.decoder = decoders.WordPiece()
    return _with_special(tokenizer, options, ids, PIECES)


def _byte_pairs(folder: Path) -> Tokenizer:
    """Builds RobertaTokenizer: <s> and </s> around the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    options, ids = _options(folder), _vocabulary(folder / "vocab.json")
    _, first, last = (_special(options, name, ids, BYTES) for name in ADDED)
    prefix = options.flag("add_prefix_space", False)
    tokenizer = Tokenizer(models.BPE(ids, _merges(folder / "merges.txt", ids)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.post_processor = _around((first, ids[first]), (last, ids[last]))
    tokenizer.decoder = decoders.ByteLevel()
    return _with_special(tokenizer, options, ids, BYTES)


def _around(first: tuple[str, int], last: tuple[str, int]) -> Any:
    """What is put around one text and around a pair: BERT's way or, where the first token is RoBERTa's, with
    two separators between the texts."""
    from tokenizers import processors

    one, two = f"{first[0]}:0 $A:0 {last[0]}:0", f"{first[0]}:0 $A:0 {last[0]}:0 $B:1 {last[0]}:1"
    if first[0] == BYTES["cls_token"]:
        two = f"{first[0]}:0 $A:0 {last[0]}:0 {last[0]}:0 $B:0 {last[0]}:0"
    return processors.TemplateProcessing(single=one, pair=two, special_tokens=[first, last])


def _vocabulary(path: Path) -> dict[str, int]:
    ids = read_json(path, MAX_TOKENIZER_BYTES)
    if len(ids) > MAX_VOCAB or not all(type(i) is int and 0 <= i < MAX_VOCAB for i in ids.values()):
        raise CheckpointError(f"{path}: no table of words and numbers", hint="another model's file?")
    return ids


def _merges(path: Path, ids: dict[str, int]) -> list[tuple[str, str]]:
    """Returns pairs of pieces in the order in which they are joined; each, and what it makes, has a
    number."""
    lines = [line for line in _lines(path) if line and not line.startswith("#version")]
    pairs = [tuple(line.split(" ")) for line in lines]
    for number, pair in enumerate(pairs):
        if len(pair) != 2 or not {*pair, "".join(pair)} <= ids.keys():
            raise CheckpointError(
                f"{path}: line {number + 1} joins pieces that vocab.json lacks", hint="files of two models?"
            )
    return [(left, right) for left, right in pairs]


def _options(folder: Path) -> Fields:
    path = folder / OPTIONS
    return Fields(path, read_json(path) if path.is_file() else {})


def _special(options: Fields, name: str, ids: dict[str, int], defaults: dict[str, str]) -> str:
    """A token that the tokenizer adds."""
    token = _content(options.data.get(name, defaults[name]))
    if not isinstance(token, str) or token not in ids:
        raise CheckpointError(
            f"{options.path}: {name} {json.dumps(token)!s:.60} is not in the vocabulary",
            hint="files of two models?",
        )
    return token


def _lines(path: Path) -> list[str]:
    """Splits at ends of lines alone: a piece may be one of the other signs that Python calls so."""
    return [line.removesuffix("\r") for line in _text(path).removesuffix("\n").split("\n")]


def _with_special(
    tokenizer: Tokenizer, options: Fields, ids: dict[str, int], defaults: dict[str, str]
) -> Tokenizer:
    """Makes words such as [MASK] in a text one token each, where the vocabulary has them. RoBERTa's takes the
    space before it with it."""
    from tokenizers import AddedToken

    contents = {name: _content(options.data.get(name, default)) for name, default in defaults.items()}
    words = {name: word for name, word in contents.items() if isinstance(word, str) and word in ids}
    spaced = words.get("cls_token") == BYTES["cls_token"]
    tokenizer.add_special_tokens(
        [AddedToken(word, lstrip=spaced and name == "mask_token") for name, word in words.items()]
    )
    return tokenizer


def _content(value: Any) -> Any:
    """A text, or an object with its content."""
    return value.get("content") if isinstance(value, dict) else value


def _text(path: Path) -> str:
    check_size(path, MAX_TOKENIZER_BYTES)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path}: not a tokenizer file ({error})", hint="truncated or damaged?"
        ) from None


# A table of positions that was learned for images of another size, as DINOv2's (arXiv 2304.07193): trained
# on 518 pixels, used on 224.

Array = NDArray[np.float64]
BEND = -0.75  # of the cubic between two points, as torch's and ONNX's `cubic_coeff_a`


def for_size(table: Array, first: int, tokens: int) -> Array:
    """Resizes positions (1, rows, hidden) or (rows, hidden) to (tokens, hidden): a square, row by row, behind
    the `first` tokens that have no place in the image.

    Between the places of the learned square it is bicubic interpolation, without smoothing where there are
    fewer now: what transformers does for the size of an image, and ONNX's Resize with half pixels. A table
    that is no square is returned as it is.
    """
    rows = table.reshape(-1, table.shape[-1])
    across, wanted = math.isqrt(max(len(rows) - first, 0)), math.isqrt(tokens - first)
    if across == 0 or across**2 != len(rows) - first or wanted**2 != tokens - first or across == wanted:
        return table
    square = rows[first:].reshape(across, across, -1)
    between = cubic(across, wanted)
    resized = np.einsum("ia,jb,abh->ijh", between, between, square, optimize=True)
    return np.concatenate([rows[:first], resized.reshape(wanted**2, -1)])


def cubic(points: int, wanted: int) -> Array:
    """Returns (wanted, points): what each new place takes of each old one. Places beyond an end take the
    end's."""
    weights = np.zeros((wanted, points))
    for i in range(wanted):
        place = (i + 0.5) * points / wanted - 0.5
        for j in range(math.floor(place) - 1, math.floor(place) + 3):
            weights[i, min(max(j, 0), points - 1)] += _share(abs(place - j))
    return weights


def _share(distance: float) -> float:
    """Computes Keys' cubic kernel: 1 at the place itself, 0 at the other places and beyond two of them."""
    if distance <= 1.0:
        return ((BEND + 2.0) * distance - (BEND + 3.0)) * distance**2 + 1.0
    if distance < 2.0:
        return (((distance - 5.0) * distance + 8.0) * distance - 4.0) * BEND
    return 0.0
