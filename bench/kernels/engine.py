"""`python -m bench engine`: one thread at 12 limbs beside the yardstick, bootstrapping, keys, memory; prices.

Keys are made in a temporary folder, so this needs the disk that a run needs. Everything is measured in one
process on one machine, so that ratios to the yardstick hold."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table

from bench.kernels import roofline, scaling, traffic
from bench.options import PRESET_DEFAULT, Insecure, Preset
from tacita import compiled
from tacita.cli.console import out, progress, reporting
from tacita.cli.options import Json, option
from tacita.plans import engine as door
from tacita.plans.prices.cost import Sizes
from tacita.progress import Phases
from tacita.resources import peak_memory_gb
from tacita.schemes.measure import Bench, Shares, prepare
from tacita.schemes.operation_prices import LIMBS_AT_LEVEL_0, best_ms, price_table

BENCH_LEVEL = 9  # 12 limbs
REPEATS = 5
BOOTSTRAPS, PRICED = 5, 2  # on one thread, where other users slow single ones by a quarter; on all
WHOLE: Shares = (  # seconds of each step on two cores
    ("keygen", 40.0),
    ("load keys", 10.0),
    ("operations", 10.0),
    ("bootstrapping", 80.0),
    ("prices", 60.0),
)


def _operations(bench: Bench) -> dict[str, Any]:
    """One thread, 12 limbs."""
    native, log_n = compiled.native, bench.params.log_n
    a, b = bench.encrypt(BENCH_LEVEL, 1), bench.encrypt(BENCH_LEVEL, 2)
    mul = best_ms(lambda: bench.one.mul(a, b), REPEATS)
    return {
        "yardstick_ms": native.yardstick_ms(log_n, 50),
        "ntt_ms": native.ntt_ms(log_n, 200),
        **dict(zip(("conversion_ms", "product_ms"), native.hot_kernels_ms(log_n, 20), strict=True)),
        "rotate_ms": best_ms(lambda: bench.one.rotate(a, 1), REPEATS),
        "mul_ms": mul,
        "mul_relin_ms": mul - bench.one.rescale_ms(a, REPEATS),
        "rescale_ms": bench.one.rescale_ms(a, REPEATS),
        "limbs": BENCH_LEVEL + LIMBS_AT_LEVEL_0,
        "threads": 1,
        "simd": native.simd_path(),
        "keygen_seconds": bench.keygen_seconds,
    }


def _bootstrap_prices(bench: Bench) -> dict[str, dict[str, float]]:
    """Milliseconds by kind: of one ciphertext with all threads, and of each of two. The matrices must have
    been encoded by a bootstrap before."""
    prices: dict[str, dict[str, float]] = {}
    for kind, real in (("complex", False), ("real", True)):
        one, two = bench.encrypt(0, 3, real=real), bench.encrypt(0, 4, real=real)
        alone = best_ms(partial(bench.all.bootstrap, [one], [kind]), PRICED)
        both = best_ms(partial(bench.all.bootstrap, [one, two], [kind, kind]), PRICED)
        prices[kind] = {"alone": alone, "each": both / 2}
    return prices


def _bootstrapping(bench: Bench) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Figures of one complex bootstrap on one thread, and prices with all threads."""
    a = bench.encrypt(0, 3)
    bench.one.bootstrap([a], ["complex"])  # encodes the matrices once
    seconds = best_ms(lambda: bench.one.bootstrap([a], ["complex"]), BOOTSTRAPS) / 1e3
    bench.all.bootstrap([a], ["complex"])
    prices = _bootstrap_prices(bench)
    alone, each = prices["complex"]["alone"], prices["complex"]["each"]
    fresh = bench.one.bootstrap([a], ["complex"])[0]
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


def _ring(log_n: int, max_level: int) -> traffic.Ring:
    return traffic.Ring(1 << log_n, Sizes.of_ring(log_n).special, max_level + LIMBS_AT_LEVEL_0)


def _memory(bench: Bench, report: dict[str, Any]) -> dict[str, Any]:
    """Bytes moved by what was measured on one thread, beside a copy's."""
    sizes, ring = Sizes.of_ring(bench.params.log_n), _ring(bench.params.log_n, bench.params.max_level)
    names = {"rotate": "rotate_ms", "multiply": "mul_ms", "rescale": "rescale_ms"}
    times = {name: report[key] for name, key in names.items()}
    times["bootstrap"] = 1e3 * report["bootstrap"]["seconds"]
    copy = traffic.copy_gb_per_second()
    return traffic.moved(ring, times, report["limbs"], sizes.bootstrap_matrices, copy)


def _bits(error: Any) -> tuple[float, float]:
    """(-log2 of the mean, -log2 of the largest) error of real and imaginary parts."""
    parts = np.abs(np.concatenate([error.real, error.imag]))
    return float(-np.log2(parts.mean())), float(-np.log2(parts.max()))


Scaling = Annotated[bool, option("--scaling", help="Print what 2 to 64 cores would give, by counts.")]
Roofline = Annotated[
    bool, option("--device-roofline", help="Only count what a bootstrap would ask of GPUs; nothing runs.")
]
PriceFile = Annotated[Path | None, option("--prices", help="Write a price table for `tacita plan --prices`.")]


def engine(
    json: Json = None,
    prices: PriceFile = None,
    preset: Preset = PRESET_DEFAULT,
    allow_insecure: Insecure = False,
    more: Scaling = False,
    device: Roofline = False,
) -> None:
    """Time transforms, rotations, products and bootstrapping; takes some minutes and the keys' disk space."""
    door.require_secure(info := door.describe(preset), allow_insecure=allow_insecure)
    if device:
        roofline.show_roofline(_ring(info.log_n, info.max_level))
        return
    with progress("bench") as report, tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        steps = Phases(report, WHOLE)
        bench = prepare(preset, Path(folder), steps, allow_insecure=allow_insecure)
        steps.enter("operations")
        figures = _operations(bench)
        steps.enter("bootstrapping")
        figures["bootstrap"], bootstrap_ms = _bootstrapping(bench)
        figures["memory"] = _memory(bench, figures)
        steps.enter("prices")
        works, widths = _works(bench, figures, bootstrap_ms) if more else ([], (0.0, 0.0))
        table = price_table(bench, figures["yardstick_ms"], bootstrap_ms, source="python -m bench engine")
        steps.enter("done")
    with reporting(json, figures), reporting(prices, table):
        _show(figures)
        if more:
            scaling.show_scaling(works, bench.threads, *widths)


def _works(
    bench: Bench, figures: dict[str, Any], bootstrap_ms: dict[str, dict[str, float]]
) -> tuple[list[scaling.Work], tuple[float, float]]:
    """What `--scaling` shows, and GB a second of a copy on one thread and on all."""
    a, b = bench.encrypt(BENCH_LEVEL, 1), bench.encrypt(BENCH_LEVEL, 2)
    sizes = Sizes.of_ring(bench.params.log_n)
    one = {name: figures[f"{name}_ms"] for name in ("rotate", "mul", "rescale")}
    ring = _ring(bench.params.log_n, bench.params.max_level)
    several = {
        "rotate": best_ms(lambda: bench.all.rotate(a, 1), REPEATS),
        "mul": best_ms(lambda: bench.all.mul(a, b), REPEATS),
        "rescale": bench.all.rescale_ms(a, REPEATS),
        "bootstrap": bootstrap_ms["complex"]["alone"],
        "two bootstraps": 2 * bootstrap_ms["complex"]["each"],
    }
    one["bootstrap"] = 1e3 * figures["bootstrap"]["seconds"]
    works = scaling.works(ring, figures["limbs"], one, several, sizes)
    return works, (traffic.copy_gb_per_second(), traffic.copy_gb_per_second(bench.threads))


def _show(figures: dict[str, Any]) -> None:
    y = figures["yardstick_ms"]
    table = Table("operation", "ms", "Y")
    for name in ("yardstick", "ntt", "conversion", "product", "rotate", "mul_relin", "rescale"):
        table.add_row(name, f"{figures[name + '_ms']:.4f}", f"{figures[name + '_ms'] / y:.2f}")
    b = figures["bootstrap"]
    table.add_row("bootstrap, one thread", f"{1e3 * b['seconds']:.0f}", f"{1e3 * b['seconds'] / y:.0f}")
    out.print(table)
    _show_memory(figures["memory"])
    out.print(f"kernels: {figures['simd']} (TACITA_SIMD asks for others: see docs/benchmarks.md)")
    out.print(
        f"bootstrap: {b['bits_average']:.1f} bits average, {b['bits_worst']:.1f} worst, {b['levels_left']} "
        "levels left"
    )
    out.print(
        f"two ciphertexts on {b['all_threads']} threads: {b['two_ciphertexts_ratio_one_thread']:.2f} times "
        "one on one"
    )
    out.print(f"keys {b['keys_gb']:.2f} GB, peak {b['peak_rss_gb']:.2f} GB", soft_wrap=True)


def _show_memory(memory: dict[str, Any]) -> None:
    table = Table("one thread", "MB moved (counted)", "of a copy's bandwidth")
    for name, row in memory["operations"].items():
        table.add_row(name, f"{row['bytes'] / 1e6:,.0f}", f"{100 * row['share_of_copy']:.0f} %")
    out.print(table)
    out.print(f"a large copy moves {memory['copy_gb_per_second']:.1f} GB/s, bytes read and bytes written")
