"""Tiny random models for tests: `make_random_checkpoint` in memory, `write_folder` as a Hugging Face
folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models.bert import BertConfig
from tacita.models.registry import tensor_shapes

WORDS = ("a", "fine", "dull", "film", "the", "plot", "is", "never", "boring", "good", "bad", "very", ".", ",")
ARCHITECTURES = {
    "tokens": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
    "words": "BertForMaskedLM",
}
HEADS = ("classifier", "qa_outputs", "cls")  # tensors that never have the prefix


def make_random_checkpoint(
    layers: int = 2,
    hidden: int = 16,
    heads: int = 2,
    ff: int = 32,
    vocab: int = 32,
    *,
    activation: str = "gelu",
    pooling: str = "pooler",
    positions: int = 64,
    labels: tuple[str, ...] = ("negative", "positive"),
    normalise: bool = False,
    task: str = "text",
    seed: int = 1,
) -> Checkpoint:
    """Random weights scaled so that scores, variances and activations have realistic sizes. task: of a model
    that answers for every token, whose pooling is then none."""
    config = BertConfig(
        layers,
        hidden,
        heads,
        ff,
        vocab,
        positions,
        2,
        activation,
        pooling if task == "text" else "none",
        1e-12,
        labels,
        normalise=normalise,
        task=task,
    )
    return from_tensors(config, random_tensors(config, seed), make_tokenizer(vocab), name="random")


def random_tensors(config: BertConfig, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in tensor_shapes(config).items():
        norm = "LayerNorm.weight" in name
        spread = 0.1 if len(shape) == 1 else (1.0 if "embeddings" in name else 1.5 / np.sqrt(shape[1]))
        tensors[name] = rng.normal(1.0 if norm else 0.0, spread, shape)
    return tensors


def make_tokenizer(vocab: int) -> Tokenizer:
    """WordPiece over WORDS, filled up to `vocab` entries, with BERT's [CLS] and [SEP]."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    entries = [*special, *WORDS, *(f"##{i}" for i in range(vocab))][: vocab - 1]
    table = {word: i for i, word in enumerate([*entries, "[MASK]"])}
    tokenizer = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    tokenizer.add_special_tokens([*special, "[MASK]"])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", table["[CLS]"]), ("[SEP]", table["[SEP]"])],
    )
    return tokenizer


def config_json(config: BertConfig) -> dict[str, object]:
    named = config.labels and config.task == "text" and config.pooling != "pooler"
    stated = {"classifier_pooling": config.pooling} if named else {}
    usual = "BertForSequenceClassification" if config.labels else "BertModel"
    return stated | {
        "architectures": [ARCHITECTURES.get(config.task, usual)],
        "model_type": "bert",
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "intermediate_size": config.intermediate,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.positions,
        "type_vocab_size": config.types,
        "hidden_act": config.activation,
        "layer_norm_eps": config.norm_eps,
        "id2label": {str(i): label for i, label in enumerate(config.labels)},
    }


def write_folder(
    checkpoint: Checkpoint, folder: Path, *, prefix: str = "bert.", dtype: type[np.floating] = np.float32
) -> Path:
    """Write config.json, model.safetensors and tokenizer.json; the classifier never has the prefix. An
    encoder without pooler gets the files of sentence-transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(checkpoint.config)))
    tensors = {
        name if name.startswith(HEADS) else prefix + name: np.ascontiguousarray(t, dtype=dtype)
        for name, t in checkpoint.tensors.items()
    }
    save_file(tensors, folder / "model.safetensors")
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.save(str(folder / "tokenizer.json"))
    config = checkpoint.config
    if not config.labels and config.pooling in ("cls", "mean"):
        write_sentence_files(folder, config.hidden, config.pooling, normalise=config.normalise)
    return folder


def write_sentence_files(
    folder: Path, hidden: int, pooling: str, *, normalise: bool, **changes: object
) -> None:
    """modules.json and 1_Pooling as sentence-transformers writes them. pooling: cls or mean. changes: of
    1_Pooling/config.json."""
    kinds = [
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        *([("2_Normalize", "Normalize")] if normalise else []),
    ]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    flags = {
        f"pooling_mode_{name}": False for name in ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
    }
    flags |= {f"pooling_mode_{name}": False for name in ("mean_sqrt_len_tokens", "weightedmean_tokens")}
    flags["pooling_mode_cls_token" if pooling == "cls" else "pooling_mode_mean_tokens"] = True
    (folder / "1_Pooling").mkdir(exist_ok=True)
    stored = {"word_embedding_dimension": hidden, **flags, "include_prompt": True, **changes}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(stored))
