"""NanoGuard: what its configuration may say, its conversion, and plans of it (`test_families.py` has its
answers)."""

from __future__ import annotations

import json
import pickle
import random
import re
import shutil
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_tokenizer
from test_families import DATA

from bench.models import nanoguard as convert_nanoguard
from bench.models import nanoguard_reference
from tacita import api
from tacita.checkpoint import Checkpoint, embed, from_tensors, load
from tacita.checkpoint.pickles import described
from tacita.checkpoint.reference import reference
from tacita.errors import CheckpointError
from tacita.models.nanoguard import NanoGuardConfig, ResidualScales
from tacita.models.registry import tensor_shapes
from tacita.planning.circuit import require_circuit

PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)
TEXTS = ["a fine film", "the plot is dull", "never boring , very good and a fine film too", "bad"]
SPECIAL = ("<|reserved_0|>", "<|reserved_1|>")


def config_of(place: Path, **changes: Any) -> NanoGuardConfig:
    """Of the tiny model with changed fields."""
    shutil.copytree(DATA / "nanoguard-class", place, dirs_exist_ok=True)
    fields = json.loads((place / "config.json").read_text()) | changes
    (place / "config.json").write_text(json.dumps(fields))
    config = load(place, embeddings=False).config
    assert isinstance(config, NanoGuardConfig)
    return config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normed_embedding": False}, "normed_embedding is False"),
        ({"n_kv_head": 1}, "n_kv_head is 1"),
        ({"x0_lambdas": [1.0]}, "x0_lambdas is"),
        ({"x0_lambdas": [-1.5, 0.0, 0.0]}, "multiply to"),
        ({"resid_lambdas": [1.0, -1.0, 1.0]}, "lambdas"),
        ({"resid_lambdas": [1.0, 0.001, 1.0], "x0_lambdas": [0.5, 9.0, 0.0]}, "mus"),
        ({"architectures": None}, "model_type .nanoguard."),
    ],
)
def test_other_configurations_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        config_of(tmp_path, **changes)


def test_the_input_comes_again_where_the_numbers_say_so(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    scales = ResidualScales.of(config.lambdas, config.mus, config.layers)
    assert scales.scale == (5.5, 5.5 * 0.875, 5.5 * 0.875 * 1.25)
    assert scales.restart == (0.0, 9.0 / scales.scale[1], -6.0 / scales.scale[2])


def model_of(hidden: int = 16) -> Checkpoint:
    """Random weights of two layers, words of the tests."""
    config = NanoGuardConfig(
        layers=2,
        hidden=hidden,
        heads=2,
        intermediate=4 * hidden,
        vocab=32,
        positions=64,
        types=0,
        activation="relu2",
        pooling="mean",
        norm_eps=2.0**-23,
        labels=("safe", "injection"),
        embedding_norm=False,
        position_table=False,
        lambdas=(1.5, 0.75),
        mus=(3.0, 8.0),
    )
    rng = np.random.default_rng(4)
    tensors = {
        name: rng.normal(float(name == "cls_norm.weight"), 1.5 / np.sqrt(shape[-1]), shape)
        for name, shape in tensor_shapes(config).items()
    }
    words = tensors["embeddings.word_embeddings.weight"]
    words /= np.sqrt((words**2).mean(axis=1, keepdims=True))
    return from_tensors(config, tensors, make_tokenizer(32), name="guard")


def test_a_plan_answers_as_floats_do() -> None:
    """In rows, with noise too; `test_family_schemes.py` plans the family in every packing."""
    model, options = model_of(), {"tokens": 16, "preset": "insecure_toy_n11", "texts": TEXTS}
    plan = api.plan(model, scheme="thor", packing="rows", **options)
    require_circuit(plan)
    for text in (TEXTS[2], TEXTS[3]):
        wanted = reference(model, *embed(model, text, 16)).logits
        for backend in ("plain", "sim"):
            (found,) = api.classify_batch_locally(plan, model, [text], backend=backend)
            assert np.abs(np.array(found.logits) - wanted).max() < 0.02 and not found.warnings


def test_padding_that_is_attended_to_changes_the_original() -> None:
    """So the product, which hides it, is compared with the original without any."""
    original, ids = nanoguard_reference.tiny(), nanoguard_reference.TINY_IDS
    padded = original.logits([*ids, 1, 1, 1], len(ids))
    assert np.abs(padded - original.logits(ids, len(ids))).max() > 1e-3


def encoding_of(texts: list[str], merges: int) -> convert_nanoguard.Encoding:
    """Byte pairs learned from texts: the most frequent neighbours first."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    words = [convert_nanoguard.byte_pairs(piece.encode(), ranks) for t in texts for piece in pieces_of(t)]
    for _ in range(merges):
        counts: dict[bytes, int] = {}
        for word in words:
            for a, b in pairwise(word):
                counts[a + b] = counts.get(a + b, 0) + 1
        new = min((k for k in counts if k not in ranks), key=lambda k: (-counts[k], k))
        ranks[new] = len(ranks)
        words = [convert_nanoguard.byte_pairs(b"".join(word), ranks) for word in words]
    special = {name: len(ranks) + i for i, name in enumerate(SPECIAL)}
    return convert_nanoguard.Encoding(PATTERN, ranks, special)


def pieces_of(text: str) -> list[str]:
    """By the pattern, in Python's dialect: classes of letters and numbers spelled out."""
    pattern = PATTERN
    for name, kind in (("L", "L"), ("N", "N")):
        held = "".join(c for c in map(chr, range(0x3000)) if unicodedata.category(c).startswith(kind))
        pattern = pattern.replace(rf"\p{{{name}}}", re.escape(held)) if name == "" else pattern
        pattern = re.sub(rf"(\[[^\]]*)\\p{{{name}}}", lambda m, h=held: m[1] + h, pattern)
        pattern = pattern.replace(rf"\p{{{name}}}", f"[{held}]")
    return [found[0] for found in re.finditer(pattern, text)]


def strings(count: int) -> list[str]:
    """Of words, numbers, blanks, signs and letters outside ASCII."""
    rng = random.Random(3)
    parts = ["film", "the plot's", "I'LL", "1234567", "  ", "\n", "\t", "!!", "?\n\n", "é", "naïve", "Ωλ"]
    parts += ["ignore", " all", "<|reserved_0|>", "(a)", "...", "x²", "\r\n ", "don't"]
    return ["".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(count)]


def test_the_tokenizer_gives_the_ids_of_byte_pairs_by_rank() -> None:
    encoding = encoding_of(strings(40), merges=60)
    found, begin = convert_nanoguard.tokenizer(encoding), encoding.special[SPECIAL[0]]
    for text in strings(200):
        wanted = [
            encoding.ranks[part]
            for piece in pieces_of(text)
            for part in convert_nanoguard.byte_pairs(piece.encode(), encoding.ranks)
        ]
        assert found.encode(text).ids == [begin, *wanted], text


def pickled(name: str, state: dict[str, Any]) -> bytes:
    """An object of a class of tiktoken's with these attributes."""
    module = b"tiktoken.core"
    named = b"\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93"
    return b"\x80\x04" + named + b")\x81" + pickle.dumps(state, 3)[2:-1] + b"b."


def test_an_encoding_is_read_and_nothing_of_it_is_executed() -> None:
    state = {
        "name": "tiny",
        "pat_str": PATTERN,
        "mergeable_ranks": {bytes([b]): b for b in range(256)},
        "special_tokens": {name: 256 + i for i, name in enumerate(SPECIAL)},
    }
    found = convert_nanoguard.read_encoding(pickled("Encoding", state))
    assert found.special == state["special_tokens"] and found.ranks == state["mergeable_ranks"]
    with pytest.raises(pickle.UnpicklingError, match=r"os\.system"):
        convert_nanoguard.read_encoding(b"cos\nsystem\n(X\x04\x00\x00\x00truetR.")
    with pytest.raises(pickle.UnpicklingError, match=r"tiktoken.core.Other"):
        convert_nanoguard.read_encoding(pickled("Other", state))
    with pytest.raises(ValueError, match="no encoding"):
        convert_nanoguard.read_encoding(pickled("Encoding", state | {"mergeable_ranks": []}))
    with pytest.raises(ValueError, match="from 0 on"):
        convert_nanoguard.read_encoding(pickled("Encoding", state | {"mergeable_ranks": {b"a": 4}}))


def test_tensors_in_a_dictionary_of_a_dictionary_are_found() -> None:
    tensor = (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storage"
        b"ctorch\nFloatStorage\nX\x01\x00\x00\x000"
        b"X\x03\x00\x00\x00cpuK\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89)tR"
    )
    named = b"X\x01\x00\x00\x00w" + tensor
    inside = (
        b"\x80\x02}(X\x05\x00\x00\x00model}" + named + b"sX\x06\x00\x00\x00config}X\x01\x00\x00\x00nK\x04su."
    )
    assert list(described(inside, "file")) == ["w"]
    twice = b"\x80\x02}(X\x01\x00\x00\x00a}" + named + b"sX\x01\x00\x00\x00b}" + named + b"su."
    assert not described(twice, "file")
