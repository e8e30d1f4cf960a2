"""What more cores would give, counted from the engine's tasks and bytes: `python -m bench engine --scaling`.

An operation is a row of phases, each of so many transforms in so many tasks of equal size; a core takes whole
tasks. Arithmetic and memory add up, as they do on the machines that were measured. The bandwidth grows with
the cores, as from one thread to all of this machine, to that of eight channels. The columns of one core and
of this machine's are measured; where both are alike, the counted column beside says how far counts hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from rich.table import Table

from bench.kernels import traffic
from tacita.cli.console import out

CORES = 2, 4, 8, 16, 32, 64
CHANNELS = 200.0  # GB a second of eight channels of DDR5, as copies reach them
TRANSFORMS = 9070  # of a complex bootstrap
AT_ONCE = 2  # threads that a bootstrap takes before another one begins


@dataclass(frozen=True)
class Work:
    """phases: (transforms, tasks). bytes: moved. milliseconds: of one, on one thread. measured: of `number`
    in one call on all threads of this machine, nan where nobody did."""

    name: str
    phases: tuple[tuple[int, int], ...]
    bytes: int
    milliseconds: float
    measured: float
    number: int = 1


def switch_phases(limbs: int, special: int) -> tuple[tuple[int, int], ...]:
    """A key switch: digits into coefficients, the special limbs of all digits and their way back, the limbs
    that stay with theirs. A digit's own limbs are there."""
    digits = ceil(limbs / special)
    back = 2 * special
    return (limbs, limbs), (digits * special + back, special), ((digits - 1) * limbs + 2 * limbs, limbs)


def counted(work: Work, cores: int, one_gb: float, all_gb: float) -> float:
    """Milliseconds on so many cores. one_gb, all_gb: GB a second of one thread and of so many cores."""
    beside = min(work.number, max(1, cores // AT_ONCE))
    own = max(1, cores // beside)
    transforms = sum(count for count, _ in work.phases)
    arithmetic = max(0.0, work.milliseconds - work.bytes / one_gb / 1e6)
    share = sum(count * ceil(tasks / own) / tasks for count, tasks in work.phases) / transforms
    return ceil(work.number / beside) * arithmetic * share + work.number * work.bytes / all_gb / 1e6


def show_scaling(works: list[Work], threads: int, one_gb: float, all_gb: float) -> None:
    """Prints how many times as fast as on one core each operation is. all_gb: a copy on all threads."""
    table = Table("times as fast as on one core", f"{threads} measured", *(f"{c} counted" for c in CORES))
    for work in works:
        alone = work.number * work.milliseconds
        wide = {c: min(CHANNELS, max(one_gb, all_gb * c / threads)) for c in CORES}
        found = [alone / counted(work, c, one_gb, wide[c]) for c in CORES]
        table.add_row(work.name, f"{alone / work.measured:.2f}", *(f"{ratio:.2f}" for ratio in found))
    out.print(table)


def works(
    ring: traffic.Ring, limbs: int, one: dict[str, float], several: dict[str, float], matrices: int
) -> list[Work]:
    """A rotation, a product, one bootstrap and two in a call. one, several: milliseconds on one thread and
    on all, by name. matrices: bytes of the plaintexts of a bootstrap."""
    k, top = ring.special, ring.top + traffic.EVAL_MOD
    widest = switch_phases(top, k)
    every = sum(count for count, _ in widest)
    boot = tuple((count * TRANSFORMS // every, tasks) for count, tasks in widest)
    bytes_ = ring.bytes(traffic.bootstrap(ring)) + matrices
    switch = switch_phases(limbs, k)
    return [
        Work("rotate", switch, ring.bytes(traffic.rotate(limbs, k)), one["rotate"], several["rotate"]),
        Work("multiply", switch, ring.bytes(traffic.relinearise(limbs, k)), one["mul"], several["mul"]),
        Work("bootstrap", boot, bytes_, one["bootstrap"], several["bootstrap"]),
        Work("two bootstraps", boot, bytes_, one["bootstrap"], several["two bootstraps"], 2),
        *(Work(f"{n} bootstraps", boot, bytes_, one["bootstrap"], float("nan"), n) for n in (6, 64)),
    ]
