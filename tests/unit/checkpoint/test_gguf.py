"""GGUF files: a tiny LLaMA written with the gguf library comes back as it was; damaged and foreign ones are
refused."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_decoders import WORDS, llama
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tacita
from bench.models import smollm2
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.gguf import OF_LAYER, GgufFile, Header, fields_of, read_header
from tacita.checkpoint.gguf import WHOLE as OUTSIDE
from tacita.checkpoint.vocabulary import tokenizer_of
from tacita.errors import CheckpointError
from tacita.texts.embedding import stored_tensor

gguf = pytest.importorskip("gguf", reason="pip install tacita[gguf]")
SIGNS = sorted(pre_tokenizers.ByteLevel.alphabet())
CONTROL = "<|end|>"
PIECES = [CONTROL, *SIGNS, "ab", "abc", "<own>"]
MERGES = ["a b", "ab c"]
TYPES = [3, *[1] * (len(PIECES) - 2), 4]
SIZES: dict[str, Any] = {"hidden": 32, "heads": 4, "intermediate": 64, "vocab": len(PIECES)}


def tiny(**options: Any) -> Checkpoint:
    """With values that single precision holds, of rows that a quantised block fits."""
    model = llama(**SIZES | options)
    tensors = {name: t.astype(np.float32).astype(np.float64) for name, t in model.tensors.items()}
    return replace(model, tensors=tensors)


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """As llama.cpp's converter does: a head's two halves become neighbouring pairs."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write(
    path: Path, model: Checkpoint, *, arch: str = "llama", quantised: bool = False, **fields: Any
) -> Path:
    """fields: of the architecture, in place of what the model says; None leaves one out."""
    m, out = model.config, gguf.GGUFWriter(str(path), arch)
    said = {
        "block_count": m.layers,
        "context_length": m.positions,
        "embedding_length": m.hidden,
        "feed_forward_length": m.intermediate,
        "attention.head_count": m.heads,
        "attention.head_count_kv": m.heads // m.shared,
        "rope.dimension_count": m.hidden // m.heads,
    } | fields
    for name, value in said.items():
        if isinstance(value, str):
            out.add_string(f"{arch}.{name}", value)
        elif isinstance(value, float):
            out.add_float32(f"{arch}.{name}", value)
        elif value is not None:
            out.add_uint32(f"{arch}.{name}", value)
    out.add_float32(f"{arch}.rope.freq_base", m.base)
    out.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", m.norm_eps)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(PIECES)
    out.add_token_types(TYPES)
    out.add_token_merges(MERGES)
    out.add_eos_token_id(0)
    for name, tensor in model.tensors.items():
        if name != "lm_head.weight" or not m.tied:
            _add(out, name, tensor, model, permute=arch == "llama", quantised=quantised)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def _add(
    out: Any, name: str, tensor: np.ndarray, model: Checkpoint, *, permute: bool, quantised: bool
) -> None:
    m, (stem, kind) = model.config, name.rsplit(".", 1)
    heads = {"q_proj": m.heads, "k_proj": m.heads // m.shared}.get(stem.split(".")[-1])
    values = tensor.astype(np.float32)
    values = np.ascontiguousarray(permuted(values, heads)) if heads and permute else values
    called = f"{_named(stem if name != WORDS else 'embed_tokens')}.{kind}"
    if quantised and values.ndim == 2:
        type_ = gguf.GGMLQuantizationType.Q8_0
        out.add_tensor(called, gguf.quants.quantize(values, type_), raw_dtype=type_)
    else:
        out.add_tensor(called, values)


def _named(stem: str) -> str:
    outside = {theirs: ours for ours, theirs in OUTSIDE.items()}
    for spelled in (stem, f"model.{stem}"):
        if spelled in outside:
            return outside[spelled]
    _, number, inner = stem.split(".", 2)
    return f"blk.{number}." + {theirs: ours for ours, theirs in OF_LAYER.items()}[inner]


@pytest.mark.parametrize("options", [{}, {"tied": True}, {"shared": 4}], ids=str)
def test_a_model_comes_back_as_it_was(tmp_path: Path, options: dict[str, Any]) -> None:
    model = tiny(**options)
    found = load(write(tmp_path / "tiny.gguf", model))
    tied = {"lm_head.weight": model.tensors[WORDS]} if model.config.tied else {}
    for name, tensor in (dict(model.tensors) | tied).items():
        assert np.array_equal(found.tensors[name], tensor), name
    assert found.config == replace(model.config, ends=(0,), norm_eps=found.config.norm_eps)
    assert abs(found.config.norm_eps - model.config.norm_eps) < 1e-10
    assert load(tmp_path).sha256 == found.sha256  # the only file of its folder


@pytest.mark.parametrize("quantised", [False, True])
def test_a_large_file_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quantised: bool) -> None:
    """Some rows, moved to their places, are those of the whole; no matrix is held in floats."""
    path = write(tmp_path / "tiny.gguf", tiny(shared=2), quantised=quantised)
    expected = load(path)
    monkeypatch.setattr("tacita.models.fields.MAPPED", 1)
    monkeypatch.setattr("tacita.checkpoint.weights.MOST_CACHED", 0)
    found = load(path)
    assert found.sha256 == expected.sha256
    for name, tensor in found.tensors.items():
        rows = [len(tensor) - 1, 3, 3]
        assert np.array_equal(tensor[rows], np.asarray(expected.tensors[name])[rows]), name
        if tensor.ndim == 2:
            stored = stored_tensor(tensor)
            assert stored is not None and stored.stored.dtype == np.uint8 and stored._whole is None
            assert stored.stored.nbytes == tensor.size * (34 / 32 if quantised else 4)


def test_qwen_is_not_permuted_and_has_biases(tmp_path: Path) -> None:
    model = tiny(biases=(True, False, False))
    found = load(write(tmp_path / "qwen.gguf", model, arch="qwen2"))
    assert all(np.array_equal(found.tensors[name], tensor) for name, tensor in model.tensors.items())
    assert found.config.biases == (True, False, False)


def test_biases_of_llama_are_permuted_too(tmp_path: Path) -> None:
    model = tiny(biases=(True, True, False))
    found = load(write(tmp_path / "biased.gguf", model))
    assert all(np.array_equal(found.tensors[name], tensor) for name, tensor in model.tensors.items())
    assert found.config.biases == (True, True, False)


def test_a_quantised_file_is_near_the_model(tmp_path: Path) -> None:
    model = tiny()
    found = load(write(tmp_path / "tiny.gguf", model, quantised=True))
    for name, tensor in model.tensors.items():
        assert np.abs(found.tensors[name] - tensor).max() <= np.abs(tensor).max() / 200.0, name


def test_its_tokenizer_cuts_as_the_library_does(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", tiny())
    found = load(path).tokenizer
    assert found is not None and found.decode(found.encode("x abc 42é" + CONTROL).ids) == "x abc 42é"
    assert found.encode(" ab abc42<own>" + CONTROL).tokens == [
        "Ġ",
        "ab",
        "Ġ",
        "abc",
        "4",
        "2",
        "<own>",
        CONTROL,
    ]
    beside = Tokenizer(models.BPE({sign: i for i, sign in enumerate(SIGNS)}, []))
    beside.pre_tokenizer, beside.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    (tmp_path / "tokenizer.json").write_text(beside.to_str())
    own = load(path).tokenizer
    assert own is not None and own.encode("ab").tokens == ["Ġ", "a", "b"]


def tokenizer_with(**fields: Any) -> Tokenizer:
    said = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": PIECES,
        "token_type": TYPES,
        "merges": MERGES,
    } | fields
    named = {f"tokenizer.ggml.{name}": value for name, value in said.items() if value is not None}
    return tokenizer_of(Header(Path("tiny.gguf"), named, {}))


def test_a_llama_3_begins_although_its_file_does_not_mention_it() -> None:
    """Converters write `add_bos_token` only where the model's own files have it (llama.cpp)."""
    for pre, said, begun in (
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("smollm", None, False),
        ("smollm", True, True),
    ):
        ids = tokenizer_with(pre=pre, add_bos_token=said, bos_token_id=0).encode("ab").ids
        assert ids == [*([0] if begun else []), PIECES.index("ab")]


def test_a_text_is_composed_as_qwens_tokenizer_composes_it() -> None:
    apart, composed = "e\u0301", "\u00e9"
    ids = {pre: tokenizer_with(pre=pre).encode(apart).ids for pre in ("qwen2", "smollm")}
    assert ids["qwen2"] == tokenizer_with().encode(composed).ids != ids["smollm"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pre": None}, "pre is 'default'"),
        ({"pre": "default"}, "pre is 'default'"),
        ({"add_eos_token": True}, "add_eos_token is True"),
        ({"model": "llama"}, "model is 'llama'"),
    ],
)
def test_tokenizers_that_are_not_known_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        tokenizer_with(**fields)
    assert "tokenizer.json" in caught.value.hint


def test_text_is_generated_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", tiny())
    tokens = list(tacita.generate("ab abc", model=path, max_tokens=5))
    assert 1 <= len(tokens) <= 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"arch": "gemma"}, "general.architecture is 'gemma'"),
        ({"expert_count": 8}, "llama.expert_count is 8"),
        ({"rope.scaling.type": "yarn"}, "llama.rope.scaling.type is 'yarn'"),
        ({"rope.dimension_count": 4}, "shape"),
        ({"attention.key_length": 16}, "head_dim|key_length|dimension_count"),
        ({"embedding_length": 48, "rope.dimension_count": 12}, "shape"),
        ({"block_count": 3}, "tensors missing, first layers.2"),
        ({"block_count": None}, "num_hidden_layers is None"),
        ({"attention.head_count": 5}, "num_key_value_heads is 2|not a multiple"),
        ({"block_count": 1 << 31}, "num_hidden_layers is 2147483648"),
        ({"vocab_size": 7}, "shape|token ids reach"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "tiny.gguf", tiny(), **fields)
    with pytest.raises(CheckpointError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value) and caught.value.hint


def test_a_file_without_an_epsilon_is_refused(tmp_path: Path) -> None:
    file, name = (
        GgufFile(write(tmp_path / "tiny.gguf", tiny(layers=1))),
        "llama.attention.layer_norm_rms_epsilon",
    )
    fields = {key: value for key, value in file.header.fields.items() if key != name}
    assert fields_of(file).data["rms_norm_eps"] == pytest.approx(1e-5)
    vars(file)["header"] = replace(file.header, fields=fields)
    with pytest.raises(CheckpointError, match="epsilon is None"):
        fields_of(file)


def test_turns_of_a_chat_end_a_text_too(tmp_path: Path) -> None:
    file = GgufFile(write(tmp_path / "tiny.gguf", tiny(layers=1)))
    known = dict(file.header.fields) | {"tokenizer.ggml.eot_token_id": 3, "tokenizer.ggml.eom_token_id": 0}
    vars(file)["header"] = replace(file.header, fields=known)
    assert fields_of(file).data["eos_token_id"] == [0, 3]


def test_unscaled_positions_may_be_said(tmp_path: Path) -> None:
    assert load(write(tmp_path / "tiny.gguf", tiny(), **{"rope.scaling.type": "none"})).config.base == 1000.0


def damaged(data: bytes) -> list[tuple[str, bytes]]:
    """Files that are wrong in one place, each with what must be said."""

    def put(at: int, code: str, value: int) -> bytes:
        return data[:at] + struct.pack(code, value) + data[at + struct.calcsize(code) :]

    key = data.index(b"llama.block_count")
    words = data.index(b"tokenizer.ggml.tokens") + len("tokenizer.ggml.tokens")
    table = data.index(b"token_embd.weight") + len("token_embd.weight")  # sizes, type, offset follow
    return [
        ("first bytes", b"GGML" + data[4:]),
        ("version 1", put(4, "<I", 1)),
        ("number of tensors", put(8, "<Q", 1 << 60)),
        ("number of fields", put(16, "<Q", 1 << 60)),
        ("bytes of a text", put(key - 8, "<Q", 1 << 62)),
        ("not a GGUF file", put(key + len("llama.block_count"), "<I", 77)),
        ("elements", put(words + 8, "<Q", 1 << 61)),
        ("sizes of token_embd", put(table, "<I", 9)),
        ("type 99", put(table + 4 + 16, "<I", 99)),
        ("bytes in the file", put(table + 4 + 16 + 4, "<Q", 1 << 60)),
        ("bytes in the file", put(table + 4 + 8, "<Q", 1 << 63)),
        ("bytes in the file|shape", data[:-100]),
        ("truncated|its head", data[: key + 5]),
        ("truncated|its head", data[:20]),
        ("tensor 'token_embe", data.replace(b"token_embd.weight", b"token_embe.weight")),
        ("twice", data.replace(b"blk.1.attn_q.weight", b"blk.0.attn_q.weight")),
    ]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "tiny.gguf", tiny()).read_bytes()
    for number, (message, wrong) in enumerate(damaged(data)):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(wrong)
        with pytest.raises(CheckpointError, match=message):
            load(path)


def test_every_flipped_byte_of_the_head_is_refused_or_read(tmp_path: Path) -> None:
    """Whatever a byte becomes, the error is ours."""
    path = write(tmp_path / "tiny.gguf", tiny(layers=1))
    data, rng = bytearray(path.read_bytes()), np.random.default_rng(0)
    end = min(info.offset for info in read_header(path).tensors.values())
    for at in rng.integers(0, end, 120):
        wrong = bytes(data[:at]) + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + bytes(data[at + 1 :])
        path.write_bytes(wrong)
        try:
            load(path)
        except CheckpointError as error:
            assert error.hint


def test_several_files_in_a_folder_must_be_named(tmp_path: Path) -> None:
    for name in ("one.gguf", "two.gguf"):
        write(tmp_path / name, tiny(layers=1))
    with pytest.raises(CheckpointError, match="2 GGUF files"):
        load(tmp_path)
    assert load(tmp_path / "two.gguf").name == "two.gguf"


def test_without_the_library_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "tiny.gguf", tiny())
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(CheckpointError, match="gguf is not installed") as caught:
        load(path)
    assert "[gguf]" in caught.value.hint


def test_smollm2_is_written_as_a_folder(tmp_path: Path) -> None:
    """Of a tiny file in its place."""
    model = load(write(tmp_path / "tiny.gguf", tiny(tied=True)))
    smollm2.write(model, tmp_path / "folder")
    found = load(tmp_path / "folder")
    assert found.config == model.config
    assert all(np.abs(found.tensors[name] - t).max() < 2e-3 for name, t in model.tensors.items())
    assert list(tacita.generate("ab", model=found, max_tokens=4))
