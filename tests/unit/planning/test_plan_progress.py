"""Progress of planning is true: what is left falls with the work that is done, from a fair first figure. The
clock counts work, and no time passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import tacita
from tacita.packings import executor
from tacita.planning import survey, trial
from tacita.planning.calibrate import walk
from tacita.planning.fitting import _Fit
from tacita.planning.place.placement import _Search
from tacita.planning.request import PlanRequest
from tacita.progress import Passes, Phases, Progress
from tacita.schemes.choose import choose_plan
from tacita.slots.sim import SimBackend

# seconds of work on the default model
FORWARD, FITTED, PLACED, STAGE, APPROXIMATED = 2.9e-3, 14e-3, 6e-3, 5.5e-3, 3.4e-3
SLOW = 40.0  # a model as many times larger, or a processor as many times slower
TEXTS = [f"a film of {word} beauty that is never boring" for word in ("quiet", "great", "no", "rare") * 10]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """The reports of a plan on a clock that each piece of work advances by its measured seconds."""
    clock, log = [0.0], list[Progress]()

    def costs(owner: Any, name: str, seconds: float) -> None:
        work: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **more: Any) -> Any:
            free = any(isinstance(one, SimBackend) and not one.inject for one in arguments)  # it only counts
            clock[0] += 0.0 if free else seconds * SLOW
            return work(*arguments, **more)

        monkeypatch.setattr(owner, name, counted)

    costs(walk, "reference", FORWARD)
    costs(trial, "approximation_errors", APPROXIMATED)
    costs(_Fit, "of", FITTED)
    costs(executor, "_after", STAGE * 16 / 128)
    costs(_Search, "_run_values", PLACED)
    slow = {name: SLOW * seconds for name, seconds in survey.ONE.items()}
    monkeypatch.setattr(survey, "ONE", slow)
    monkeypatch.setattr(survey, "Phases", partial(Phases, clock=lambda: clock[0]))
    request = PlanRequest(tokens=16, preset="insecure_toy_n11", texts=TEXTS)
    choose_plan(tacita.load(), request, log.append)
    return log


def test_what_is_left_falls_every_two_seconds_of_work_from_a_fair_first_figure(log: list[Progress]) -> None:
    whole = log[-1].seconds
    assert whole > 20.0 and 0.5 * whole <= log[0].left <= 1.5 * whole
    lowest, when, longest = log[0].left, 0.0, 0.0
    for each in log:
        if each.left < lowest:
            longest = max(longest, each.seconds - when)
            lowest, when = each.left, each.seconds
    assert longest <= 2.0 and log[-1].left == 0.0
    assert [*dict.fromkeys(each.stage.split()[0] for each in log)] == [
        "calibrate",
        "fit",
        "place",
        "simulate",
        "predict",
        "done",
    ]


def test_a_slow_machine_is_noticed_by_the_work_that_is_done() -> None:
    clock, log = [0.0], list[Progress]()
    phases = Phases(log.append, [("fit", 10.0), ("place", 10.0)], lambda: clock[0])
    phases.enter("fit")
    for done in range(1, 11):
        clock[0] += 5.0  # seconds, for one that was predicted
        phases.part(done, 10)
    assert log[0].left == 20.0 and 0.9 * 50.0 < log[-1].left <= 50.0 and log[-1].seconds == 50.0


def test_passes_fill_a_phase() -> None:
    shares: list[float] = []
    passes = Passes(lambda done, total: shares.append(done / total))
    for each in (passes.following(), passes.following(), passes.following(last=True)):
        each(1, 1)
    assert shares == [0.5, 0.75, 1.0]
