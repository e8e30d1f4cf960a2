"""What each approximation costs DASHformer: its probabilities with one function replaced, then all, over
sequences that took no part in calibration; with --chosen-on, over those that did (an accuracy is chosen on
these).

    python evaluation/dashformer_functions.py --model DIR [--relu 6e-5] [--chosen-on]   (DIR: made by
    convert_dashformer.py)

--relu: root-mean-square error of ReLU, as `Accuracy.relu`. Float64 numpy, no encryption and no packing: the
circuit's functions on the circuit's intervals. Also prints by how much an estimate of each row's log-sum,
quadratic in its query, would narrow what 1/x has to cover.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import bench_on_path  # noqa: F401
import numpy as np

from bench.batch import probabilities
from bench.dashformer import split
from tacita.approx.spec import Spec, free_depth
from tacita.checkpoint import Checkpoint, embed, load
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.fitting import Accuracy, fit_circuit

TOKENS = 50
LAYER = "encoder.layer.0."
Array = np.ndarray
Functions = Mapping[str, Callable[[Array], Array]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--chosen-on", action="store_true")
    options.add_argument("--relu", type=float, default=Accuracy().relu)
    args = options.parse_args()
    model = load(args.model)
    texts = [line.split("\t")[0] for line in (args.model / "sequences.tsv").read_text().splitlines()[1:]]
    measured, calibrating = split(texts)
    shown = calibrating if args.chosen_on else measured
    hidden = np.stack([embed(model, text, TOKENS)[0] for text in shown])
    calibration = calibrate(model, TOKENS, calibrating)
    found = fit_circuit(calibration, model.config, Accuracy(relu=args.relu))
    attention, shift = found.attention("layer0.attention"), calibration.attention("layer0.attention").shift
    roots = {f"rsqrt{i}": found.norm(f"layer0.norm{i}").rsqrt for i in (1, 2)}
    inner = found.function("layer0.feed_forward").function
    specs = {"exp": attention.exp, "inverse": attention.inverse, **roots, "activation": inner}
    exact = probabilities(logits(model, hidden, exact_functions(shift)))
    for names in (*((name,) for name in specs), tuple(specs)):
        functions = exact_functions(shift) | {name: specs[name].numpy for name in names}
        found = probabilities(logits(model, hidden, functions))
        print(line(" ".join(names), [specs[name] for name in names], found, exact))
    both = np.stack([embed(model, text, TOKENS)[0] for text in [*calibrating, *measured]])
    print(spans(model, both, len(calibrating)))


def exact_functions(shift: float) -> dict[str, Callable[[Array], Array]]:
    root = lambda x: 1.0 / np.sqrt(x)  # noqa: E731
    return {
        "exp": lambda s: np.exp(s - shift),
        "inverse": lambda x: 1.0 / x,
        "rsqrt1": root,
        "rsqrt2": root,
        "activation": lambda x: np.maximum(x, 0.0),
    }


def line(name: str, specs: list[Spec], found: Array, exact: Array) -> str:
    error = np.abs(found - exact).max(axis=1)
    agreement = np.mean(found.argmax(axis=1) == exact.argmax(axis=1))
    depth, products = sum(free_depth(s) for s in specs), sum(s.multiplications() for s in specs)
    worst = f"largest {error.max():.1e}, 99 % below {np.quantile(error, 0.99):.1e}"
    return f"{name:40s} depth {depth:2d}, {products:2d} products: {worst}, same class {100 * agreement:.1f} %"


def logits(model: Checkpoint, x: Array, f: Functions) -> Array:
    """The model with its functions replaced; x (inputs, tokens, hidden) without padding."""
    query, key, value = queries_keys_values(model, x)
    raised = f["exp"](np.einsum("nihd,njhd->nhij", query, key))
    mixed = np.einsum("nhij,njhd->nihd", raised, value) / TOKENS
    context = mixed * f["inverse"](raised.mean(axis=-1)).transpose(0, 2, 1)[..., None]
    y = norm(
        model,
        "attention.output",
        x + dense(model, "attention.output.dense", context.reshape(x.shape)),
        f["rsqrt1"],
    )
    inner = f["activation"](dense(model, "intermediate.dense", y))
    out = norm(model, "output", y + dense(model, "output.dense", inner), f["rsqrt2"])
    return out.mean(axis=1) @ model.tensors["classifier.weight"].T + model.tensors["classifier.bias"]


def queries_keys_values(model: Checkpoint, x: Array) -> tuple[Array, Array, Array]:
    """(inputs, tokens, heads, head size) each; queries divided by the root of the head size."""
    shape = (*x.shape[:2], model.config.heads, model.config.hidden // model.config.heads)
    query, key, value = (
        dense(model, f"attention.self.{n}", x).reshape(shape) for n in ("query", "key", "value")
    )
    return query / np.sqrt(model.config.hidden // model.config.heads), key, value


def spans(model: Checkpoint, x: Array, calibrated: int) -> str:
    """Range of the rows' log means, before and after subtracting b.q + (v.q)^2 + c fitted on the first
    inputs, by head."""
    query, key, _ = queries_keys_values(model, x)
    text = []
    for h in range(model.config.heads):
        q, k = query[:, :, h], key[:, :, h]
        means = np.log(np.exp(np.einsum("nid,njd->nij", q, k)).mean(axis=-1))
        terms = quadratic_terms(q, k, calibrated)
        wanted, given = means[:calibrated].ravel(), terms[:calibrated].reshape(-1, terms.shape[-1])
        left = means - terms @ np.linalg.lstsq(given, wanted, rcond=None)[0]
        text.append(
            f"head {h}: {np.ptp(means):.1f} -> {np.ptp(left[:calibrated]):.1f}, {np.ptp(left):.1f} on all"
        )
    return "nats of log mean, as they are -> less the estimate: " + "; ".join(text)


def quadratic_terms(q: Array, k: Array, calibrated: int) -> Array:
    """1, q and (v.q)^2, v the direction in which the queries' scores vary most."""
    keys, queries = (a[:calibrated].reshape(-1, a.shape[-1]) for a in (k, q))
    values, vectors = np.linalg.eigh(np.cov(keys.T))
    strength = values * ((queries @ vectors) ** 2).mean(axis=0)
    squared = (q @ vectors[:, np.argmax(strength)]) ** 2
    return np.concatenate([np.ones((*q.shape[:2], 1)), q, squared[..., None]], axis=-1)


def norm(model: Checkpoint, name: str, x: Array, rsqrt: Callable[[Array], Array]) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = rsqrt((centred**2).mean(axis=-1) + model.config.norm_eps)[..., None]
    weight, bias = (model.tensors[f"{LAYER}{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
    return centred * scale * weight + bias


def dense(model: Checkpoint, name: str, x: Array) -> Array:
    return x @ model.tensors[f"{LAYER}{name}.weight"].T + model.tensors[f"{LAYER}{name}.bias"]


if __name__ == "__main__":
    main()
