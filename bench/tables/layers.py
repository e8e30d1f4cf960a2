"""Layers in columns, cut where MOAI's Tables 3 and 9 cut those of BERT-base and of LLaMA-3-8B, and products
of encrypted matrices of a layer (ARION, Table VI): counted as in `bench.tables.parts`.

Each part is counted at the lowest levels that it fits. Bootstraps of LLaMA-3-8B are where MOAI has them, so
that cells can be compared; a plan would choose them, and does for BERT-base (`bench.tables.estimates`). No
weights are made: what a part costs does not depend on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.models.shapes import BERT_BASE
from bench.tables.parts import (
    PROJECTIONS,
    Row,
    at_lowest,
    head_in_columns,
    norm_counts,
    priced,
)
from tacita.approx.activations import HalfEven, gelu, silu
from tacita.approx.fit import Interval
from tacita.layouts.columns import BatchShape
from tacita.packings.columns.attention import Split
from tacita.packings.columns.linear import CONTRACTED, EXPANDED, ColumnMap
from tacita.packings.weights import Gate, Positional
from tacita.planning.fitting import Accuracy
from tacita.plans.prices.cost import Counts, Prices
from tacita.slots.base import Ct
from tacita.slots.sim import SimBackend


@dataclass(frozen=True)
class Sizes:
    """A model's layers: width, heads, width between the feed-forward's products, how many there are. decodes:
    whether queries see earlier tokens alone, positions are rotary and the feed-forward has a gate.

    arguments: of its activation."""

    name: str
    hidden: int
    heads: int
    inner: int
    layers: int
    activation: HalfEven
    arguments: Interval
    decodes: bool = False

    @property
    def head_size(self) -> int:
        """Features of a head."""
        return self.hidden // self.heads


BERT = Sizes("BERT-base", 768, 12, 3072, 12, gelu, BERT_BASE[0].inner)
LLAMA = Sizes("LLaMA-3-8B", 4096, 32, 14336, 32, silu, (-8.0, 8.0), decodes=True)
LONG, SHORT = 128, (8, 2)  # tokens; MOAI's Table 11 has 1, and a text in columns at least 2


def of_papers(slots: int, prices: Prices) -> Iterator[Row]:
    """Parts of both models, then products of encrypted matrices of a layer of each."""
    yield from parts_of(BatchShape(slots, LONG), BERT, prices)
    for tokens in SHORT:
        yield from parts_of(BatchShape(slots, tokens), LLAMA, prices)
    for sizes in (BERT, LLAMA):
        for split in (Split.single(LONG), Split.double(LONG)):
            yield matrices(BatchShape(slots, LONG), sizes, split, prices)


def parts_of(shape: BatchShape, sizes: Sizes, prices: Prices) -> Iterator[Row]:
    """A row for each part of all layers, and of a decoder their sum. seconds_a_text: of all layers, a text's
    share."""
    parts = {**_attention(shape, sizes), **_norms(shape, sizes), **_feed_forward(shape, sizes)}
    parts = {name: _times(counts, sizes.layers) for name, counts in parts.items()}
    if sizes.decodes:
        parts["last norm"] = norm_counts(shape, sizes.hidden)
        parts["all"] = sum(map(Counter, parts.values()), Counter[tuple[str, int, str]]())
    for name, counts in parts.items():
        found, title = priced(counts, prices), f"{name} of {sizes.name}'s layers, {shape.tokens} tokens"
        share = found["seconds"] / shape.sequences
        yield {"part": title, "texts": shape.sequences, **found, "seconds_a_text": share}


def matrices(shape: BatchShape, sizes: Sizes, split: Split, prices: Prices) -> Row:
    """Q K^T V of all heads of a layer, for all texts of a ciphertext."""
    counts = head_in_columns(shape, sizes.head_size, split)
    kept = {key: n for key, n in counts.items() if key[2] != "softmax" and key[0] not in PROJECTIONS}
    found = priced(_times(kept, sizes.heads), prices)
    title = f"Q K^T V of a layer of {sizes.name}, {shape.tokens} tokens, {split.babies} x {split.giants}"
    return {"part": title, "texts": shape.sequences, **found}


def _attention(shape: BatchShape, sizes: Sizes) -> dict[str, Counts]:
    """Keys and values that heads share are made for each of them, as the packing makes them."""
    each, seen = sizes.head_size, Positional(visible=np.tri(shape.tokens) if sizes.decodes else None)
    counts = head_in_columns(shape, each, Split.double(shape.tokens), seen)
    turned = _level(counts, "sides")  # rotary positions begin there
    side = _times(dense(sizes.hidden, each, turned + sizes.decodes), sizes.heads)
    value = _times(dense(sizes.hidden, each, _level(counts, "values")), sizes.heads)
    rotary = _times(_vector(shape.slots, turned), sizes.hidden // 2)
    places = ("rotary positions of Q", "rotary positions of K") if sizes.decodes else ()
    stages = {name: _times(_of(counts, name), sizes.heads) for name in ("scores", "softmax", "context")}
    return {
        "Q": side,
        "K, V": Counter(side) + Counter(value),
        **dict.fromkeys(places, rotary),
        **stages,
        "projection": dense(2 * sizes.hidden, sizes.hidden, 1),  # of what is attended, and the residual
    }


def _norms(shape: BatchShape, sizes: Sizes) -> dict[str, Counts]:
    """One of the layer's norms; of a decoder its refreshes of all columns, which go two by two."""
    refreshed = {("bootstrap", 0, ""): sizes.hidden // 2}
    places = ("bootstraps before a norm", "bootstraps behind a norm", "bootstraps behind a layer")
    return {**dict.fromkeys(places * sizes.decodes, refreshed), "norm": norm_counts(shape, sizes.hidden)}


def _feed_forward(shape: BatchShape, sizes: Sizes) -> dict[str, Counts]:
    """One part of the inner columns runs, as all others do."""
    spec, wide = sizes.activation.fit(sizes.arguments, Accuracy().activation), _map(sizes.hidden, EXPANDED)
    narrow, pieces = _map(CONTRACTED, sizes.hidden), CONTRACTED // EXPANDED

    def run(be: SimBackend) -> None:
        x, products = [be.input() for _ in range(sizes.hidden)], list[Ct]()
        for _ in range(pieces):
            with be.stage("expansion"):
                arguments = wide.outputs(be, x)
            with be.stage("activation"):
                active = [spec.evaluate(be, ct, spec.free_scale(), 1.0) for ct in arguments]
            products += _gated(be, active, x, wide) if sizes.decodes else active
        with be.stage("contraction"):
            for ct in narrow.apply(be, products):
                be.add(ct, ct)  # to the sum of the parts before

    counts = at_lowest(shape.slots, run).counts
    stages = ("expansion", "activation", *(["gate"] if sizes.decodes else ()), "contraction")
    parts = {name: _times(_of(counts, name), sizes.inner // CONTRACTED) for name in stages}
    residual = {key: n for key, n in dense(sizes.hidden, sizes.hidden, 1).items() if key[0] in PROJECTIONS}
    return {**parts, "contraction": Counter(parts["contraction"]) + Counter(residual)}


def _gated(be: SimBackend, active: Sequence[Ct], x: Sequence[Ct], wide: ColumnMap) -> Sequence[Ct]:
    with be.stage("expansion"):
        factors = wide.outputs(be, [be.drop_to(ct, be.level(active[0]) + 1) for ct in x])
    with be.stage("gate"):
        return Gate(1.0, 1.0, 1.0).multiply(be, active, factors)


def dense(inputs: int, outputs: int, level: int) -> Counts:
    """Counts a product of columns with a matrix, in one call."""
    counts = {"matmul_input": inputs, "matmul": inputs * outputs, "rescale": outputs}
    return {(op, level, ""): n for op, n in counts.items()}


def _map(inputs: int, outputs: int) -> ColumnMap:
    return ColumnMap(1, np.broadcast_to(1.0, (outputs, inputs, 1)), np.zeros((outputs, 1)))


def _vector(slots: int, level: int) -> Counts:
    be = SimBackend(slots, level)
    be.mul_vector(be.input(), np.full(slots, 0.5 + 0.5j))
    return be.counts


def _of(counts: Counts, stage: str) -> Counts:
    return {key: n for key, n in counts.items() if key[2] == stage}


def _times(counts: Counts, times: int) -> Counts:
    return {key: n * times for key, n in counts.items()}


def _level(counts: Counts, stage: str) -> int:
    """The level at which a stage's products with weights begin."""
    return max(level for op, level, at in counts if op in PROJECTIONS and at == stage)
