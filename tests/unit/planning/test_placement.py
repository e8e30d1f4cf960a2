"""Placement against brute force on synthetic stages: optimal, feasible, never worse than the greedy
baseline."""

from __future__ import annotations

import dataclasses
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import pytest
import tiny
from circuits import build_circuit
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita.errors import LevelError, PlanError
from tacita.planning.place import placement
from tacita.planning.place.circuit import dry_run, place_circuit, simulated
from tacita.planning.place.placement import Boundary, place
from tacita.planning.place.simulate import StageSimulator
from tacita.plans.presets import PRESETS
from tacita.plans.prices.cost import Prices, Sizes
from tacita.plans.prices.formulas import prices_of
from tacita.slots.stage import Stage

MAX = 6
PRICES = Prices.from_json(
    {
        "machine": "synthetic",
        "log_n": 10,
        "threads": 2,
        "limbs_at_level_0": 3,
        "yardstick_ms": 1.0,
        "source": "test",
        "ms": {"mul": {"3": 10, "9": 70}},
        "bootstrap_ms": {"real": {"alone": 300, "each": 250}, "complex": {"alone": 450, "each": 400}},
        "keygen_seconds_per_gb": 10.0,
        "sizes": dataclasses.asdict(Sizes.of_ring(10)),
    }
)


@dataclass(frozen=True, eq=False)
class Token:
    """A ciphertext of which only the level is known."""

    at: int


class LevelOnly:
    """The part of `sim` that placement uses: levels and counts of one operation."""

    max_level = MAX
    slots = 4

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int, str]] = Counter()

    def input(self, level: int) -> Token:
        return Token(level)

    def level(self, ct: Token) -> int:
        return ct.at

    def drop_to(self, ct: Token, level: int) -> Token:
        return Token(min(ct.at, level))

    def mul(self, a: Token, b: Token) -> Token:
        at = min(a.at, b.at)
        if at == 0:
            raise LevelError("mul at level 0")
        self.counts["mul", at, ""] += 1
        return Token(at - 1)

    @contextmanager
    def stage(self, _name: str) -> Any:
        yield


def chain(name: str, depth: int, width: int = 1) -> Stage:
    """{x} -> {x}: `depth` levels, `width` products on each."""

    def run(be: Any, live: Any) -> Any:
        (x,) = live["x"]
        for _ in range(depth):
            x = [be.mul(x, x) for _ in range(width)][-1]
        return {**live, "x": (x,)}

    return Stage(name, run)


def fork(name: str) -> Stage:
    """{x} -> {x, s}: x is handed on, s is two levels down, in two ciphertexts."""

    def run(be: Any, live: Any) -> Any:
        s = be.mul(be.mul(live["x"][0], live["x"][0]), live["x"][0])
        return {**live, "s": (s, be.mul(s, s))}

    return Stage(name, run)


def side(name: str, depth: int) -> Stage:
    """{x, s} -> {x, s}: works on s alone."""

    def run(be: Any, live: Any) -> Any:
        cts = list(live["s"])
        for _ in range(depth):
            cts = [be.mul(ct, ct) for ct in cts]
        return {**live, "s": tuple(cts)}

    return Stage(name, run)


def join(name: str) -> Stage:
    """{x, s} -> {x}."""

    def run(be: Any, live: Any) -> Any:
        return {"x": (be.mul(be.mul(live["x"][0], live["s"][0]), live["s"][1]),)}

    return Stage(name, run)


def simulator() -> StageSimulator:
    return StageSimulator(LevelOnly)  # type: ignore[arg-type]


def brute_force(stages: list[Stage]) -> float:
    """Least seconds over every choice of bootstraps and level drops, by plain recursion without memo of
    runs."""

    def go(index: int, levels: dict[str, int], sizes: dict[str, int]) -> float:
        if index == len(stages):
            return 0.0
        best = float("inf")
        names = list(levels)
        for size in range(len(names) + 1):
            for chosen in combinations(names, size):
                top = {**levels, **dict.fromkeys(chosen, MAX)}
                cts = sum(sizes[name] for name in chosen)
                options = [["complex"] * p + ["real"] * (cts - 2 * p) for p in range(cts // 2 + 1)]
                price = min(PRICES.bootstrap_seconds(kinds) for kinds in options) if cts else 0.0
                for entry in product(*(range(top[name] + 1) for name in names)):
                    best = min(best, price + enter(index, dict(zip(names, entry, strict=True)), sizes))
        return best

    def enter(index: int, levels: dict[str, int], sizes: dict[str, int]) -> float:
        be = LevelOnly()
        live = {name: tuple(be.input(levels[name]) for _ in range(sizes[name])) for name in levels}
        try:
            out = stages[index].run(be, live)  # type: ignore[arg-type]
        except LevelError:
            return float("inf")
        after = {name: min(ct.at for ct in cts) for name, cts in out.items()}
        return PRICES.total(be.counts) + go(index + 1, after, {name: len(cts) for name, cts in out.items()})

    return go(0, {"x": MAX}, {"x": 1})


def test_two_tensors_match_brute_force() -> None:
    stages = [fork("fork"), side("side", 3), join("join")]
    placed = place(stages, {"x": 1}, simulator(), PRICES)
    assert placed.seconds == pytest.approx(brute_force(stages))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, MAX), st.integers(1, 20)), min_size=1, max_size=4))
def test_chains_match_brute_force(shape: list[tuple[int, int]]) -> None:
    stages = [chain(f"s{i}", depth, width) for i, (depth, width) in enumerate(shape)]
    placed = place(stages, {"x": 1}, simulator(), PRICES)
    assert placed.seconds == pytest.approx(brute_force(stages))


def split(be: Any, live: Any) -> Any:
    """{x} -> {x, s, t}, at levels of their own."""
    s = be.mul(live["x"][0], live["x"][0])
    return {**live, "s": (s,), "t": (be.mul(s, s),)}


def joined(x: int, s: int, t: int, handed: bool = False) -> Stage:
    """{x, s, t} -> {x}, or {x, s}: so many products of each by itself, then one of all."""

    def run(be: Any, live: Any) -> Any:
        total = None
        for name, depth in (("x", x), ("s", s), ("t", t)):
            (ct,) = live[name]
            for _ in range(depth):
                ct = be.mul(ct, ct)
            total = ct if total is None else be.mul(total, ct)
        return {"x": (total,), "s": live["s"]} if handed else {"x": (total,)}

    return Stage("joined", run)


def multiplied(be: Any, live: Any) -> Any:
    """{x, s} -> {x}."""
    return {"x": (be.mul(live["x"][0], live["s"][0]),)}


@settings(max_examples=25, deadline=None)
@given(*[st.integers(0, 3)] * 3, st.integers(1, MAX), st.booleans())
def test_least_entries_of_many_inputs_are_enough(x: int, s: int, t: int, then: int, handed: bool) -> None:
    stages = [Stage("split", split), joined(x, s, t, handed), chain("then", then)]
    stages += [Stage("multiplied", multiplied)] * handed
    few, every = simulator(), simulator()
    placed = place(stages, {"x": 1}, few, PRICES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement._Search, "_least_entries", lambda *_: None)
        assert placed == place(stages, {"x": 1}, every, PRICES) and few.runs < every.runs


def test_levels_follow_from_step_to_step() -> None:
    stages = [fork("fork"), side("side", 4), join("join"), chain("tail", 5)]
    placed = place(stages, {"x": 1}, simulator(), PRICES)
    levels = dict(placed.request)
    for step in placed.steps:
        reachable = {**levels, **dict.fromkeys(step.placed.bootstraps, MAX)}
        assert all(step.placed.levels[name] <= reachable[name] for name in step.placed.levels)
        levels = dict(step.placed.out_levels)
    assert min(levels.values()) >= 0


def test_a_short_circuit_is_encrypted_low() -> None:
    placed = place([chain("only", 2)], {"x": 1}, simulator(), PRICES)
    assert placed.request == {"x": 2}
    assert placed.bootstraps == 0


def test_real_ciphertexts_share_a_complex_bootstrap_where_that_pays() -> None:
    boundary = Boundary({"x": 1, "s": 2, "pv": 1}, frozenset({"pv"}), frozenset())
    assert boundary.kinds(("x", "s"), PRICES) == ("complex", "real")
    assert boundary.kinds(("s", "pv"), PRICES) == ("complex", "complex")
    cheap = {"real": {"alone": 300.0, "each": 150.0}, "complex": {"alone": 450.0, "each": 400.0}}
    together = dataclasses.replace(PRICES, bootstrap_ms=cheap)  # two at once cost no more than one
    assert boundary.kinds(("s",), together) == ("real", "real")


def test_masks_stay_at_the_top() -> None:
    def masked(be: Any, live: Any) -> Any:
        return {"x": (be.mul(be.mul(live["x"][0], live["x"][0]), live["mask"][0]),), "mask": live["mask"]}

    sim = StageSimulator(LevelOnly, fixed=frozenset({"mask"}))  # type: ignore[arg-type]
    placed = place([Stage("masked", masked), chain("tail", 1)], {"x": 1, "mask": 1}, sim, PRICES)
    assert placed.request == {"x": 3}
    assert "mask" not in placed.stages[0].levels


def test_one_run_serves_all_shifted_levels() -> None:
    sim = simulator()
    place([chain("only", 3)], {"x": 1}, sim, PRICES)
    assert sim.runs == 1


def test_a_stage_too_deep_is_named() -> None:
    with pytest.raises(PlanError, match="stage deep needs more than the 6 levels"):
        place([chain("deep", MAX + 1)], {"x": 1}, simulator(), PRICES)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=3), st.integers(2, 17))
def test_few_levels_tell_what_all_reach(outputs: list[tuple[int, int]], side: int) -> None:
    """Measures results that follow the level at a distance, up to a bound, and need a level of their own."""
    asked: list[int] = []

    def reached(level: int) -> tuple[int, ...]:
        asked.append(level)
        needed = max(depth for depth, _ in outputs)
        return tuple(min(level - depth, most) if level >= needed else -1 for depth, most in outputs)

    every = [reached(level) for level in range(side)]
    asked.clear()
    assert placement._each_level(reached, side) == every
    assert len(asked) == len(set(asked)) and (len(asked) < side or side < 16 or len(outputs) > 1)


@pytest.mark.parametrize("layers", [1, 2])
def test_masks_are_as_low_as_changes_no_count(layers: int) -> None:
    model = tiny.checkpoint(layers=layers)
    hidden, mask = tiny.inputs(model, 8, 5)
    specs = tiny.specs(model, tiny.run_reference(model, hidden, mask), mask, 1e-3)
    ring = PRESETS["insecure_toy_n10"]
    placed = place_circuit(build_circuit(model, specs, ring.slots, 8), ring, prices_of(ring))

    def counts(levels: dict[str, int]) -> Any:
        be = simulated(ring)
        try:
            dry_run(be, placed.circuit, placed.stages, {**placed.placement.request, **levels})
        except LevelError:
            return None
        return be.counts

    top = dict.fromkeys(placed.circuit.fixed, ring.max_level)
    assert top and counts(dict(placed.fixed_levels)) == counts(top)
    for name, level in placed.fixed_levels.items():
        assert level == 0 or counts({**top, name: level - 1}) != counts(top)
