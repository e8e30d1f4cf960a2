"""A feed-forward block in two ways, in one process: LEAF's (products of coefficients, then a bootstrap
through GELU) and ours in slots (refresh, rotations and products by diagonals, GELU as a polynomial).

y = x W1 + b1, z = GELU(y), r = z W2 + b2 for random x and W that fill GELU's interval. What the poster
measures ends at z, refreshed: so does the first half of each route here; the second half ends at r,
refreshed. Every route runs twice and the second time counts, when memory has been touched.

With `--table` the function between the products is a table instead of GELU, and y a whole number of its
steps, so that all of z can be compared with the table: by coefficients alone, for no polynomial is exact.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table

from bench.kernels.feed_forward import Array, Block, LeafShape, read_table
from bench.options import PRESET_DEFAULT, Insecure, Preset
from tacita import compiled
from tacita.approx.activations import gelu
from tacita.approx.spec import Spec
from tacita.cli.console import out, progress, reporting
from tacita.cli.options import Json, option
from tacita.layouts.rows import FeatureLayout, RowsShape
from tacita.packings.rows.linear import Affine
from tacita.plans import engine
from tacita.progress import Progress
from tacita.resources import peak_memory_gb, require_disk, require_memory, threads
from tacita.slots.base import Kind
from tacita.slots.bootstraps import CoefficientLayout
from tacita.slots.ckks import CkksBackend
from tacita.slots.counts import series_depth

POSTER = {  # LEAF, 128 x 768 x 3072, seconds by step; about 15 threads inferred from its other table
    "pt-ct matrix product": 0.18,
    "mod switch": 0.0025,
    "coefficients to slots": 6.4,
    "polynomial": 42.8,
    "slots to coefficients": 4.02,
    "switches": 0.0038,
}
POSTER_SECONDS = 53.4
POSTER_MODULUS = 700  # bits at most, for 13 levels
AMORTIZED = {  # the poster's other table, milliseconds a value of a refresh through GELU
    "CKKS, bootstrap and polynomial": (7.0, 8.5),
    "PEGASUS": (749.0, 749.0),
    "LEAF": (2.3, 2.3),
}
RUNS = 2
PRODUCT_LEVEL = 1  # that a product of coefficients takes: the refresh before it need not end higher


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
    keys: Any
    evaluator: Any

    @staticmethod
    def generate(
        params: Any,
        rotations: Sequence[tuple[int, int]],
        folder: Path,
        steps: Callable[[str], None] = lambda _: None,
    ) -> Machine:
        """Makes keys in a folder, those of bootstrapping and of these rotations."""
        native, paths = compiled.native, (str(folder / "secret.key"), str(folder / "evaluation.keys"))
        require_disk(folder, 2 * params.bootstrap_key_bytes, "the benchmark's keys")
        native.keygen(params, rotations, *paths, lambda done, total: steps(f"key {done} of {total}"))
        keys = native.EvaluationKeys.load(paths[1], params, rotations)
        secret = native.SecretKey.load(paths[0], params)
        return Machine(params, secret, keys, native.Evaluator(params, keys, threads()))

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
        self.block, self.gelu = block, block.fit()

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
TableName = Annotated[
    str | None, option("--table", help="step, sign, relu or a JSON file of [x, y] in place of GELU.")
]
OneRoute = Annotated[bool, option("--leaf-only", help="Leave out the route by slots.")]


def leaf(
    json: Json = None,
    tokens: BlockTokens = Sizes.tokens,
    hidden: Hidden = Sizes.hidden,
    inner: Inner = Sizes.inner,
    table: TableName = None,
    leaf_only: OneRoute = False,
    preset: Preset = PRESET_DEFAULT,
    allow_insecure: Insecure = False,
) -> None:
    """Time FC1 + GELU and FC1 + GELU + FC2 by coefficients and by slots; some minutes and 9 GB of memory."""
    engine.require_secure(engine.describe(preset), allow_insecure=allow_insecure)
    shape, function = LeafShape(tokens, hidden, inner), None
    if table is not None:
        function = read_table(table, shape.interval)
        shape = shape.with_table(function)
    with progress("bench leaf") as report, engine.translated():
        params = compiled.native.Parameters.preset(preset, allow_insecure=allow_insecure)
        alone = leaf_only or function is not None
        need = predicted_bytes(shape, params, alone)
        require_memory(need, f"a block of {hidden} x {inner}")
        block = Block(shape, function)
        report_of = _both(block, params, _Steps(report), alone)
    found = {"preset": preset, "table": table, "predicted_gb": need / 1e9, **report_of}
    with reporting(json, found):
        _show(found)


MATRIX_BYTES = 48  # a pair of weights: two matrices as doubles and as integers, and the copies of one
TENSORS = 12  # arrays of doubles (tokens, inner)
BASE_BYTES = 150_000_000  # the program with its libraries
# Limbs of doubles: matrices of all maps and keys of slots-to-coefficients, a refresh while it runs (a quarter
# above the peak on the toy ring of N = 2^14), what the route by slots adds (docs/benchmarks/history.md).
LIMBS_OF_MAPS, LIMBS_OF_REFRESH, LIMBS_OF_SLOTS = 2500, 2500, 8500


def predicted_bytes(shape: LeafShape, params: Any, alone: bool) -> int:
    """Estimates what the block takes at its peak, alone by coefficients or by both routes: keys, matrices of
    both kinds, tensors, and what a refresh holds."""
    weights = MATRIX_BYTES * shape.hidden * shape.inner + 8 * TENSORS * shape.tokens * shape.inner
    limbs = LIMBS_OF_MAPS + LIMBS_OF_REFRESH * max(1, threads() // 2)
    if not alone:
        limbs += LIMBS_OF_SLOTS * max(1, -(-(shape.hidden + shape.inner) // (Sizes.hidden + Sizes.inner)))
    return int(BASE_BYTES + params.bootstrap_key_bytes + weights + 16 * params.slots * limbs)


def _both(block: Block, params: Any, steps: _Steps, alone: bool) -> dict[str, Any]:
    """The report: one route or both by stage, their errors, and the poster's rows."""
    leaf = LeafRoute(block)
    routes: dict[str, Any] = (
        {"leaf": leaf} if alone else {"leaf": leaf, "slots": SlotRoute(block, params.slots)}
    )
    rotations = [pair for route in routes.values() for pair in route.rotations(params)]
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        machine = Machine.generate(params, rotations, Path(folder), steps)
        for route in routes.values():
            route.prepare(machine)
    report = {name: _measured(route, block, machine, name, steps) for name, route in routes.items()}
    depth, values = series_depth(len(leaf.gelu.cosines) - 1), block.z.size
    gelu_seconds = next(s["seconds"] for s in report["leaf"]["stages"] if s["name"] == "gelu")
    return {
        "tokens": block.shape.tokens,
        "hidden": block.shape.hidden,
        "inner": block.shape.inner,
        "interval": block.shape.interval,
        "harmonics": len(leaf.gelu.cosines) - 1,
        **report,
        "poster": {"stages": POSTER, "fc1_gelu_seconds": POSTER_SECONDS},
        "amortized_ms": {**AMORTIZED, "ours": (1e3 * gelu_seconds / values,) * 2},
        "log_q": {
            "refresh": params.refresh_log_q(depth, PRODUCT_LEVEL),
            "chain": params.refresh_log_q(depth, params.max_level + 1 - depth),
            "poster, at most": POSTER_MODULUS,
        },
        "threads": machine.evaluator.threads,
        "keys_gb": (machine.keys.nbytes + leaf.keys.nbytes) / 1e9,
        "leaf_keys_gb": leaf.keys.nbytes / 1e9,
        "peak_rss_gb": peak_memory_gb(),
        "log_qp": params.log_qp,
        "security_bits": params.security_bits,
        "simd": compiled.native.simd_path(),
    }


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
        **({} if block.table is None else {"wrong_values": block.wrong(z), "values": z.size}),
    }


class _Steps:
    """Progress without an estimate: the names of what runs."""

    def __init__(self, progress: Callable[[Progress], None]) -> None:
        self._progress, self._began, self._count = progress, time.monotonic(), 0

    def __call__(self, name: str) -> None:
        self._count += 1
        self._progress(Progress(name, self._count, self._count + 1, time.monotonic() - self._began, 0.0))


def _show(found: dict[str, Any]) -> None:
    for name, title in (("leaf", "coefficients, refresh through the function"), ("slots", "slots")):
        if name not in found:
            continue
        route, table = found[name], Table(title, "seconds")
        for stage in route["stages"]:
            table.add_row(stage["name"], f"{stage['seconds']:.2f}")
        table.add_row("FC1 + GELU", f"{route['fc1_gelu_seconds']:.2f}")
        table.add_row("FC1 + GELU + FC2", f"{route['seconds']:.2f}")
        table.add_row("largest error after GELU", f"{route['max_abs_error_gelu']:.5f}")
        table.add_row("largest error after FC2, range 2", f"{route['max_abs_error']:.6f}")
        if "values" in route:
            table.add_row("values that round to another", f"{route['wrong_values']} of {route['values']}")
        out.print(table)
    table = Table("a refresh through GELU", "milliseconds a value")
    for name, (least, most) in found["amortized_ms"].items():
        table.add_row(name, f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}")
    out.print(table)
    poster, log_q = found["poster"]["fc1_gelu_seconds"], found["log_q"]
    out.print(f"LEAF's poster, FC1 + GELU of 128 x 768 x 3072: {poster} s, on 15 threads or more (inferred)")
    out.print(
        f"ciphertext modulus of the refresh {log_q['refresh']:.0f} bits of {log_q['chain']:.0f}, "
        f"{found['harmonics']} harmonics; the poster's less than {POSTER_MODULUS}"
    )
    out.print(
        f"{found['threads']} threads, keys {found['keys_gb']:.2f} GB, peak {found['peak_rss_gb']:.2f} GB "
        f"({found['predicted_gb']:.2f} predicted), "
        f"{found['simd']}, preset {found['preset']}, {found['security_bits']} bits"
    )
