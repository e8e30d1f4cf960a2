"""What it takes to build the circuit of one text: every diagonal of every dense map, as a server does once.

    python evaluation/circuit_building.py --shape bert-base

Nothing is encrypted or planned. A server builds from a plan; here intervals come from two random inputs,
which changes numbers and no size. Circuits are dropped and built again, so the first of the figures has
memory that this process never used, and the others mostly memory that it had before.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import bench_on_path  # noqa: F401

from bench.models.shapes import SHAPES, random_inputs, shaped_model
from tacita.packings.base import Circuit
from tacita.packings.lowering import build
from tacita.planning.calibrate.calibrate import survey
from tacita.planning.calibrate.temper import tempered
from tacita.planning.fitting import fit_circuit
from tacita.plans.presets import PRESETS
from tacita.plans.scheme import first_shape

PRESET = "n16"


def builder(shape: str, tokens: int, layers: int | None) -> Callable[[], Circuit]:
    """A model of this shape, ready to be built."""
    model = shaped_model(shape, layers=layers)
    samples = random_inputs(model.config.hidden, tokens, 2, seed=2)
    calibration = survey(model, tokens, hidden_states=samples).calibration
    specs = fit_circuit(calibration, model.config, tokens=tokens)
    packed, soft = (
        first_shape("thor", PRESETS[PRESET].slots, tokens),
        tempered(model, calibration.temperatures),
    )
    return lambda: build(soft, specs, packed)


def figures(make: Callable[[], Circuit]) -> dict[str, float]:
    """Seconds of one circuit: of the clock, of this process, of the system for it; and memory it grew by."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    circuit = make()
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "stages": len(circuit.stages),
        "seconds": round(seconds, 2),
        "user_seconds": round(after.ru_utime - before.ru_utime, 2),
        "system_seconds": round(after.ru_stime - before.ru_stime, 2),
        "peak_grown_gb": round((after.ru_maxrss - before.ru_maxrss) / 1e6, 2),
    }


def rows(make: Callable[[], Circuit], repeats: int) -> Iterator[dict[str, float]]:
    """Of one circuit after another."""
    for _ in range(repeats):
        yield figures(make)
        gc.collect()


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--shape", choices=SHAPES, default="bert-base")
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--layers", type=int)
    options.add_argument("--repeats", type=int, default=2)
    asked = options.parse_args()
    make = builder(asked.shape, asked.tokens, asked.layers)
    report: dict[str, Any] = {"shape": asked.shape, "tokens": asked.tokens}
    print(json.dumps(report | {"circuits": list(rows(make, asked.repeats))}, indent=1))


if __name__ == "__main__":
    main()
