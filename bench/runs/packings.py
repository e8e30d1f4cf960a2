"""One layer of BERT-base's size (128 tokens, random weights) in rows and in multidiagonals, at full security:
what each is estimated to take, and the whole layer really run.

    python -m bench packings --json F      # some ten minutes, 12 GB
    python -m bench packings --estimate    # estimates alone: two minutes, 1 GB

Both run through the same executor with the same keys of a client: hidden states are encrypted, every stage
is evaluated as the placement says, bootstraps included, and what leaves the layer is decrypted and compared
with the float reference. Each packing runs in a process of its own, so that its peak memory is its own.
Counts do not depend on the weights, so the placement leaves the vectors of multidiagonal's dense maps out.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np

from bench.kernels.keys import keyed
from bench.models.shapes import random_tensors
from bench.options import emit, shipped_prices
from bench.runs.stages import StageClock
from tacita import compiled
from tacita.approx.variants.functions import Functions
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.checkpoint.reference import reference
from tacita.cli.console import write_report
from tacita.cli.options import Json, option
from tacita.layouts.registry import Shape
from tacita.models.bert import BertConfig
from tacita.packings.base import Circuit
from tacita.packings.executor import run
from tacita.packings.lowering import build
from tacita.packings.multidiagonal import linear
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.fitting import fit_circuit
from tacita.planning.place.circuit import Placed, dry_run, place_circuit
from tacita.plans.presets import PRESETS
from tacita.plans.prices.formulas import MemorySim
from tacita.slots import sim
from tacita.slots.linear import LinearPlan

TOKENS, LAST, PRESET = 128, "layer0.norm2", "n16"
KINDS = {
    "rows": ("rows", "tacita"),
    "multidiagonal": ("multidiagonal", "tacita"),
    "multidiagonal, softmax in two phases": ("multidiagonal", "thor"),
}
SWITCHES = ("rotate", "rotate_shared", "rotate_hoisted", "conjugate", "relin", "mul")
PRODUCTS = ("mul", "tensor", "outer")
Sample = tuple[Any, Any]


def checkpoint(hidden: int, heads: int, inner: int) -> Checkpoint:
    """One layer with random weights, averaged over tokens."""
    config = BertConfig(
        1, hidden, heads, inner, 8, 512, 2, "gelu", "mean", 1e-12, ("a", "b"), embeddings=False
    )
    return from_tensors(config, random_tensors(config, np.random.default_rng(0)))


def samples(hidden: int, seed: int) -> list[Sample]:
    """A full text and a shorter one."""
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(TOKENS, hidden)), (np.arange(TOKENS) < real) * 1.0) for real in (128, 70)]


def layer_of(model: Checkpoint, kind: str) -> Circuit:
    """The layer without the mean and the answer, with intervals of samples that are not run."""
    packing, functions = KINDS[kind]
    found = calibrate(model, TOKENS, hidden_states=samples(model.config.hidden, 2))
    specs = fit_circuit(found, model.config, None, Functions.of(functions), tokens=TOKENS)
    whole = build(model, specs, Shape(packing, "hoisted", PRESETS[PRESET].slots, TOKENS))
    names = [stage.name for stage in whole.stages]
    return replace(whole, stages=whole.stages[: names.index(LAST) + 1])


def without_vectors(affine: linear.Affine, terms: Sequence[linear.Term], babies: int) -> Any:
    """Returns as many vectors, in no memory."""
    return np.broadcast_to(np.zeros(1), (len(terms), affine.src.shape.period))


def no_noise(xs: Sequence[Any], plan: LinearPlan) -> list[float]:
    """In place of an estimate from the vectors."""
    return [0.0] * plan.n_outputs


def placed_layer(circuit: Circuit) -> tuple[Placed, MemorySim]:
    """Places the layer; returns also a run that counted every operation by level."""
    with patch.object(linear, "vectors_of", without_vectors), patch.object(sim, "_linear_noise", no_noise):
        placed = place_circuit(circuit, PRESETS[PRESET], shipped_prices())
        be = MemorySim(placed.parameters.slots, placed.parameters.max_level, shipped_prices())
        dry_run(be, circuit, placed.stages, {**placed.placement.request, **placed.fixed_levels})
    linear.plan_of.cache_clear()
    return placed, be


def estimated(placed: Placed, be: MemorySim) -> dict[str, Any]:
    """Counts and seconds of the placed layer."""
    table, steps = shipped_prices(), placed.placement.steps
    counts: Counter[str] = sum((Counter(stage.counts) for stage in placed.stages), Counter())
    sizes, bottom = table.sizes, table.limbs_at_level_0
    extra = {"encode": 0, "encode_lifted": sizes.special}  # limbs above those of the operands
    encoded = [(op, level, n) for (op, level, _), n in be.counts.items() if op in extra]
    keys = [table.sizes.key(level, bottom)[1] for _, level in placed.rotations]
    return {
        "key_switches": sum(counts[op] for op in SWITCHES),
        "full_rotations": counts["rotate"] + counts["conjugate"],
        "ciphertext_products": sum(counts[op] for op in PRODUCTS),
        "plaintext_products": counts["mul_plain"] + counts["mul_lifted"],
        "encoded_vectors": sum(counts[op] for op in extra),
        "encoded_gb": sum(n * sizes.limb_memory * (level + bottom + extra[op]) for op, level, n in encoded)
        / 1e9,
        "bootstraps": placed.placement.bootstraps,
        "seconds": placed.placement.seconds,
        "bootstrap_seconds": sum(step.bootstrap_seconds for step in steps),
        "encoding_seconds": sum(n * table.seconds(op, level) for op, level, n in encoded),
        "ciphertexts_gb": max(placed.stage_bytes) / 1e9,
        "rotation_keys": len(placed.rotations),
        "rotation_keys_gb": sum(keys) / 1e9,
        "stages": {step.placed.name: step.seconds + step.bootstrap_seconds for step in steps},
    }


def ran(model: Checkpoint, circuit: Circuit, placed: Placed) -> dict[str, Any]:
    """The layer on a text that did not calibrate, encrypted; errors relative to the largest output."""
    hidden, mask = samples(model.config.hidden, 3)[1]
    be, secret = keyed(compiled.native.Parameters.preset(PRESET), placed.rotations)
    levels = {**placed.placement.request, **placed.fixed_levels}
    live = {
        name: tuple(compiled.native.encrypt(secret, v.astype(complex), levels[name]) for v in vectors)
        for name, vectors in circuit.request.pack([(hidden, mask)]).items()
    }
    clock, predicted = StageClock(), [s.seconds + s.bootstrap_seconds for s in placed.placement.steps]
    began = time.monotonic()
    out = run(placed.stages, circuit.stages, be, live, predicted=predicted, progress=clock)
    seconds, probe = time.monotonic() - began, circuit.probes[LAST]
    found = probe.read([secret.decrypt(ct) for ct in out[probe.tensor]])[0]
    wanted = reference(model, hidden, mask).trace[probe.reference]
    kept = mask > 0.0
    return {
        "seconds": seconds,
        "relative_error": float(np.abs(found - wanted)[kept].max() / np.abs(wanted[kept]).max()),
        "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "stages": clock.seconds,
    }


def measured(kind: str, sizes: tuple[int, int, int], *, estimate: bool) -> dict[str, Any]:
    """One packing; for a process of its own."""
    model = checkpoint(*sizes)
    circuit = layer_of(model, kind)
    placed, be = placed_layer(circuit)
    found = {"estimated": estimated(placed, be)}
    emit({kind: found})
    if not estimate:
        found["ran"] = ran(model, circuit, placed)
        emit({kind: found["ran"]})
    return found


def packings(
    hidden: Annotated[int, option("--hidden", help="Width.")] = 768,
    heads: Annotated[int, option("--heads", help="Of attention.")] = 12,
    inner: Annotated[int, option("--inner", help="Width of the feed-forward block.")] = 3072,
    estimate: Annotated[bool, option("--estimate", help="Run nothing.")] = False,
    json: Json = None,
) -> None:
    """Run one layer in rows and in multidiagonals, encrypted at full security, beside its estimate."""
    sizes = (hidden, heads, inner)
    found: dict[str, Any] = {"hidden": hidden, "heads": heads, "inner": inner, "tokens": TOKENS}
    for kind in KINDS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[kind] = pool.apply(measured, (kind, sizes), {"estimate": estimate})
        write_report(json, found)
