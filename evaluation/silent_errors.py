"""Inputs of batches whose answers err beyond what their plan states, and which of them the client is told of.

    python evaluation/silent_errors.py [--model DIR...] [--inputs 2000] [--noise 0.25] [--json FILE]

Without --model: ARION's two BERT-Tinys, the iDASH 2024 DASHformer and the default model. Inputs are mixtures
of one sentence's vectors with noise. `--calibrate` of them make a plan of ARION, and `--inputs` others are
asked on `sim`, as a client would: with the noise of the engine, rounded, behind its checks. Nothing is
encrypted. `stated`: the error that the plan states, from so many `texts`. `above`: share of inputs that err
by more, `silent`: that besides pass the client's checks, and `silent twice`: that err by more than twice of
it. `false`: are not above, and fail a check. `largest` and `percentile_99`: of the errors that pass.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacita import api
from tacita.checkpoint import Checkpoint, embed, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.planning.calibrate.calibrate import Sample, load_texts
from tacita.plans.plan import Plan

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "unit"))
TOKENS = 64  # that a sentence may have
GROUP = 250  # inputs that run at once: a ciphertext of sim has no more places than that


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", nargs="*", default=[], help="folders of text models")
    options.add_argument("--inputs", type=int, default=2000)
    options.add_argument("--calibrate", type=int, default=256)
    options.add_argument("--noise", type=float, default=0.25, help="of each feature's standard deviation")
    options.add_argument("--shortest", type=int, default=8, help="tokens of the sentence, at least")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    report = {}
    for name, model, vectors in models(args.model, args.shortest):
        draw = mixtures(vectors, args.noise)
        count = args.calibrate, args.inputs
        calibrating, asked = ([next(draw) for _ in range(number)] for number in count)
        report[name] = measured(model, calibrating, asked)
        print(name, json.dumps(report[name]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def models(folders: list[str], shortest: int) -> Iterator[tuple[str, Checkpoint, np.ndarray]]:
    """Names, models and the vectors of one sentence, of text models the first that is long enough."""
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
        embedded = (embed(model, text, TOKENS) for text in load_texts())
        vectors = (hidden[mask > 0.0] for hidden, mask in embedded)
        yield Path(folder).name, model, next(found for found in vectors if len(found) >= shortest)


def mixtures(vectors: np.ndarray, noise: float) -> Iterator[Sample]:
    """Seeded: each row a mixture of the sentence's rows, of which a few prevail, and noise."""
    rng, spread = np.random.default_rng(0), noise * vectors.std(axis=0)
    tokens = 1 << (len(vectors) - 1).bit_length()
    while True:
        shares = rng.dirichlet(np.full(len(vectors), 0.5), size=len(vectors))
        yield pad_hidden(shares @ vectors + rng.normal(size=vectors.shape) * spread, tokens)


def measured(model: Checkpoint, calibrating: list[Sample], asked: list[Sample]) -> dict[str, Any]:
    began, tokens = time.monotonic(), len(calibrating[0][1])
    plan = api.plan(model, scheme="arion", tokens=tokens, hidden_states=calibrating)
    planned = time.monotonic()
    told, errors = answered(plan, model, asked)
    stated = plan.prediction.error
    above, twice = ~(errors <= stated.bound), ~(errors <= 2.0 * stated.bound)
    shares = {
        "above": above,
        "silent": above & ~told,
        "silent twice": twice & ~told,
        "false": told & ~above,
    }
    return {
        **{"tokens": tokens, "stated": stated.bound, "texts": stated.texts},
        **{name: float(np.mean(share)) for name, share in shares.items()},
        **{"largest": errors[~told].max(), "percentile_99": float(np.quantile(errors[~told], 0.99))},
        **{"plan_seconds": planned - began, "ask_seconds": time.monotonic() - planned},
    }


def answered(plan: Plan, model: Checkpoint, asked: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each input whether its answer is marked as untrusted, and its error."""
    told, errors = [], []
    for seed, at in enumerate(range(0, len(asked), GROUP)):
        group = asked[at : at + GROUP]
        states = [hidden[mask > 0.0] for hidden, mask in group]
        answers = api.classify_batch_locally(plan, model, hidden_states=states, backend="sim", seed=seed)
        wanted = [reference(model, *sample, all_rows=False).logits for sample in group]
        told += [not answer.trusted for answer in answers]
        errors += [np.abs(a.anyway.logits - w).max() for a, w in zip(answers, wanted, strict=True)]
    return np.array(told), np.array(errors)


if __name__ == "__main__":
    main()
