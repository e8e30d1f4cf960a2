"""GPT-2 (Radford et al. 2019): LayerNorms before the blocks, learned positions, tanh's GELU, and the table of
words as the last map; the answer is how well each word comes next. Files keep matrices with inputs first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import CAUSAL, Attention, Blocks, Dense, FeedForward, Norm, T
from tacita.models import bert
from tacita.models.shared import decoders, layers
from tacita.models.shared.config import Names
from tacita.models.shared.decoders import DecoderConfig, check_decoder
from tacita.models.shared.layers import Layer, Step, pre_norm
from tacita.texts.embedding import POSITIONS, WORDS

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES: tuple[str, ...] = ()  # without an architecture it is not said what comes after the layers
ARCHITECTURES = {"GPT2LMHeadModel": layers.CAUSAL}
OPTIONS = {"activation": bert.ACTIVATIONS, "pooling": layers.DECODER}
MAPS = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")


@dataclass(frozen=True)
class Gpt2Config(DecoderConfig):
    """The configuration of a GPT-2 model; fields: see `DecoderConfig`."""


def read(f: Fields, **answer: Any) -> Gpt2Config:
    """Reads config.json."""
    f.only("scale_attn_weights", True)
    f.only("scale_attn_by_inverse_layer_idx", False)
    f.only("add_cross_attention", False)
    f.only("pruned_heads", {})
    hidden, inner = f.width("n_embd"), f.data.get("n_inner")
    return Gpt2Config(
        layers=f.layers("n_layer"),
        hidden=hidden,
        heads=f.heads("n_head", "n_embd"),
        intermediate=4 * hidden if inner is None else f.wide("n_inner"),
        vocab=f.vocab("vocab_size"),
        positions=f.positions("n_positions"),
        types=0,
        activation=f.activation("activation_function", "gelu_tanh"),
        norm_eps=f.epsilon("layer_norm_epsilon", 1e-5),
        embedding_norm=False,
        tied=f.flag("tie_word_embeddings", True),
        ends=decoders.ends(f),
        **answer,
    )


def names(m: DecoderConfig) -> Names:
    """Returns Hugging Face's names but for the tables."""
    parts = {WORDS: "wte.weight", POSITIONS: "wpe.weight"}
    tied = {"lm_head.weight": "wte.weight"} if m.tied else {}
    turned = [f"h.{i}.{name}.weight" for i in range(m.layers) for name in MAPS]
    return Names(("transformer.",), parts | tied, transposed=turned)


def classifier_pooling(f: Fields) -> str:
    """There are no classifiers."""
    return layers.DECODER[0]


def forward(b: Blocks[T, A], m: Gpt2Config, x: T, *, all_rows: bool = False) -> A:
    """Maps hidden states (tokens, hidden) to logits of the next token (1, vocab); see `bert.forward`."""
    x = pre_norm(b, m, x, lambda i: _layer(m, i), all_rows=all_rows)
    x = b.norm(x, _norm(m, "ln_f"), "final_norm")
    return layers.answer(b, m, x, [Step("decoder", Dense("lm_head", m.hidden, m.vocab, bias=False))])


front = bert.front
check = check_decoder


def _layer(m: Gpt2Config, i: int) -> Layer:
    at, hidden, wide = f"h.{i}.", m.hidden, m.intermediate
    q, k, v = (Dense(f"{at}attn.c_attn", hidden, hidden, part=(part, 3)) for part in range(3))
    attention = Attention(m.heads, q, k, v, Dense(f"{at}attn.c_proj", hidden, hidden), reach=CAUSAL)
    up, down = Dense(f"{at}mlp.c_fc", hidden, wide), Dense(f"{at}mlp.c_proj", wide, hidden)
    block = FeedForward(up, m.activation, down)
    return Layer(attention, _norm(m, f"{at}ln_1"), block, _norm(m, f"{at}ln_2"))


def _norm(m: Gpt2Config, name: str) -> Norm:
    return Norm(name, m.hidden, m.norm_eps)
