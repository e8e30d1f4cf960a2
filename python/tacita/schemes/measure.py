"""The price table of this machine: the engine's operations, memory and disk, and the pace of two parties.

Keys are made in a temporary folder, so this needs the disk that a run needs. Everything is measured in one
process, so that ratios to the yardstick hold.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacita import compiled
from tacita.checkpoint import load
from tacita.data import DEFAULT_MODEL
from tacita.planning.calibrate.calibrate import load_texts
from tacita.planning.request import PlanRequest
from tacita.plans import engine
from tacita.plans.scheme import BUMBLEBEE
from tacita.progress import Phases, Progress
from tacita.resources import require_disk, threads
from tacita.schemes.base import Place
from tacita.schemes.operation_prices import HOIST_STEPS, bootstrap_prices, price_table
from tacita.schemes.two_parties import TwoParties
from tacita.two_party.planning import make_two_party_plan

REPEATS = 2  # calls of an operation, of which a price is the least
Shares = Sequence[tuple[str, float]]  # seconds of each step on two cores
QUICK: Shares = (
    ("keygen", 6.0),
    ("load keys", 2.0),
    ("bootstrapping", 15.0),
    ("prices", 25.0),
    ("two parties", 7.0),
)


@dataclass(frozen=True)
class Bench:
    """Everything a measurement needs. one, all: evaluators on one thread and on all. key_bytes: of the key
    file. repeats: calls of an operation that a price is the least of."""

    params: Any
    secret: Any
    keys: Any
    one: Any
    all: Any
    threads: int
    keygen_seconds: float
    key_bytes: int
    repeats: int = 3

    def encrypt(self, level: int, seed: int = 0, *, real: bool = False) -> Any:
        """A fresh ciphertext of slots in the unit square (or [-1, 1] when real)."""
        return compiled.native.encrypt(self.secret, self.values(seed, real=real), level)

    def values(self, seed: int, *, real: bool = False) -> Any:
        """The slots that `encrypt` encrypts."""
        rng = np.random.default_rng(seed)
        parts = rng.uniform(-1.0, 1.0, (2, self.params.slots))
        return parts[0] + (0j if real else 1j * parts[1])


def measure_prices(
    preset: str = "n16",
    *,
    allow_insecure: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """The price table alone, in about a minute at full size: nothing on one thread, nothing decrypted;
    and the pace of two parties. A preset below 128 bits is refused unless `allow_insecure`."""
    steps = Phases(progress, QUICK)
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        prepared = prepare(preset, Path(folder), steps, allow_insecure=allow_insecure)
    bench = replace(prepared, repeats=REPEATS)
    steps.enter("bootstrapping")
    bench.all.bootstrap([bench.encrypt(0, 3, real=True)], ["real"])  # encodes the matrices once
    bootstrap_ms = bootstrap_prices(bench)
    steps.enter("prices")
    yardstick_ms = compiled.native.yardstick_ms(bench.params.log_n, 50)
    table = price_table(bench, yardstick_ms, bootstrap_ms, part=steps.part)
    steps.enter("two parties")
    pace = measure_pace()
    steps.enter("done")
    return table | {"pace": pace}


def prepare(preset: str, folder: Path, steps: Phases, *, allow_insecure: bool) -> Bench:
    """Makes keys in this folder and evaluators with them."""
    native = compiled.native
    with engine.translated():
        params = native.Parameters.preset(preset, allow_insecure=allow_insecure)
        require_disk(folder, params.bootstrap_key_bytes, "the benchmark's keys")
        paths = str(folder / "secret.key"), str(folder / "evaluation.keys")
        steps.enter("keygen")
        began = time.monotonic()
        rotations = [(step, params.max_level) for step in HOIST_STEPS]
        native.keygen(params, rotations, *paths, steps.part)
        keygen_seconds = time.monotonic() - began
        steps.enter("load keys")
        keys = native.EvaluationKeys.load(paths[1], params, rotations)
        return Bench(
            params=params,
            secret=native.SecretKey.load(paths[0], params),
            keys=keys,
            one=native.Evaluator(params, keys, 1),
            all=native.Evaluator(params, keys, threads()),
            threads=threads(),
            keygen_seconds=keygen_seconds,
            key_bytes=Path(paths[1]).stat().st_size,
        )


# How long two parties take here for one second of the machine that their estimate is of, by texts of the
# default model: both parties in this process, the set-up of the session left out.

TOKENS, TEXTS = 128, 4  # the first also pays for what is done once a session


def measure_pace() -> float:
    """Seconds here for one second there, of the quickest text. Takes 20 s and 1 GB."""
    model, texts = load(DEFAULT_MODEL), load_texts()[:TEXTS]
    plan = make_two_party_plan(model, PlanRequest(tokens=TOKENS, scheme=BUMBLEBEE))
    with (
        tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder,
        TwoParties().private(plan, model, Place(Path(folder))) as private,
    ):
        taken = [private.answer([text], "")[1]["evaluate"] for text in texts]
    return min(taken[1:]) / plan.predicted_seconds()
