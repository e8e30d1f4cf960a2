"""GPT-2 and LLaMA's relatives: decoders, whose answer is how well each word of the vocabulary comes next."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from math import pi
from typing import Any

from tacita.blocks.base import CAUSAL, Attention, Dense, FeedForward, Norm, Rotary
from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.models.config import KNOWN, EncoderConfig, Names, check_task
from tacita.models.fields import Fields
from tacita.models.layers import DECODER, Family, Layer, Step, forward_of
from tacita.texts.embedding import MAX_HIDDEN, MAX_STATED, MAX_VOCAB, POSITIONS, WORDS
from tacita.texts.task import NEXT

OPTIONS = {"activation": KNOWN, "pooling": DECODER}
MOST_ENDS = 16
BASE, MOST_BASE = 10000.0, 1e9  # of rotary positions


@dataclass(frozen=True)
class DecoderConfig(EncoderConfig):
    """The configuration of a decoder. tied: whether the table of words is the last map, too. ends: tokens
    that end a text."""

    tied: bool = field(default=False, metadata=AT_DEFAULT)
    ends: tuple[int, ...] = field(default=(), metadata=AT_DEFAULT)


def check_decoder(m: DecoderConfig) -> None:
    """Raises CheckpointError for another task than the next token, and for ends that are no tokens."""
    check_task(m)
    ends = all(0 <= token < m.vocab for token in m.ends) and len(m.ends) <= MOST_ENDS
    if not m.last_token or not ends:
        raise CheckpointError(
            f"task {m.task!r}, ends {m.ends!r:.80} of {m.vocab} tokens",
            hint="a decoder says what comes next, and tokens of its vocabulary end a text",
        )


def _ends(f: Fields) -> tuple[int, ...]:
    """Reads the tokens that end a text: none, one, or several."""
    value = f.data.get("eos_token_id")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(token) is int and 0 <= token < MAX_VOCAB for token in listed) or len(listed) > MOST_ENDS:
        f.refuse("eos_token_id", f"it must be a token or up to {MOST_ENDS} of them")
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
    inner = None if f.data.get("n_inner") is None else "n_inner"
    return Gpt2Config(
        **f.sizes(
            layers="n_layer", hidden="n_embd", heads="n_head", intermediate=inner, positions="n_positions"
        ),
        activation=f.activation("activation_function", "gelu_tanh"),
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
# the blocks, rotary positions, grouped heads, SwiGLU.

KINDS = ("llama", "mistral", "qwen2")
ROPES = ("default", "linear", "llama3")  # kinds of rotary positions
MOST_FACTOR = 1024.0  # by which rotary positions are slowed down


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


def _read_llama(f: Fields, **answer: Any) -> LlamaConfig:
    kind, sizes = f.name("model_type", KINDS, "llama"), f.sizes()
    _refuse_others(f, sizes["layers"])
    every, even = f.flag("attention_bias", False), sizes["hidden"] // sizes["heads"]
    size = even if f.data.get("head_dim") is None else f.integer("head_dim", MAX_HIDDEN)
    base = _base(f)
    return LlamaConfig(
        **sizes | {"positions": _positions(f, kind, sizes["positions"])},
        activation=f.activation("hidden_act", "silu"),
        norm_eps=f.epsilon("rms_norm_eps", 1e-6),
        embedding_norm=False,
        position_table=False,
        shared=_shared(f, sizes["heads"]),
        base=base,
        biases=(every or kind == "qwen2", every, f.flag("mlp_bias", False)),
        head_size=0 if size == even else size,
        scales=_scales(f, base, size),
        tied=f.flag("tie_word_embeddings", False),
        ends=_ends(f),
        **answer,
    )


def _refuse_others(f: Fields, layers: int) -> None:
    """Refuses what would change the model and is not here."""
    f.only("partial_rotary_factor", 1.0)
    f.only("layer_types", ["full_attention"] * layers)
    f.only("pretraining_tp", 1)
    f.only("is_decoder", True)
    f.only("add_cross_attention", False)


def _positions(f: Fields, kind: str, most: int) -> int:
    """No more than a sliding window of keys, inside which it hides nothing."""
    if not f.flag("use_sliding_window", kind == "mistral") or f.data.get("sliding_window") is None:
        return most
    return min(most, f.integer("sliding_window", 1 << 20))


def _shared(f: Fields, heads: int) -> int:
    """How many heads of queries share keys and values."""
    of_keys = heads if f.data.get("num_key_value_heads") is None else f.integer("num_key_value_heads", heads)
    if heads % of_keys:
        f.refuse("num_key_value_heads", f"it must divide the {heads} heads of queries")
    return heads // of_keys


def _base(f: Fields) -> float:
    """Reads the base of the rotary positions; newer files keep it in a field of fields."""
    of = f.part("rope_parameters") or f
    return of.number("rope_theta", f.number("rope_theta", BASE, 1.0, MOST_BASE), 1.0, MOST_BASE)


def _scales(f: Fields, base: float, size: int) -> tuple[float, ...]:
    """Reads by what the rotary positions of a head are slowed down: linearly, all of them alike; or as LLaMA
    3's, those that turn less than `low` times in the texts of the first training, and none that turns more
    than `high` times. Powers are taken in decimals, so that every machine reads the same numbers."""
    newer, older = f.part("rope_parameters"), f.part("rope_scaling")
    of = newer or older
    if newer and older:
        f.refuse("rope_scaling", "rope_parameters say it")
    if of is None:
        return ()
    of.only("partial_rotary_factor", 1.0)
    kind = of.name("rope_type", ROPES, of.name("type", ROPES, "default"))
    scale = 1.0 if kind == "default" else 1.0 / of.number("factor", 0.0, 1.0, MOST_FACTOR)
    if kind != "llama3":
        return () if scale == 1.0 else (scale,) * (size // 2)
    low, high = (of.number(f"{end}_freq_factor", 0.0, 2.0**-10, 2.0**20) for end in ("low", "high"))
    if not low < high:
        of.refuse("high_freq_factor", f"it must be more than low_freq_factor, {low:g}")
    first = of.integer("original_max_position_embeddings", MAX_STATED)
    wavelengths = (2.0 * pi * float(Decimal(base) ** (Decimal(2 * i) / size)) for i in range(size // 2))
    shares = (min(max((first / length - low) / (high - low), 0.0), 1.0) for length in wavelengths)
    return tuple(share + (1.0 - share) * scale for share in shares)


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
    output = Dense(f"{at}self_attn.o_proj", inner, hidden, bias=last)
    rotary = Rotary(m.base, scales=m.scales)
    attention = Attention(m.heads, q, k, v, output, rotary=rotary, reach=CAUSAL, shared=m.shared)
    gate, up = (Dense(f"{at}mlp.{part}_proj", hidden, wide, bias=far) for part in ("gate", "up"))
    block = FeedForward(up, m.activation, Dense(f"{at}mlp.down_proj", wide, hidden, bias=far), gate)
    norms = (_root_mean_square(m, f"{at}{name}_layernorm") for name in ("input", "post_attention"))
    return Layer(attention, next(norms), block, next(norms))


def _root_mean_square(m: LlamaConfig, name: str = "norm") -> Norm:
    return Norm(name, m.hidden, m.norm_eps, centred=False, beta=False)


LLAMA = Family(
    LlamaConfig,
    OPTIONS,
    forward_of(_llama_layer, _next_word, _root_mean_square),
    _read_llama,
    lambda m: _names(m, "model.", {WORDS: "embed_tokens.weight"}),
    {f"{name}ForCausalLM": NEXT for name in ("Llama", "Mistral", "Qwen2")},
    check=_check_llama,
)
