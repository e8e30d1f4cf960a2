"""The tokenizer of a folder: tokenizer.json, or what older folders have in its place.

`vocab.txt` is a list of word pieces (BERT, DistilBERT, ELECTRA, MPNet); `vocab.json` with `merges.txt` a
byte-level encoding (RoBERTa). Both become the tokenizers library's own objects, with the choices of
tokenizer_config.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacita.checkpoint.gguf import Header, gguf_of
from tacita.errors import CheckpointError
from tacita.models.fields import Fields, check_size, read_json
from tacita.texts.embed import MAX_TOKENIZER_BYTES, parse_tokenizer
from tacita.texts.embedding import MAX_VOCAB

if TYPE_CHECKING:
    from tokenizers import Tokenizer


OPTIONS, SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
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
        return parse_tokenizer(tokenizer_of(file.header).to_str(), vocab, str(file.path))
    older = next((name for name in ("vocab.txt", "merges.txt") if (folder / name).is_file()), None)
    if whole.is_file() or older is None:
        tokenizer = _with_options(parse_tokenizer(_text(whole), vocab, str(whole)), folder)
    elif older == "vocab.txt":
        tokenizer = parse_tokenizer(_word_pieces(folder).to_str(), vocab, str(folder / "vocab.txt"))
    else:
        tokenizer = parse_tokenizer(_byte_pairs(folder).to_str(), vocab, str(folder / "vocab.json"))
    return tokenizer if _gives_types(folder) else _of_one_type(tokenizer)


# Classes of tokenizers whose older files are read, without "Tokenizer" and "Fast"; others have files of the
# same names and cut texts in another way, as BertJapanese and Herbert.

OF_PIECES = ("Bert", "DistilBert", "Electra", "MPNet", "DPRContextEncoder", "DPRQuestionEncoder")
OF_BYTES = ("Roberta", "Longformer", "Bart")
BEGUN = {"Llama": ("<s>", "</s>"), "CodeLlama": ("<s>", "</s>"), "Gemma": ("<bos>", "<eos>")}
NORMALISATION = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
NORMALISATION |= {"tokenize_chinese_chars": "handle_chinese_chars"}
TYPED = re.compile(rb'"type_id":[1-9]\d*')
REWRITE = "make tokenizer.json: AutoTokenizer.from_pretrained(...).save_pretrained(...) of transformers"


def _class_of(folder: Path, options: Fields) -> str | None:
    """The class of the folder's tokenizer, as transformers chooses it; None where no file mentions one."""
    config = folder / "config.json"
    stated = options.data.get("tokenizer_class")
    if stated is None and config.is_file():
        stated = read_json(config).get("tokenizer_class")
    return None if stated is None else str(stated).removesuffix("Fast").removesuffix("Tokenizer")


def _require_class(folder: Path, options: Fields, known: Sequence[str]) -> None:
    """Raises CheckpointError for a tokenizer of another class, or one that finds words in another way."""
    if (kind := _class_of(folder, options)) is not None and kind not in known:
        raise CheckpointError(f"{folder}: files of a tokenizer of class {kind!r:.80}", hint=REWRITE)
    for name in ("word_tokenizer_type", "subword_tokenizer_type"):
        options.only(name, None)


def _require_no_more(folder: Path, options: Fields, ids: Mapping[str, int]) -> None:
    """Raises CheckpointError for tokens beside the vocabulary, as people add them before they train."""
    beside = folder / "added_tokens.json"
    added = dict(read_json(beside)) if beside.is_file() else {}
    listed = options.part("added_tokens_decoder")
    added |= {str(_content(token)): number for number, token in (listed.data if listed else {}).items()}
    added = {word: ids.get(word, "a token of its own") for word in _more(options)} | added
    for word, number in added.items():
        if word not in ids or str(ids[word]) != str(number):
            raise CheckpointError(f"{folder}: token {word!r:.40} is added as {number!s:.20}", hint=REWRITE)


def _with_options(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """Applies what tokenizer_config.json says in another way than tokenizer.json, as transformers does where
    the class of the tokenizer takes it."""
    from tokenizers import normalizers, pre_tokenizers

    options = _options(folder)
    kind, pieces, signs = _class_of(folder, options), tokenizer.normalizer, tokenizer.pre_tokenizer
    if isinstance(pieces, normalizers.BertNormalizer) and kind in (None, *OF_PIECES):
        for name, theirs in NORMALISATION.items():
            if options.data.get(name) is not None:
                setattr(pieces, theirs, options.flag(name, True))
        tokenizer.normalizer = pieces
    if isinstance(signs, pre_tokenizers.ByteLevel) and options.data.get("add_prefix_space") is not None:
        signs.add_prefix_space = options.flag("add_prefix_space", False)
        tokenizer.pre_tokenizer = signs
    if kind in BEGUN and not {"add_bos_token", "add_eos_token"}.isdisjoint(options.data):
        tokenizer.post_processor = _begin_and_end(tokenizer, options, BEGUN[kind])
    return tokenizer


def _gives_types(folder: Path) -> bool:
    """Whether the model is given the types of tokens, in the class's or the options' list of its inputs; one
    that is not takes type 0 for all."""
    options = _options(folder)
    inputs = options.data.get("model_input_names")
    usual = _class_of(folder, options) != "DistilBert"
    return "token_type_ids" in inputs if isinstance(inputs, list) else usual


def _of_one_type(tokenizer: Tokenizer) -> Tokenizer:
    """Gives both texts of a pair type 0."""
    from tokenizers import processors

    around = tokenizer.post_processor
    if isinstance(around, processors.BertProcessing):
        state = json.loads(around.__getstate__())
        first, last = tuple(state["cls"]), tuple(state["sep"])
        one, two = [first[0], "$A", last[0]], [first[0], "$A", last[0], "$B", last[0]]
        around = processors.TemplateProcessing(single=one, pair=two, special_tokens=[first, last])
    elif around is not None and TYPED.search(state := around.__getstate__()):
        around.__setstate__(TYPED.sub(b'"type_id":0', state))
    tokenizer.post_processor = around
    return tokenizer


def _begin_and_end(tokenizer: Tokenizer, options: Fields, defaults: tuple[str, str]) -> Any:
    """What LlamaTokenizer and its like put around every text."""
    from tokenizers.processors import TemplateProcessing

    names, flags = ("bos_token", "eos_token"), (("add_bos_token", True), ("add_eos_token", False))
    words = [_content(options.data.get(name)) or word for name, word in zip(names, defaults, strict=True)]
    around = [[word] if options.flag(*flag) else [] for word, flag in zip(words, flags, strict=True)]
    ids = {word: tokenizer.token_to_id(word) for (word,) in filter(None, around)}
    if None in ids.values():
        what = f"{options.path}: {[*ids]!s:.80} around texts are not in the vocabulary"
        raise CheckpointError(what, hint="files of two models?")
    begin, end = around
    return TemplateProcessing(
        single=[*begin, "$A", *end],
        pair=[*begin, "$A", *end, *(f"{word}:1" for word in begin), "$B:1", *(f"{word}:1" for word in end)],
        special_tokens=list(ids.items()),
    )


def _word_pieces(folder: Path) -> Tokenizer:
    """Builds BertTokenizer: lower case unless the options say otherwise, [CLS] and [SEP] around the texts; or
    MPNetTokenizer, which puts two separators between them, where the first token is RoBERTa's."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    options = _options(folder, SPECIAL)
    _require_class(folder, options, OF_PIECES)
    options.only("do_basic_tokenize", True)
    ids = {piece: number for number, piece in enumerate(_lines(folder / "vocab.txt"))}
    _require_no_more(folder, options, ids)
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

    options, ids = _options(folder, SPECIAL), _vocabulary(folder / "vocab.json")
    _require_class(folder, options, OF_BYTES)
    _require_no_more(folder, options, ids)
    _, first, last = (_special(options, name, ids, BYTES) for name in ADDED)
    prefix = options.flag("add_prefix_space", False)
    lines = [line for line in _lines(folder / "merges.txt") if line and not line.startswith("#version")]
    merges = _pairs(lines, ids, f"{folder / 'merges.txt'}: pair", "files of two models?")
    tokenizer = Tokenizer(models.BPE(ids, merges))
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


def _pairs(lines: Sequence[object], ids: Mapping[str, int], where: str, hint: str) -> list[tuple[str, str]]:
    """Returns pairs of pieces in the order in which they are joined; each, and what it makes, has a number.
    where: stands before the first that is none in the error."""
    pairs = [tuple(str(line).split(" ")) for line in lines]
    for number, pair in enumerate(pairs, 1):
        if len(pair) != 2 or not {*pair, "".join(pair)} <= ids.keys():
            raise CheckpointError(f"{where} {number} joins pieces that are no tokens", hint=hint)
    return [(left, right) for left, right in pairs]


def _options(folder: Path, *before: str) -> Fields:
    """Returns the options of a tokenizer; what the other files say counts where the first is silent."""
    options: dict[str, Any] = {}
    for path in (folder / name for name in (*before, OPTIONS)):
        options |= read_json(path, MAX_TOKENIZER_BYTES) if path.is_file() else {}
    return Fields(folder / OPTIONS, options)


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
    words |= {word: word for word in _more(options)}
    tokenizer.add_special_tokens(
        [AddedToken(word, lstrip=spaced and name == "mask_token") for name, word in words.items()]
    )
    return tokenizer


def _more(options: Fields) -> list[str]:
    """Lists special tokens beside those that all tokenizers have, such as markers of entities."""
    more = options.data.get("additional_special_tokens") or []
    if not isinstance(more, list) or not all(isinstance(_content(word), str) for word in more):
        options.refuse("additional_special_tokens", "it must be a list of tokens")
    return [_content(word) for word in more]


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


# The byte-level encoding that a GGUF file holds.

AT = "tokenizer.ggml."
BESIDE = "put the model's tokenizer.json beside it"
CONTROL, OWN = 3, 4  # types of tokens that are not made of pieces
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
# how a text is cut before its pieces are joined, by llama.cpp's names; "" for GPT-2's own way. "default",
# for which an absent field stands, is what llama.cpp does where it does not know the model, and not read
CUTS = {
    "gpt-2": "",
    "smollm": "",
    "llama-bpe": rf"{SHORT}|{LETTERS}|\p{{N}}{{1,3}}|{SPACES}",
    "qwen2": rf"{SHORT}|{LETTERS}|\p{{N}}|{SPACES}",
}
SINGLE_DIGITS = ("smollm",)
LLAMA_3, COMPOSED = "llama-bpe", ("qwen2",)  # composed: letters and their accents are one sign each


def tokenizer_of(header: Header) -> Tokenizer:
    """Builds the tokenizer of a file. Errors: CheckpointError for another kind of tokenizer, an unknown way
    of cutting, a damaged table."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

    fields = header.fields
    if (kind := fields.get(f"{AT}model")) != "gpt2":
        raise _gguf_error(header, "model", kind, f"byte-level BPE alone is read; {BESIDE}")
    pieces, types = _pieces(header)
    ids = {piece: i for i, piece in enumerate(pieces)}
    way = fields.get(f"{AT}pre", "default")
    newer = (
        way == LLAMA_3
    )  # a word that is a piece is not put together; files need not mention the first token
    if not isinstance(lines := fields.get(f"{AT}merges"), list):
        raise _gguf_error(header, "merges", type(lines), BESIDE)
    merges = _pairs(lines, ids, f"{header.path}: {AT}merges", BESIDE)
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=newer))
    tokenizer.pre_tokenizer, tokenizer.decoder = _cut(header, way), decoders.ByteLevel()
    if way in COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    special = [piece for piece, type_ in zip(pieces, types, strict=True) if type_ == CONTROL]
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])
    own = [piece for piece, type_ in zip(pieces, types, strict=True) if type_ == OWN]
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in own])
    if fields.get(f"{AT}add_eos_token", False):
        raise _gguf_error(header, "add_eos_token", fields[f"{AT}add_eos_token"], BESIDE)
    if fields.get(f"{AT}add_bos_token", newer):
        tokenizer.post_processor = _bos_template(header, pieces)
    return tokenizer


def _pieces(header: Header) -> tuple[list[str], list[int]]:
    """Returns the pieces of the vocabulary and the type of each."""
    pieces, types = header.fields.get(f"{AT}tokens"), header.fields.get(f"{AT}token_type")
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise _gguf_error(header, "tokens", type(pieces), "a list of texts")
    if len(set(pieces)) < len(pieces):
        raise _gguf_error(header, "tokens", f"{len(pieces) - len(set(pieces))} of them twice", BESIDE)
    types = types if isinstance(types, list) else [1] * len(pieces)
    if len(types) != len(pieces):
        raise _gguf_error(header, "token_type", f"{len(types)} of {len(pieces)} tokens", BESIDE)
    return pieces, types


def _cut(header: Header, way: object) -> Any:
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

    if not isinstance(way, str) or way not in CUTS:
        raise _gguf_error(header, "pre", way, f"known are {', '.join(CUTS)}; {BESIDE}")
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
        raise _gguf_error(header, "bos_token_id", first, "a token of the file")
    piece = pieces[first].replace("\\", "\\\\")
    return TemplateProcessing(
        single=[piece, "$A"], pair=[piece, "$A", "$B:1"], special_tokens=[(piece, first)]
    )


def _gguf_error(header: Header, field: str, value: object, hint: str) -> CheckpointError:
    return CheckpointError(f"{header.path}: {AT}{field} is {value!r:.80}", hint=hint)
