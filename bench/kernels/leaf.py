"""A feed-forward block in two ways, in one process: LEAF's (products of coefficients, then a bootstrap
through GELU) and ours in slots (refresh, rotations and products by diagonals, GELU as a polynomial).

y = x W1 + b1, z = GELU(y), r = z W2 + b2 for random x and W that fill GELU's interval. What the poster
measures ends at z, refreshed: so does the first half of each route here; the second half ends at r,
refreshed. Every route runs twice and the second time counts, when memory has been touched.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from bench.options import PRESET_DEFAULT, Insecure, Preset
from tacita import compiled
from tacita.approx.activations import gelu
from tacita.approx.fourier import FourierSpec, fit
from tacita.approx.spec import Spec
from tacita.cli.console import out, progress, reporting
from tacita.cli.options import Json, option
from tacita.layouts.rows import FeatureLayout, RowsShape
from tacita.packings.rows.linear import Affine
from tacita.plans import engine
from tacita.progress import Progress
from tacita.resources import peak_memory_gb, require_disk, threads
from tacita.slots.base import Kind
from tacita.slots.bootstraps import CoefficientLayout
from tacita.slots.ckks import CkksBackend

Array = NDArray[np.float64]

POSTER = {  # LEAF, 128 x 768 x 3072, seconds by step; about 15 threads inferred from its other table
    "pt-ct matrix product": 0.18,
    "mod switch": 0.0025,
    "coefficients to slots": 6.4,
    "polynomial": 42.8,
    "slots to coefficients": 4.02,
    "switches": 0.0038,
}
POSTER_SECONDS = 53.4
RUNS = 2
PRODUCT_LEVEL = 1  # that a product of coefficients takes: the refresh before it need not end higher
REACH = 0.98  # of GELU's interval and of [-1, 1] that values fill


@dataclass(frozen=True)
class LeafShape:
    """Sizes of the block, GELU's interval, and the error that its approximations may have."""

    tokens: int = 128
    hidden: int = 768
    inner: int = 3072
    interval: tuple[float, float] = (-8.0, 8.0)
    error: float = 1e-3


class Block:
    """The block's numbers: x and r in [-1, 1], y in the interval, z = GELU(y)."""

    def __init__(self, shape: LeafShape) -> None:
        rng = np.random.default_rng(1)
        lo, hi = shape.interval
        self.shape = shape
        self.x = rng.uniform(-1.0, 1.0, (shape.tokens, shape.hidden))
        self.w1 = rng.standard_normal((shape.inner, shape.hidden))
        self.b1, self.b2 = (rng.uniform(-0.1, 0.1, size) for size in (shape.inner, shape.hidden))
        self.w1 *= REACH * (min(hi, -lo) - 0.1) / np.abs(self.x @ self.w1.T).max()
        self.y = self.x @ self.w1.T + self.b1
        self.z = gelu.exact(self.y)
        self.w2 = rng.standard_normal((shape.hidden, shape.inner))
        self.w2 *= (REACH - 0.1) / np.abs(self.z @ self.w2.T).max()
        self.r = self.z @ self.w2.T + self.b2

    @cached_property
    def unit(self) -> float:
        """What z is divided by in slots."""
        return max(map(abs, self.shape.interval))


@dataclass
class Clock:
    """Seconds by stage."""

    progress: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the seconds of its body."""
        self.progress(name)
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


@dataclass(frozen=True)
class Machine:
    """Parameters, keys and an evaluator on all threads."""

    params: Any
    secret: Any
    evaluator: Any

    def encrypt(self, vectors: list[Any], level: int) -> list[Any]:
        """One ciphertext a vector."""
        return [compiled.native.encrypt(self.secret, v.astype(np.complex128), level) for v in vectors]

    def decrypt(self, cts: list[Any]) -> list[Any]:
        """The slots of each."""
        return [self.secret.decrypt(ct) for ct in cts]


class LeafRoute:
    """Coefficients -> product -> refresh through GELU -> coefficients -> product -> refresh."""

    half = ("fc1: slots to coefficients", "fc1: ring switch", "fc1: product", "fc1: ring switch back", "gelu")

    def __init__(self, block: Block) -> None:
        shape = block.shape
        self.block = block
        found = fit("gelu", gelu.exact, shape.interval, shape.interval, shape.error)
        assert isinstance(found, FourierSpec)
        self.gelu = found

    def rotations(self, params: Any) -> list[tuple[int, int]]:
        """(steps, highest level) of the keys beside those of bootstrapping."""
        return list(compiled.native.coefficient_rotations(params))

    def prepare(self, machine: Machine) -> None:
        """Keys of the small ring, matrices."""
        block, (lo, hi) = self.block, self.block.shape.interval
        self.machine, native = machine, compiled.native
        self.keys = native.CoefficientKeys.generate(machine.secret, block.shape.tokens)
        self.maps = native.Coefficients(machine.evaluator, self.keys)
        middle, half = 0.5 * (lo + hi), 0.5 * (hi - lo)
        self.first = self.maps.weights(block.w1 / half, (block.b1 - middle) / half)
        self.second = self.maps.weights(block.w2 * block.unit, block.b2)

    def layout(self, size: int) -> CoefficientLayout:
        return CoefficientLayout(self.machine.params.slots, self.block.shape.tokens, size)

    def run(self, clock: Clock) -> tuple[Array, Array]:
        """(z, r), decrypted."""
        shape, block = self.block.shape, self.block
        x = self.machine.encrypt(self.layout(shape.hidden).pack(block.x), PRODUCT_LEVEL)
        low = self._product(clock, "fc1", x, self.first, shape.hidden)
        with clock.stage("gelu"):
            harmonics = self.gelu.harmonics.astype(np.complex128) / block.unit
            z = self.maps.refresh(low, harmonics, PRODUCT_LEVEL)
        low = self._product(clock, "fc2", z, self.second, shape.inner)
        with clock.stage("refresh of r"):
            r = self.maps.refresh(low)
        found = (self.machine.decrypt(cts) for cts in (z, r))
        layouts = self.layout(shape.inner), self.layout(shape.hidden)
        first, second = (layout.unpack(slots) for layout, slots in zip(layouts, found, strict=True))
        return first * block.unit, second

    def _product(self, clock: Clock, name: str, cts: list[Any], weights: Any, features: int) -> list[Any]:
        with clock.stage(f"{name}: slots to coefficients"):
            low = self.maps.to_coefficients(cts)
        with clock.stage(f"{name}: ring switch"):
            blocks = self.maps.descend(low, features)
        with clock.stage(f"{name}: product"):
            blocks = self.maps.multiply(blocks, weights)
        with clock.stage(f"{name}: ring switch back"):
            return list(self.maps.ascend(blocks))


class SlotRoute:
    """Refresh -> expand by diagonals of `rows` -> GELU as a polynomial -> contract -> refresh."""

    half = ("refresh of y", "fc1: expand", "gelu")

    def __init__(self, block: Block, slots: int) -> None:
        shape = block.shape
        self.block = block
        self.gelu: Spec = gelu.fit(shape.interval, shape.error)
        self.scale = self.gelu.free_scale()
        rows = RowsShape(slots, shape.tokens)
        self.narrow, self.wide = (
            FeatureLayout.dense(rows, size, copied=False) for size in (shape.hidden, shape.inner)
        )
        self.expand = Affine.build(block.w1 * self.scale, block.b1 * self.scale, self.narrow, self.wide)
        self.contract = Affine.build(block.w2 * block.unit, block.b2, self.wide, self.narrow)
        self.level = 2 + self.gelu.depth(self.scale)

    def rotations(self, params: Any) -> list[tuple[int, int]]:
        """(steps, highest level) of the keys beside those of bootstrapping."""
        first = [(step, self.level) for step in self.expand.map.plan.rotations]
        second = [(step, 1) for step in self.contract.map.plan.rotations]
        shifts = [(a.map.shift, level) for a, level in ((self.expand, self.level), (self.contract, 1))]
        return [(step, level) for step, level in first + second + shifts if step]

    def prepare(self, machine: Machine) -> None:
        """Nothing but the evaluator: diagonals are encoded as they are used."""
        self.machine, self.backend = machine, CkksBackend(machine.evaluator)

    def run(self, clock: Clock) -> tuple[Array, Array]:
        """(z, r), decrypted."""
        block, be = self.block, self.backend
        x = self.machine.encrypt(self.narrow.pack(block.x), 0)
        with clock.stage("refresh of y"):
            fresh = [be.drop_to(ct, self.level) for ct in self._refreshed(x)]
        with clock.stage("fc1: expand"):
            y = self.expand.apply(be, fresh)
        with clock.stage("gelu"):
            z = [self.gelu.evaluate(be, ct, self.scale, 1.0 / block.unit) for ct in y]
        with clock.stage("fc2: contract"):
            r = self.contract.apply(be, [be.drop_to(ct, 1) for ct in z])
        with clock.stage("refresh of r"):
            refreshed = self._refreshed(list(r))
        return self.wide.unpack(self._real(z)) * block.unit, self.narrow.unpack(self._real(refreshed))

    def _refreshed(self, cts: list[Any]) -> list[Any]:
        odd = len(cts) % 2
        kinds: list[Kind] = ["pair"] * (len(cts) - odd)
        return self.backend.bootstrap(cts, kinds + ["real"] * odd)

    def _real(self, cts: list[Any]) -> list[Any]:
        return [np.real(slots) for slots in self.machine.decrypt(cts)]


Sizes = LeafShape()
BlockTokens = Annotated[int, option("--tokens", help="Tokens, a power of two.", min=4, show_default=True)]
Hidden = Annotated[
    int, option("--hidden", help="Width of the block's input and output.", min=1, show_default=True)
]
Inner = Annotated[int, option("--inner", help="Width between its two products.", min=1, show_default=True)]


def leaf(
    json: Json = None,
    tokens: BlockTokens = Sizes.tokens,
    hidden: Hidden = Sizes.hidden,
    inner: Inner = Sizes.inner,
    preset: Preset = PRESET_DEFAULT,
    allow_insecure: Insecure = False,
) -> None:
    """Time FC1 + GELU and FC1 + GELU + FC2 by coefficients and by slots; some minutes and 9 GB of memory."""
    engine.require_secure(engine.describe(preset), allow_insecure=allow_insecure)
    with progress("bench leaf") as report, engine.translated():
        params = compiled.native.Parameters.preset(preset, allow_insecure=allow_insecure)
        found = {"preset": preset, **_both(Block(LeafShape(tokens, hidden, inner)), params, _Steps(report))}
    with reporting(json, found):
        _show(found)


def _both(block: Block, params: Any, steps: _Steps) -> dict[str, Any]:
    """The report: both routes by stage, their errors, and the poster's row."""
    routes = {"leaf": LeafRoute(block), "slots": SlotRoute(block, params.slots)}
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        machine, keys = _machine(params, routes, Path(folder), steps)
    report = {name: _measured(route, block, machine, name, steps) for name, route in routes.items()}
    leaf = routes["leaf"]
    assert isinstance(leaf, LeafRoute)
    return {
        "tokens": block.shape.tokens,
        "hidden": block.shape.hidden,
        "inner": block.shape.inner,
        "interval": block.shape.interval,
        "harmonics": len(leaf.gelu.cosines) - 1,
        **report,
        "poster": {"stages": POSTER, "fc1_gelu_seconds": POSTER_SECONDS},
        "threads": machine.evaluator.threads,
        "keys_gb": (keys.nbytes + leaf.keys.nbytes) / 1e9,
        "leaf_keys_gb": leaf.keys.nbytes / 1e9,
        "peak_rss_gb": peak_memory_gb(),
        "log_qp": params.log_qp,
        "security_bits": params.security_bits,
        "simd": compiled.native.simd_path(),
    }


def _machine(params: Any, routes: dict[str, Any], folder: Path, steps: _Steps) -> tuple[Machine, Any]:
    native = compiled.native
    rotations = [pair for route in routes.values() for pair in route.rotations(params)]
    paths = str(folder / "secret.key"), str(folder / "evaluation.keys")
    require_disk(folder, 2 * params.bootstrap_key_bytes, "the benchmark's keys")
    native.keygen(params, rotations, *paths, lambda done, total: steps(f"key {done} of {total}"))
    keys = native.EvaluationKeys.load(paths[1], params, rotations)
    secret = native.SecretKey.load(paths[0], params)
    machine = Machine(params, secret, native.Evaluator(params, keys, threads()))
    for route in routes.values():
        route.prepare(machine)
    return machine, keys


def _measured(route: Any, block: Block, machine: Machine, name: str, steps: _Steps) -> dict[str, Any]:
    """Stages of the last run, and the errors of z and r."""
    clocks = [Clock(lambda stage: steps(f"{name}, {stage}")) for _ in range(RUNS)]
    for clock in clocks:
        z, r = route.run(clock)
    seconds = clocks[-1].seconds
    return {
        "stages": [{"name": stage, "seconds": taken} for stage, taken in seconds.items()],
        "fc1_gelu_seconds": sum(seconds[stage] for stage in route.half),
        "seconds": sum(seconds.values()),
        "first_run_seconds": sum(clocks[0].seconds.values()),
        "gelu_error_of_fit": route.gelu.error,
        "max_abs_error_gelu": float(np.abs(z - block.z).max()),
        "max_abs_error_of_engine": float(np.abs(z - route.gelu.numpy(block.y)).max()),
        "max_abs_error": float(np.abs(r - block.r).max()),
    }


class _Steps:
    """Progress without an estimate: the names of what runs."""

    def __init__(self, progress: Callable[[Progress], None]) -> None:
        self._progress, self._began, self._count = progress, time.monotonic(), 0

    def __call__(self, name: str) -> None:
        self._count += 1
        self._progress(Progress(name, self._count, self._count + 1, time.monotonic() - self._began, 0.0))


def _show(found: dict[str, Any]) -> None:
    for name, title in (("leaf", "coefficients, refresh through GELU"), ("slots", "slots")):
        route, table = found[name], Table(title, "seconds")
        for stage in route["stages"]:
            table.add_row(stage["name"], f"{stage['seconds']:.2f}")
        table.add_row("FC1 + GELU", f"{route['fc1_gelu_seconds']:.2f}")
        table.add_row("FC1 + GELU + FC2", f"{route['seconds']:.2f}")
        table.add_row("largest error after GELU", f"{route['max_abs_error_gelu']:.5f}")
        table.add_row("largest error after FC2, range 2", f"{route['max_abs_error']:.6f}")
        out.print(table)
    poster = found["poster"]["fc1_gelu_seconds"]
    out.print(f"LEAF's poster, FC1 + GELU of 128 x 768 x 3072: {poster} s, on 15 threads or more (inferred)")
    out.print(
        f"{found['threads']} threads, keys {found['keys_gb']:.2f} GB, peak {found['peak_rss_gb']:.2f} GB, "
        f"{found['simd']}, preset {found['preset']}, {found['security_bits']} bits"
    )
