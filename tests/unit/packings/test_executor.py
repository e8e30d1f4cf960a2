"""A placed circuit gives the same numbers on plain as the circuit without levels, and the counts that were
planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tacita.errors import InputError, PlanError
from tacita.layouts.runs import HIDDEN, Request, Response, Tensor
from tacita.packings import executor
from tacita.packings.base import Circuit, Kept
from tacita.planning.place.placement import Placement, place
from tacita.planning.place.simulate import StageSimulator
from tacita.plans.plan import PlacedStage
from tacita.plans.prices.formulas import formula_prices
from tacita.progress import Progress
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Stage

SLOTS, MAX = 64, 5


def _split(be: Any, live: Any) -> Any:
    x = live["x"][0]
    return {**live, "s": (be.square(x), be.mul_const(x, 0.5)), "z": (be.add(x, be.mul_i(be.rotate(x, 3))),)}


def _deep(be: Any, live: Any) -> Any:
    cts = live["s"]
    for _ in range(2):
        cts = tuple(be.mul_const(be.add(be.square(ct), live["mask"][0]), 0.5) for ct in cts)
    return {**live, "s": cts}


def _join(be: Any, live: Any) -> Any:
    z = be.mul(live["z"][0], live["s"][0])
    return {"y": (be.add(z, be.mul(live["x"][0], live["s"][1])),)}


def circuit() -> list[Stage]:
    return [
        Stage("split", _split, frozenset({"z"})),
        Stage("deep", _deep),
        Stage("join", _join),
        Stage("tail", lambda be, live: {"y": (be.poly(live["y"][0], np.array([0.1, 0.5, 0.2, 0.1, 0.05])),)}),
    ]


def sim() -> StageSimulator:
    return StageSimulator(lambda: SimBackend(SLOTS, MAX), fixed=frozenset({"mask"}))


def request(be: Any, placement: Placement, seed: int = 7) -> Any:
    rng = np.random.default_rng(seed)
    x, mask = rng.uniform(-0.5, 0.5, SLOTS), (rng.random(SLOTS) < 0.5).astype(float)
    return {"x": (be.encrypt(x, placement.request["x"]),), "mask": (be.encrypt(mask),)}


def execute(be: Any, placement: Placement, **options: Any) -> Any:
    return executor.run(placement.stages, circuit(), be, request(be, placement), **options)


def test_placed_run_equals_run_with_unlimited_levels() -> None:
    placement = place(circuit(), {"x": 1, "mask": 1}, sim(), formula_prices(10))
    assert placement.bootstraps > 0
    be, free = PlainBackend(SLOTS, MAX), PlainBackend(SLOTS, 100)
    found = be.decrypt(execute(be, placement)["y"][0])
    rng = np.random.default_rng(7)
    live: Any = {"x": (free.encrypt(rng.uniform(-0.5, 0.5, SLOTS)),)}
    live["mask"] = (free.encrypt((rng.random(SLOTS) < 0.5).astype(float)),)
    expected = _unlimited(free, live)
    assert np.allclose(found, expected, atol=1e-12)


def _unlimited(be: Any, live: Any) -> Any:
    for stage in circuit():
        live = stage.run(be, {n: tuple(be.drop_to(c, MAX) for c in cts) for n, cts in live.items()})
        live = {n: tuple(_raise(c) for c in cts) for n, cts in live.items()}
    return live["y"][0].values


def _raise(ct: Any) -> Any:
    return type(ct)(ct.values, 100)


def test_planned_counts_are_executed_counts() -> None:
    placement = place(circuit(), {"x": 1, "mask": 1}, sim(), formula_prices(10))
    be = SimBackend(SLOTS, MAX)
    execute(be, placement)
    found: Counter[str] = Counter()
    for (op, _, stage), n in be.counts.items():
        if not stage.endswith("/bootstrap"):
            found[op] += n
    planned: Counter[str] = Counter()
    for stage in placement.stages:
        planned.update(stage.counts)
    assert found == planned
    kinds = Counter(kind for stage in placement.stages for kind in stage.kinds)
    ran = Counter(
        {
            op: sum(n for (o, _, _), n in be.counts.items() if o == op)
            for op in ("bootstrap", "bootstrap_real")
        }
    )
    assert (ran["bootstrap"], ran["bootstrap_real"]) == (kinds["complex"], kinds["real"])


def test_progress_ends_with_nothing_left_and_inspect_sees_each_stage() -> None:
    placement = place(circuit(), {"x": 1, "mask": 1}, sim(), formula_prices(10))
    seen: list[str] = []
    reports: list[Progress] = []
    execute(
        PlainBackend(SLOTS, MAX),
        placement,
        progress=reports.append,
        inspect=lambda name, live: seen.append(f"{name}:{'+'.join(sorted(live))}"),
    )
    assert seen == ["split:mask+s+x+z", "deep:mask+s+x+z", "join:y", "tail:y"]
    assert [r.stage for r in reports] == ["split", "deep", "join", "tail", "done"]
    assert reports[-1].left == 0.0


def test_requests_that_run_together_answer_as_by_themselves_stage_by_stage() -> None:
    placement = place(circuit(), {"x": 1, "mask": 1}, sim(), formula_prices(10))
    order: list[tuple[str, int]] = []

    class Told(SimBackend):
        number = 0

        @contextmanager
        def stage(self, name: str) -> Iterator[None]:
            order.append((name, self.number))
            with super().stage(name):
                yield

    def backend(number: int) -> Any:
        be = Told(SLOTS, MAX, inject=True, seed=number)
        be.number = number
        return be

    steps = placement.stages
    alone = [
        (be, executor.run(steps, circuit(), be, request(be, placement, be.number)))
        for be in map(backend, range(3))
    ]
    order.clear()
    given = [(be, request(be, placement, be.number)) for be in map(backend, range(3))]
    found = executor.run_together(steps, circuit(), given)
    for (one, wanted), (other, _), out in zip(alone, given, found, strict=True):
        assert one.counts == other.counts
        assert np.array_equal(one.decrypt(wanted["y"][0]), other.decrypt(out["y"][0]))
    stages = [(name, number) for name, number in order if not name.endswith("/bootstrap")]
    assert stages == [(stage.name, number) for stage in circuit() for number in range(3)]
    more = [(be, request(be, placement, be.number)) for be in map(backend, range(3))]
    threaded = executor.run_together(steps, circuit(), more, threads=3)
    for (be, _), wanted, out in zip(more, found, threaded, strict=True):
        assert np.array_equal(be.decrypt(wanted["y"][0]), be.decrypt(out["y"][0]))
    assert not any(live for _, live in given)  # dead ciphertexts of the requests are freed early


def test_another_circuit_is_refused() -> None:
    with pytest.raises(PlanError, match="other stages"):
        executor.run([], circuit(), PlainBackend(SLOTS, MAX), {})
    with pytest.raises(PlanError, match="other stages"):
        executor.run_together([], circuit(), [(PlainBackend(SLOTS, MAX), {})])


def test_real_ciphertexts_without_a_level_left_are_paired_as_planned() -> None:
    be = SimBackend(SLOTS, MAX, values=True)
    slots = dict(zip("abcz", np.random.default_rng(8).uniform(-1, 1, (4, SLOTS)), strict=True))
    tensors = {
        name: (be.encrypt(v, level),) for (name, v), level in zip(slots.items(), (0, 2, 0, 0), strict=True)
    }
    fresh = executor.refresh(be, tensors, {"z"}, ("real", "complex", "complex"), {"b": 3})
    assert {name: be.level(ct) for name, (ct,) in fresh.items()} == {"a": MAX, "b": 3, "c": MAX, "z": MAX}
    assert all(np.array_equal(be.decrypt(ct), slots[name]) for name, (ct,) in fresh.items())
    counts = {("bootstrap", 0): 2, ("bootstrap_real", 0): 1, ("conjugate", MAX): 1}
    assert {(op, level): n for (op, level, _), n in be.counts.items()} == counts


@pytest.mark.parametrize("planned", [("complex",) * 3, ("real",) * 3])
def test_more_pairs_than_there_are_and_none_for_complex_values_are_refused(planned: tuple[str, ...]) -> None:
    be = PlainBackend(SLOTS, MAX)
    tensors = {name: (be.encrypt(np.zeros(SLOTS), 1),) for name in "abz"}
    with pytest.raises(PlanError, match="bootstrap of 2 real and 1 complex ciphertexts"):
        executor.refresh(be, tensors, {"z"}, planned)


def test_a_text_in_the_clear_has_no_more_rows_than_at_a_server() -> None:
    """The one kept ciphertext turns by a row of two slots, as keys and values do."""

    def turned(be: Any, live: Any) -> Any:
        rows = (be.add(be.rotate(live["rows"][0], -2), live["hidden"][0]),)
        return {"answer": rows, "later": rows}

    hidden = Request(4, 1, 2, 1, 1.0, {"hidden": Tensor(HIDDEN, 1, ((0, 0),))})
    response = Response(4, 1, 1, 1, 1, 1.0, ((0, 0),), ((2, 0),), ((1, 0),), ((3, 0),))
    one = Circuit((Stage("turn", turned),), hidden, response, frozenset(), kept=(Kept("rows", "later", 1),))
    placed, levels = [PlacedStage("turn", (), (), {}, {}, {})], {"hidden": 1, "rows": 1}
    steps = executor.Steps(placed, one, levels, PlainBackend(4, 1))
    text = np.array([[0.5], [0.25]]), np.ones(2)
    first, both = executor.prefixes(text)
    for _ in range(2):
        with pytest.raises(InputError, match="a text of 2 rows, with 0 of at most 2 read before it"):
            steps.answer(both)
        steps.answer(first)
        steps.answer(both)
        assert steps.kept["rows"][0].values.tolist() == [0.5, 0.0, 0.25, 0.0]
        with pytest.raises(InputError, match="a text of 2 rows, with 2 of at most 2 read before it"):
            steps.answer(both)
        steps.begin()
