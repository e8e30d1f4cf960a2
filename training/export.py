"""Write a classifier as a Hugging Face folder: config, fp16 safetensors, tokenizer."""

import json
from pathlib import Path

import numpy as np
from bert import Shape
from safetensors.numpy import save_file


def config_of(shape: Shape) -> dict:
    """Fields of a BertForSequenceClassification of two labels."""
    return {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.feed_forward,
        "hidden_act": "gelu",
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.dropout,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "initializer_range": 0.02,
        "position_embedding_type": "absolute",
        "pad_token_id": 0,
        "num_labels": 2,
        "id2label": {"0": "negative", "1": "positive"},
        "label2id": {"negative": 0, "positive": 1},
        "problem_type": "single_label_classification",
        "torch_dtype": "float16",
        "vocab_size": shape.vocab,
    }


def write_folder(folder: Path, model, tokenizer, shape: Shape, fields: dict | None = None) -> None:
    """Writes config.json with these fields as well, model.safetensors (fp16) and tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.numpy().astype(np.float16) for k, v in model.state_dict().items()}
    if not all(np.isfinite(t).all() for t in tensors.values()):
        raise ValueError("export: a weight is not finite in fp16; train with a lower rate")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config_of(shape), **(fields or {})}, indent=2) + "\n")
    (folder / "tokenizer.json").write_text(tokenizer.to_str() + "\n")
