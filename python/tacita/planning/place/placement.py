"""Where to bootstrap: a shortest path over the levels of the live tensors, priced by `sim`.

A state is (next stage, level of each live tensor). Before each stage any subset of the live tensors may be
bootstrapped to the top, then any tensor may be lowered (lower levels are cheaper), then the stage runs. The
value of a state is the least number of seconds to the end of the circuit; values are computed from the last
stage backwards on the whole grid of levels, so the path is optimal for the given prices. Two real ciphertexts
may share one complex bootstrap. Of a stage with variants the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise, product
from math import inf, isfinite

import numpy as np

from tacita.errors import PlanError
from tacita.planning.place.simulate import Levels, Outcome, Shape, StageSimulator
from tacita.plans.plan import PlacedStage
from tacita.plans.prices.cost import Prices
from tacita.slots.stage import Stage

FEWER_LEVELS = "use --functions tacita, whose polynomials need the fewest levels, or a deeper preset"


@dataclass(frozen=True)
class Step:
    """A placed stage with its seconds by the table. refreshes: of the variant that was taken, whether it
    bootstraps by itself. streaming: what `Prices.streaming` has of its seconds."""

    placed: PlacedStage
    bootstrap_seconds: float
    seconds: float
    refreshes: bool = False
    streaming: float = 0.0

    def seconds_on(self, prices: Prices) -> float:
        """Returns the seconds of the stage and its bootstraps on the machine of these prices."""
        switching = self.seconds - self.streaming + self.bootstrap_seconds
        return prices.scale * switching + prices.streams * self.streaming


@dataclass(frozen=True)
class Placement:
    """All steps, and the levels at which the request is encrypted."""

    steps: tuple[Step, ...]
    request: Levels

    @property
    def stages(self) -> tuple[PlacedStage, ...]:
        """The placed stages, as a plan lists them."""
        return tuple(step.placed for step in self.steps)

    @property
    def seconds(self) -> float:
        """The predicted seconds of all steps."""
        return sum(step.seconds + step.bootstrap_seconds for step in self.steps)

    @property
    def bootstraps(self) -> int:
        """Number of ciphertexts bootstrapped, a pair of real ones counted once."""
        return sum(len(stage.kinds) for stage in self.stages)


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

    def point(self, levels: Levels) -> tuple[int, ...]:
        """Returns the point of the grid that stands for these levels."""
        return tuple(levels[name] for name in self.axes)

    def parts(self, names: Sequence[str]) -> tuple[int, int]:
        """Counts the ciphertexts of these tensors with imaginary parts, and the real ones."""
        whole = sum(self.shape[n] for n in names if n in self.complex_tensors)
        return whole, sum(self.shape[n] for n in names) - whole

    def kinds(self, names: Sequence[str], prices: Prices) -> tuple[str, ...]:
        """Kinds of the bootstraps that refresh these tensors, the cheapest way.

        Two real ciphertexts can go as one complex one; whether that pays depends on how well the machine
        refreshes several at once.
        """
        whole, real = self.parts(names)
        options = [
            ("complex",) * (pairs + whole) + ("real",) * (real - 2 * pairs) for pairs in range(real // 2 + 1)
        ]
        return min(options, key=prices.bootstrap_seconds)


def place(
    stages: Sequence[Stage],
    request: Shape,
    sim: StageSimulator,
    prices: Prices,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Placement:
    """The cheapest placement. request: tensors that the client sends, name -> number of ciphertexts.
    progress: called with (done, total) of the stages.

    Cost: one `sim` run per stage and relative pattern of levels. Raises PlanError naming the first stage that
    does not fit between two bootstraps.
    """
    search = _Search(stages, _boundaries(stages, request, sim), sim, prices)
    if isfinite(prices.bootstrap_seconds(("complex",))):
        return search.cheapest(search.tables(progress))
    if name := next((stage.name for stage in stages if stage.refreshes), None):
        raise PlanError(
            f"stage {name} bootstraps, which these parameters cannot",
            hint="take a preset that bootstraps, or another scheme",
        )
    return search.lowest()


def _boundaries(stages: Sequence[Stage], request: Shape, sim: StageSimulator) -> list[Boundary]:
    """Live tensors before each stage and after the last, found by running every stage from the top: its first
    variant that fits, since all of them return the same tensors."""
    boundaries = [Boundary(dict(request), frozenset(), sim.fixed)]
    for stage in stages:
        before = boundaries[-1]
        top = dict.fromkeys(before.axes, sim.max_level)
        outcomes = (sim.outcome(variant, before.shape, top) for variant in _variants(stage))
        if (outcome := next(filter(None, outcomes), None)) is None:
            raise PlanError(
                f"stage {stage.name} needs more than the {sim.max_level} levels between two bootstraps",
                hint=FEWER_LEVELS,
            )
        carried = before.complex_tensors & outcome.passed
        boundaries.append(Boundary(outcome.shape, carried | stage.complex_outputs, sim.fixed))
    return boundaries


def _variants(stage: Stage) -> tuple[Stage, ...]:
    return (stage, *stage.variants)


@dataclass(frozen=True)
class _Table:
    """Values before one stage on the grid of levels: `ready` after lowering, `value` with a choice of
    bootstraps."""

    run: np.ndarray  # seconds from here when the stage is entered exactly at these levels
    ready: np.ndarray  # least of `run` over all lower levels
    value: np.ndarray  # least of `ready` over the subsets to bootstrap


@dataclass(frozen=True)
class _Search:
    """A search over the levels of the tensors at the boundaries of some stages. kinds: of the bootstraps that
    were looked for so far, by numbers of ciphertexts."""

    stages: Sequence[Stage]
    boundaries: Sequence[Boundary]
    sim: StageSimulator
    prices: Prices
    kinds: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)

    def lowest(self) -> Placement:
        """The lowest request level from which the stages run one after the other, without bootstraps; there
        is nothing else to choose.

        A grid of the levels of all live tensors would have millions of points on a chain of 70 levels.
        """
        best: Placement | None = None
        for entry in range(self.sim.max_level, -1, -1):
            levels = dict.fromkeys(self.boundaries[0].axes, entry)
            steps, missing = self._chain(levels)
            if missing and best is None:
                raise PlanError(
                    f"no placement from stage {missing} on: {self.sim.max_level} levels and no bootstrapping",
                    hint="take a deeper preset, or one that bootstraps",
                )
            if missing:
                break
            best = Placement(tuple(steps), levels)
        assert best is not None  # the first entry level gave one or raised
        return best

    def _chain(self, levels: Levels) -> tuple[list[Step], str]:
        """The steps of a run that enters at `levels`, and the stage that it does not reach, if any."""
        steps: list[Step] = []
        for stage, before in zip(self.stages, self.boundaries, strict=False):
            outcome = self.sim.outcome(stage, before.shape, levels)
            if outcome is None:
                return steps, stage.name
            steps.append(self._step(stage, before, outcome, levels))
            levels = steps[-1].placed.out_levels
        return steps, ""

    def tables(self, progress: Callable[[int, int], None]) -> list[_Table]:
        """Returns the values before each stage, computed from the last one backwards."""
        tables: list[_Table] = []
        after = np.zeros((self.sim.max_level + 1,) * len(self.boundaries[-1].axes))
        for index, stage in reversed(list(enumerate(self.stages))):
            before, behind = self.boundaries[index : index + 2]
            run = np.minimum.reduce([self._run_values(v, before, behind, after) for v in _variants(stage)])
            ready = run.copy()
            for axis in range(ready.ndim):  # a third of the time of `np.minimum.accumulate`
                for below, level in pairwise(np.moveaxis(ready[..., None], axis, 0)):
                    np.minimum(below, level, out=level)
            value = ready.copy()
            for names in _subsets(before.axes):
                np.minimum(value, self._refreshed(ready, before, names), out=value)
            if not np.isfinite(value).any():
                raise PlanError(f"no placement from stage {stage.name} on", hint=FEWER_LEVELS)
            tables.append(_Table(run, ready, value))
            progress(len(tables), len(self.stages))
            after = value
        return tables[::-1]

    def _run_values(self, stage: Stage, before: Boundary, behind: Boundary, after: np.ndarray) -> np.ndarray:
        """Seconds to the end for every combination of entry levels, without lowering or bootstrapping
        first."""
        side = self.sim.max_level + 1
        run = np.full((side,) * len(before.axes), inf)
        others = before.axes if len(before.axes) > 1 else ()
        passive = {name for name in others if self.sim.passive(stage, before.shape, name)}
        active = [name for name in before.axes if name not in passive]
        moved = [name for name in behind.axes if name not in passive]
        least = self._least_entries(stage, before.shape, active, moved)
        entries = product(range(side), repeat=len(active)) if least is None else sorted(least)
        waiting = [name for name in behind.axes if name in passive]
        turn = [waiting.index(name) for name in before.axes if name in passive]
        for key in entries:
            entry = dict(zip(active, key, strict=True))
            if (outcome := self._outcome(stage, before.shape, entry)) is not None:
                levels = outcome.levels
                left = after[tuple(slice(None) if n in passive else levels[n] for n in behind.axes)]
                here = tuple(entry.get(name, slice(None)) for name in before.axes)
                run[here] = self.prices.total(outcome.counts) + left.transpose(turn)
        return run

    def _outcome(self, stage: Stage, shape: Shape, entry: Levels) -> Outcome | None:
        """The stage entered at these levels. What else is live is as low as the lowest of them, so that
        entries which differ by a shift alone are one run."""
        others = [name for name in shape if name not in entry]
        return self.sim.outcome(stage, shape, {**dict.fromkeys(others, min(entry.values())), **entry})

    def _least_entries(
        self, stage: Stage, shape: Shape, active: Sequence[str], moved: Sequence[str]
    ) -> set[tuple[int, ...]] | None:
        """Returns the least input levels that reach each combination of levels of the stage's outputs, what
        it hands on among them: entering higher costs more and gives no more, and lowering is free. Returns
        None, so that every entry is tried, for a single input, and where an output's level is not the least
        of what each input allows by itself."""
        if len(active) < 2 or not moved or stage.refreshes:
            return None
        top, side = dict.fromkeys(active, self.sim.max_level), range(self.sim.max_level + 1)

        def reached(levels: Levels) -> tuple[int, ...]:
            outcome = self._outcome(stage, shape, {**top, **levels})
            return tuple(-1 if outcome is None else outcome.levels[out] for out in moved)

        def alone(name: str) -> list[tuple[int, ...]]:
            return _each_level(lambda level: reached({name: level}), len(side))

        allowed = [alone(name) for name in active]
        entries = {(0,) * len(active)}
        for columns in zip(*(zip(*each, strict=True) for each in allowed), strict=True):  # of one output
            least = {
                tuple(next((level for level in side if each[level] >= wanted), len(side)) for each in columns)
                for wanted in {level for each in columns for level in each if level >= 0}
            }
            entries = {tuple(map(max, one, other)) for one in entries for other in least}
        entries = {entry for entry in entries if max(entry) < len(side)}
        for entry in entries:
            bounds = zip(*(each[level] for each, level in zip(allowed, entry, strict=True)), strict=True)
            levels = reached(dict(zip(active, entry, strict=True)))
            if any(level < min(each) for level, each in zip(levels, bounds, strict=True)):
                return None
        return entries

    def _refreshed(self, ready: np.ndarray, before: Boundary, names: Sequence[str]) -> np.ndarray:
        """Values when `names` are bootstrapped first: their axes have the top alone."""
        top = tuple(slice(-1, None) if name in names else slice(None) for name in before.axes)
        return ready[top] + self.prices.bootstrap_seconds(self._kinds(before, names))

    def _kinds(self, before: Boundary, names: Sequence[str]) -> tuple[str, ...]:
        """Computes `Boundary.kinds` once for so many ciphertexts of either kind."""
        key = before.parts(names)
        if key not in self.kinds:
            self.kinds[key] = before.kinds(names, self.prices)
        return self.kinds[key]

    def cheapest(self, tables: Sequence[_Table]) -> Placement:
        """Reads the cheapest path out of the tables, starting with a request at the top (fresh
        ciphertexts)."""
        levels = dict.fromkeys(self.boundaries[0].axes, self.sim.max_level)
        start, steps = levels, list[Step]()
        for index, (stage, table) in enumerate(zip(self.stages, tables, strict=True)):
            before = self.boundaries[index]
            names = self._cheapest_subset(before, table, levels) if steps else ()
            kinds = self._kinds(before, names)
            levels = _cheapest_entry(before, table, {**levels, **dict.fromkeys(names, self.sim.max_level)})
            start = levels if not steps else start  # the client encrypts where the first stage wants it
            options = [
                self._step(one, before, outcome, levels, names, kinds)
                for one in _variants(stage)
                if (outcome := self.sim.outcome(one, before.shape, levels))
            ]
            steps.append(
                min(options, key=lambda step: step.seconds + self._seconds_left(step, tables, index))
            )
            levels = dict(steps[-1].placed.out_levels)
        return Placement(tuple(steps), start)

    def _cheapest_subset(self, before: Boundary, table: _Table, levels: Levels) -> tuple[str, ...]:
        ready = table.ready[np.ix_(*((level, -1) for level in before.point(levels)))]
        return min(_subsets(before.axes), key=lambda names: self._refreshed(ready, before, names).flat[0])

    def _seconds_left(self, step: Step, tables: Sequence[_Table], index: int) -> float:
        """Seconds from the end of this step, of the stage with this index, to the end."""
        if index + 1 == len(tables):
            return 0.0
        return float(tables[index + 1].value[self.boundaries[index + 1].point(step.placed.out_levels)])

    def _step(
        self,
        stage: Stage,
        before: Boundary,
        outcome: Outcome,
        levels: Levels,
        names: tuple[str, ...] = (),
        kinds: tuple[str, ...] = (),
    ) -> Step:
        counts: dict[str, int] = {}
        for (op, _, _), n in sorted(outcome.counts.items()):
            counts[op] = counts.get(op, 0) + n
        out = {name: level for name, level in outcome.levels.items() if name not in before.fixed}
        return Step(
            PlacedStage(stage.name, names, kinds, dict(levels), out, counts),
            self.prices.bootstrap_seconds(kinds),
            self.prices.total(outcome.counts),
            stage.refreshes,
            self.prices.streaming(outcome.counts),
        )


def _each_level(reached: Callable[[int], tuple[int, ...]], side: int) -> list[tuple[int, ...]]:
    """Returns what is reached from each level below `side`, -1 where nothing is. Results neither fall nor
    rise by more than the level does, so what lies between two levels is known where all are equal at both or
    rise as the level does."""
    results = {level: reached(level) for level in (0, side - 1)}
    spans = [(0, side - 1)]
    while spans:
        low, high = spans.pop()
        a, b, rise = results[low], results[high], high - low
        if a == b or (min(a) >= 0 and all(y - x in (0, rise) for x, y in zip(a, b, strict=True))):
            for level in range(low + 1, high):
                results[level] = tuple(x + (y > x) * (level - low) for x, y in zip(a, b, strict=True))
        elif rise > 1:
            middle = (low + high) // 2
            results[middle] = reached(middle)
            spans += [(low, middle), (middle, high)]
    return [results[level] for level in range(side)]


def _cheapest_entry(before: Boundary, table: _Table, levels: Levels) -> dict[str, int]:
    reachable = table.run[tuple(slice(0, level + 1) for level in before.point(levels))]
    entry = np.unravel_index(int(np.argmin(reachable)), reachable.shape)
    return {name: int(level) for name, level in zip(before.axes, entry, strict=True)}


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(names) + 1):
        yield from combinations(names, size)
