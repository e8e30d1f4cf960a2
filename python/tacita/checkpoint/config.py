"""config.json -> a configuration: every field that changes the meaning of the weights is read or refused.

Also reads ModernBERT's field `classifier_pooling` ("cls": the raw vector of [CLS]; "mean"), ESM's
`emb_layer_norm_before` (false: no LayerNorm after the embedding tables) and `type_vocab_size` 0 (no token
types). What an embedding is read from, the files of sentence-transformers say (`checkpoint.sentences`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacita.checkpoint.files import read_json
from tacita.checkpoint.sentences import Sentences, read_sentences
from tacita.errors import CheckpointError
from tacita.front.limits import MAX_CLASSES, MAX_HIDDEN, MAX_LAYERS, MAX_POSITIONS, MAX_TYPES, MAX_VOCAB
from tacita.models.registry import FAMILIES, Config
from tacita.models.retrained import MOST_POWER, ORDINARY, Retrained

ARCHITECTURES = ("BertForSequenceClassification", "BertModel")
FAMILY = "bert"  # of these architectures
ACTIVATIONS, POOLINGS = (FAMILIES[FAMILY].options[name] for name in ("activation", "pooling"))
CLASSIFIER_POOLINGS = ("cls", "mean")
# fields with a single value that the encrypted circuit implements; absent means that value
FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


def read_config(folder: Path, pooling: str | None, embeddings: bool, has_pooler: bool) -> Config:
    """Configuration of a folder. Errors: CheckpointError naming file, field, value and what is supported."""
    path = folder / "config.json"
    data = read_json(path)
    classifies = _architecture(path, data) == "BertForSequenceClassification"
    hidden = _integer(path, data, "hidden_size", MAX_HIDDEN)
    answer = (
        _classifier_pooling(folder, data, pooling)
        if classifies
        else _pooling(folder, hidden, pooling, has_pooler)
    )
    config: Config = FAMILIES[FAMILY].config(
        layers=_integer(path, data, "num_hidden_layers", MAX_LAYERS),
        hidden=hidden,
        heads=_integer(path, data, "num_attention_heads", MAX_HIDDEN),
        intermediate=_integer(path, data, "intermediate_size", 4 * MAX_HIDDEN),
        vocab=_integer(path, data, "vocab_size", MAX_VOCAB),
        positions=_integer(path, data, "max_position_embeddings", MAX_POSITIONS),
        types=_integer(path, data, "type_vocab_size", MAX_TYPES, default=2, least=0),
        activation=_activation(path, data),
        pooling=answer.pooling,
        norm_eps=_epsilon(path, data),
        labels=_labels(path, data) if classifies else (),
        embeddings=embeddings,
        retrained=_retrained(path, data),
        embedding_norm=_flag(path, data, "emb_layer_norm_before", True),
        normalise=answer.normalise,
    )
    if config.hidden % config.heads:
        raise CheckpointError(
            f"{path}: hidden_size {config.hidden} is not a multiple of num_attention_heads {config.heads}",
            hint="the configuration does not belong to this model",
        )
    return config


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
        raise CheckpointError(
            f"{path}: {field} is {value!r}", hint=f"it must be an integer from {least} to {top}"
        )
    return value


def _flag(path: Path, data: Mapping[str, Any], field: str, default: bool) -> bool:
    value = data.get(field, default)
    if not isinstance(value, bool):
        raise CheckpointError(f"{path}: {field} is {value!r}", hint="it must be true or false")
    return value


def _epsilon(path: Path, data: Mapping[str, Any]) -> float:
    value = data.get("layer_norm_eps", 1e-12)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 0.1:
        raise CheckpointError(
            f"{path}: layer_norm_eps is {value!r}", hint="it must be a number from 0 to 0.1"
        )
    return float(value)


def _labels(path: Path, data: Mapping[str, Any]) -> tuple[str, ...]:
    """id2label in id order; num_labels (default 2) when it is absent."""
    given = data.get("id2label")
    if not isinstance(given, dict):
        count = _integer(path, data, "num_labels", MAX_CLASSES, default=2)
        return tuple(f"LABEL_{i}" for i in range(count))
    if not 1 <= len(given) <= MAX_CLASSES or set(given) != {str(i) for i in range(len(given))}:
        raise CheckpointError(
            f"{path}: id2label has keys {sorted(given)[:8]}", hint="they must be 0..classes-1"
        )
    return tuple(str(given[str(i)]) for i in range(len(given)))


def _classifier_pooling(folder: Path, data: Mapping[str, Any], asked: str | None) -> Sentences:
    """A classifier was trained on one pooling: BERT's on the tanh pooler, ModernBERT's on what
    `classifier_pooling` says."""
    named = data.get("classifier_pooling")
    if named not in (None, *CLASSIFIER_POOLINGS):
        raise CheckpointError(
            f"{folder}: classifier_pooling {named!r}", hint=f"supported: {CLASSIFIER_POOLINGS}"
        )
    stated = str(named or "pooler")
    if asked not in (None, stated):
        raise CheckpointError(
            f"{folder}: pooling {asked!r}, the classifier was trained on {stated!r}",
            hint="leave --pooling out",
        )
    files = None if asked else read_sentences(folder, data["hidden_size"])
    if files and (files.pooling != stated or files.normalise):
        raise CheckpointError(
            f"{folder}: modules.json describes another answer ({files.pooling}) than the classifier's "
            f"({stated})",
            hint=f"--pooling {stated} classifies; for embeddings, architectures must say BertModel",
        )
    return Sentences(stated, normalise=False)


def _pooling(folder: Path, hidden: int, asked: str | None, has_pooler: bool) -> Sentences:
    """Of an encoder: the user's word, else the folder's files, else the pooler if its weights are stored."""
    if asked is not None and asked not in POOLINGS:
        raise CheckpointError(f"{folder}: pooling {asked!r}", hint=f"supported: {', '.join(POOLINGS)}")
    if files := read_sentences(folder, hidden, asked):
        return files
    if asked is None and not has_pooler:
        raise CheckpointError(
            f"{folder}: nothing says how a text's vector is read from the last layer (no modules.json, no "
            "pooler weights)",
            hint="say --pooling cls or --pooling mean, as the model was trained",
        )
    return Sentences(asked or "pooler", normalise=False)
