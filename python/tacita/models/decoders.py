"""GPT-2 and LLaMA's relatives: decoders, whose answer is how well each word of the vocabulary comes next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import log2, sqrt
from typing import Any

import numpy as np

from tacita.blocks.base import CAUSAL, Attention, Dense, FeedForward, Norm, Rotary
from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.models.config import KNOWN, EncoderConfig, Names, check_task
from tacita.models.fields import Fields
from tacita.models.layers import DECODER, Family, Layer, Step, forward_of
from tacita.models.rotary import BASE, MOST_BASE, angle_scales, base_of, turning_features
from tacita.texts.embedding import MAX_ENDS, MAX_HIDDEN, MAX_VOCAB, POSITIONS, WORDS
from tacita.texts.task import NEXT

OPTIONS = {"activation": KNOWN, "pooling": DECODER}


@dataclass(frozen=True)
class DecoderConfig(EncoderConfig):
    """The configuration of a decoder. tied: whether the table of words is the last map, too. ends: tokens
    that end a text."""

    tied: bool = field(default=False, metadata=AT_DEFAULT)
    ends: tuple[int, ...] = field(default=(), metadata=AT_DEFAULT)


def check_decoder(m: DecoderConfig) -> None:
    """Raises CheckpointError for another task than the next token, and for ends that are no tokens."""
    check_task(m)
    ends = all(0 <= token < m.vocab for token in m.ends) and len(m.ends) <= MAX_ENDS
    if not m.last_token or not ends:
        raise CheckpointError(
            f"task {m.task!r}, ends {m.ends!r:.80} of {m.vocab} tokens",
            hint="a decoder says what comes next, and tokens of its vocabulary end a text",
        )


def _ends(f: Fields) -> tuple[int, ...]:
    """Reads the tokens that end a text: none, one, or several. What generation_config.json lists goes before
    config.json, as chats end with a token of their own, which stands there alone."""
    beside = f.beside("generation_config.json")
    f = beside if beside and beside.data.get("eos_token_id") is not None else f
    value = f.data.get("eos_token_id")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(token) is int and 0 <= token < MAX_VOCAB for token in listed) or len(listed) > MAX_ENDS:
        f.refuse("eos_token_id", f"it must be a token or up to {MAX_ENDS} of them")
    return tuple(listed)


def _next_word(m: DecoderConfig) -> list[Step]:
    return [Step("decoder", Dense("lm_head", m.hidden, m.vocab, bias=False))]


def _names(m: DecoderConfig, prefix: str, parts: dict[str, str], turned: tuple[str, ...] = ()) -> Names:
    """Returns Hugging Face's names. parts: of the tables."""
    tied = {"lm_head.weight": parts[WORDS]} if m.tied else {}
    return Names((prefix,), parts | tied, transposed=turned)


# GPT-2 (Radford et al. 2019): LayerNorms before the blocks, learned positions, tanh's GELU, and the table of
# words as the last map. Files keep matrices with inputs first.

MAPS = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")


class Gpt2Config(DecoderConfig):
    """The configuration of a GPT-2 model; fields: see `DecoderConfig`."""


def _read_gpt2(f: Fields, **answer: Any) -> Gpt2Config:
    f.only("scale_attn_weights", True)
    f.only("scale_attn_by_inverse_layer_idx", False)
    f.only("add_cross_attention", False)
    f.only("pruned_heads", {})
    f.only("model_type", "gpt2")
    inner = None if f.data.get("n_inner") is None else "n_inner"
    return Gpt2Config(
        **f.sizes(
            layers="n_layer", hidden="n_embd", heads="n_head", intermediate=inner, positions="n_positions"
        ),
        activation=f.activation("activation_function", "gelu_new"),
        norm_eps=f.epsilon("layer_norm_epsilon", 1e-5),
        embedding_norm=False,
        tied=f.flag("tie_word_embeddings", True),
        ends=_ends(f),
        **answer,
    )


def _gpt2_names(m: Gpt2Config) -> Names:
    turned = tuple(f"h.{i}.{name}.weight" for i in range(m.layers) for name in MAPS)
    return _names(m, "transformer.", {WORDS: "wte.weight", POSITIONS: "wpe.weight"}, turned)


def _gpt2_layer(m: Gpt2Config, i: int) -> Layer:
    at, hidden, wide = f"h.{i}.", m.hidden, m.intermediate
    q, k, v = (Dense(f"{at}attn.c_attn", hidden, hidden, part=(part, 3)) for part in range(3))
    attention = Attention(m.heads, q, k, v, Dense(f"{at}attn.c_proj", hidden, hidden), reach=CAUSAL)
    up, down = Dense(f"{at}mlp.c_fc", hidden, wide), Dense(f"{at}mlp.c_proj", wide, hidden)
    first, second = (Norm(f"{at}ln_{n}", hidden, m.norm_eps) for n in (1, 2))
    return Layer(attention, first, FeedForward(up, m.activation, down), second)


GPT2 = Family(
    Gpt2Config,
    OPTIONS,
    forward_of(_gpt2_layer, _next_word, lambda m: Norm("ln_f", m.hidden, m.norm_eps)),
    _read_gpt2,
    _gpt2_names,
    {"GPT2LMHeadModel": NEXT},
    check=check_decoder,
)


# LLaMA (arXiv 2302.13971) and decoders of the same blocks: Mistral, Qwen2, SmolLM, LLaMA 3. RMS norms before
# the blocks, rotary positions, grouped heads, SwiGLU. Further ones, below, are families of their own where a
# plan on ciphertexts must know of a node, or a file has other tensors.

KINDS = ("llama", "mistral", "qwen2")
WINDOWED = ("mistral", "phi3")  # whose sliding windows need no other field
WINDOW = 4096  # of those whose field is absent: Phi-3's have none then


@dataclass(frozen=True)
class LlamaConfig(DecoderConfig):
    """The configuration of a LLaMA model. shared: heads of queries that share one of keys and values. base,
    scales: of the rotary positions. biases: of queries, keys and values, of the attention's output, of the
    feed-forward. head_size: features of a head; 0 where the heads divide the hidden states among them."""

    shared: int = field(default=1, metadata=AT_DEFAULT)
    base: float = field(default=BASE, metadata=AT_DEFAULT)
    biases: tuple[bool, bool, bool] = field(default=(False, False, False), metadata=AT_DEFAULT)
    head_size: int = field(default=0, metadata=AT_DEFAULT)
    scales: tuple[float, ...] = field(default=(), metadata=AT_DEFAULT)

    @property
    def head_features(self) -> int:
        """Features of a head."""
        return self.head_size or self.hidden // self.heads

    @property
    def unit(self) -> float:
        """What 1 is stored as between the blocks."""
        return 1.0


def _read_llama(
    f: Fields,
    config: type[LlamaConfig] = LlamaConfig,
    kinds: tuple[str, ...] = KINDS,
    head_size: int = 0,
    key_heads: int = 0,
    tied: bool = False,
    **answer: Any,
) -> Any:
    """Reads config.json. head_size, key_heads, tied: what transformers takes where a field is absent; 0 for
    what follows from the other sizes."""
    kind, sizes = f.name("model_type", kinds, kinds[0]), f.sizes(head_size="head_dim")
    _refuse_others(f, sizes["layers"])
    every, even = f.flag("attention_bias", False), sizes["hidden"] // sizes["heads"]
    absent = f.data.get("head_dim") is None and not head_size
    size = even if absent else f.integer("head_dim", MAX_HIDDEN, head_size)
    base = base_of(f)
    return config(
        **sizes | {"positions": _positions(f, kind, sizes["positions"])},
        activation=f.activation("hidden_act", "silu"),
        norm_eps=f.epsilon("rms_norm_eps", 1e-5 if kind == "phi3" else 1e-6),
        embedding_norm=False,
        position_table=False,
        shared=_shared(f, sizes["heads"], key_heads),
        base=base,
        biases=(every or kind == "qwen2", every, f.flag("mlp_bias", False)),
        head_size=0 if size * sizes["heads"] == sizes["hidden"] else size,
        scales=angle_scales(f, base, size, turning_features(f, size, kind)),
        tied=f.flag("tie_word_embeddings", tied),
        ends=_ends(f),
        **answer,
    )


def _refuse_others(f: Fields, layers: int) -> None:
    """Refuses what would change the model and is not here."""
    f.only("layer_types", ["full_attention"] * layers)
    f.only("pretraining_tp", 1)
    f.only("is_decoder", True)
    f.only("add_cross_attention", False)
    f.only("is_causal", True)
    f.only("use_bidirectional_attention", False)


def _positions(f: Fields, kind: str, most: int) -> int:
    """No more than a sliding window of keys, inside which it hides nothing."""
    absent = None if kind == "phi3" else WINDOW
    if not f.flag("use_sliding_window", kind in WINDOWED) or f.data.get("sliding_window", absent) is None:
        return most
    return min(most, f.integer("sliding_window", 1 << 20, absent))


def _shared(f: Fields, heads: int, default: int) -> int:
    """How many heads of queries share keys and values."""
    absent = f.data.get("num_key_value_heads") is None and not default
    of_keys = heads if absent else f.integer("num_key_value_heads", heads, default)
    if heads % of_keys:
        f.refuse("num_key_value_heads", f"it must divide the {heads} heads of queries")
    return heads // of_keys


def _check_llama(m: LlamaConfig) -> None:
    """Raises CheckpointError for another task, and for heads and positions out of range."""
    check_decoder(m)
    if m.shared < 1 or m.heads % m.shared or not 1.0 <= m.base <= MOST_BASE:
        raise CheckpointError(
            f"{m.heads} heads of which {m.shared} share keys, base {m.base:g}",
            hint="keys are shared evenly, and angles do not grow",
        )
    size = m.head_features
    fits = len(m.scales) in (0, size // 2) and all(0.0 <= scale <= 1.0 for scale in m.scales)
    if not 2 <= size <= MAX_HIDDEN or size % 2 or m.heads * size > 4 * MAX_HIDDEN or not fits:
        raise CheckpointError(
            f"{m.heads} heads of {size} features, {len(m.scales)} scales of their angles",
            hint="an angle turns two features of a head, and scales do not speed it up",
        )


def _llama_layer(m: LlamaConfig, i: int) -> Layer:
    at, hidden, wide, inner = f"layers.{i}.", m.hidden, m.intermediate, m.heads * m.head_features
    first, last, far = m.biases
    sizes = {"q": inner, "k": inner // m.shared, "v": inner // m.shared}
    q, k, v = (Dense(f"{at}self_attn.{part}_proj", hidden, size, bias=first) for part, size in sizes.items())
    output = Dense(f"{at}self_attn.o_proj", inner, hidden, m.unit, bias=last)
    rotary = Rotary(m.base, scales=m.scales)
    attention = Attention(m.heads, q, k, v, output, rotary=rotary, reach=CAUSAL, shared=m.shared)
    gate, up = (Dense(f"{at}mlp.{part}_proj", hidden, wide, bias=far) for part in ("gate", "up"))
    down = Dense(f"{at}mlp.down_proj", wide, hidden, m.unit, bias=far)
    block = FeedForward(up, m.activation, down, gate)
    norms = (_root_mean_square(m, f"{at}{name}_layernorm") for name in ("input", "post_attention"))
    return Layer(attention, next(norms), block, next(norms))


def _root_mean_square(m: LlamaConfig, name: str = "norm") -> Norm:
    return Norm(name, m.hidden, m.norm_eps * m.unit**2, centred=False, beta=False)


def _llama_names(m: LlamaConfig) -> Names:
    return _names(m, "model.", {WORDS: "embed_tokens.weight"})


LLAMA = Family(
    LlamaConfig,
    OPTIONS,
    forward_of(_llama_layer, _next_word, _root_mean_square),
    _read_llama,
    _llama_names,
    {f"{name}ForCausalLM": NEXT for name in ("Llama", "Mistral", "Qwen2")},
    check=_check_llama,
)


# Qwen3 (arXiv 2505.09388): RMS norms of every head's queries and keys.


class Qwen3Config(LlamaConfig):
    """The configuration of a Qwen3 model; fields: see `LlamaConfig`."""


def _qwen3_layer(m: Qwen3Config, i: int) -> Layer:
    layer, epsilon = _llama_layer(m, i), m.norm_eps
    names = (f"layers.{i}.self_attn.{part}_norm" for part in "qk")
    ours, theirs = (Norm(name, m.head_features, epsilon, centred=False, beta=False) for name in names)
    return replace(layer, attention=replace(layer.attention, normed=(ours, theirs)))


QWEN3 = replace(
    LLAMA,
    config=Qwen3Config,
    forward=forward_of(_qwen3_layer, _next_word, _root_mean_square),
    read=partial(_read_llama, config=Qwen3Config, kinds=("qwen3",), head_size=128, key_heads=32),
    architectures={"Qwen3ForCausalLM": NEXT},
)


# Gemma (arXiv 2403.08295): gates of tanh's GELU, norms by 1 + weight, and words that are multiplied by the
# root of the hidden size before they enter. Of that, the table gets the nearest power of two, which keeps its
# numbers short; the rest is the unit of what stands between the blocks, which norms undo.

GATE = "gelu_pytorch_tanh"


class GemmaConfig(LlamaConfig):
    """The configuration of a Gemma model; fields: see `LlamaConfig`."""

    @property
    def power(self) -> float:
        """The power of two by which the table of words is multiplied."""
        return 2.0 ** round(log2(self.hidden) / 2)

    @property
    def unit(self) -> float:
        return self.power / sqrt(self.hidden)


def _read_gemma(f: Fields, **answer: Any) -> GemmaConfig:
    f.only("hidden_activation", GATE)
    f.name("hidden_act", (GATE, "gelu"), GATE)  # old files call the one by the other's name
    m: GemmaConfig = _read_llama(f, GemmaConfig, ("gemma",), head_size=256, key_heads=16, tied=True, **answer)
    return replace(m, activation="gelu_tanh")


def _gemma_names(m: GemmaConfig) -> Names:
    norms = [f"layers.{i}.{name}_layernorm" for i in range(m.layers) for name in ("input", "post_attention")]
    added = {f"{name}.weight": (1.0, 1.0) for name in (*norms, "norm")}
    return replace(_llama_names(m), affine={WORDS: (m.power, 0.0), **added})


GEMMA = replace(
    LLAMA,
    config=GemmaConfig,
    read=_read_gemma,
    names=_gemma_names,
    architectures={"GemmaForCausalLM": NEXT},
)


# Phi-3 (arXiv 2404.14219): LLaMA's blocks, whose files keep queries, keys and values in one matrix, and gates
# beside what they multiply. In some sizes only the first features of a head turn. They lie in both halves
# here, as those of all heads do, so that the others are angles of scale 0.


class Phi3Config(LlamaConfig):
    """The configuration of a Phi-3 model; fields: see `LlamaConfig`."""


def _phi3_names(m: Phi3Config) -> Names:
    size, keys, wide = m.head_features, m.heads // m.shared, m.intermediate
    first = size - 2 * m.scales.count(0.0)
    halves = np.split(np.arange(first), 2), np.split(np.arange(first, size), 2)
    order = np.concatenate([part[side] for side in (0, 1) for part in halves])
    q, k, v = np.split(np.arange((m.heads + 2 * keys) * size).reshape(-1, size), (m.heads, m.heads + keys))
    parts = {"self_attn.q_proj": q[:, order], "self_attn.k_proj": k[:, order], "self_attn.v_proj": v}
    parts |= {"mlp.gate_proj": np.arange(wide), "mlp.up_proj": np.arange(wide, 2 * wide)}
    rows = {
        f"layers.{i}.{name}.weight": (2 * wide if "mlp" in name else v[-1, -1] + 1, ours.ravel())
        for i in range(m.layers)
        for name, ours in parts.items()
    }
    fused = {name: "mlp.gate_up_proj" if "mlp" in name else "self_attn.qkv_proj" for name in parts}
    names = _llama_names(m)
    return replace(names, parts={**names.parts, **fused}, rows=rows)


PHI3 = replace(
    LLAMA,
    config=Phi3Config,
    read=partial(_read_llama, config=Phi3Config, kinds=("phi3",)),
    names=_phi3_names,
    architectures={"Phi3ForCausalLM": NEXT},
)
