"""Runs stages on `sim` at chosen levels and remembers the result: what a stage costs and where it leaves its
tensors.

Stages do not look at levels, so lowering all operands by one lowers every operation by one. One run per
*relative* pattern of levels therefore gives all absolute ones by shifting, down to the level where an
operation has none left. A stage that refreshes is run at each pattern instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tacita.errors import LevelError
from tacita.plans.prices.cost import Counts
from tacita.slots.base import Ct
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Live, Stage

Shape = Mapping[str, int]  # live tensor -> number of ciphertexts
Levels = Mapping[str, int]  # live tensor -> level


@dataclass(frozen=True)
class Outcome:
    """One run of a stage: levels and sizes of the tensors it returns, its operation counts.

    passed: tensors returned as they came in. lowest: the lowest level that an operation or a result reached.
    """

    levels: Levels
    shape: Shape
    passed: frozenset[str]
    counts: Counts
    lowest: int

    def shifted(self, by: int, fixed: frozenset[str]) -> Outcome:
        """The same run with every tensor but the `fixed` ones entering `by` levels lower."""
        levels = {name: level if name in fixed else level - by for name, level in self.levels.items()}
        counts = {(op, level - by, label): n for (op, level, label), n in self.counts.items()}
        return Outcome(levels, self.shape, self.passed, counts, self.lowest - by)


@dataclass
class StageSimulator:
    """Memoised outcomes of stages for any entry levels.

    make: builds a fresh simulator. fixed: tensors of the request that no stage changes and that always stay
    at the top (encrypted masks); their level does not take part in the shift.
    """

    make: Callable[[], SimBackend]
    fixed: frozenset[str] = frozenset()
    runs: int = 0
    _templates: dict[tuple[str, bool, tuple[tuple[str, int], ...]], Outcome | None] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.max_level = self.make().max_level

    def outcome(self, stage: Stage, shape: Shape, levels: Levels) -> Outcome | None:
        """The stage entered at `levels`, or None when it needs more levels than that."""
        moving = {name: level for name, level in levels.items() if name not in self.fixed}
        if stage.refreshes:
            return self._template(stage, shape, moving)
        shift = self.max_level - max(moving.values())
        template = self._template(stage, shape, {name: level + shift for name, level in moving.items()})
        if template is None or template.lowest < shift:
            return None
        return template.shifted(shift, self.fixed) if shift else template

    def passive(self, stage: Stage, shape: Shape, name: str) -> bool:
        """Whether the stage hands `name` on without touching it, so that its level does not matter."""
        top = dict.fromkeys(shape, self.max_level)
        high, low = self.outcome(stage, shape, top), self.outcome(stage, shape, {**top, name: 0})
        if high is None or low is None or name not in high.passed:
            return False
        others = [other for other in high.levels if other != name]
        return high.counts == low.counts and all(high.levels[o] == low.levels[o] for o in others)

    def _template(self, stage: Stage, shape: Shape, levels: Levels) -> Outcome | None:
        key = (stage.name, stage.refreshes, tuple(sorted(levels.items())))
        if key not in self._templates:
            self._templates[key] = self._run(stage, shape, levels)
        return self._templates[key]

    def _run(self, stage: Stage, shape: Shape, levels: Levels) -> Outcome | None:
        be = self.make()
        live: Live = {}
        for name, size in shape.items():  # of one level, so that one handle stands for all
            live[name] = (be.input(levels.get(name, be.max_level)),) * size
        self.runs += 1
        try:
            out = stage.run(be, dict(live))
        except LevelError:
            return None
        reached = {name: min(be.level(ct) for ct in cts) for name, cts in out.items()}
        passed = frozenset(name for name, cts in out.items() if _same(cts, live.get(name, ())))
        after = [level - 1 if op in CONSUMING else level for (op, level, _) in be.counts]
        after += [level for name, level in reached.items() if name not in passed]
        sizes = {name: len(cts) for name, cts in out.items()}
        return Outcome(reached, sizes, passed, dict(be.counts), min(after, default=0))


# Counted operations that end one level below their operands; the others stay where they are.
CONSUMING = frozenset({"mul", "rescale"})


def _same(a: tuple[Ct, ...], b: tuple[Ct, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
