"""LLaMA (arXiv 2302.13971) and decoders of the same blocks: Mistral, Qwen2, SmolLM. RMS norms before the
blocks, rotary positions, grouped heads, SwiGLU; the answer is how well each word comes next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import CAUSAL, Attention, Blocks, Dense, FeedForward, Norm, Rotary, T
from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.models import bert
from tacita.models.shared import decoders
from tacita.models.shared import layers as heads
from tacita.models.shared.config import Names
from tacita.models.shared.decoders import BASE, MOST_BASE, DecoderConfig, check_decoder
from tacita.models.shared.layers import Layer, Step, pre_norm

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES: tuple[str, ...] = ()  # without an architecture it is not said what comes after the layers
ARCHITECTURES = {f"{name}ForCausalLM": heads.CAUSAL for name in ("Llama", "Mistral", "Qwen2")}
OPTIONS = {"activation": bert.ACTIVATIONS, "pooling": heads.DECODER}
KINDS = ("llama", "mistral", "qwen2")


@dataclass(frozen=True)
class LlamaConfig(DecoderConfig):
    """The configuration of a LLaMA model. shared: heads of queries that share one of keys and values. base:
    of the rotary positions. biases: of queries, keys and values, of the attention's output, of the
    feed-forward."""

    shared: int = field(default=1, metadata=AT_DEFAULT)
    base: float = field(default=BASE, metadata=AT_DEFAULT)
    biases: tuple[bool, bool, bool] = field(default=(False, False, False), metadata=AT_DEFAULT)


def read(f: Fields, **answer: Any) -> LlamaConfig:
    """Reads config.json."""
    kind, count = f.name("model_type", KINDS, "llama"), f.heads("num_attention_heads", "hidden_size")
    layers, hidden = f.layers("num_hidden_layers"), f.width("hidden_size")
    decoders.refuse_others(f, hidden // count, layers)
    every = f.flag("attention_bias", False)
    return LlamaConfig(
        layers=layers,
        hidden=hidden,
        heads=count,
        intermediate=f.wide("intermediate_size"),
        vocab=f.vocab("vocab_size"),
        positions=decoders.positions(f, kind),
        types=0,
        activation=f.activation("hidden_act", "silu"),
        norm_eps=f.epsilon("rms_norm_eps", 1e-6),
        embedding_norm=False,
        position_table=False,
        shared=decoders.shared(f, count),
        base=decoders.base(f),
        biases=(every or kind == "qwen2", every, f.flag("mlp_bias", False)),
        tied=f.flag("tie_word_embeddings", False),
        ends=decoders.ends(f),
        **answer,
    )


def names(m: DecoderConfig) -> Names:
    """Returns Hugging Face's names but for the table of words."""
    table = "embed_tokens.weight"
    tied = {"lm_head.weight": table} if m.tied else {}
    return Names(("model.",), {bert.WORD_TABLE: table, **tied})


def classifier_pooling(f: Fields) -> str:
    """There are no classifiers."""
    return heads.DECODER[0]


def forward(b: Blocks[T, A], m: LlamaConfig, x: T, *, all_rows: bool = False) -> A:
    """Maps hidden states (tokens, hidden) to logits of the next token (1, vocab); see `bert.forward`."""
    x = pre_norm(b, m, x, lambda i: _layer(m, i), all_rows=all_rows)
    x = b.norm(x, _norm(m, "norm"), "final_norm")
    return heads.answer(b, m, x, [Step("decoder", Dense("lm_head", m.hidden, m.vocab, bias=False))])


front = bert.front


def check(m: LlamaConfig) -> None:
    """Raises CheckpointError for another task, and for heads and positions out of range."""
    check_decoder(m)
    if m.shared < 1 or m.heads % m.shared or not 1.0 <= m.base <= MOST_BASE:
        raise CheckpointError(
            f"{m.heads} heads of which {m.shared} share keys, base {m.base:g}",
            hint="keys are shared evenly, and angles do not grow",
        )


def _layer(m: LlamaConfig, i: int) -> Layer:
    at, hidden, wide = f"layers.{i}.", m.hidden, m.intermediate
    first, last, far = m.biases
    sizes = {"q": hidden, "k": hidden // m.shared, "v": hidden // m.shared}
    q, k, v = (Dense(f"{at}self_attn.{part}_proj", hidden, size, bias=first) for part, size in sizes.items())
    output = Dense(f"{at}self_attn.o_proj", hidden, hidden, bias=last)
    attention = Attention(m.heads, q, k, v, output, rotary=Rotary(m.base), reach=CAUSAL, shared=m.shared)
    gate, up = (Dense(f"{at}mlp.{part}_proj", hidden, wide, bias=far) for part in ("gate", "up"))
    down = Dense(f"{at}mlp.down_proj", wide, hidden, bias=far)
    block = FeedForward(up, m.activation, down, gate)
    return Layer(
        attention, _norm(m, f"{at}input_layernorm"), block, _norm(m, f"{at}post_attention_layernorm")
    )


def _norm(m: LlamaConfig, name: str) -> Norm:
    return Norm(name, m.hidden, m.norm_eps, centred=False, beta=False)
