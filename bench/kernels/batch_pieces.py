"""Pieces of a BERT-base batch at full size and security: one attention head, and 16 columns of every other
stage.

A whole layer would take hours on two cores; these say whether the estimate's prices hold at its sizes. Inputs
are copies of a few ciphertexts (in memory of their own where they are rotated or multiplied), weights are
random. Seconds beside predictions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from bench.kernels.keys import keyed
from bench.models.shapes import SHAPES, normal_inputs, random_model
from bench.options import emit, emit_rows, shipped_prices
from tacita import compiled
from tacita.approx.spec import free_depth
from tacita.checkpoint import Checkpoint
from tacita.cli.options import Json, option
from tacita.layouts.columns import BatchShape, Columns
from tacita.models.registry import attentions
from tacita.packings.columns.attention import BatchAttention, Split
from tacita.packings.columns.linear import BatchNorm, ColumnMap
from tacita.packings.encoding import Encoding, OutputSpec
from tacita.packings.executor import refresh
from tacita.packings.shared.linear import exact_bound
from tacita.packings.specs import AttentionSpecs
from tacita.packings.weights import AttentionPlan, AttentionWeights
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.fitting import fit_circuit
from tacita.resources import peak_memory_gb
from tacita.slots.base import Backend, Ct
from tacita.slots.ckks import CkksBackend
from tacita.slots.sim import SimBackend

BLOCK = 16  # columns
DISTINCT = 8  # encryptions at each level


@dataclass(frozen=True)
class Piece:
    """run(backend, inputs): on `count` columns at `level`."""

    name: str
    level: int
    count: int
    run: Callable[[Backend, list[Ct]], Any]


def batch_pieces(
    shape: Annotated[str, option("--shape", metavar=f"[{'|'.join(SHAPES)}]")] = "bert-base",
    tokens: Annotated[int, option("--tokens", help="Of a text.")] = 128,
    json: Json = None,
) -> None:
    """Time pieces of a batch, encrypted at full security, beside their predictions; minutes and 12 GB."""
    params = compiled.native.Parameters.preset("n16")
    pieces = _pieces(shape, BatchShape(params.slots, tokens))
    sims = [_simulated(piece, params.slots) for piece in pieces]
    rotations: dict[int, int] = {}
    for sim in sims:
        for step, level in sim.rotation_levels.items():
            rotations[step] = max(level, rotations.get(step, 0))
    be, secret = keyed(params, sorted(rotations.items()))
    rows = [_measured(piece, sim, be, secret) for piece, sim in zip(pieces, sims, strict=True)]
    emit({"shape": shape, "tokens": tokens, "pieces": rows, "peak_rss_gb": peak_memory_gb()}, json)


def _pieces(name: str, shape: BatchShape) -> list[Piece]:
    model = random_model(name, layers=1)
    c = model.config
    specs = fit_circuit(
        calibrate(model, shape.tokens, hidden_states=normal_inputs(model, shape.tokens, 2)), c
    )
    first, columns = specs.norm("layer0.norm1"), Columns.by_heads(shape, c.heads, c.hidden // c.heads)
    entry = exact_bound(first.centred, first.rsqrt, c.hidden)
    norm = BatchNorm(first.rsqrt, c.norm_eps, c.hidden, entry, 1)
    attention = _one_head(model, columns, specs.attention("layer0.attention"), norm)
    rng = np.random.default_rng(0)

    def block(inputs: int, outputs: int) -> ColumnMap:
        weights = rng.normal(size=(outputs, inputs, 1)) / np.sqrt(inputs)
        return ColumnMap(1, weights, np.zeros((outputs, 1)))

    up, down, out = block(c.hidden, BLOCK), block(c.intermediate, BLOCK), block(2 * c.hidden, BLOCK)
    enter = free_depth(attention.plan.specs.exp) + 4
    act = specs.function("layer0.feed_forward").function
    return [
        Piece(
            "one attention head",
            enter + 1,
            c.hidden + 1,
            lambda be, x: attention.attend(be, tuple(x[:-1]), x[-1]),
        ),
        Piece("projection, 16 columns", 3, 2 * c.hidden, lambda be, x: out.outputs(be, x)),
        Piece(
            "refresh, 16 columns",
            1,
            BLOCK,
            lambda be, x: refresh(be, {"y": tuple(x)}, set(), ["complex"] * 8),
        ),
        Piece("variance", 2, c.hidden, lambda be, x: norm.variance(be, tuple(x))),
        Piece(
            "1/sqrt and 16 columns", 7, BLOCK, lambda be, x: norm.normalise(be, tuple(x), norm.root(be, x[0]))
        ),
        Piece("expand, 16 columns", 12, c.hidden, lambda be, x: up.outputs(be, x)),
        Piece(
            "activate, 16 columns",
            11,
            BLOCK,
            lambda be, x: [act.evaluate(be, ct, act.free_scale()) for ct in x],
        ),
        Piece("contract, 16 columns", 5, c.intermediate, lambda be, x: down.outputs(be, x)),
    ]


def _one_head(model: Checkpoint, columns: Columns, s: AttentionSpecs, norm: BatchNorm) -> BatchAttention:
    """The attention of a layer, cut down to its first head."""
    a = attentions(model.config)["layer0.attention"]
    denses = (a.query, a.key, a.value, a.output)
    arrays: Any = (model.tensors[f"{dense.name}.{part}"] for dense in denses for part in ("weight", "bias"))
    entry, split = Encoding(3.0), Split.double(columns.shape.tokens)
    output = OutputSpec(norm.entry, entry, centred=True, complete=False)
    plan = AttentionPlan(a.heads, AttentionWeights(*arrays), s, entry, output)
    whole = BatchAttention.build(plan, columns, split, split)
    return replace(whole, query_key=whole.query_key[:1], value=whole.value[:1])


def _simulated(piece: Piece, slots: int) -> SimBackend:
    sim = SimBackend(slots)
    piece.run(sim, [sim.input(piece.level) for _ in range(piece.count)])
    return sim


def _measured(piece: Piece, sim: SimBackend, be: CkksBackend, secret: Any) -> dict[str, Any]:
    prices = shipped_prices()
    rng = np.random.default_rng(1)
    slots = (rng.uniform(-0.1, 0.1, be.slots).astype(complex) for _ in range(DISTINCT))
    fresh = [compiled.native.encrypt(secret, v, piece.level) for v in slots]
    inputs = [fresh[i % DISTINCT] for i in range(piece.count)]
    began = time.monotonic()
    piece.run(be, inputs)
    seconds = time.monotonic() - began
    kinds = [k for (op, _, _), n in sim.counts.items() for k in [_kind(op)] * n if k]
    predicted = prices.total(sim.counts) + (prices.bootstrap_seconds(kinds) if kinds else 0.0)
    row = {
        "piece": piece.name,
        "level": piece.level,
        "inputs": piece.count,
        "seconds": seconds,
        "predicted": predicted,
    }
    emit_rows([row])
    return row


def _kind(op: str) -> str:
    return {"bootstrap": "complex", "bootstrap_real": "real"}.get(op, "")
