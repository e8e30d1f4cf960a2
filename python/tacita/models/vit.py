"""ViT (arXiv 2010.11929), DeiT and DINOv2: images, norms before the blocks, in DINOv2 a factor for every
feature after each block (layer scale). The client maps patches to tokens (`texts.images`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm
from tacita.errors import CheckpointError, PlanError
from tacita.extras import AT_DEFAULT
from tacita.models.config import KNOWN, EncoderConfig, Names, check_task
from tacita.models.fields import Fields, read_image
from tacita.models.layers import (
    CLASS,
    MODEL,
    POOLINGS,
    Family,
    Layer,
    forward_of,
    pooler_and_classifier,
)
from tacita.texts.embedding import FIRST, MAX_POSITIONS, PATCHES, POSITIONS
from tacita.texts.task import TEXT

MODEL_TYPES = ("vit", "deit", "dinov2")
SCALED = {POSITIONS: POSITIONS.removesuffix(".weight")}
PARTS = SCALED | {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}
FLAT = frozenset((*FIRST, POSITIONS, f"{PATCHES}.weight"))  # files keep more axes


@dataclass(frozen=True)
class ViTConfig(EncoderConfig):
    """The configuration of a vision transformer. layer_scale: whether blocks have it, as DINOv2's. qkv_bias:
    whether queries, keys and values have biases."""

    layer_scale: bool = field(default=False, metadata=AT_DEFAULT)
    qkv_bias: bool = field(default=True, metadata=AT_DEFAULT)


def read(f: Fields, **answer: Any) -> ViTConfig:
    """Reads config.json, and preprocessor_config.json where there is one."""
    kind = f.name("model_type", MODEL_TYPES, "vit")
    scaled = kind == "dinov2"
    for name, value in (("num_channels", 3), ("use_swiglu_ffn", False), ("pooler_act", "tanh")):
        f.only(name, value)
    image = read_image(f, extra=2 if kind == "deit" else 1, any_size=scaled)
    wide = None if scaled else "intermediate_size"
    sizes = f.sizes(intermediate=wide, vocab=None, positions=None)
    if scaled:
        sizes["intermediate"] = f.integer("mlp_ratio", 64, default=4) * sizes["hidden"]
    return ViTConfig(
        **sizes,
        vocab=1,
        positions=image.tokens,
        activation=f.activation("hidden_act", "gelu"),
        norm_eps=f.epsilon("layer_norm_eps", 1e-6 if scaled else 1e-12),
        embedding_norm=False,
        image=image,
        layer_scale=scaled,
        qkv_bias=f.flag("qkv_bias", True),
        **answer,
    )


def names(m: ViTConfig) -> Names:
    """Returns DINOv2's names, or those of the two others."""
    if m.layer_scale and m.image:
        return Names(("dinov2.",), SCALED, flat=FLAT, square_after=m.image.extra)
    return Names(("vit.", "deit."), PARTS, flat=FLAT)


def front(b: Blocks[Any, Any], m: ViTConfig, words: Any) -> NoReturn:
    """Raises PlanError: an image has no words whose table could stay at the server."""
    raise PlanError("a hidden embedding of images", hint="publish it: the client maps patches to tokens")


def check(m: ViTConfig) -> None:
    """Raises CheckpointError for tasks of texts, and images of more tokens than plans have."""
    check_task(m)
    if m.image is None or m.task != TEXT:
        raise CheckpointError(f"task {m.task!r} of images", hint="an image has one answer")
    if m.image.tokens > MAX_POSITIONS:
        raise CheckpointError(
            f"images of {m.image.size} pixels: {m.image.tokens} tokens, at most {MAX_POSITIONS} are planned",
            hint="take the checkpoint for smaller images (224 pixels), or larger patches",
        )


def _layer(m: ViTConfig, i: int) -> Layer:
    at, hidden, wide = f"encoder.layer.{i}.", m.hidden, m.intermediate
    first, second = (f"{at}layer_scale{k}.lambda1" if m.layer_scale else "" for k in (1, 2))
    query, key, value = (
        Dense(f"{at}attention.attention.{name}", hidden, hidden, bias=m.qkv_bias)
        for name in ("query", "key", "value")
    )
    output = Dense(f"{at}attention.output.dense", hidden, hidden, gain=first)
    up, down = Dense(f"{at}mlp.fc1", hidden, wide), Dense(f"{at}mlp.fc2", wide, hidden, gain=second)
    return Layer(
        Attention(m.heads, query, key, value, output),
        _norm(m, f"{at}norm1"),
        FeedForward(up, m.activation, down),
        _norm(m, f"{at}norm2"),
    )


def _norm(m: ViTConfig, name: str = "layernorm") -> Norm:
    return Norm(name, m.hidden, m.norm_eps)


FAMILY = Family(
    ViTConfig,
    {"activation": KNOWN, "pooling": POOLINGS},
    forward_of(_layer, pooler_and_classifier, _norm),
    read,
    names,
    architectures={
        **{f"{name}Model": MODEL for name in ("ViT", "DeiT", "Dinov2")},
        **{f"{name}ForImageClassification": CLASS for name in ("ViT", "DeiT")},
    },
    model_types=MODEL_TYPES,
    # DINOv2's vector is the first token behind the last norm; the others have a map for it
    vector_pooling=lambda m: "cls" if m.layer_scale else "pooler",
    check=check,
    front=front,
)
