"""Seconds of a circuit: operation counts of `sim` times a price table measured by `tacita prices`.

A count is keyed by (operation, level, stage). A price is milliseconds by operation and number of limbs L =
level + the limbs below level 0 (base prime and slots-to-coefficients primes); between measured limbs it is
interpolated linearly, outside it is extended from the two nearest. Prices are those of the machine and thread
count named in the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from importlib import resources
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tacita.errors import PlanError

Counts: TypeAlias = Mapping[tuple[str, int, str], int]
# For tables that have not measured them: complex bootstraps for one, and how many more for each level of its
# operands (decision 23).
COEFFICIENTS = {
    "to_coefficients": (0.12, 0.0),
    "coefficient_product": (1e-5, 0.0),
    "coefficient_refresh": (0.23, 0.038),
}
# whose time is that of memory: they compute little on much
STREAMS = frozenset({"add", "tensor", "mul_scalar", "mul_plain", "matmul_input", "outer"})
# bootstraps inside a stage, and their kinds; those before it are in no stage's counts
BOOTSTRAPS = dict.fromkeys(("bootstrap", "bootstrap_through"), "complex")
BOOTSTRAPS |= dict.fromkeys(("bootstrap_real", "bootstrap_through_real"), "real")
# For 10^9 bytes of ciphertexts: that a process touches for the first time (the system finds and clears the
# pages), and that are packed, written to disk and read back.
SECONDS_PER_GB = ("touch_seconds_per_gb", "spill_seconds_per_gb")


BOOTSTRAP_PRICES = {(kind, how) for kind in ("complex", "real") for how in ("alone", "each")}
MOST = 1e12  # of any number in a table; bytes are the largest


@dataclass(frozen=True)
class Sizes:
    """Bytes of files and memory.

    limb_file, limb_memory: N residues packed on disk and as doubles. special: special primes of key
    switching. digit: limbs of its lowest digit. bootstrap_keys_*: all keys that bootstrapping needs.
    bootstrap_matrices: its encoded linear maps, in memory. process: what a process holds before data.
    Keys carry one polynomial of two on disk (the other one comes from a seed) and both in memory, packed too.
    """

    limb_file: int
    limb_memory: int
    special: int
    digit: int
    bootstrap_keys_file: int
    bootstrap_keys_memory: int
    bootstrap_matrices: int
    process: int

    @staticmethod
    def of_ring(log_n: int) -> Sizes:
        """Returns the sizes of the engine's one chain shape, which scales with N: counted by the engine at N
        = 2^16, per coefficient."""
        n = 1 << log_n
        return Sizes(
            limb_file=n * 50 // 8,
            limb_memory=n * 8,
            special=9,
            digit=11,
            bootstrap_keys_file=n * 17_286,
            bootstrap_keys_memory=n * 34_571,
            bootstrap_matrices=n * 5_600,
            process=200_000_000,
        )

    def key(self, level: int, limbs_at_level_0: int) -> tuple[int, int]:
        """(file, memory) bytes of one switching key used at `level`."""
        limbs = level + limbs_at_level_0
        polynomials = ceil(limbs / self.digit) * (limbs + self.special)
        return polynomials * self.limb_file, 2 * polynomials * self.limb_file

    def ciphertext(self, level: int, limbs_at_level_0: int) -> tuple[int, int]:
        """(file, memory) bytes of one ciphertext at `level`."""
        limbs = 2 * (level + limbs_at_level_0)
        return limbs * self.limb_file, limbs * self.limb_memory


@dataclass(frozen=True)
class Prices:
    """A measured price table.

    log_n, threads: what was measured. limbs_at_level_0: limbs of a ciphertext at level 0.
    ms: operation -> {limbs: milliseconds}. bootstrap_ms: kind -> {"alone": one ciphertext with all threads,
    "each": per ciphertext when at least `threads` of them are refreshed together}.
    yardstick_ms: the scalar 64-bit NTT at N = 2^16 on the same machine, which carries ratios to other
    machines.
    sizes: bytes of keys, ciphertexts and processes. keygen_seconds_per_gb: per 10^9 bytes of the key file.
    touch_seconds_per_gb, spill_seconds_per_gb: see `SECONDS_PER_GB`; 0 in a table that has not measured them.
    scale, streams: seconds here for one second of the table, of operations at large and of STREAMS, on a
    machine that has timed a few kernels. Predictions are multiplied by them and nothing else is: plans are
    those of the table.
    pace: the same for two parties on shares, whose seconds are not of this table (`two_party.program.cost`).
    origin: where the prices come from, in the words of a report.
    kernels: milliseconds of a few kernels on the measured machine (`schemes.prices.Kernels`), by which others
    scale the table.
    """

    machine: str
    log_n: int
    threads: int
    limbs_at_level_0: int
    yardstick_ms: float
    ms: Mapping[str, Mapping[int, float]]
    bootstrap_ms: Mapping[str, Mapping[str, float]]
    sizes: Sizes
    keygen_seconds_per_gb: float
    source: str
    touch_seconds_per_gb: float = 0.0
    spill_seconds_per_gb: float = 0.0
    scale: float = 1.0
    streams: float = 1.0
    pace: float = 1.0
    origin: str = ""
    kernels: Mapping[str, float] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """The machine, and where its prices come from, as a prediction names it."""
        return f"{self.machine} ({self.origin})" if self.origin else self.machine

    @staticmethod
    def load(path: Path) -> Prices:
        """Reads a table written by `tacita prices`."""
        try:
            return Prices.from_json(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise PlanError(
                f"{path}: not a price table ({error})", hint="write one with `tacita prices --json FILE`"
            ) from error

    @staticmethod
    def shipped(log_n: int) -> Prices | None:
        """The measured table of the package for this ring degree, if there is one."""
        table = resources.files(__package__).joinpath("tables", f"n{log_n}.json")
        return Prices.from_json(json.loads(table.read_text())) if table.is_file() else None

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Prices:
        """Checks the fields while building; raises PlanError naming what is missing or wrong."""
        try:
            ms = {op: {int(limbs): float(v) for limbs, v in row.items()} for op, row in data["ms"].items()}
            required = [
                f.name for f in fields(Prices) if f.default is MISSING and f.default_factory is MISSING
            ]
            values = {name: data[name] for name in required}
            values |= {name: float(data[name]) for name in (*SECONDS_PER_GB, "pace") if name in data}
            values["kernels"] = {name: float(ms) for name, ms in data.get("kernels", {}).items()}
            prices = Prices(**{**values, "ms": ms, "sizes": Sizes(**data["sizes"])})
            if {(kind, how) for kind, row in prices.bootstrap_ms.items() for how in row} != BOOTSTRAP_PRICES:
                raise ValueError("prices of bootstraps")
            if not all(0.0 <= value <= MOST for value in _numbers(prices)):
                raise ValueError("numbers out of range")
            return prices
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(
                f"price table: a field is missing, unknown or wrong ({error!s:.200})",
                hint="write one with `tacita prices --json FILE`",
            ) from error

    @cached_property
    def _curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        rows = {op: np.array(sorted(row.items()), float) for op, row in self.ms.items()}
        return {op: (points[:, 0], points[:, 1]) for op, points in rows.items()}

    @cached_property
    def _cached_seconds(self) -> dict[tuple[str, int], float]:
        return {}

    def seconds(self, op: str, level: int) -> float:
        """Price of one operation whose operands are at `level`."""
        if (op, level) not in self._cached_seconds:
            self._cached_seconds[op, level] = self._seconds(op, level)
        return self._cached_seconds[op, level]

    def _seconds(self, op: str, level: int) -> float:
        if op in self._curves:
            limbs, ms = self._curves[op]
            return _interpolate(level + self.limbs_at_level_0, limbs, ms) / 1e3
        if op == "rotate_shared":  # of rotate_many; the decomposition counts as a hoist
            return max(0.0, self.seconds("rotate", level) - self.seconds("hoist", level))
        if op in COEFFICIENTS:
            alone, more = COEFFICIENTS[op]
            return (alone + more * level) * self.bootstrap_ms["complex"]["each"] / 1e3
        raise PlanError(f"price table {self.source} has no operation {op!r}", hint="rerun `tacita prices`")

    def total(self, counts: Counts) -> float:
        """Seconds of all counted operations of a stage, without the bootstraps before it (the placement
        prices those by batch). One through a function costs as much, and the products that are counted beside
        it."""
        inside = sum(
            self.bootstrap_seconds((BOOTSTRAPS[op],) * n)
            for (op, _, _), n in counts.items()
            if op in BOOTSTRAPS
        )
        return inside + sum(
            n * self.seconds(op, level) for (op, level, _), n in counts.items() if op not in BOOTSTRAPS
        )

    def streaming(self, counts: Counts) -> float:
        """What STREAMS have of `total`."""
        return sum(n * self.seconds(op, level) for (op, level, _), n in counts.items() if op in STREAMS)

    def bootstrap_seconds(self, kinds: Sequence[str]) -> float:
        """Seconds to refresh ciphertexts of these kinds ("real" or "complex") in one call."""
        column = "alone" if len(kinds) < self.threads else "each"
        return sum(self.bootstrap_ms[kind][column] for kind in kinds) / 1e3


def _numbers(table: Prices) -> Iterator[float]:
    for row in table.ms.values():
        yield from row.values() if row else (-1.0,)
    for bootstraps in table.bootstrap_ms.values():
        yield from bootstraps.values()
    yield from vars(table.sizes).values()
    yield from (table.log_n, table.threads, table.limbs_at_level_0, table.yardstick_ms, table.pace)
    yield from (table.keygen_seconds_per_gb, table.touch_seconds_per_gb, table.spill_seconds_per_gb)


def _interpolate(at: float, xs: np.ndarray, ys: np.ndarray) -> float:
    """Piecewise linear through the points, extended beyond both ends; never below zero."""
    if len(xs) == 1:
        return float(ys[0])
    i = int(np.clip(np.searchsorted(xs, at) - 1, 0, len(xs) - 2))
    slope = (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i])
    return max(0.0, float(ys[i] + slope * (at - xs[i])))
