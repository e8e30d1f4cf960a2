"""Write the student as a Hugging Face folder: config, fp16 safetensors, tokenizer."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "model_type": "bert",
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 128,
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
}


def write_folder(folder: Path, model, tokenizer, pieces: int) -> None:
    """Writes config.json, model.safetensors (fp16) and tokenizer.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.numpy().astype(np.float16) for k, v in model.state_dict().items()}
    if not all(np.isfinite(t).all() for t in tensors.values()):
        raise ValueError("export: a weight is not finite in fp16; train with a lower rate")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**CONFIG, "vocab_size": pieces}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").write_text(tokenizer.to_str() + "\n")
