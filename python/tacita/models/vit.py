"""ViT (arXiv 2010.11929), DeiT and DINOv2: images, norms before the blocks, in DINOv2 a factor for every
feature after each block (layer scale). The client maps patches to tokens (`texts.images`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, T
from tacita.errors import CheckpointError, PlanError
from tacita.extras import AT_DEFAULT
from tacita.models import bert
from tacita.models.shared import layers
from tacita.models.shared.config import TEXT, EncoderConfig, Names, check_task
from tacita.models.shared.layers import CLASS, MODEL, Layer, Step, pre_norm
from tacita.texts.embedding import FIRST, MAX_POSITIONS, PATCHES, POSITIONS

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES = ("vit", "deit", "dinov2")
ARCHITECTURES = {
    **{f"{name}Model": MODEL for name in ("ViT", "DeiT", "Dinov2")},
    **{f"{name}ForImageClassification": CLASS for name in ("ViT", "DeiT")},
}
OPTIONS = {"activation": bert.ACTIVATIONS, "pooling": layers.POOLINGS}
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
    image = f.image(extra=2 if kind == "deit" else 1, any_size=scaled)
    hidden = f.width("hidden_size")
    wide = f.integer("mlp_ratio", 64, default=4) * hidden if scaled else f.wide("intermediate_size")
    return ViTConfig(
        layers=f.layers("num_hidden_layers"),
        hidden=hidden,
        heads=f.heads("num_attention_heads", "hidden_size"),
        intermediate=wide,
        vocab=1,
        positions=image.tokens,
        types=0,
        activation=f.activation("hidden_act", "gelu"),
        norm_eps=f.epsilon("layer_norm_eps", 1e-6 if scaled else 1e-12),
        embedding_norm=False,
        image=image,
        layer_scale=scaled,
        qkv_bias=f.flag("qkv_bias", True),
        **answer,
    )


def names(m: ViTConfig) -> Names:
    """Returns DINOv2's names."""
    prefixes = ("dinov2.",) if m.layer_scale else ("vit.", "deit.")
    if m.layer_scale and m.image:
        return Names(prefixes, SCALED, flat=FLAT, square_after=m.image.extra)
    return Names(prefixes, PARTS, flat=FLAT)


def classifier_pooling(f: Fields) -> str:
    """Classifiers read the first token."""
    return "cls"


def vector_pooling(m: ViTConfig) -> str:
    """DINOv2's vector is the first token behind the last norm; the others have a map for it."""
    return "cls" if m.layer_scale else "pooler"


def forward(b: Blocks[T, A], m: ViTConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`."""
    x = pre_norm(b, m, x, lambda i: _layer(m, i), all_rows=all_rows)
    return layers.answer(b, m, b.norm(x, _norm(m, "layernorm"), "final_norm"), _steps(m))


def front(b: Blocks[T, A], m: ViTConfig, words: T) -> T:
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


def _steps(m: ViTConfig) -> Sequence[Step]:
    return [*layers.pooler(m), *layers.classifier(m)]


def _norm(m: ViTConfig, name: str) -> Norm:
    return Norm(name, m.hidden, m.norm_eps)
