"""How many answers noise takes out of calibrated intervals: the same texts on `sim` with many draws of noise.

    python evaluation/noise_margins.py --model DIR --packing multidiagonal --functions thor

Texts are divided as by `families.py`: those that calibrate, and `--inputs` that are asked, each `--seeds`
times. An answer is lost where a client would be told not to trust it. Nothing is encrypted. Prints a line of
JSON for each text.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

from families import LENGTHS, divided, length, short, texts_of

import tacita
from tacita import api
from tacita.measure.own_prices import prices_here

PRESET = "n16"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--inputs", type=int, default=3)
    options.add_argument("--seeds", type=int, default=16)
    options.add_argument("--calibration", type=int, default=300)
    options.add_argument("--packing")
    options.add_argument("--functions", default="tacita")
    args = options.parse_args()
    model = tacita.load(args.model)
    fitting = short(model, texts_of(args.model), LENGTHS[-1])
    texts = list(islice(fitting, args.inputs + args.calibration))
    known, asked = divided(texts, args.inputs, args.calibration)
    how = {"packing": args.packing, "functions": args.functions, "prices": prices_here(PRESET)}
    plan = tacita.plan(model, scheme="thor", tokens=length(model, texts), texts=known, **how)
    for text in asked:
        draws = range(args.seeds)
        answers = (api.classify_locally(plan, model, text, backend="sim", seed=seed) for seed in draws)
        lost = sum(any("intervals" in warning for warning in answer.warnings) for answer in answers)
        print(json.dumps({"lost": lost, "of": args.seeds}), flush=True)


if __name__ == "__main__":
    main()
