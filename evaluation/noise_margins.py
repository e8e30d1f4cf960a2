"""What noise and unseen texts do to a plan's promises: answers lost, errors above the stated bound.

    python evaluation/noise_margins.py --model DIR --packing multidiagonal --functions thor
    python evaluation/noise_margins.py --model DIR --texts ../shared/data/sst2/dev.tsv --unseen 1000

Texts are divided as by `families.py`: those that calibrate, and `--inputs` that are asked, each `--seeds`
times on `sim`. An answer is lost where a client would be told not to trust it.

With `--unseen` so many of `--texts` are asked instead, and the plan is made of the model's usual sentences
(of the first `--calibration` of `--texts` where the model has files of its own). Answers are those of the
float model with the circuit's approximations, to each of which the noise of one of `--inputs` texts on `sim`
is added, rounded as a client shows them. Nothing is encrypted. Prints lines of JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import bench_on_path  # noqa: F401
import numpy as np
from families import LENGTHS, divided, length, lines_of, short, texts_of

import tacita
from bench.runs.harness import unrounded
from tacita import api
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.packings.approximated import approximated
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.temper import tempered
from tacita.plans.answers import rounded
from tacita.plans.plan import Plan
from tacita.schemes.prices import prices_here

PRESET = "n16"
Array = np.ndarray


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", type=Path, help="a folder; by default the shipped model")
    options.add_argument("--inputs", type=int, default=3)
    options.add_argument("--seeds", type=int, default=16)
    options.add_argument("--calibration", type=int, default=300)
    options.add_argument("--texts", type=Path, help="lines, or a table whose first column is taken")
    options.add_argument("--unseen", type=int, default=0)
    options.add_argument("--packing")
    options.add_argument("--functions", default="tacita")
    args = options.parse_args()
    model = tacita.load(args.model) if args.model else tacita.load()
    for row in unseen(model, args) if args.unseen else lost(model, args):
        print(json.dumps(row), flush=True)


def lost(model: Checkpoint, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Returns how many draws of noise lose the answer of each text that is asked."""
    given = lines_of(args.texts) if args.texts else texts_of(args.model)
    texts = list(islice(short(model, given, LENGTHS[-1]), args.inputs + args.calibration))
    known, asked = divided(texts, args.inputs, args.calibration)
    plan = planned(model, args, texts, known)
    for text in asked:
        draws = range(args.seeds)
        answers = (api.classify_locally(plan, model, text, backend="sim", seed=seed) for seed in draws)
        count = sum(any("intervals" in warning for warning in answer.warnings) for answer in answers)
        yield {"lost": count, "of": args.seeds}


def unseen(model: Checkpoint, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """How many texts are above the stated bound, of those that stay within their intervals."""
    texts = list(short(model, lines_of(args.texts), 64))
    usual = args.model is None or texts_of(args.model) != lines_of(args.texts)
    known, asked = (None, texts) if usual else (texts[: args.calibration], texts[args.calibration :])
    asked = asked[:: max(1, len(asked) // args.unseen)][: args.unseen]
    plan = planned(model, args, asked, known)
    found = np.array([*errors(plan, model, asked, noises(plan, model, asked[: args.inputs]))])
    bound, inside = plan.prediction.error, found[np.isfinite(found)]
    above = int((inside > bound.bound).sum())
    yield {
        **{"model": plan.name, "texts": len(found), "outside": len(found) - len(inside)},
        **{"bound": bound.bound, "from": bound.texts, "above": above, "share": above / len(inside)},
        **{"largest": inside.max(), "percentile_99": float(np.quantile(inside, 0.99))},
        **{"noise": plan.noise, "step": plan.step},
    }


def planned(
    model: Checkpoint, args: argparse.Namespace, texts: Sequence[str], known: Sequence[str] | None
) -> Plan:
    how = {"packing": args.packing, "functions": args.functions, "prices": prices_here(PRESET)}
    plan = tacita.plan(model, scheme="thor", tokens=length(model, texts), texts=known, **how)
    assert isinstance(plan, Plan)
    return plan


def noises(plan: Plan, model: Checkpoint, texts: Sequence[str]) -> list[Array]:
    """Returns what noise adds to each text's answer; a vector is divided by its length first."""
    raw = unrounded(plan)
    answers = [
        [api.classify_locally(raw, model, text, backend=backend, seed=seed) for backend in ("sim", "plain")]
        for seed, text in enumerate(texts)
    ]
    return [np.subtract(noisy.logits, quiet.logits) for noisy, quiet in answers]


def errors(plan: Plan, model: Checkpoint, texts: Sequence[str], noise: Sequence[Array]) -> Iterator[float]:
    """The largest error of each text's numbers as they are shown; infinite outside the intervals."""
    soft = tempered(model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    for number, text in enumerate(texts):
        sample = embed(model, text, plan.tokens)
        found, wanted = approximated(soft, specs, *sample), reference(model, *sample, all_rows=False)
        if found.outside:
            yield np.inf
            continue
        size = float(np.linalg.norm(wanted.trace["answer"])) if plan.normalise else 1.0
        values = (found.answer + noise[number % len(noise)]) * size
        shown = np.array(rounded(plan, values))
        yield float(np.abs(shown - wanted.logits).max())


if __name__ == "__main__":
    main()
