"""What more cores would give, counted from the engine's tasks and bytes: `python -m bench engine --scaling`.

An operation is a row of phases, each of so many transforms in so many tasks, which the engine itself counts
(`limb_tasks`); a core takes whole tasks. Arithmetic and memory add up, as they do on the machines that were
measured. The bandwidth grows with the cores, as from one thread to all of this machine, to that of eight
channels. One column is measured; the counted one of as many cores says how far counts hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isnan

from rich.table import Table

from bench.kernels import traffic
from tacita import compiled
from tacita.cli.console import out
from tacita.plans.prices.cost import Sizes
from tacita.schemes.prices import Phases, bandwidth, share, switch_phases

CORES = 2, 4, 8, 16, 32, 64
TRANSFORMS = 9070  # of a complex bootstrap
BOOTSTRAPS = {"bootstrap": 1, "two bootstraps": 2, "6 bootstraps": 6, "64 bootstraps": 64}
AT_ONCE = 2  # threads that a bootstrap takes before another one begins


@dataclass(frozen=True)
class Work:
    """bytes: moved. milliseconds: of one, on one thread. measured: of `number` in a call on all, or nan."""

    name: str
    phases: Phases
    bytes: int
    milliseconds: float
    measured: float
    number: int = 1

    def tasks(self, cores: int) -> str:
        """Returns the tasks of each phase."""
        return " ".join(str(compiled.native.limb_tasks(limbs, 16, cores, of)) for _, limbs, of in self.phases)


def counted(work: Work, cores: int, one_gb: float, all_gb: float) -> float:
    """Milliseconds on so many cores. one_gb, all_gb: GB a second of one and of all."""
    beside = min(work.number, max(1, cores // AT_ONCE))
    arithmetic = max(0.0, work.milliseconds - work.bytes / one_gb / 1e6)
    left = share(work.phases, max(1, cores // beside), cores)
    return ceil(work.number / beside) * arithmetic * left + work.number * work.bytes / all_gb / 1e6


def show_scaling(works: list[Work], threads: int, one_gb: float, all_gb: float) -> None:
    """Prints the gain of each operation, and its tasks. all_gb: a copy on all threads."""
    table = Table("cores", f"({threads})", *map(str, CORES), title="times one core's speed (measured)")
    tasks = Table("threads", *map(str, CORES), title="tasks of each phase")
    for work in works:
        alone = work.number * work.milliseconds
        wide = {c: min(bandwidth(max(CORES)), max(one_gb, all_gb * c / threads)) for c in CORES}
        found = [alone / counted(work, c, one_gb, wide[c]) for c in CORES]
        measured = "" if isnan(work.measured) else f"{alone / work.measured:.2f}"
        table.add_row(work.name, measured, *(f"{ratio:.2f}" for ratio in found))
        if work.number == 1:
            tasks.add_row(work.name, *map(work.tasks, CORES))
    out.print(table, tasks)


def works(
    ring: traffic.Ring, limbs: int, one: dict[str, float], several: dict[str, float], sizes: Sizes
) -> list[Work]:
    """one, several: milliseconds on one thread and on all."""
    k, top = ring.special, ring.top + traffic.EVAL_MOD
    widest = switch_phases(top, sizes)
    every = sum(count for count, *_ in widest)
    boot = tuple((count * TRANSFORMS // every, limbs_, of) for count, limbs_, of in widest)
    bytes_ = ring.bytes(traffic.bootstrap(ring)) + sizes.bootstrap_matrices
    switch, rescale = switch_phases(limbs, sizes), ((1, 1, False), (limbs - 1, limbs - 1, False))

    def bootstraps(name: str, number: int) -> Work:
        return Work(name, boot, bytes_, one["bootstrap"], several.get(name, float("nan")), number)

    return [
        Work("rotate", switch, ring.bytes(traffic.rotate(limbs, k)), one["rotate"], several["rotate"]),
        Work("multiply", switch, ring.bytes(traffic.relinearise(limbs, k)), one["mul"], several["mul"]),
        Work("rescale", rescale, ring.bytes(traffic.rescale(limbs)), one["rescale"], several["rescale"]),
        *(bootstraps(name, number) for name, number in BOOTSTRAPS.items()),
    ]
