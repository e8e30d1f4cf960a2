"""A circuit with its placement: its stages, levels and keys, found by a `sim` that only counts; and whether a
plan says so.

`require_agreement` is how a party that was given a plan finds out that its stages, tensors, bootstraps and
rotation keys are those of the circuit: from the plan's intervals and its own copy of the model, believing
none of the plan's lists.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tacita.errors import LevelError, PlanError, ShapeError
from tacita.packings import executor
from tacita.packings.base import Circuit
from tacita.planning.place.placement import Placement, place
from tacita.planning.place.simulate import StageSimulator
from tacita.plans.plan import ParameterInfo, PlacedStage, Plan
from tacita.plans.prices.cost import Counts, Prices
from tacita.plans.prices.formulas import MemorySim
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Live

Progress = Callable[[int, int], None]  # stages done, and all of them
REMAKE = "make the plan again; do not use it if somebody gave it to you"


def simulated(parameters: ParameterInfo) -> SimBackend:
    """A `sim` backend of these parameters that only counts."""
    return SimBackend(parameters.slots, parameters.max_level)


def dry_run(
    be: SimBackend,
    circuit: Circuit,
    stages: Sequence[PlacedStage],
    levels: Mapping[str, int],
    reached: Callable[[Live], None] = lambda _: None,
) -> Live:
    """The tensors after the last stage of the placed circuit on a counting `sim`. levels: of the tensors that
    come in. reached: called with the tensors before each stage."""
    live: Live = {
        n: tuple(be.input(levels[n]) for _ in range(count)) for n, count in dict(circuit.inputs).items()
    }
    reached(dict(live))
    return executor.run(stages, circuit.stages, be, live, reached=lambda point: reached(point.live))


@dataclass(frozen=True)
class Placed:
    """A circuit with its placement. fixed_levels: the lowest levels of encrypted masks and kept tensors that
    change no stage.

    prices: that it is cheapest by. stage_bytes: working memory of each stage.
    """

    circuit: Circuit
    parameters: ParameterInfo
    prices: Prices
    placement: Placement
    stages: tuple[PlacedStage, ...]
    fixed_levels: Mapping[str, int]
    rotations: tuple[tuple[int, int], ...]
    stage_bytes: tuple[int, ...]

    @property
    def levels(self) -> Mapping[str, int]:
        """The level of each incoming tensor. What is encrypted comes at least as high as the highest that is
        kept, so that a server that has kept nothing yet takes zeros from it (`evaluate.kept`)."""
        kept_levels = {one.before: self.fixed_levels[one.before] for one in self.circuit.kept}
        least = max(kept_levels.values(), default=0)
        sent = {name: max(level, least) for name, level in self.placement.request.items()}
        return {**sent, **self.fixed_levels}


def place_circuit(
    circuit: Circuit, parameters: ParameterInfo, prices: Prices, progress: Progress = lambda done, total: None
) -> Placed:
    """Searches levels and bootstraps, then runs the placed circuit once on `sim` to list its keys."""
    placement = _placement(circuit, parameters, prices, progress)
    stages = placement.stages
    levels = _fixed_levels(circuit, parameters, placement)
    be = MemorySim(parameters.slots, parameters.max_level, prices)
    dry_run(be, circuit, stages, {**placement.request, **levels})
    rotations = tuple(sorted(be.rotation_levels.items()))
    memory = tuple(be.stage_bytes[stage.name] for stage in stages)
    return Placed(circuit, parameters, prices, placement, stages, levels, rotations, memory)


def refreshed_nodes(circuit: Circuit, parameters: ParameterInfo, prices: Prices) -> frozenset[str]:
    """Nodes whose function the cheapest placement computes by a bootstrap, where it has the choice."""
    steps = _placement(circuit, parameters, prices).steps
    return frozenset(step.placed.name.removesuffix(".activate") for step in steps if step.refreshes)


def _placement(
    circuit: Circuit, parameters: ParameterInfo, prices: Prices, progress: Progress = lambda done, total: None
) -> Placement:
    simulator = StageSimulator(lambda: simulated(parameters), fixed=circuit.unplaced)
    return place(circuit.stages, circuit.inputs, simulator, prices, progress)


def _fixed_levels(circuit: Circuit, parameters: ParameterInfo, placement: Placement) -> dict[str, int]:
    """Returns the lowest level of each encrypted mask and kept tensor at which the run counts the same
    operations as at the top. Cost: two runs, and those of single stages that such a tensor changes."""
    top = dict.fromkeys(circuit.fixed, parameters.max_level)
    befores: list[Live] = []
    begin = {**placement.request, **top}
    dry_run(simulated(parameters), circuit, placement.stages, begin, befores.append)
    lowest = dict.fromkeys(sorted(top), 0)
    for index in range(len(befores)):
        entered = partial(_entered, circuit, parameters, placement, index, befores[index])
        wanted = entered({})
        if entered(dict.fromkeys(top, 0)) == wanted:
            continue
        for name, least in lowest.items():  # what is enough at a level is enough above it
            levels = range(least, top[name])
            equal = bisect_left(levels, True, key=lambda level: entered({name: level}) == wanted)
            lowest[name] = least + equal
    return lowest


def _entered(
    circuit: Circuit,
    parameters: ParameterInfo,
    placement: Placement,
    index: int,
    live: Live,
    levels: Mapping[str, int],
) -> tuple[Counts, Mapping[str, int]] | None:
    """Returns what one stage counts with some of its tensors at other levels, and the levels at which the
    next one has its results; None where it does not run. live: before it."""
    be, placed = simulated(parameters), placement.stages[index : index + 1]
    lowered = {n: tuple(be.input(level) for _ in live[n]) for n, level in levels.items() if n in live}
    try:
        out = executor.run(placed, circuit.stages[index : index + 1], be, {**live, **lowered})
    except LevelError:
        return None
    if index + 1 == len(placement.stages):
        return be.counts, {}
    after = placement.stages[index + 1]
    reached = {n: min(map(be.level, out[n])) for n in after.levels}
    return be.counts, {n: r if n in after.bootstraps else min(r, after.levels[n]) for n, r in reached.items()}


# Whether a plan says what its circuit takes.


def require_agreement(plan: Plan, circuit: Circuit) -> None:
    """Raises PlanError unless the plan lists what its circuit takes: layouts, tensors, stages, bootstraps and
    rotation keys, all of them and no more. Cost: one counting run, 0.03 s for one text and about 1 s for a
    full batch."""
    _same("the layout of the request", plan.layout.request, circuit.request)
    _same("the layout of the response", plan.layout.response, circuit.response)
    _same("ciphertexts of the request", {t.name: t.count for t in plan.request}, dict(circuit.request.counts))
    _same("ciphertexts of the response", [t.count for t in plan.response], [circuit.response.count])
    kept_counts = {one.before: one.count for one in circuit.kept}
    _same("ciphertexts that are kept", {t.name: t.count for t in plan.kept}, kept_counts)
    be = simulated(plan.parameters)
    try:
        out = dry_run(be, circuit, plan.stages, {t.name: t.level for t in (*plan.request, *plan.kept)})
    except (LevelError, ShapeError, LookupError, ValueError) as error:
        raise PlanError(f"the plan's circuit cannot run ({error!s:.200})", hint=REMAKE) from error
    for stage in plan.stages:
        _same(f"bootstraps before {stage.name}", Counter(stage.kinds), _bootstraps(be, stage.name))
    _same("rotation keys", dict(plan.rotations), be.rotation_levels)
    used = any(op == "coefficient_product" for op, _, _ in be.counts)
    _same("tokens of coefficient keys", plan.coefficients, plan.tokens if used else None)
    if any(be.level(ct) < tensor.level for tensor in plan.response for ct in out[tensor.name]):
        raise PlanError("the plan's response is above the level that its circuit reaches", hint=REMAKE)
    pairs = zip(circuit.kept, plan.kept, strict=True)
    if any(be.level(ct) < tensor.level for one, tensor in pairs for ct in out[one.after]):
        raise PlanError("the plan keeps rows above the level at which its circuit leaves them", hint=REMAKE)


def _bootstraps(be: SimBackend, stage: str) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for (op, _, where), count in be.counts.items():
        if where == f"{stage}/bootstrap" and op in ("bootstrap", "bootstrap_real"):
            kinds["real" if op == "bootstrap_real" else "complex"] += count
    return kinds


def _same(what: str, stated: object, needed: object) -> None:
    if stated != needed:
        raise PlanError(
            f"the plan says {_short(stated)} for {what}, its circuit takes {_short(needed)}", hint=REMAKE
        )


def _short(value: object) -> str:
    """Returns at most 60 characters of the value; for a long list or mapping its number of entries."""
    text = str(value)
    return f"{len(value)} entries" if isinstance(value, dict | list) and len(text) > 60 else f"{text:.60}"
