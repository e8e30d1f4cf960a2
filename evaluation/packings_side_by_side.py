"""One layer of BERT-base's size (128 tokens, random weights) in rows and in multidiagonals: what each is
estimated to take at full size, and two of its stages really run.

    python evaluation/packings_side_by_side.py               # and the stages run: some minutes, 9 GB
    python evaluation/packings_side_by_side.py --estimate    # estimates alone: two minutes, 1 GB

Estimated: key switches, products, bootstraps, seconds by the shipped prices, memory, rotation keys, and the
bytes of the plaintexts that are encoded, which is what a server would hold to encode them once. Counts do
not depend on the weights, so the estimate leaves the vectors of multidiagonal's dense maps out. Run,
without bootstrapping, at the lowest levels that the stages need: attention from hidden states to scores,
and from exponentials to the context; their error is against the plain backend.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tacita import _native
from tacita.calibrate.calibrate import calibrate
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models.bert import BertConfig
from tacita.models.registry import tensor_shapes
from tacita.packings.base import Circuit
from tacita.packings.lowered import build
from tacita.packings.multidiagonal import linear
from tacita.packings.shape import Shape
from tacita.packings.specs import CircuitSpecs
from tacita.placement.cost import Prices
from tacita.placement.memory import MemorySim
from tacita.placement.placement import place
from tacita.placement.simulate import StageSimulator
from tacita.planning.fitting import fit_circuit
from tacita.plans.presets import PRESETS
from tacita.slots import sim
from tacita.slots.ckks import CkksBackend
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Stage

TOKENS, LAST = 128, "layer0.norm2"
PACKINGS = ("rows", "multidiagonal")
SWITCHES = ("rotate", "rotate_shared", "rotate_hoisted", "conjugate", "relin", "mul")
PRODUCTS = ("mul", "tensor", "outer")


def checkpoint(hidden: int, heads: int, inner: int) -> Checkpoint:
    """One layer with random weights, averaged over tokens."""
    config = BertConfig(
        1, hidden, heads, inner, 8, 512, 2, "gelu", "mean", 1e-12, ("a", "b"), embeddings=False
    )
    rng, tensors = np.random.default_rng(0), {}
    for name, shape in tensor_shapes(config).items():
        scale = 1.0 / np.sqrt(shape[-1]) if len(shape) == 2 else 0.1
        tensors[name] = rng.normal(0.0, scale, shape) + (1.0 if name.endswith("LayerNorm.weight") else 0.0)
    return from_tensors(config, tensors)


def layer_of(circuit: Circuit) -> Sequence[Stage]:
    """The stages of the layer, without the mean and the answer."""
    names = [stage.name for stage in circuit.stages]
    return circuit.stages[: names.index(LAST) + 1]


def without_vectors(affine: linear.Affine, terms: Sequence[linear.Term], babies: int) -> Any:
    """As many vectors, in no memory."""
    return np.broadcast_to(np.zeros(1), (len(terms), affine.src.shape.period))


def no_noise(xs: Sequence[Any], plan: LinearPlan) -> list[float]:
    """In place of an estimate from the vectors."""
    return [0.0] * plan.n_outputs


def estimated(circuit: Circuit) -> dict[str, Any]:
    """Counts and seconds of the placed layer on the ring that bootstraps."""
    info, prices, stages = PRESETS["n16"], Prices.shipped(16), layer_of(circuit)
    assert prices is not None
    simulator = StageSimulator(lambda: SimBackend(info.slots, info.max_level), fixed=circuit.fixed)
    placed = place(stages, circuit.request.counts, simulator, prices)
    be = MemorySim(info.slots, info.max_level, prices)
    live = {
        name: tuple(be.input(placed.request.get(name, info.max_level)) for _ in range(count))
        for name, count in circuit.request.counts.items()
    }
    for stage, step in zip(stages, placed.steps, strict=True):
        for name in step.bootstraps:
            live[name] = tuple(be.bootstrap(live[name], ["real"] * len(live[name])))
        live |= {
            name: tuple(be.drop_to(ct, level) for ct in live[name]) for name, level in step.levels.items()
        }
        with be.stage(stage.name):
            live = stage.run(be, live)
    counts = Counter[str]()
    for step in placed.steps:
        counts.update(step.counts)
    per_limb = prices.sizes.limb_memory
    plaintexts = sum(
        n * per_limb * (level + prices.limbs_at_level_0)
        for (op, level, _), n in be.counts.items()
        if op == "encode"
    )
    keys = [prices.sizes.key(level, prices.limbs_at_level_0)[1] for level in be.rotation_levels.values()]
    return {
        "key_switches": sum(counts[op] for op in SWITCHES),
        "full_rotations": counts["rotate"] + counts["conjugate"],
        "ciphertext_products": sum(counts[op] for op in PRODUCTS),
        "plaintext_products": counts["mul_plain"],
        "encoded_vectors": counts["encode"],
        "encoded_gb": plaintexts / 1e9,
        "bootstraps": placed.bootstraps,
        "seconds": placed.seconds,
        "seconds_without_bootstraps": sum(step.seconds for step in placed.steps),
        "encoding_seconds": sum(
            n * prices.seconds(op, level) for (op, level, _), n in be.counts.items() if op == "encode"
        ),
        "ciphertexts_gb": max(be.stage_bytes.values()) / 1e9,
        "rotation_keys": len(be.rotation_levels),
        "rotation_keys_gb": sum(keys) / 1e9,
        "stages": {step.stage: step.seconds for step in placed.steps},
    }


def ran(circuit: Circuit, part: str, tensors: Sequence[str], depth: int, scale: float) -> dict[str, Any]:
    """One stage on random inputs within `scale`, on the engine and on plain."""
    stage = next(stage for stage in circuit.stages if stage.name.endswith(f"attention.{part}"))
    params, rng = _native.Parameters.preset("n16_leveled"), np.random.default_rng(1)
    counts = dict(circuit.request.counts) | exponentials(circuit)
    values = {name: [scale * rng.random(params.slots) for _ in range(counts[name])] for name in tensors}
    with tempfile.TemporaryDirectory() as folder:
        be, secret = engine(params, stage, values, depth, Path(folder))
    live = {
        n: tuple(_native.encrypt(secret, v.astype(complex), depth) for v in vs) for n, vs in values.items()
    }
    began = time.monotonic()
    out = stage.run(be, live)
    seconds = time.monotonic() - began
    plain = PlainBackend(params.slots, depth)
    wanted = stage.run(plain, {n: tuple(plain.encrypt(v) for v in vs) for n, vs in values.items()})
    errors = [
        float(np.abs(secret.decrypt(a).real - plain.decrypt(b).real).max())
        for name in out
        if name.startswith("layer0")
        for a, b in zip(out[name], wanted[name], strict=True)
    ]
    linear.plan_of.cache_clear()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"seconds": seconds, "max_error": max(errors), "levels": depth, "peak_rss_gb_so_far": peak}


def exponentials(circuit: Circuit) -> dict[str, int]:
    """How many ciphertexts the exponentials take: as many as the scores."""
    be = SimBackend(PRESETS["n16"].slots, 40)
    live = {name: tuple(be.input() for _ in range(count)) for name, count in circuit.request.counts.items()}
    for stage in circuit.stages[:2]:
        live = stage.run(be, live)
    return {name: len(cts) for name, cts in live.items() if name.endswith("exponentials")}


def engine(
    params: Any, stage: Stage, values: dict[str, list[Any]], depth: int, folder: Path
) -> tuple[Any, Any]:
    """(backend, secret key) with the keys that the stage takes at these levels."""
    counting = SimBackend(params.slots, params.max_level)
    stage.run(counting, {name: tuple(counting.input(depth) for _ in vs) for name, vs in values.items()})
    paths, rotations = (
        [str(folder / name) for name in ("secret", "evaluation")],
        sorted(counting.rotation_levels.items()),
    )
    _native.keygen(params, rotations, *paths, lambda _done, _total: None)
    secret = _native.SecretKey.load(paths[0], params)
    keys = _native.EvaluationKeys.load(paths[1], params, rotations)
    return CkksBackend(_native.Evaluator(params, keys, 0)), secret


# the levels that a stage takes, by packing
STAGES = {
    "scores": (("hidden",), {"rows": 3, "multidiagonal": 4}, 0.05),
    "mix": (("hidden", "mask", "layer0.attention.exponentials"), {"rows": 4, "multidiagonal": 4}, 0.01),
}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--hidden", type=int, default=768)
    options.add_argument("--heads", type=int, default=12)
    options.add_argument("--inner", type=int, default=3072)
    options.add_argument("--estimate", action="store_true", help="run nothing")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    model = checkpoint(args.hidden, args.heads, args.inner)
    rng = np.random.default_rng(2)
    samples = [
        (rng.normal(size=(TOKENS, args.hidden)), (np.arange(TOKENS) < real) * 1.0) for real in (128, 70)
    ]
    specs: CircuitSpecs = fit_circuit(
        calibrate(model, TOKENS, hidden_states=samples), model.config, None, None
    )
    found: dict[str, Any] = {
        "hidden": args.hidden,
        "heads": args.heads,
        "inner": args.inner,
        "tokens": TOKENS,
    }
    for packing in PACKINGS:
        circuit = build(model, specs, Shape(packing, "hoisted", PRESETS["n16"].slots, TOKENS))
        with (
            patch.object(linear, "vectors_of", without_vectors),
            patch.object(sim, "_linear_noise", no_noise),
        ):
            found[packing] = {"estimated": estimated(circuit)}
            linear.plan_of.cache_clear()
        print(json.dumps({packing: found[packing]}, indent=1), flush=True)
        for part, (tensors, depth, scale) in STAGES.items() if not args.estimate else ():
            found[packing][f"ran {part}"] = ran(circuit, part, tensors, depth[packing], scale)
            print(json.dumps({part: found[packing][f"ran {part}"]}), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
