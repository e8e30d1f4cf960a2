"""NanoGuard, a classifier of prompt injections: RMS norms without weights before the blocks, rotary
positions, normalised queries and keys, squares of ReLU, no biases, and the embedding added again before every
layer (`models.shared.layers`). `config.json` and the names of tensors are as
`python -m bench convert` writes them; the rows of its table of words are normalised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Rotary, T
from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.models import bert
from tacita.models.shared.config import TEXT, EncoderConfig, Names, check_task
from tacita.models.shared.layers import CLASS, ResidualScales

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields

A = TypeVar("A")  # an interpreter's answer
MODEL_TYPES: tuple[str, ...] = ()  # without an architecture it is not said what comes after the layers
ARCHITECTURES = {"NanoGuardForSequenceClassification": CLASS}
OPTIONS = {"activation": ("relu2",), "pooling": ("mean",)}
SINGLE, CLASSIFIER_EPSILON, BASE, MOST_BASE = 2.0**-23, 1e-5, 10000.0, 1e9
MOST = 2.0**10  # of lambdas and mus


@dataclass(frozen=True)
class NanoGuardConfig(EncoderConfig):
    """The configuration of a NanoGuard model. lambdas, mus: see `ResidualScales.of`. base: of the rotary
    positions."""

    lambdas: tuple[float, ...] = field(default=(), metadata=AT_DEFAULT)
    mus: tuple[float, ...] = field(default=(), metadata=AT_DEFAULT)
    base: float = field(default=BASE, metadata=AT_DEFAULT)


def read(f: Fields, **answer: Any) -> NanoGuardConfig:
    """Reads config.json."""
    layers, heads, hidden = f.layers("n_layer"), f.heads("n_head", "n_embd"), f.width("n_embd")
    f.only("n_kv_head", heads)
    f.only("layer_norm_eps", CLASSIFIER_EPSILON)
    if not f.flag("normed_embedding", False):
        f.refuse("normed_embedding", "convert the model with python -m bench convert")
    return NanoGuardConfig(
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=4 * hidden,
        vocab=f.vocab("vocab_size"),
        positions=f.positions("sequence_len"),
        types=0,
        activation="relu2",
        norm_eps=f.epsilon("rms_norm_eps", SINGLE),
        embedding_norm=False,
        position_table=False,
        lambdas=f.numbers("resid_lambdas", (1.0,) * layers, -MOST, MOST),
        mus=f.numbers("x0_lambdas", (0.0,) * layers, -MOST, MOST),
        base=f.number("rope_base", BASE, 1.0, MOST_BASE),
        **answer,
    )


def names(m: EncoderConfig) -> Names:
    """Returns the file's names, but for the table of words."""
    return Names((), {bert.WORD_TABLE: "transformer.wte.weight"})


def classifier_pooling(f: Fields) -> str:
    """Classifiers read the mean."""
    return "mean"


def forward(b: Blocks[T, A], m: NanoGuardConfig, x: T, *, all_rows: bool = False) -> A:
    """Computes the answer from hidden states; see `bert.forward`. Every layer gives every token."""
    scales, start = ResidualScales.of(m.lambdas, m.mus, m.layers), x
    for i, (p, factor) in enumerate(zip(scales.scale, (*scales.restart[1:], 0.0), strict=True)):
        at, norm = f"layer{i}", _norm(m, p)
        y = b.norm(x, norm, f"{at}.norm1") if i else x
        y = b.add(x, b.attention(y, _attention(m, i, p), f"{at}.attention"))
        residual = b.add(y, start, factor) if factor else y  # for the next layer
        x = b.add(
            residual, b.feed_forward(b.norm(y, norm, f"{at}.norm2"), _mlp(m, i, p), f"{at}.feed_forward")
        )
    x = b.mean(b.norm(x, _norm(m, scales.scale[-1]), "final_norm"), "mean")
    x = b.norm(x, Norm("cls_norm", m.hidden, CLASSIFIER_EPSILON), "mean.norm")
    return b.answer(b.linear(x, Dense("cls_head", m.hidden, len(m.labels)), "classifier"))


front = bert.front


def check(m: NanoGuardConfig) -> None:
    """Raises CheckpointError for another task than classification, and for numbers out of range."""
    check_task(m)
    ResidualScales.of(m.lambdas, m.mus, m.layers)
    if m.task != TEXT or not m.labels or not 1.0 <= m.base <= MOST_BASE:
        raise CheckpointError(f"task {m.task!r}, {len(m.labels)} labels", hint="NanoGuard is a classifier")


def _attention(m: NanoGuardConfig, i: int, p: float) -> Attention:
    at, d = f"transformer.h.{i}.attn", m.hidden
    query, key, value = (Dense(f"{at}.c_{part}", d, d, bias=False) for part in "qkv")
    ours, theirs = (_norm(m, 1.0, d // m.heads, f"{at}.{part}") for part in "qk")
    output = Dense(f"{at}.c_proj", d, d, 1.0 / p, bias=False)
    return Attention(m.heads, query, key, value, output, normed=(ours, theirs), rotary=Rotary(m.base))


def _mlp(m: NanoGuardConfig, i: int, p: float) -> FeedForward:
    at, d, wide = f"transformer.h.{i}.mlp", m.hidden, m.intermediate
    down = Dense(f"{at}.c_proj", wide, d, 1.0 / p, bias=False)
    return FeedForward(Dense(f"{at}.c_fc", d, wide, bias=False), m.activation, down)


def _norm(m: NanoGuardConfig, p: float, size: int = 0, name: str = "") -> Norm:
    """Declares an RMS norm without weights, of values that are stored divided by p."""
    return Norm(name, size or m.hidden, m.norm_eps / p**2, centred=False, gamma=False, beta=False)
