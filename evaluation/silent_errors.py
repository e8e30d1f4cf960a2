"""Inputs of batches that err beyond what calibration showed, and which of them the client is told of.

    python evaluation/silent_errors.py [--model DIR...] [--inputs 2000] [--noise 0.25] [--json FILE]

Without --model: ARION's two BERT-Tinys, the iDASH 2024 DASHformer and the default model. Of each, inputs are
mixtures of one sentence's vectors with noise, as many again calibrate (`--calibrate`), and errors are those
of a batch's approximations (float64, nothing encrypted). `stated`: what a plan states of these, without the
noise and the rounding that it adds. `above`: share of inputs that err by more, `twice`: by more than twice.
Inputs that are above, or left the domain of a function, are computed by the packed circuit as well: `silent`
are above and pass the client's checks, `false` are not above and fail them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tacita import api
from tacita.calibrate.calibrate import Sample, calibrate, load_texts
from tacita.calibrate.temper import tempered
from tacita.checkpoint import Checkpoint, embed, pad_hidden
from tacita.models.reference import reference
from tacita.packings.approximated import approximated
from tacita.packings.layouts import QUADRATIC
from tacita.packings.lowered import build, in_slots
from tacita.packings.shape import Shape
from tacita.planning.fitting import fit_circuit
from tacita.plans.error import tolerance_bound
from tacita.slots.plain import PlainBackend

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "unit"))
SHOWN, LEVELS = 100, 30  # inputs that calibrated and state the error; of the plain backend


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", nargs="*", default=[], help="folders of text models")
    options.add_argument("--inputs", type=int, default=2000)
    options.add_argument("--calibrate", type=int, default=256)
    options.add_argument("--noise", type=float, default=0.25, help="of each feature's standard deviation")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    report = {}
    for name, model, vectors in models(args.model):
        draw = mixtures(vectors, args.noise)
        count = args.calibrate, args.inputs
        calibrating, asked = ([next(draw) for _ in range(number)] for number in count)
        report[name] = measured(in_slots(model), calibrating, asked)
        print(name, json.dumps(report[name]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def models(folders: list[str]) -> Iterator[tuple[str, Checkpoint, np.ndarray]]:
    """Names, models and the vectors of one sentence."""
    if not folders:
        import arion
        import dashformer

        for task in ("sst2", "pretrained") if arion.available() else ():
            example = arion.load_example(task)
            yield f"arion-{task}", example.checkpoint, example.hidden
        if dashformer.available():
            yield "dashformer", dashformer.load_model(), dashformer.load_inputs()[0][0]
    for folder in folders or [api.DEFAULT_MODEL]:
        model = api.load(folder)
        hidden, mask = embed(model, load_texts()[0], 64)
        yield Path(folder).name, model, hidden[mask > 0.0]


def mixtures(vectors: np.ndarray, noise: float) -> Iterator[Sample]:
    """Seeded: each row a mixture of the sentence's rows, of which a few prevail, and noise."""
    rng, spread = np.random.default_rng(0), noise * vectors.std(axis=0)
    tokens = 1 << (len(vectors) - 1).bit_length()
    while True:
        shares = rng.dirichlet(np.full(len(vectors), 0.5), size=len(vectors))
        yield pad_hidden(shares @ vectors + rng.normal(size=vectors.shape) * spread, tokens)


def measured(model: Checkpoint, calibrating: list[Sample], asked: list[Sample]) -> dict[str, float]:
    tokens = len(calibrating[0][1])
    found = calibrate(model, tokens, hidden_states=calibrating, row_estimates=QUADRATIC)
    specs, soft = fit_circuit(found, model.config, tokens=tokens), tempered(model, found.temperatures)
    wanted = [reference(model, *sample, all_rows=False).logits for sample in asked]
    near = [approximated(soft, specs, *sample) for sample in asked]
    errors = np.array([np.abs(a.answer - w).max() for a, w in zip(near, wanted, strict=True)])
    shown = [
        np.abs(a.answer - reference(model, *sample, all_rows=False).logits).max()
        for sample in calibrating[:SHOWN]
        if not (a := approximated(soft, specs, *sample)).outside
    ]
    stated = tolerance_bound(shown)
    above, twice = ~(errors <= stated), ~(errors <= 2.0 * stated)
    outside = np.array([a.outside for a in near])
    told = np.zeros(len(asked), np.bool_)
    for i in np.flatnonzero(above | outside):
        told[i] = not passes(soft, specs, tokens, asked[i], found.answer)
    shares = {
        "above": above,
        "twice": twice,
        "outside": outside,
        "silent": above & ~told,
        "silent twice": twice & ~told,
        "false": told & ~above,
    }
    return {"stated": stated} | {name: float(np.mean(share)) for name, share in shares.items()}


def passes(soft: Checkpoint, specs, tokens: int, sample: Sample, bound: float) -> bool:
    """Whether the answer of the packed circuit passes the client's checks."""
    from greedy import run_greedily

    heads = soft.config.hidden // soft.config.heads
    circuit = build(soft, specs, Shape("columns", "double", max(tokens * 2, heads), tokens))
    be = PlainBackend(max(tokens * 2, heads), LEVELS)
    live = {name: tuple(map(be.encrypt, each)) for name, each in circuit.request.pack([sample]).items()}
    with np.errstate(over="ignore", invalid="ignore"):
        out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
        answer = circuit.response.read([be.decrypt(ct) for ct in out["answer"]])[0]
        return answer.sound() and bool(np.max(np.abs(answer.values)) <= bound)


if __name__ == "__main__":
    main()
