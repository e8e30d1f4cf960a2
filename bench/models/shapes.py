"""Models of published shapes with random weights, whose intermediate values reach as far as BERT-base's do.

What a circuit costs depends on intervals: a GELU on [-61, 108] takes more levels and products than one on
[-8, 8]. The intervals of BERT-base, layer by layer, are those of the activations that ARION published of a
sentence of five tokens (github.com/hangenba/Arion); MiniLM's shape takes those of the first six layers.
Random weights are given them layer by layer: each layer is run on random inputs that have passed those
below it, and stretched to its intervals before the next one is. (Stretched without looking, the tokens of a
text grow alike from layer to layer, and the last layers reach a fifth of what BERT-base's do.)

What a circuit answers depends on where in these intervals the values are. In those activations one token, the
separator, has nearly all that is extreme: one of its features is 12 times as large as the others, the neuron
that reaches 107.5 is at -14 to -21 for all other tokens, which GELU makes zero, and the one that reaches
-60.8 is at -2 to -6. So a small error of a word moves neither. Here it is the same: the last token of every
text is marked in one feature; one neuron is on for marked tokens alone and writes the mark anew, another one
is switched off by it. (Stretched over all tokens alike, words stood on the steep side of GELU, whose result
then outgrew all other features: twelve such layers made an error of 1e-6 of the range one of 7e-4 in the
float model itself, where those of trained models make 2e-7.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from bench.models.folder import write_config, write_json
from bench.models.smollm2 import described
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.checkpoint.reference import reference
from tacita.checkpoint.texts import FILE as TEXTS
from tacita.errors import InputError
from tacita.models.bert import BertConfig
from tacita.models.decoders import Gpt2Config
from tacita.models.registry import FAMILIES, Config, family_of, tensor_shapes
from tacita.resources import in_threads, threads

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)
Traces = Sequence[Mapping[str, Array]]  # of one-layer models, one an input
SHAPES = {  # layers, hidden, heads, intermediate
    "bert-tiny": (2, 128, 2, 512),
    "minilm": (6, 384, 12, 1536),
    "bert-base": (12, 768, 12, 3072),
}
POSITIONS = 512
SPREAD = 0.6  # standard deviation of a layer's input, as BERT-base's
MARKED, MARK = 0, 10.0  # the feature that marks a separator, and its value there: BERT-base's is -9.6
WORDS, WORDS_SHARE = -12.0, 0.6  # what the neuron of separators reaches on words, at most a share of low
IDLE = -3.0  # what is reached on words by the neuron that separators switch off
CALIBRATING, LONGEST = 64, 24  # texts of random words in a folder, and the most words of one
FITTED, TOKENS, FIT_SEED = 4, 128, 101  # random inputs that layers are stretched on, their tokens, their seed


@dataclass(frozen=True)
class Intervals:
    """The intervals of one layer: scores over sqrt(head size), GELU's input, largest variance before the
    second norm."""

    scores: tuple[float, float]
    inner: tuple[float, float]
    variance: float


BERT_BASE = (
    Intervals((-8.8, 8.5), (-16.6, 9.3), 6.6),
    Intervals((-3.9, 12.1), (-16.4, 9.6), 6.5),
    Intervals((-3.5, 19.0), (-19.9, 50.9), 61.2),
    Intervals((-1.8, 11.1), (-58.6, 8.2), 40.1),
    Intervals((-3.9, 8.3), (-60.8, 11.2), 46.4),
    Intervals((-3.0, 7.3), (-49.0, 11.3), 33.7),
    Intervals((-3.6, 8.4), (-25.6, 8.1), 23.0),
    Intervals((-2.4, 7.9), (-17.6, 5.4), 12.7),
    Intervals((-2.6, 8.2), (-18.8, 4.0), 12.6),
    Intervals((-3.2, 8.4), (-23.0, 20.6), 103.1),
    Intervals((-4.9, 7.5), (-20.8, 107.5), 978.9),
    Intervals((-3.9, 3.8), (-11.3, 7.5), 3.0),
)


def sized(layers: int, hidden: int, heads: int, wide: int, *, family: str = "bert") -> Any:
    """Returns the configuration of a classifier of these sizes that starts from hidden states."""
    return FAMILIES[family].config(
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=wide,
        vocab=8,
        positions=POSITIONS,
        types=2,
        activation="gelu",
        pooling="pooler",
        norm_eps=1e-12,
        labels=("negative", "positive"),
        embeddings=False,
    )


def shaped_model(name: str, *, layers: int | None = None) -> Checkpoint:
    """A [CLS] classifier of this shape that starts from hidden states. layers: the first so many.

    Raises InputError for an unknown shape, and for more layers than it has.
    """
    if name not in SHAPES:
        raise InputError(f"no shape {name!r:.40}", hint=f"one of {', '.join(SHAPES)}")
    most, hidden, heads, wide = SHAPES[name]
    depth = most if layers is None else layers
    if not 1 <= depth <= most:
        raise InputError(f"{depth} layers of {name}", hint=f"1 to {most}")
    config = sized(depth, hidden, heads, wide)
    rng = np.random.default_rng(1)
    tensors = {key: _usual(key, shape, rng) for key, shape in tensor_shapes(config).items()}
    samples = random_inputs(hidden, TOKENS, FITTED, FIT_SEED)
    for layer in range(depth):
        samples = _stretched(tensors, config, layer, samples, rng)
    return from_tensors(config, tensors, name=f"{name} (random weights)")


def random_model(name: str, *, layers: int | None = None) -> Checkpoint:
    """The same shape with weights that are not stretched: enough to plan and to time stages."""
    depth, hidden, heads, wide = SHAPES[name]
    config = sized(layers or depth, hidden, heads, wide)
    return with_random_tensors(config, np.random.default_rng(1), name)


def with_random_tensors(
    config: Config, rng: np.random.Generator, name: str, tokenizer: Tokenizer | None = None
) -> Checkpoint:
    """A model with random tensors: matrices that keep a variance, gammas near 1, biases near 0."""
    tensors = {key: _calibrated(key, shape, rng) for key, shape in tensor_shapes(config).items()}
    return from_tensors(config, tensors, tokenizer, name=f"{name} (random weights)")


def write_random(config: Config, folder: Path, rng_of: Callable[[str], np.random.Generator]) -> None:
    """Writes such a decoder's folder in half precision, a file a layer: more than one is never in memory.
    Words are numbers, and random ones calibrate. rng_of: a source for the tensors of a file. The
    configuration comes last, so that a folder which has it is whole."""
    names, files = FAMILIES[family_of(config)].names(config), dict[str, dict[str, tuple[int, ...]]]()
    spelled = {name: next(names.spellings(name)) for name in tensor_shapes(config)}
    for name, shape in tensor_shapes(config).items():
        layer = name.split(".")[1] if name.startswith(("layers.", "h.")) else "others"
        files.setdefault(f"{layer}.safetensors", {})[name] = shape
    folder.mkdir(parents=True, exist_ok=True)
    for file, shapes in files.items():
        rng = rng_of(file)
        made = {key: _calibrated(key, shape, rng).astype("<f2") for key, shape in shapes.items()}
        turned = {key: tensor.T if key in names.transposed else tensor for key, tensor in made.items()}
        save_file(
            {spelled[key]: np.ascontiguousarray(tensor) for key, tensor in turned.items()}, folder / file
        )
    where = {spelled[name]: file for file, shapes in files.items() for name in shapes}
    write_json(folder / "model.safetensors.index.json", {"weight_map": where})
    words = Tokenizer(WordLevel({str(word): word for word in range(config.vocab)}, unk_token="0"))
    words.pre_tokenizer = WhitespaceSplit()
    (folder / "tokenizer.json").write_text(words.to_str(), encoding="utf-8")
    rng = rng_of(TEXTS)
    texts = (rng.integers(0, config.vocab, size) for size in rng.integers(2, LONGEST, CALIBRATING))
    lines = "".join(" ".join(map(str, text)) + "\n" for text in texts)
    (folder / TEXTS).write_text(lines, encoding="utf-8")
    write_config(folder, _described(config))


def _described(m: Config) -> dict[str, Any]:
    """The fields of config.json of a GPT-2 or a LLaMA."""
    if not isinstance(m, Gpt2Config):
        return described(m)
    sizes = {"n_layer": m.layers, "n_embd": m.hidden, "n_head": m.heads, "n_inner": m.intermediate}
    sizes |= {"n_positions": m.positions, "vocab_size": m.vocab}
    known = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "tie_word_embeddings": m.tied}
    return {**sizes, **known, "layer_norm_epsilon": m.norm_eps}


def _calibrated(key: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if len(shape) == 2:
        return rng.normal(0.0, 1.0 / np.sqrt(shape[1]), shape)
    return rng.normal(1.0 if key.endswith("weight") else 0.0, 0.1, shape)


def normal_inputs(model: Checkpoint, tokens: int, count: int) -> list[Sample]:
    """Inputs whose lengths differ, from a quarter of the tokens to all, without a separator."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(tokens // 4, tokens, count, endpoint=True)
    return [
        (rng.normal(size=(tokens, model.config.hidden)), (np.arange(tokens) < n).astype(np.float64))
        for n in lengths
    ]


def random_inputs(hidden: int, tokens: int, count: int, seed: int) -> list[Sample]:
    """Inputs whose lengths differ, from half of the tokens to all. The last token is a marked separator."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(tokens // 2, tokens, count, endpoint=True)
    inputs, places = list[Sample](), np.arange(tokens)
    for length in lengths:
        states = rng.normal(0.0, SPREAD, (tokens, hidden))
        states[:, MARKED] = np.where(places == length - 1, MARK, 0.0)
        inputs.append((states, (places < length).astype(np.float64)))
    return inputs


def _usual(key: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Rows of weights that give unit variance; gammas that give an input its spread."""
    if len(shape) == 2:
        return rng.normal(0.0, 1.0 / (SPREAD * np.sqrt(shape[1])), shape)
    if key.endswith("LayerNorm.weight"):
        return rng.normal(SPREAD, 0.1 * SPREAD, shape)
    return rng.normal(0.0, 0.05, shape)


def _stretched(
    tensors: dict[str, Array],
    config: BertConfig,
    layer: int,
    samples: Sequence[Sample],
    rng: np.random.Generator,
) -> list[Sample]:
    """Makes one layer reach its intervals on these inputs of it, and returns what comes out."""
    prefix, wanted = f"encoder.layer.{layer}.", BERT_BASE[layer]
    tensors[prefix + "attention.self.value.weight"] *= SPREAD  # real sums before the first norm are small
    tensors[prefix + "attention.output.dense.weight"] *= SPREAD
    for part in ("weight", "bias"):
        tensors[prefix + f"attention.output.dense.{part}"][MARKED] = 0.0  # the mark stays as it is
    traces = _traces(tensors, config, layer, samples, "attention.scores")
    scores = [trace["layer0.attention.scores"] for trace in traces]
    low, high = min(float(each.min()) for each in scores), max(float(each.max()) for each in scores)
    for part in ("weight", "bias"):
        tensors[prefix + f"attention.self.query.{part}"] *= np.ptp(wanted.scores) / (high - low)
    _widen(tensors, prefix, wanted, _traces(tensors, config, layer, samples, "norm1.result"), rng)
    traces = _traces(tensors, config, layer, samples, "norm2.result")
    return [(t["layer0.norm2.result"], mask) for t, (_, mask) in zip(traces, samples, strict=True)]


def _widen(
    tensors: dict[str, Array], prefix: str, wanted: Intervals, traces: Traces, rng: np.random.Generator
) -> None:
    """Two inner neurons reach the ends of GELU's interval at separators. The upper one moves the mark so far
    that the variance of the sum reaches its bound."""
    wide, bias = (tensors[prefix + f"intermediate.dense.{part}"] for part in ("weight", "bias"))
    narrow = tensors[prefix + "output.dense.weight"]
    reached = np.concatenate([t["layer0.norm1.result"] for t in traces])
    (low, high), (on, off) = wanted.inner, rng.choice(len(wide), 2, replace=False)
    wide *= SPREAD
    bias[on] = _aimed(wide[on], reached, max(WORDS, WORDS_SHARE * low), high)
    bias[off] = _aimed(wide[off], reached, IDLE, low)
    mark = reached[:, MARKED].max()
    narrow *= SPREAD / 2
    narrow[:, on] = narrow[MARKED] = 0.0
    narrow[MARKED, on] = (np.sqrt(wanted.variance * len(narrow)) - mark) / high


def _aimed(row: Array, inputs: Array, words: float, separators: float) -> float:
    """Sets a neuron's weight of the mark, and returns its bias, such that it is about `words` where there is
    no mark and reaches `separators` where there is. row: its weights. inputs: (rows, features)."""
    marked = inputs[:, MARKED] > 0.5 * inputs[:, MARKED].max()
    row[MARKED] = 0.0
    gaps = [side[marked].mean() - side[~marked].mean() for side in (inputs @ row, inputs[:, MARKED])]
    row[MARKED] = (separators - words - gaps[0]) / gaps[1]
    there = (inputs @ row)[marked]
    return float(separators - (there.max() if separators > words else there.min()))


class _Reached(Exception):
    """A walk has come to the last value that is asked for."""


def _traces(
    tensors: Mapping[str, Array], config: BertConfig, layer: int, samples: Sequence[Sample], last: str
) -> Traces:
    """What one layer makes of its inputs, all rows of it, up to this node: as a model of this layer alone,
    whose answer is a mean."""
    alone = replace(config, layers=1, pooling="mean", labels=())
    here, there = f"encoder.layer.{layer}.", "encoder.layer.0."
    own = {there + name.removeprefix(here): value for name, value in tensors.items() if name.startswith(here)}
    model = from_tensors(alone, {name: own[name] for name in tensor_shapes(alone)})

    def trace(sample: Sample) -> Mapping[str, Array]:
        values: dict[str, Array] = {}

        def see(name: str, value: Array) -> None:
            values[name] = value
            if name == f"layer0.{last}":
                raise _Reached

        with suppress(_Reached):
            reference(model, *sample, see)
        return values

    return list(in_threads(trace, samples, threads()))
