"""A decoder behind public first tokens, as another decoder, for schemes that know rows by their intervals.

The first token of many trained decoders has values a thousand times those of any other: heads attend to it
where they have nothing to say (attention sinks). No interval holds both. Where that token is public, so are
its keys and values. So the model gets features for each public token, which are zero in all other rows and in
every layer: no map writes other rows' values to them. The embedding of the token are these alone; keys and
values read from them what they are in the true row; and a neuron of each feed-forward leaves little in the
row but them, as large as others' values are. The next token is the model's, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Attention, FeedForward, Norm
from tacita.blocks.floats import FUNCTIONS, FloatTensors, See
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint.load import Checkpoint, from_tensors
from tacita.errors import InputError
from tacita.models.config import LATEST
from tacita.models.decoders import LlamaConfig
from tacita.models.registry import forward, nodes, tensor_shapes
from tacita.texts.embed import Text, embedded, tokenize
from tacita.texts.embedding import WORDS

Array = NDArray[np.float64]
ARGUMENT = 2.0  # of the activation of a new neuron
WIDTH = 32  # features of a token: of one alone the value would be far above others'
LENGTH = 2.0  # of them, in those of rows: what attention writes beside them then hardly turns the row away


def with_beginning(model: Checkpoint, ids: Sequence[int], text: Sequence[int]) -> Checkpoint:
    """Returns the model for texts whose first tokens are these; a token of them that comes again is taken for
    the first. text: tokens of any text behind them, like whose rows the new ones will be. Cost: two walks.
    Raises InputError for a model whose norms take a mean off, which the new features would move, and for a
    token that is there twice."""
    config: Any = model.config
    if type(config) is not LlamaConfig or not config.embeddings or len(set(ids)) != len(ids):
        raise InputError(
            f"a public beginning of {len(ids)} tokens on ciphertexts",
            hint="of LLaMA and its relatives, with a table of words, and no token twice",
        )
    size, tokens = config.hidden, list(ids)[::-1]  # rows in reverse, as slots hold them, with padding behind
    hidden = size + WIDTH * len(tokens)
    share = size / hidden  # norms take the mean square of more features
    wide = replace(
        config,
        hidden=hidden,
        intermediate=config.intermediate + len(tokens),
        head_size=config.head_size or size // config.heads,
        norm_eps=config.norm_eps * share,
        tied=False,
    )
    tensors = {name: _padded(model.tensors[name], shape) for name, shape in tensor_shapes(wide).items()}
    for norm in (node for node in nodes(wide).values() if isinstance(node, Norm)):
        tensors[f"{norm.name}.weight"][:size] *= math.sqrt(share)
        tensors[f"{norm.name}.weight"][size:] = 1.0
    true = _True.of(model, list(ids), text)
    tensors[WORDS][tokens] = true.lengths[0] * _directions(len(tokens), hidden)
    back, mask = replace(wide, pooling=LATEST), np.append(np.ones(len(tokens)), 0.0)
    _walk(back, tensors, tensors[WORDS][[*tokens, ids[0]]], mask, _Writer(wide, tensors, true).see)
    changed = from_tensors(wide, tensors, model.tokenizer, name=model.name, where="with_beginning")
    return replace(changed, texts=model.texts)


def behind(model: Checkpoint, begin: str, texts: Sequence[Text]) -> tuple[Checkpoint, Sequence[Text]]:
    """Returns the model for texts that begin so, and the single ones of these texts behind the beginning, to
    calibrate on. Raises InputError where it keeps its tokens before none, and as `with_beginning`."""
    ids = tokenize(model, begin, special=False)[0]
    for gap in ("", " "):
        joined = [f"{begin}{gap}{text}" for text in texts if isinstance(text, str)]
        if fitting := [text for text in joined if tokenize(model, text)[0][: len(ids)] == ids]:
            first = tokenize(model, fitting[0])[0]
            return with_beginning(model, ids, first[len(ids) :]), fitting
    raise InputError(f"a beginning {begin!r:.40}", hint="no text that is calibrated on goes on behind it")


def _directions(count: int, hidden: int) -> Array:
    """Returns (count, hidden): rows of mean square 1, each of one value in the features of its token."""
    ones = np.repeat(np.eye(count), WIDTH, axis=1)
    return np.pad(ones, ((0, 0), (hidden - count * WIDTH, 0))) * math.sqrt(hidden / WIDTH)


def _padded(tensor: Array, shape: tuple[int, ...]) -> Array:
    return np.pad(tensor, [(0, most - count) for most, count in zip(shape, tensor.shape, strict=True)])


@dataclass
class _True:
    """What the model does. inputs: of each attention, the public rows, the last first. squares: mean squares
    of the rows behind them at each norm, before the first feed-forward and after each."""

    public: int
    inputs: dict[str, Array] = field(default_factory=dict)
    squares: list[list[float]] = field(default_factory=lambda: [[]])

    @staticmethod
    def of(model: Checkpoint, ids: list[int], text: Sequence[int]) -> _True:
        """Walks over both."""
        true, known = _True(len(ids)), nodes(model.config)

        def see(name: str, value: Array) -> None:
            node, _, key = name.rpartition(".")
            if key == "variance":
                true.squares[-1].append(float(np.median(value.ravel()[len(ids) :])))
            elif key == "input" and isinstance(known[node], Attention):
                true.inputs[node] = value[: len(ids)][::-1]
            elif key == "input" and isinstance(known[node], FeedForward):
                true.squares.append([])

        rows = embedded(model, [*ids, *text], [0] * (len(ids) + len(text)))
        _walk(model.config, model.tensors, rows, np.ones(len(rows)), see)
        return true

    @property
    def lengths(self) -> list[float]:
        return [LENGTH * math.exp(0.5 * float(np.log(each).mean())) for each in self.squares]


@dataclass
class _Writer:
    """Writes what the new features do, layer by layer, while a walk over their rows computes with it."""

    config: Any
    tensors: Mapping[str, Array]
    true: _True
    sums: Array = field(default_factory=lambda: np.zeros((0, 0)))  # that the last norm took
    done: int = 0  # feed-forwards

    def see(self, name: str, rows: Array) -> None:
        """Looks at the inputs of attentions and feed-forwards."""
        node, _, key = name.rpartition(".")
        self.sums = rows if key == "sum" else self.sums
        match nodes(self.config)[node] if key == "input" else None:
            case Attention() as a:
                for dense in (a.key, a.value):
                    self._write_rows(self.tensors[f"{dense.name}.weight"], self.true.inputs[node], rows)
            case FeedForward() as block:
                self._write_neurons(block, rows)

    def _write_rows(self, weight: Array, true: Array, rows: Array) -> None:
        """Adds to a map what the true rows have more than these. The last of these is padding."""
        count, size = true.shape
        missing = (true - rows[:count, :size]) @ weight[:, :size].T
        weight[:, size:] = np.linalg.lstsq(rows[:count, size:], missing)[0].T

    def _write_neurons(self, block: FeedForward, rows: Array) -> None:
        """Makes each row about its features alone, as long as other rows are behind the block. Padding, a
        copy of the first token that sees nothing, gets as far from that as the first token's row."""
        count, function, w = self.true.public, FUNCTIONS[block.function], Weights(self.tensors)
        assert block.gate is not None  # as LLaMA's have
        gate, wide, narrow = (w.dense(d) for d in (block.gate, block.wide, block.narrow))
        own = slice(-count * WIDTH, None)
        for weight, _ in (gate, wide):
            weight[-count:, own] = np.linalg.lstsq(rows[:count, own], ARGUMENT * np.eye(count))[0].T
        inner = function(_mapped(rows, gate)) * _mapped(rows, wide)
        goal = self.true.lengths[self.done + 1] * _directions(count, self.config.hidden)
        missing = np.concatenate([goal, goal[-1:]]) - self.sums - _mapped(inner, narrow)
        narrow[0][:, -count:] = np.linalg.lstsq(inner[:, -count:], missing)[0].T
        self.done += 1


def _mapped(rows: Array, dense: tuple[Array, Array]) -> Array:
    return np.asarray(rows @ dense[0].T + dense[1])


def _walk(config: Any, tensors: Mapping[str, Array], rows: Array, mask: Array, see: See) -> None:
    ops = FloatTensors(Weights(tensors), mask, see)
    forward(TensorBlocks(ops), config, rows, all_rows=True)
