"""config.json -> BertConfig: every field that changes the meaning of the weights is read or refused.

Also reads sentence-transformers' `1_Pooling/config.json`, which says that a BertModel is mean-pooled, ModernBERT's field
`classifier_pooling` ("cls", "mean"), ESM's `emb_layer_norm_before` (false: no LayerNorm after the embedding tables) and
`type_vocab_size` 0 (no token types).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacita.errors import CheckpointError
from tacita.models.bert import ACTIVATIONS, POOLINGS, BertConfig
from tacita.models.retrained import MOST_POWER, ORDINARY, Retrained

ARCHITECTURES = ("BertForSequenceClassification", "BertModel")
MAX_JSON_BYTES = 1 << 20
MAX_LAYERS, MAX_HIDDEN, MAX_POSITIONS, MAX_VOCAB, MAX_CLASSES = 24, 4096, 512, 1 << 20, 4096
# fields with a single value that the encrypted circuit implements; absent means that value
FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


def read_config(folder: Path, pooling: str | None, embeddings: bool, has_pooler: bool) -> BertConfig:
    """BertConfig of a folder. Errors: CheckpointError naming file, field, value and what is supported."""
    path = folder / "config.json"
    data = read_json(path)
    classifies = _architecture(path, data) == "BertForSequenceClassification"
    config = BertConfig(
        layers=_integer(path, data, "num_hidden_layers", MAX_LAYERS),
        hidden=_integer(path, data, "hidden_size", MAX_HIDDEN),
        heads=_integer(path, data, "num_attention_heads", MAX_HIDDEN),
        intermediate=_integer(path, data, "intermediate_size", 4 * MAX_HIDDEN),
        vocab=_integer(path, data, "vocab_size", MAX_VOCAB),
        positions=_integer(path, data, "max_position_embeddings", MAX_POSITIONS),
        types=_integer(path, data, "type_vocab_size", 16, default=2, least=0),
        activation=_activation(path, data),
        pooling=_pooling(folder, pooling, data.get("classifier_pooling"), classifies or has_pooler),
        norm_eps=_epsilon(path, data),
        labels=_labels(path, data) if classifies else (),
        embeddings=embeddings,
        retrained=_retrained(path, data),
        embedding_norm=_flag(path, data, "emb_layer_norm_before", True),
    )
    if config.hidden % config.heads:
        raise CheckpointError(
            f"{path}: hidden_size {config.hidden} is not a multiple of num_attention_heads {config.heads}",
            hint="the configuration does not belong to this model",
        )
    return config


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file of at most max_bytes. Errors: CheckpointError (absent, too large, not an
    object).
    """
    check_size(path, max_bytes)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise CheckpointError(f"{path}: not JSON ({error})", hint="the file is damaged or truncated") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: holds a {type(data).__name__}, not an object", hint="wrong file?")
    return data


def check_size(path: Path, max_bytes: int) -> None:
    """CheckpointError unless `path` is a file of 1..max_bytes bytes."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file", hint="need config.json, model.safetensors, tokenizer.json")
    size = path.stat().st_size
    if not 0 < size <= max_bytes:
        raise CheckpointError(f"{path}: {size} bytes, allowed are 1..{max_bytes}", hint="empty or not a model's file")


def _architecture(path: Path, data: Mapping[str, Any]) -> str:
    for field, value in FIXED.items():
        if data.get(field, value) != value:
            raise CheckpointError(f"{path}: {field} is {data[field]!r}", hint=f"only {value!r} is supported")
    names = data.get("architectures")
    name = names[0] if isinstance(names, list) and len(names) == 1 else names
    if name not in ARCHITECTURES:
        raise CheckpointError(f"{path}: architecture {name!r}", hint=f"supported: {', '.join(ARCHITECTURES)}")
    return str(name)


def _activation(path: Path, data: Mapping[str, Any]) -> str:
    name = data.get("hidden_act", "gelu")
    if name not in ACTIVATIONS:
        raise CheckpointError(f"{path}: activation {name!r}", hint=f"supported: {', '.join(ACTIVATIONS)}")
    return str(name)


def _retrained(path: Path, data: Mapping[str, Any]) -> Retrained:
    """Our own fields: a Hugging Face model has none of them."""
    bpmax, batch = data.get("attention_variant") == "bpmax", data.get("norm_variant") == "batch"
    try:
        return Retrained(
            attention_variant=str(data.get("attention_variant", ORDINARY.attention_variant)),
            norm_variant=str(data.get("norm_variant", ORDINARY.norm_variant)),
            power=_integer(path, data, "attention_power", MOST_POWER) if bpmax else 0,
            offset=float(data["attention_offset"]) if bpmax else 0.0,
            denominators=tuple(float(v) for v in data["attention_denominators"]) if bpmax else (),
            deviations=tuple((float(a), float(b)) for a, b in data["norm_deviations"]) if batch else (),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: stored statistics of a retrained model: {error!r}",
            hint="bpmax needs attention_power, _offset, _denominators; batch needs norm_deviations (pairs)",
        ) from None


def _integer(
    path: Path, data: Mapping[str, Any], field: str, top: int, default: int | None = None, least: int = 1
) -> int:
    value = data.get(field, default)
    if type(value) is not int or not least <= value <= top:
        raise CheckpointError(f"{path}: {field} is {value!r}", hint=f"it must be an integer from {least} to {top}")
    return value


def _flag(path: Path, data: Mapping[str, Any], field: str, default: bool) -> bool:
    value = data.get(field, default)
    if not isinstance(value, bool):
        raise CheckpointError(f"{path}: {field} is {value!r}", hint="it must be true or false")
    return value


def _epsilon(path: Path, data: Mapping[str, Any]) -> float:
    value = data.get("layer_norm_eps", 1e-12)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 0.1:
        raise CheckpointError(f"{path}: layer_norm_eps is {value!r}", hint="it must be a number from 0 to 0.1")
    return float(value)


def _labels(path: Path, data: Mapping[str, Any]) -> tuple[str, ...]:
    """id2label in id order; num_labels (default 2) when it is absent."""
    given = data.get("id2label")
    if not isinstance(given, dict):
        count = _integer(path, data, "num_labels", MAX_CLASSES, default=2)
        return tuple(f"LABEL_{i}" for i in range(count))
    if not 1 <= len(given) <= MAX_CLASSES or set(given) != {str(i) for i in range(len(given))}:
        raise CheckpointError(f"{path}: id2label has keys {sorted(given)[:8]}", hint="they must be 0..classes-1")
    return tuple(str(given[str(i)]) for i in range(len(given)))


def _pooling(folder: Path, asked: str | None, stated: str | None, has_pooler: bool) -> str:
    for name in (asked, stated):
        if name is not None and name not in POOLINGS:
            raise CheckpointError(f"{folder}: pooling {name!r}", hint=f"supported: {', '.join(POOLINGS)}")
    sentences = _sentence_pooling(folder / "1_Pooling" / "config.json")
    return asked or stated or sentences or ("cls" if has_pooler else "mean")


def _sentence_pooling(path: Path) -> str | None:
    return "mean" if path.is_file() and read_json(path).get("pooling_mode_mean_tokens") is True else None
