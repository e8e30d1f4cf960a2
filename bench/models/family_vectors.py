"""Tiny random models of every family with their answers, made by transformers: an independent reference for
`tests/unit/models/test_families.py`, which needs neither transformers nor torch.

    python -m bench family-vectors --python DIR/bin/python --output tests/vectors/families

which runs this file in an environment of its own, DIR, with torch 2, peft and transformers 4.44 (ModernBERT:
4.48; decoders and adapters: 5.24, whose names of fields are newer); these are no dependencies of the project.
Each case becomes a folder as `save_pretrained` writes it, weights in half precision, which the model was
rounded to before it answered in double precision, and `expected.json`: token ids and types, or pixels, and
the answer. Adapters of these models stand in `adapters`, beside the folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}, "label2id": {"no": 0, "perhaps": 1, "yes": 2}}
SIZES: dict[str, Any] = {
    "vocab_size": 23,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 19,
}
DISTILLED = {"vocab_size": 23, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20}
DISTILLED["max_position_embeddings"] = 19
MODERN = SIZES | {
    "num_hidden_layers": 4,
    "local_attention": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "reference_compile": False,
    "attn_implementation": "eager",
}
IMAGES = {name: SIZES[name] for name in list(SIZES)[1:5]} | {"image_size": 12, "patch_size": 4}
SMALLER = SIZES | {"embedding_size": 8}
# name -> (class of transformers, changes of its configuration)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-model": ("BertModel", SIZES),
    "bert-class": ("BertForSequenceClassification", SIZES | {"hidden_act": "gelu_new"} | LABELS),
    "bert-tokens": ("BertForTokenClassification", SIZES | {"hidden_act": "silu"} | LABELS),
    "bert-span": ("BertForQuestionAnswering", SIZES),
    "bert-words": ("BertForMaskedLM", SIZES),
    "roberta-model": ("RobertaModel", SIZES | {"type_vocab_size": 1}),
    "roberta-class": ("RobertaForSequenceClassification", SIZES | {"type_vocab_size": 1} | LABELS),
    "roberta-words": ("RobertaForMaskedLM", SIZES | {"type_vocab_size": 1}),
    "xlm-roberta-tokens": ("XLMRobertaForTokenClassification", SIZES | {"pad_token_id": 3} | LABELS),
    "camembert-span": ("CamembertForQuestionAnswering", SIZES),
    "distilbert-class": ("DistilBertForSequenceClassification", DISTILLED | LABELS),
    "distilbert-span": ("DistilBertForQuestionAnswering", DISTILLED),
    "distilbert-words": ("DistilBertForMaskedLM", DISTILLED),
    "electra-model": ("ElectraForPreTraining", SMALLER),
    "electra-class": ("ElectraForSequenceClassification", SMALLER | LABELS),
    "electra-words": ("ElectraForMaskedLM", SMALLER),
    "albert-class": ("AlbertForSequenceClassification", SMALLER | {"num_hidden_layers": 3} | LABELS),
    "albert-words": ("AlbertForMaskedLM", SMALLER),
    "mpnet-model": ("MPNetModel", SIZES),
    "mpnet-class": ("MPNetForSequenceClassification", SIZES | LABELS),
    "mpnet-words": ("MPNetForMaskedLM", SIZES),
    "modernbert-model": ("ModernBertModel", MODERN),
    "modernbert-class": ("ModernBertForSequenceClassification", MODERN | LABELS),
    "modernbert-mean": (
        "ModernBertForSequenceClassification",
        MODERN | {"classifier_pooling": "mean", "norm_bias": True, "attention_bias": True} | LABELS,
    ),
    "modernbert-tokens": ("ModernBertForTokenClassification", MODERN | {"mlp_bias": True} | LABELS),
    "modernbert-words": ("ModernBertForMaskedLM", MODERN),
    "vit-model": ("ViTModel", IMAGES),
    "vit-class": ("ViTForImageClassification", IMAGES | LABELS),
    "deit-class": ("DeiTForImageClassification", IMAGES | {"hidden_act": "relu"} | LABELS),
    "dinov2-model": ("Dinov2Model", IMAGES | {"mlp_ratio": 2}),
}
ROPE: dict[str, Any] = {"rope_theta": 5000.0}
LLAMA3 = ROPE | {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.1, "high_freq_factor": 1.2}
DECODER = SIZES | {"num_attention_heads": 6, "num_key_value_heads": 3, "rms_norm_eps": 1e-3}
DECODER |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "attn_implementation": "eager"}
CASES |= {
    "llama-next": ("LlamaForCausalLM", DECODER | {"hidden_size": 24, "rope_parameters": ROPE}),
    "llama3-next": (
        "LlamaForCausalLM",
        DECODER
        | {"head_dim": 16, "rope_parameters": LLAMA3 | {"original_max_position_embeddings": 10}}
        | {"tie_word_embeddings": True},
    ),
    "llama-linear-next": (
        "LlamaForCausalLM",
        DECODER
        | {"head_dim": 8, "rope_parameters": ROPE | {"rope_type": "linear", "factor": 3.0}}
        | {"attention_bias": True, "mlp_bias": True},
    ),
    "mistral-next": ("MistralForCausalLM", DECODER | {"head_dim": 6, "rope_parameters": ROPE}),
    "qwen2-next": ("Qwen2ForCausalLM", DECODER | {"hidden_size": 24, "rope_parameters": ROPE}),
    "qwen3-next": (
        "Qwen3ForCausalLM",
        DECODER
        | {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "rope_parameters": ROPE},
    ),
    "qwen3-even-next": (
        "Qwen3ForCausalLM",
        DECODER
        | {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 4, "attention_bias": True}
        | {"rope_parameters": ROPE},
    ),
    "gemma-next": ("GemmaForCausalLM", DECODER | {"head_dim": 8, "rope_parameters": ROPE}),
    "phi3-next": ("Phi3ForCausalLM", DECODER | {"hidden_size": 24, "rope_parameters": ROPE}),
    "phi3-partial-next": (
        "Phi3ForCausalLM",
        DECODER
        | {"hidden_size": 24, "rope_parameters": ROPE | {"partial_rotary_factor": 0.5}}
        | {"num_attention_heads": 3, "num_key_value_heads": 1}
        | {"tie_word_embeddings": True, "sliding_window": 17},
    ),
}
IDS = [2, 7, 11, 5, 22, 4, 9, 13, 6, 8, 15]
TYPES = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def made(name: str, changes: dict[str, Any]) -> Any:
    """The model with random numbers that half precision holds, in double precision."""
    kind = getattr(transformers, name)
    torch.manual_seed(len(name) + 17 * len(changes))
    model = kind(kind.config_class(**changes)).eval()
    with torch.no_grad():
        for key, values in model.named_parameters():
            norm = ("norm" in key.lower() and key.endswith("weight")) or "lambda1" in key
            values.copy_((torch.randn_like(values) * (0.3 if norm else 0.4) + norm).half())
    return model.double()


def answered(model: Any) -> dict[str, Any]:
    """What goes in, and the answer."""
    if "image_size" in model.config.to_dict():
        pixels = torch.randn(1, 3, 12, 12).half().double()
        return {"pixels": pixels[0].tolist(), "answer": _answer(model, model(pixel_values=pixels))}
    typed = (
        {"token_type_ids": torch.tensor([TYPES])} if getattr(model.config, "type_vocab_size", 0) > 1 else {}
    )
    found = model(input_ids=torch.tensor([IDS]), attention_mask=torch.ones(1, len(IDS)).long(), **typed)
    return {"ids": IDS, "types": TYPES if typed else [0] * len(IDS), "answer": _answer(model, found)}


def _answer(model: Any, found: Any) -> dict[str, Any]:
    """pooling -> rows of it."""
    if "start_logits" in found:
        rows = torch.stack([found.start_logits[0], found.end_logits[0]], dim=-1)
        return {"": rows.tolist()}
    if "last_hidden_state" in found:
        states = found.last_hidden_state[0]
        vectors = {"cls": states[0].tolist(), "mean": states.mean(dim=0).tolist()}
        pooled = found.get("pooler_output")
        own = pooled is not None and model.config.model_type != "dinov2"  # there it is [CLS] itself
        return vectors | ({"pooler": pooled[0].tolist()} if own else {})
    if type(model).__name__ == "ElectraForPreTraining":
        states = model.electra(torch.tensor([IDS]), token_type_ids=torch.tensor([TYPES])).last_hidden_state[0]
        return {"cls": states[0].tolist(), "mean": states.mean(dim=0).tolist()}
    if type(model).__name__.endswith("ForCausalLM"):
        return {"": found.logits[0, -1].tolist()}
    return {"": found.logits[0].tolist()}


def write(folder: Path, model: Any, case: dict[str, Any]) -> None:
    """config.json, model.safetensors and expected.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads(model.config.to_json_string(use_diff=True))
    config["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    ties = set(model._tied_weights_keys or ()) if model.config.tie_word_embeddings else set()
    kept = {key: values for key, values in model.state_dict().items() if values.is_floating_point()}
    kept = {key: values.half().contiguous() for key, values in kept.items() if key not in ties}
    save_file(kept, folder / "model.safetensors")
    text = json.dumps(case, default=float)
    (folder / "expected.json").write_text(text + "\n")


# name -> (case of the base, settings of peft's LoraConfig)
PATTERNS = {"rank_pattern": {"k_proj": 2}, "alpha_pattern": {"k_proj": 5}}
ADAPTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lora-qwen3": ("qwen3-next", {"target_modules": ["q_proj", "k_proj", "v_proj", "down_proj"], **PATTERNS}),
    "lora-phi3-root": ("phi3-partial-next", {"target_modules": ["qkv_proj", "o_proj"], "use_rslora": True}),
    "lora-bert-head": (
        "bert-class",
        {"target_modules": ["query", "value"], "modules_to_save": ["classifier"]},
    ),
}


def write_adapter(output: Path, name: str) -> None:
    """An adapter of random numbers as peft saves it, and what its base answers with it."""
    import peft

    base, settings = ADAPTERS[name]
    folder = output / "families" / base
    kind = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
    model = peft.get_peft_model(kind.from_pretrained(folder), peft.LoraConfig(r=3, lora_alpha=6, **settings))
    torch.manual_seed(5)
    for key, values in model.named_parameters():
        if "lora_" in key or "modules_to_save" in key:
            values.copy_((torch.randn_like(values) * 0.3).half())
    case = answered(model.double().eval().base_model.model)
    model.half().save_pretrained(place := output / "adapters" / name)
    (place / "README.md").unlink()
    config = json.loads((place / "adapter_config.json").read_text())
    config |= {"base_model_name_or_path": base, "target_modules": sorted(config["target_modules"])}
    (place / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    (place / "expected.json").write_text(json.dumps(case, default=float) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="cases whose name begins with this")
    asked = parser.parse_args()
    torch.set_grad_enabled(False)
    for name, (kind, changes) in CASES.items():
        if not name.startswith(asked.only) or not hasattr(transformers, kind):
            continue
        model = made(kind, changes)
        write(asked.output / name, model, answered(model))
        print(name)
    for name in (name for name in ADAPTERS if name.startswith(asked.only)):
        write_adapter(asked.output.parent, name)
        print(name)


if __name__ == "__main__":
    main()
