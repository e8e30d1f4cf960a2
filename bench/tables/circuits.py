"""Circuits of one text, planned and built and never encrypted.

`deeper-chains`: what more levels between two bootstraps would save. `sim` counts operations and a price table
weighs them. A level costs one limb, as in a chain of plain limbs; with `--bits 36` the levels of 36 bits lie
in limbs of 48, as they would in a grafted chain, so that four levels cost three limbs. `--bootstrap`
multiplies the price of a bootstrap, which grows with the chain. `--noise` says by how much the answers are
wrong where the scale has so many bits and a bootstrap so many.

    python -m bench deeper-chains --shape bert-base --layers 3 --levels 13 --levels 16
    python -m bench deeper-chains --levels 13 --levels 16 --bootstrap 1.1 --noise 38 22

`circuit-building`: seconds and memory of every diagonal of every dense map, as a server builds them once from
a plan; here intervals come from two random inputs, which changes numbers and no size. Circuits are dropped
and built again, so the first of the figures has memory that this process never used, and the others mostly
memory that it had before."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Annotated, Any
from unittest.mock import patch

from bench.models.shapes import SHAPES, random_inputs, shaped_model
from bench.options import Layers, emit, emit_rows, shipped_prices
from tacita.checkpoint import Checkpoint, embed, load
from tacita.cli.options import option
from tacita.data import DEFAULT_MODEL
from tacita.layouts.registry import Shape
from tacita.packings.base import Circuit
from tacita.packings.lowering import build
from tacita.packings.specs import CircuitSpecs
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
    """Takes a shape with random weights, or the default model."""
    if shape is None:
        model = load(DEFAULT_MODEL)
        texts = load_texts()
        return _case(model, [embed(model, text, TOKENS) for text in texts[:2]], {"texts": texts})
    model = shaped_model(shape, layers=layers)
    inputs = random_inputs(model.config.hidden, TOKENS, 16, seed=2)
    return _case(model, inputs[:2], {"hidden_states": inputs})


def _case(model: Checkpoint, samples: Sequence[Sample], calibrating: dict[str, Any]) -> Case:
    parts = _fitted(model, TOKENS, calibrating)
    return Case(model, Built(*parts, build(*parts)), samples)


def _fitted(
    model: Checkpoint, tokens: int, calibrating: dict[str, Any]
) -> tuple[Checkpoint, CircuitSpecs, Shape]:
    """What a circuit is built from."""
    calibration = survey(model, tokens, **calibrating).calibration
    specs = fit_circuit(calibration, model.config, tokens=tokens)
    return tempered(model, calibration.temperatures), specs, first_shape("thor", INFO.slots, tokens)


def prices(bits: int, bootstrap: float) -> Prices:
    """The shipped table, for levels of so many bits and bootstraps that take so much more."""
    table = shipped_prices(INFO.log_n)
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


def builder(shape: str, tokens: int, layers: int | None) -> Callable[[], Circuit]:
    """A model of this shape, ready to be built."""
    model = shaped_model(shape, layers=layers)
    samples = random_inputs(model.config.hidden, tokens, 2, seed=2)
    parts = _fitted(model, tokens, {"hidden_states": samples})
    return lambda: build(*parts)


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
    """Yields the figures of one circuit after another."""
    for _ in range(repeats):
        yield figures(make)
        gc.collect()


ChainShape = Annotated[
    str | None, option("--shape", metavar=f"[{'|'.join(SHAPES)}]", help="In place of the default model.")
]


def deeper_chains(
    shape: ChainShape = None,
    layers: Layers = None,
    levels: Annotated[list[int] | None, option("--levels", help="Of a chain; may be several.")] = None,
    bits: Annotated[list[int] | None, option("--bits", help="Of a level; may be several.")] = None,
    bootstrap: Annotated[Sequence[float], option("--bootstrap", help="Times its price; may be several.")] = (
        1.0,
    ),
    noise: Annotated[
        tuple[float, float] | None, option("--noise", help="Bits of the scale and of a bootstrap.")
    ] = None,
) -> None:
    """Plan one text on chains of other depths: seconds, and the error of its answers at other scales."""
    case = case_of(shape, layers)
    emit_rows(row(case, *chain) for chain in product(levels or [13], bits or [LIMB_BITS], bootstrap or [1.0]))
    emit_rows({"levels": level, "error": error(case, level, *noise)} for level in levels or [13] if noise)


def circuit_building(
    shape: Annotated[str, option("--shape", metavar=f"[{'|'.join(SHAPES)}]")] = "bert-base",
    tokens: Annotated[int, option("--tokens", help="Of the text.")] = TOKENS,
    layers: Layers = None,
    repeats: Annotated[int, option("--repeats", help="Circuits, one after another.")] = 2,
) -> None:
    """Build the circuit of one text, all diagonals of all layers, twice in one process: seconds, memory."""
    make = builder(shape, tokens, layers)
    emit({"shape": shape, "tokens": tokens, "circuits": list(rows(make, repeats))})
