"""The engine's figures: one thread at 12 limbs beside the yardstick, bootstrapping, keys, memory; and prices.

Keys are made in a temporary folder, so this needs the disk that a run needs. Everything is measured in one
process on one machine, so that ratios to the yardstick hold.
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
from tacita.measure import traffic
from tacita.measure.clock import best_ms
from tacita.measure.prices import (
    HOIST_STEPS,
    LIMBS_AT_LEVEL_0,
    bootstrap_prices,
    price_table,
    quick_bootstrap_prices,
)
from tacita.measure.two_party.pace import measure_pace
from tacita.plans import engine
from tacita.plans.prices.cost import Sizes
from tacita.progress import Progress
from tacita.resources import peak_memory_gb, require_disk, threads

BENCH_LEVEL = 9  # 12 limbs
REPEATS = 5
BOOTSTRAPS = 5  # on one thread; other users of a machine slow single ones down by a quarter
QUICK_REPEATS = 2
Shares = Sequence[tuple[str, float]]  # seconds of each step on two cores
WHOLE: Shares = (
    ("keygen", 40.0),
    ("load keys", 10.0),
    ("operations", 10.0),
    ("bootstrapping", 80.0),
    ("prices", 60.0),
)
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


def measure_engine(
    preset: str = "n16",
    *,
    allow_insecure: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the report of `tacita bench engine`, the price table). Takes minutes at full size. A preset below
    128 bits is refused unless `allow_insecure`."""
    steps = _Steps(progress)
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        bench = _prepare(preset, Path(folder), steps, allow_insecure=allow_insecure)
    steps.enter("operations")
    report = _operations(bench)
    steps.enter("bootstrapping")
    report["bootstrap"], bootstrap_ms = _bootstrapping(bench)
    report["memory"] = _memory(bench, report)
    steps.enter("prices")
    table = price_table(bench, report["yardstick_ms"], bootstrap_ms)
    steps.enter("done")
    return report, table


def measure_prices(
    preset: str = "n16",
    *,
    allow_insecure: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """The price table alone, in about a minute at full size: nothing on one thread, nothing decrypted;
    and the pace of two parties. A preset below 128 bits is refused unless `allow_insecure`."""
    steps = _Steps(progress, QUICK)
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        prepared = _prepare(preset, Path(folder), steps, allow_insecure=allow_insecure)
    bench = replace(prepared, repeats=QUICK_REPEATS)
    steps.enter("bootstrapping")
    bench.all.bootstrap([bench.encrypt(0, 3, real=True)], [True])  # encodes the matrices once
    bootstrap_ms = quick_bootstrap_prices(bench)
    steps.enter("prices")
    yardstick_ms = compiled.native.yardstick_ms(bench.params.log_n, 50)
    table = price_table(bench, yardstick_ms, bootstrap_ms, source="tacita bench prices", part=steps.part)
    steps.enter("two parties")
    pace = measure_pace()
    steps.enter("done")
    return table | {"pace": pace}


def _prepare(preset: str, folder: Path, steps: _Steps, *, allow_insecure: bool) -> Bench:
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


def _operations(bench: Bench) -> dict[str, Any]:
    """One thread, 12 limbs."""
    native, log_n = compiled.native, bench.params.log_n
    a, b = bench.encrypt(BENCH_LEVEL, 1), bench.encrypt(BENCH_LEVEL, 2)
    mul = best_ms(lambda: bench.one.mul(a, b), REPEATS)
    return {
        "yardstick_ms": native.yardstick_ms(log_n, 50),
        "ntt_ms": native.ntt_ms(log_n, 200),
        "rotate_ms": best_ms(lambda: bench.one.rotate(a, 1), REPEATS),
        "mul_ms": mul,
        "mul_relin_ms": mul - bench.one.rescale_ms(a, REPEATS),
        "rescale_ms": bench.one.rescale_ms(a, REPEATS),
        "limbs": BENCH_LEVEL + LIMBS_AT_LEVEL_0,
        "threads": 1,
        "simd": native.simd_path(),
        "keygen_seconds": bench.keygen_seconds,
    }


def _bootstrapping(bench: Bench) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Figures of one complex bootstrap on one thread, and prices with all threads."""
    a = bench.encrypt(0, 3)
    bench.one.bootstrap([a], [False])  # encodes the matrices once
    seconds = best_ms(lambda: bench.one.bootstrap([a], [False]), BOOTSTRAPS) / 1e3
    bench.all.bootstrap([a], [False])
    prices = bootstrap_prices(bench)
    alone, each = prices["complex"]["alone"], prices["complex"]["each"]
    fresh = bench.one.bootstrap([a], [False])[0]
    average, worst = _bits(np.asarray(bench.secret.decrypt(fresh)) - bench.values(3))
    report = {
        "seconds": seconds,
        "bits_average": average,
        "bits_worst": worst,
        "levels_left": int(fresh.level),
        "log_qp": bench.params.log_qp,
        "log_scale": bench.params.log_scale,
        "keys_gb": bench.params.bootstrap_key_bytes / 1e9,
        "peak_rss_gb": peak_memory_gb(),
        "all_threads": bench.threads,
        "seconds_all_threads": alone / 1e3,
        "two_ciphertexts_ratio": 2 * each / alone,
        "two_ciphertexts_ratio_one_thread": 2 * each / 1e3 / seconds,
    }
    return report, prices


def _memory(bench: Bench, report: dict[str, Any]) -> dict[str, Any]:
    """Bytes moved by what was measured on one thread, beside a copy's."""
    sizes, log_n = Sizes.of_ring(bench.params.log_n), bench.params.log_n
    ring = traffic.Ring(1 << log_n, sizes.special, bench.params.max_level + LIMBS_AT_LEVEL_0)
    names = {"rotate": "rotate_ms", "multiply": "mul_ms", "rescale": "rescale_ms"}
    times = {name: report[key] for name, key in names.items()}
    times["bootstrap"] = 1e3 * report["bootstrap"]["seconds"]
    copy = traffic.copy_gb_per_second()
    return traffic.moved(ring, times, report["limbs"], sizes.bootstrap_matrices, copy)


def _bits(error: Any) -> tuple[float, float]:
    """(-log2 of the mean, -log2 of the largest) error of real and imaginary parts."""
    parts = np.abs(np.concatenate([error.real, error.imag]))
    return float(-np.log2(parts.mean())), float(-np.log2(parts.max()))


class _Steps:
    """Progress of a measurement, in shares of the time it takes at full size."""

    def __init__(self, progress: Callable[[Progress], None], shares: Shares = WHOLE) -> None:
        self._shares = shares
        self._progress = progress
        self._began = time.monotonic()
        self._index = 0

    def enter(self, name: str) -> None:
        names = [n for n, _ in self._shares]
        self._index = names.index(name) if name in names else len(names)
        self.part(0, 1)

    def part(self, done: int, total: int) -> None:
        weights = [w for _, w in self._shares]
        current = weights[self._index] if self._index < len(weights) else 0.0
        passed = sum(weights[: self._index]) + current * done / total
        spent = time.monotonic() - self._began
        left = (sum(weights) - passed) * (spent / passed if passed else 1.0)
        name = self._shares[self._index][0] if self._index < len(weights) else "done"
        self._progress(Progress(name, self._index, len(weights), spent, left))
