"""What more levels between two bootstraps would save: one text of 128 tokens, planned on other chains.

    python evaluation/deeper_chains.py --shape bert-base --layers 3 --levels 13 16
    python evaluation/deeper_chains.py --levels 13 16 --bootstrap 1.1 --noise 38 22

Without --shape it is the default model. Nothing is encrypted: `sim` counts operations and a price table
weighs them. A level costs one limb, as in a chain of plain limbs; with `--bits 36` the levels of 36 bits lie
in limbs of 48, as they would in a grafted chain, so that four levels cost three limbs. `--bootstrap`
multiplies the price of a bootstrap, which grows with the chain. `--noise` says by how much the answers are
wrong where the scale has so many bits and a bootstrap so many.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Any
from unittest.mock import patch

import bench_on_path  # noqa: F401

from bench.models.shapes import SHAPES, random_inputs, shaped_model
from tacita.checkpoint import Checkpoint, embed, load
from tacita.data import DEFAULT_MODEL
from tacita.packings.lowering import build
from tacita.planning import trial
from tacita.planning.calibrate.calibrate import Sample, load_texts, survey
from tacita.planning.calibrate.temper import tempered
from tacita.planning.circuit import Built
from tacita.planning.fitting import fit_circuit
from tacita.planning.place.circuit import Placed, place_circuit
from tacita.plans.presets import PRESETS
from tacita.plans.prices.cost import Prices
from tacita.plans.scheme import first_shape
from tacita.slots.noise import NoiseModel

TOKENS, LIMB_BITS, INFO = 128, 48, PRESETS["n16"]


@dataclass(frozen=True)
class Case:
    """A model, its circuit, and inputs on which its answers are tried."""

    model: Checkpoint
    built: Built
    samples: Sequence[Sample]


def case_of(shape: str | None, layers: int | None) -> Case:
    """Of a shape with random weights, or of the default model."""
    if shape is None:
        model = load(DEFAULT_MODEL)
        texts = load_texts()
        return _case(model, [embed(model, text, TOKENS) for text in texts[:2]], {"texts": texts})
    model = shaped_model(shape, layers=layers)
    inputs = random_inputs(model.config.hidden, TOKENS, 16, seed=2)
    return _case(model, inputs[:2], {"hidden_states": inputs})


def _case(model: Checkpoint, samples: Sequence[Sample], calibrating: dict[str, Any]) -> Case:
    calibration = survey(model, TOKENS, **calibrating).calibration
    specs = fit_circuit(calibration, model.config, tokens=TOKENS)
    shape, soft = first_shape("thor", INFO.slots, TOKENS, None), tempered(model, calibration.temperatures)
    return Case(model, Built(soft, specs, shape, build(soft, specs, shape)), samples)


def prices(bits: int, bootstrap: float) -> Prices:
    """The shipped table, for levels of so many bits and bootstraps that take so much more."""
    table = Prices.shipped(INFO.log_n)
    assert table is not None
    below = table.limbs_at_level_0
    limbs = {level: ceil(level * bits / LIMB_BITS) for level in range(32)}
    ms = {
        op: {below + level: 1e3 * table.seconds(op, limbs[level]) for level in limbs}
        for op in [*table.ms, "rotate_shared"]
    }
    boots = {
        kind: {how: value * bootstrap for how, value in row.items()}
        for kind, row in table.bootstrap_ms.items()
    }
    return replace(table, ms=ms, bootstrap_ms=boots)


def placed(case: Case, levels: int, table: Prices) -> Placed:
    """The cheapest placement on a chain of so many levels."""
    return place_circuit(case.built.circuit, replace(INFO, max_level=levels), table)


def row(case: Case, levels: int, bits: int, bootstrap: float) -> dict[str, float]:
    """What the plan takes."""
    found = placed(case, levels, prices(bits, bootstrap)).placement
    of_bootstraps = sum(step.bootstrap_seconds for step in found.steps)
    return {
        "levels": levels,
        "bits": bits,
        "bootstrap_price": bootstrap,
        "seconds": round(found.seconds, 2),
        "bootstrap_seconds": round(of_bootstraps, 2),
        "bootstraps": found.bootstraps,
    }


def error(case: Case, levels: int, scale_bits: float, bootstrap_bits: float) -> float:
    """Largest distance of an answer from the float model's, with this noise."""
    noise = NoiseModel(INFO.slots, scale_bits, 2.0**-bootstrap_bits)
    with patch.object(trial, "noise_of", lambda _info: noise):
        run = placed(case, levels, prices(LIMB_BITS, 1.0))
        return max(trial.run_simulation(case.model, case.built, run, case.samples).errors)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--shape", choices=SHAPES)
    options.add_argument("--layers", type=int)
    options.add_argument("--levels", type=int, nargs="+", default=[13])
    options.add_argument("--bits", type=int, nargs="+", default=[LIMB_BITS])
    options.add_argument("--bootstrap", type=float, nargs="+", default=[1.0])
    options.add_argument("--noise", type=float, nargs=2, metavar=("SCALE", "BOOTSTRAP"))
    args = options.parse_args()
    case = case_of(args.shape, args.layers)
    for levels, bits, bootstrap in product(args.levels, args.bits, args.bootstrap):
        print(json.dumps(row(case, levels, bits, bootstrap)), flush=True)
    for levels in args.levels if args.noise else ():
        print(json.dumps({"levels": levels, "error": error(case, levels, *args.noise)}), flush=True)


if __name__ == "__main__":
    main()
