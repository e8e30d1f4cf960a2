"""Where to bootstrap: a shortest path over the levels of the live tensors, priced by `sim`.

A state is (next stage, level of each live tensor). Before each stage any subset of the live tensors may be
bootstrapped to the top, then any tensor may be lowered (lower levels are cheaper), then the stage runs. The
value of a state is the least number of seconds to the end of the circuit; values are computed from the last
stage backwards on the whole grid of levels, so the path is optimal for the given prices. Two real ciphertexts
may share one complex bootstrap. Of a stage with variants the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import inf, isfinite

import numpy as np

from tacita.errors import PlanError
from tacita.planning.place.simulate import Levels, Outcome, Shape, StageSimulator
from tacita.plans.prices.cost import Counts, Prices
from tacita.slots.stage import Stage

FEWER_LEVELS = "use --functions tacita, whose polynomials need the fewest levels, or a deeper preset"

SecondsOf = Callable[[Counts], float]


@dataclass(frozen=True)
class Step:
    """One placed stage.

    bootstraps: live tensors refreshed before it, in one call. levels: level to which each live tensor is
    lowered before it. out_levels: levels after it. kinds: of the bootstrapped ciphertexts once paired.
    seconds: predicted. refreshes: of the variant that was taken, whether it bootstraps by itself.
    """

    stage: str
    bootstraps: tuple[str, ...]
    kinds: tuple[str, ...]
    levels: Levels
    out_levels: Levels
    bootstrap_seconds: float
    seconds: float
    counts: Mapping[str, int]
    refreshes: bool = False


@dataclass(frozen=True)
class Placement:
    """All steps, the levels at which the request is encrypted, and the total of predicted seconds."""

    steps: tuple[Step, ...]
    request: Levels
    seconds: float

    @property
    def bootstraps(self) -> int:
        """Number of ciphertexts bootstrapped, a pair of real ones counted once."""
        return sum(len(step.kinds) for step in self.steps)


@dataclass(frozen=True)
class Boundary:
    """Live tensors before a stage: name -> ciphertexts, and which of them carry imaginary parts.

    Tensors in `fixed` are encrypted masks: never lowered, never bootstrapped, no axis of the grid.
    """

    shape: Shape
    complex_tensors: frozenset[str]
    fixed: frozenset[str]

    @cached_property
    def axes(self) -> tuple[str, ...]:
        return tuple(name for name in self.shape if name not in self.fixed)

    def kinds(self, names: Sequence[str], levels: Levels, prices: Prices) -> tuple[str, ...]:
        """Kinds of the bootstraps that refresh these tensors, the cheapest way.

        Two real ciphertexts that have a level left can go as one complex one; whether that pays depends on
        how well the machine refreshes several at once.
        """
        real = [name for name in names if name not in self.complex_tensors]
        pairable = sum(self.shape[n] for n in real if levels[n] >= 1)
        single = sum(self.shape[n] for n in real if levels[n] == 0)
        whole = sum(self.shape[n] for n in names if n in self.complex_tensors)
        options = [
            ("complex",) * (pairs + whole) + ("real",) * (single + pairable - 2 * pairs)
            for pairs in range(pairable // 2 + 1)
        ]
        return min(options, key=lambda kinds: prices.bootstrap_seconds(kinds) if kinds else 0.0)


def place(stages: Sequence[Stage], request: Shape, sim: StageSimulator, prices: Prices) -> Placement:
    """The cheapest placement. request: tensors that the client sends, name -> number of ciphertexts.

    Cost: one `sim` run per stage and relative pattern of levels. Raises PlanError naming the first stage that
    does not fit between two bootstraps.
    """
    boundaries = _boundaries(stages, request, sim)
    if not isfinite(prices.bootstrap_seconds(("complex",))):
        _require_no_refresh(stages)
        return _without_bootstraps(stages, boundaries, sim, prices)
    tables = _backward(stages, boundaries, sim, prices)
    return _forward(stages, boundaries, tables, sim, prices)


def _require_no_refresh(stages: Sequence[Stage]) -> None:
    name = next((stage.name for stage in stages if stage.refreshes), None)
    if name:
        raise PlanError(
            f"stage {name} bootstraps, which these parameters cannot",
            hint="take a preset that bootstraps, or another scheme",
        )


def _without_bootstraps(
    stages: Sequence[Stage], boundaries: Sequence[Boundary], sim: StageSimulator, prices: Prices
) -> Placement:
    """The lowest request level from which the stages run one after the other; there is nothing else to
    choose.

    A grid of the levels of all live tensors would have millions of points on a chain of 70 levels.
    """
    best: Placement | None = None
    for entry in range(sim.max_level, -1, -1):
        levels = dict.fromkeys(boundaries[0].axes, entry)
        steps, missing = _chain(stages, boundaries, levels, sim, prices)
        if missing and best is None:
            raise PlanError(
                f"no placement from stage {missing} on: {sim.max_level} levels and no bootstrapping",
                hint="take a deeper preset, or one that bootstraps",
            )
        if missing:
            break
        best = _placement(steps, levels)
    assert best is not None  # the first entry level gave one or raised
    return best


def _chain(
    stages: Sequence[Stage],
    boundaries: Sequence[Boundary],
    levels: Levels,
    sim: StageSimulator,
    prices: Prices,
) -> tuple[list[Step], str]:
    """The steps of a run that enters at `levels`, and the stage that it does not reach, if any."""
    steps: list[Step] = []
    for stage, before in zip(stages, boundaries, strict=False):
        if sim.outcome(stage, before.shape, levels) is None:
            return steps, stage.name
        steps.append(_step(stage, before, (), (), levels, sim, prices))
        levels = steps[-1].out_levels
    return steps, ""


def _boundaries(stages: Sequence[Stage], request: Shape, sim: StageSimulator) -> list[Boundary]:
    """Live tensors before each stage and after the last, found by running every stage from the top."""
    boundaries = [Boundary(dict(request), frozenset(), sim.fixed)]
    for stage in stages:
        before = boundaries[-1]
        outcome = _from_the_top(stage, before, sim)
        if outcome is None:
            raise PlanError(
                f"stage {stage.name} needs more than the {sim.max_level} levels between two bootstraps",
                hint=FEWER_LEVELS,
            )
        carried = before.complex_tensors & outcome.passed
        boundaries.append(Boundary(outcome.shape, carried | stage.complex_outputs, sim.fixed))
    return boundaries


def _from_the_top(stage: Stage, before: Boundary, sim: StageSimulator) -> Outcome | None:
    """Runs the first variant that fits from the top; all of them return the same tensors."""
    top = dict.fromkeys(before.axes, sim.max_level)
    outcomes = (sim.outcome(variant, before.shape, top) for variant in _variants(stage))
    return next((outcome for outcome in outcomes if outcome), None)


def _variants(stage: Stage) -> tuple[Stage, ...]:
    return (stage, *stage.variants)


@dataclass(frozen=True)
class _Table:
    """Values before one stage on the grid of levels: `ready` after lowering, `value` with a choice of
    bootstraps."""

    run: np.ndarray  # seconds from here when the stage is entered exactly at these levels
    ready: np.ndarray  # least of `run` over all lower levels
    value: np.ndarray  # least of `ready` over the subsets to bootstrap


def _backward(
    stages: Sequence[Stage], boundaries: Sequence[Boundary], sim: StageSimulator, prices: Prices
) -> list[_Table]:
    tables: list[_Table] = []
    after = np.zeros((sim.max_level + 1,) * len(boundaries[-1].axes))
    for stage, before, behind in reversed(list(zip(stages, boundaries, boundaries[1:], strict=False))):
        runs = [_run_values(one, before, behind, after, sim, prices) for one in _variants(stage)]
        run = np.minimum.reduce(runs)
        ready = run.copy()
        for axis in range(ready.ndim):
            ready = np.minimum.accumulate(ready, axis=axis)
        value = np.minimum.reduce(
            [_refreshed(ready, before, names, prices) for names in _subsets(before.axes)]
        )
        if not np.isfinite(value).any():
            raise PlanError(f"no placement from stage {stage.name} on", hint=FEWER_LEVELS)
        tables.append(_Table(run, ready, value))
        after = value
    return tables[::-1]


def _run_values(
    stage: Stage, before: Boundary, behind: Boundary, after: np.ndarray, sim: StageSimulator, prices: Prices
) -> np.ndarray:
    """Seconds to the end for every combination of entry levels, without lowering or bootstrapping first."""
    side = sim.max_level + 1
    run = np.full((side,) * len(before.axes), inf)
    passive = {
        name for name in before.axes if len(before.axes) > 1 and sim.passive(stage, before.shape, name)
    }
    active = [name for name in before.axes if name not in passive]
    moved = [name for name in behind.axes if name not in passive]
    least = _least_entries(stage, before.shape, active, moved, sim)
    seconds: dict[tuple[int, ...], tuple[float, Outcome] | None] = {}
    for entry in product(range(side), repeat=len(before.axes)):
        levels = dict(zip(before.axes, entry, strict=True))
        key = tuple(levels[name] for name in active)
        if least is not None and key not in least:
            continue
        if key not in seconds:
            probe = {**levels, **dict.fromkeys(passive, min(key))}
            outcome = sim.outcome(stage, before.shape, probe)
            seconds[key] = None if outcome is None else (prices.total(outcome.counts), outcome)
        hit = seconds[key]
        if hit is not None:
            out = tuple(levels[n] if n in passive else hit[1].levels[n] for n in behind.axes)
            run[entry] = hit[0] + after[out]
    return run


def _least_entries(
    stage: Stage, shape: Shape, active: Sequence[str], moved: Sequence[str], sim: StageSimulator
) -> set[tuple[int, ...]] | None:
    """Returns the least input levels that reach each level of the stage's only output: entering higher costs
    more and gives no more, and lowering is free. Returns None, so that every entry is tried, for few inputs,
    for several outputs, and where an output's level is not the least of what each input allows by itself."""
    if len(active) < 3 or len(moved) != 1 or stage.refreshes:
        return None
    top, side, (out,) = dict.fromkeys(shape, sim.max_level), range(sim.max_level + 1), moved

    def reached(levels: Levels) -> int:
        outcome = sim.outcome(stage, shape, {**top, **levels})
        return -1 if outcome is None else outcome.levels[out]

    allowed = [[reached({name: level}) for level in side] for name in active]
    entries = set()
    for wanted in {level for each in allowed for level in each if level >= 0}:
        least = [next((level for level in side if each[level] >= wanted), len(side)) for each in allowed]
        if max(least) == len(side):
            continue
        if reached(dict(zip(active, least, strict=True))) < wanted:
            return None
        entries.add(tuple(least))
    return entries


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(names) + 1):
        yield from combinations(names, size)


def _refreshed(ready: np.ndarray, before: Boundary, names: Sequence[str], prices: Prices) -> np.ndarray:
    """Values when `names` are bootstrapped first: their axes are read at the top.

    The price depends on which of them are at level 0, as those cannot be paired.
    """
    for axis, name in enumerate(before.axes):
        if name in names:
            ready = np.broadcast_to(np.take(ready, [ready.shape[axis] - 1], axis=axis), ready.shape)
    values = np.array(ready)
    for bottom in _subsets(names):
        region = tuple(_region(name, names, bottom) for name in before.axes)
        kinds = before.kinds(names, {name: int(name not in bottom) for name in names}, prices)
        values[region] += prices.bootstrap_seconds(kinds) if kinds else 0.0
    return values


def _region(name: str, names: Sequence[str], bottom: Sequence[str]) -> slice:
    if name not in names:
        return slice(None)
    return slice(0, 1) if name in bottom else slice(1, None)


def _forward(
    stages: Sequence[Stage],
    boundaries: Sequence[Boundary],
    tables: Sequence[_Table],
    sim: StageSimulator,
    prices: Prices,
) -> Placement:
    """Reads the cheapest path out of the tables, starting with a request at the top (fresh ciphertexts)."""
    levels = dict.fromkeys(boundaries[0].axes, sim.max_level)
    start, steps = levels, list[Step]()
    for index, (stage, before, table) in enumerate(zip(stages, boundaries, tables, strict=False)):
        names = () if not steps else _cheapest_subset(before, table, levels, prices)
        kinds = before.kinds(names, levels, prices)
        levels = {**levels, **dict.fromkeys(names, sim.max_level)}
        levels = _cheapest_entry(before, table, levels)
        start = levels if not steps else start  # the client encrypts where the first stage wants it
        options = [
            _step(one, before, names, kinds, levels, sim, prices)
            for one in _variants(stage)
            if sim.outcome(one, before.shape, levels)
        ]
        behind = (boundaries[index + 1], tables[index + 1].value) if index + 1 < len(tables) else None
        steps.append(min(options, key=lambda step: step.seconds + _seconds_left(step.out_levels, behind)))
        levels = dict(steps[-1].out_levels)
    return _placement(steps, start)


def _seconds_left(levels: Levels, behind: tuple[Boundary, np.ndarray] | None) -> float:
    """Seconds from these levels to the end."""
    return float(behind[1][tuple(levels[name] for name in behind[0].axes)]) if behind else 0.0


def _cheapest_subset(before: Boundary, table: _Table, levels: Levels, prices: Prices) -> tuple[str, ...]:
    here = tuple(levels[name] for name in before.axes)
    return min(
        _subsets(before.axes), key=lambda names: float(_refreshed(table.ready, before, names, prices)[here])
    )


def _cheapest_entry(before: Boundary, table: _Table, levels: Levels) -> dict[str, int]:
    reachable = table.run[tuple(slice(0, levels[name] + 1) for name in before.axes)]
    entry = np.unravel_index(int(np.argmin(reachable)), reachable.shape)
    return {name: int(level) for name, level in zip(before.axes, entry, strict=True)}


def _step(
    stage: Stage,
    before: Boundary,
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    levels: Levels,
    sim: StageSimulator,
    prices: Prices,
) -> Step:
    outcome = sim.outcome(stage, before.shape, levels)
    if outcome is None:
        raise PlanError(f"stage {stage.name} does not run at levels {dict(levels)}", hint=FEWER_LEVELS)
    out = {name: level for name, level in outcome.levels.items() if name not in before.fixed}
    return Step(
        stage=stage.name,
        bootstraps=names,
        kinds=kinds,
        levels=dict(levels),
        out_levels=out,
        bootstrap_seconds=prices.bootstrap_seconds(kinds) if kinds else 0.0,
        seconds=prices.total(outcome.counts),
        counts=_by_operation(outcome.counts),
        refreshes=stage.refreshes,
    )


def _by_operation(counts: Counts) -> dict[str, int]:
    totals: dict[str, int] = {}
    for (op, _, _), n in sorted(counts.items()):
        totals[op] = totals.get(op, 0) + n
    return totals


def _placement(steps: list[Step], start: Levels) -> Placement:
    return Placement(tuple(steps), dict(start), sum(step.seconds + step.bootstrap_seconds for step in steps))
