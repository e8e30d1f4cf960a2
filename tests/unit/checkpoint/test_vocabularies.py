"""Tokenizers of folders without tokenizer.json: lists of word pieces, and byte-level pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, processors

from tacita.checkpoint.vocabulary import read_tokenizer
from tacita.errors import CheckpointError

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##able", "##e", "Caf", "caf", "##é", ",", "好"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
LETTERS = ["a", "b", "l", "e", "Ġ", "ab", "le", "Ġa", "able"]
MERGES = ["#version: 0.2", "a b", "l e", "ab le", "Ġ a"]


def word_pieces(folder: Path, **options: Any) -> Path:
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    return folder


def byte_pairs(folder: Path, merges: list[str] = MERGES) -> Path:
    ids = {piece: number for number, piece in enumerate(SPECIAL + LETTERS)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "merges.txt").write_text("\n".join(merges) + "\n", encoding="utf-8")
    return folder


def pieces(made: Tokenizer, *texts: str) -> list[str]:
    return list(made.encode(*texts).tokens)


def test_word_pieces_are_lowered_and_lose_their_accents_by_default(tmp_path: Path) -> None:
    made = read_tokenizer(word_pieces(tmp_path), len(PIECES))
    assert pieces(made, "UNABLE, Café好") == ["[CLS]", "un", "##able", ",", "caf", "##e", "好", "[SEP]"]
    pair = made.encode("unable", "Cafe")
    assert pair.tokens == ["[CLS]", "un", "##able", "[SEP]", "caf", "##e", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 1, 1, 1] and pair.special_tokens_mask[0] == 1


def test_options_of_word_pieces(tmp_path: Path) -> None:
    cased = read_tokenizer(word_pieces(tmp_path, do_lower_case=False), len(PIECES))
    assert pieces(cased, "Café UN") == ["[CLS]", "Caf", "##é", "[UNK]", "[SEP]"]
    kept = read_tokenizer(word_pieces(tmp_path, strip_accents=False), len(PIECES))
    assert pieces(kept, "Café") == ["[CLS]", "caf", "##é", "[SEP]"]
    together = read_tokenizer(word_pieces(tmp_path, tokenize_chinese_chars=False), len(PIECES))
    assert pieces(together, "caf好") == ["[CLS]", "[UNK]", "[SEP]"]


def test_byte_pairs_are_joined_in_order(tmp_path: Path) -> None:
    made = read_tokenizer(byte_pairs(tmp_path), len(SPECIAL + LETTERS))
    assert pieces(made, "able a") == ["<s>", "able", "Ġa", "</s>"]
    assert pieces(made, "a", "b") == ["<s>", "a", "</s>", "</s>", "b", "</s>"]


def test_special_words_in_a_text_are_one_token(tmp_path: Path) -> None:
    made = read_tokenizer(byte_pairs(tmp_path), len(SPECIAL + LETTERS))
    for text in ("a<mask>", "a <mask>"):
        ids = made.encode(text).ids  # with the space before it
        assert ids == [made.token_to_id(word) for word in ("<s>", "a", "<mask>", "</s>")]
    more = [*PIECES, "[MASK]", "\u2028"]
    (tmp_path / "words").mkdir()
    folder = word_pieces(tmp_path / "words")
    (folder / "vocab.txt").write_text("\n".join(more) + "\n", encoding="utf-8")
    made = read_tokenizer(folder, len(more))
    assert pieces(made, "un [MASK]") == ["[CLS]", "un", "[MASK]", "[SEP]"]
    assert made.token_to_id("\u2028") == len(more) - 1


def test_word_pieces_between_robertas_separators(tmp_path: Path) -> None:
    """MPNet's."""
    folder = word_pieces(tmp_path, cls_token="<s>", sep_token={"content": "</s>"})
    (folder / "vocab.txt").write_text("\n".join([*PIECES, "<s>", "</s>"]), encoding="utf-8")
    made = read_tokenizer(folder, len(PIECES) + 2)
    assert pieces(made, "un", "caf") == ["<s>", "un", "</s>", "</s>", "caf", "</s>"]
    word_pieces(tmp_path, mask_token=["[MASK]"])  # no text: left out
    assert pieces(read_tokenizer(folder, len(PIECES)), "un") == ["[CLS]", "un", "[SEP]"]


def test_tokenizer_json_goes_before_the_others(tmp_path: Path) -> None:
    made = read_tokenizer(word_pieces(tmp_path), len(PIECES))
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "vocab.txt").write_text("damaged")
    assert pieces(read_tokenizer(tmp_path, len(PIECES)), "un") == ["[CLS]", "un", "[SEP]"]


@pytest.mark.parametrize("made", ["BertJapaneseTokenizer", "HerbertTokenizerFast", "PhobertTokenizer"])
def test_files_of_other_tokenizers_are_refused(tmp_path: Path, made: str) -> None:
    """They are called as BERT's and RoBERTa's are."""
    for folder in (word_pieces(tmp_path), byte_pairs(tmp_path)):
        (folder / "tokenizer_config.json").write_text("{}")
        (folder / "config.json").write_text(json.dumps({"tokenizer_class": made}))
        with pytest.raises(CheckpointError, match="of a tokenizer of class") as caught:
            read_tokenizer(folder, 64)
        assert "save_pretrained" in caught.value.hint
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": made}))
        (folder / "config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
        with pytest.raises(CheckpointError, match="of a tokenizer of class"):
            read_tokenizer(folder, 64)
        (folder / "vocab.txt").unlink(missing_ok=True)
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match="word_tokenizer_type is 'mecab'"):
        read_tokenizer(word_pieces(tmp_path, word_tokenizer_type="mecab"), 64)
    with pytest.raises(CheckpointError, match="do_basic_tokenize is False"):
        read_tokenizer(word_pieces(tmp_path, do_basic_tokenize=False), 64)
    made_by_bert = word_pieces(tmp_path, tokenizer_class="BertTokenizerFast")
    assert pieces(read_tokenizer(made_by_bert, 64), "un") == ["[CLS]", "un", "[SEP]"]


def test_tokens_beside_a_vocabulary_are_refused(tmp_path: Path) -> None:
    listed = {"2": {"content": "[CLS]", "special": True}}
    read_tokenizer(word_pieces(tmp_path, added_tokens_decoder=listed), 64)
    listed[str(len(PIECES))] = {"content": "<user>", "special": False}
    with pytest.raises(CheckpointError, match="'<user>' is added as 12"):
        read_tokenizer(word_pieces(tmp_path, added_tokens_decoder=listed), 64)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<link>": len(PIECES)}))
    with pytest.raises(CheckpointError, match="'<link>' is added as 12"):
        read_tokenizer(word_pieces(tmp_path), 64)


def test_markers_that_people_name_are_one_token_each(tmp_path: Path) -> None:
    folder, marker = word_pieces(tmp_path), "[unused1]"
    (folder / "vocab.txt").write_text("\n".join([*PIECES, marker]), encoding="utf-8")
    assert marker not in pieces(read_tokenizer(folder, 64), f"un {marker}")
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": [marker]}))
    assert pieces(read_tokenizer(folder, 64), f"un {marker}") == ["[CLS]", "un", marker, "[SEP]"]
    word_pieces(tmp_path, additional_special_tokens=[{"content": "[E1]"}])
    with pytest.raises(CheckpointError, match=r"'\[E1\]' is added as a token of its own"):
        read_tokenizer(folder, 64)
    word_pieces(tmp_path, additional_special_tokens="[E1]")
    with pytest.raises(CheckpointError, match="additional_special_tokens is"):
        read_tokenizer(folder, 64)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("template", [False, True])
def test_a_model_that_is_given_no_types_gets_none_of_a_pair(
    tmp_path: Path, whole: bool, template: bool
) -> None:
    if whole:
        made = read_tokenizer(word_pieces(tmp_path), 64)
        if not template:
            made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        made.save(str(tmp_path / "tokenizer.json"))
    inputs = ["input_ids", "attention_mask"]
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 1),
        ({"model_input_names": [*inputs, "token_type_ids"]}, 1),
        ({"model_input_names": inputs}, 0),
        ({"tokenizer_class": "DistilBertTokenizerFast"}, 0),
        ({"tokenizer_class": "BertTokenizer"}, 1),
    ]
    for options, last in cases:
        pair = read_tokenizer(word_pieces(tmp_path, **options), 64).encode("un", "caf")
        assert pair.type_ids == [0, 0, 0, last, last], options
        assert pair.tokens == ["[CLS]", "un", "[SEP]", "caf", "[SEP]"]


def test_options_go_before_tokenizer_json_as_in_transformers(tmp_path: Path) -> None:
    made = read_tokenizer(word_pieces(tmp_path), len(PIECES))
    made.save(str(tmp_path / "tokenizer.json"))
    options: dict[str, Any] = {
        "do_lower_case": False,
        "strip_accents": None,
        "tokenizer_class": "BertTokenizer",
    }
    cased = read_tokenizer(word_pieces(tmp_path, **options), len(PIECES))
    assert pieces(cased, "Café UN") == ["[CLS]", "Caf", "##é", "[UNK]", "[SEP]"]
    kept = read_tokenizer(word_pieces(tmp_path, strip_accents=False), len(PIECES))
    assert pieces(kept, "Café") == ["[CLS]", "caf", "##é", "[SEP]"]
    options["tokenizer_class"] = "PreTrainedTokenizerFast"  # which takes tokenizer.json as it is
    lower = read_tokenizer(word_pieces(tmp_path, **options), len(PIECES))
    assert pieces(lower, "Café UN") == ["[CLS]", "caf", "##e", "un", "[SEP]"]
    signs = tmp_path / "signs"
    signs.mkdir()
    read_tokenizer(byte_pairs(signs), 64).save(str(signs / "tokenizer.json"))
    (signs / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    assert pieces(read_tokenizer(signs, 64), "a")[1:-1] == ["Ġa"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tokenizer_class": "LlamaTokenizer"}, ["<s>", "a", "</s>"]),
        ({"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}, ["<s>", "a"]),
        ({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False}, ["a"]),
        ({"tokenizer_class": "LlamaTokenizer", "add_eos_token": True}, ["<s>", "a", "</s>"]),
        ({"tokenizer_class": "GemmaTokenizer", "add_eos_token": True, "bos_token": "b"}, None),
        ({"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False}, ["<s>", "a", "</s>"]),
    ],
)
def test_what_stands_around_a_text_of_llama(
    tmp_path: Path, options: dict[str, Any], expected: list[str] | None
) -> None:
    read_tokenizer(byte_pairs(tmp_path), 64).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    if expected is None:
        with pytest.raises(CheckpointError, match=r"'<eos>'\] around texts are not in the vocabulary"):
            read_tokenizer(tmp_path, 64)
        return
    made = read_tokenizer(tmp_path, 64)
    assert pieces(made, "a") == expected
    begin, end = (expected[:1] == ["<s>"]), (expected[-1] == "</s>")
    if "Llama" in options["tokenizer_class"] and len(options) > 1:
        second = [*["<s>"] * begin, "b", *["</s>"] * end]
        assert pieces(made, "a", "b") == expected + second and made.encode("a", "b").type_ids[-1] == 1


def test_bad_vocabularies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: no such file"):
        read_tokenizer(tmp_path, 12)
    with pytest.raises(CheckpointError, match="token ids reach 11, vocab_size is 8"):
        read_tokenizer(word_pieces(tmp_path), 8)
    with pytest.raises(CheckpointError, match=r"unk_token .* is not in the vocabulary"):
        read_tokenizer(word_pieces(tmp_path, unk_token="<unk>"), len(PIECES))
    with pytest.raises(CheckpointError, match="do_lower_case is 'yes'"):
        read_tokenizer(word_pieces(tmp_path, do_lower_case="yes"), len(PIECES))
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match="not a tokenizer file"):
        read_tokenizer(tmp_path, len(PIECES))


@pytest.mark.parametrize("line", ["a z", "ab", "a b c", "l l"])
def test_merges_of_another_vocabulary_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(CheckpointError, match="pair 2 joins pieces that"):
        read_tokenizer(byte_pairs(tmp_path, ["#version: 0.2", "a b", line]), len(SPECIAL + LETTERS))


def test_numbers_of_byte_pairs_are_checked(tmp_path: Path) -> None:
    byte_pairs(tmp_path)
    for bad in ({"a": -1}, {"a": 1 << 40}, {"a": "1"}, {"a": True}):
        (tmp_path / "vocab.json").write_text(json.dumps(bad))
        with pytest.raises(CheckpointError, match="no table of words and numbers"):
            read_tokenizer(tmp_path, 16)
