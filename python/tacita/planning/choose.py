"""Which scheme for how many texts: plan each, compare the predictions, keep the numbers that decided.

Throughput is the time until the last answer, latency the time until the first one; both by the server's
predicted seconds on the machine of the price table, keys and encryption left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf

from tacita.approx.fit import FitError
from tacita.approx.variants.functions import Functions
from tacita.calibrate.calibrate import Sample
from tacita.checkpoint import Checkpoint
from tacita.errors import InputError, PlanError, ShapeError
from tacita.front.embed import Text
from tacita.placement.cost import Prices
from tacita.planning.circuit import Goal, calibrate_model, plan_scheme
from tacita.planning.fitting import Accuracy
from tacita.planning.phases import Phases
from tacita.plans.commitment import draw
from tacita.plans.plan import ParameterInfo, Plan
from tacita.plans.scheme import AUTO, SCHEMES, packings_of, scheme_named
from tacita.run.executor import Progress


class Objective(StrEnum):
    """What to keep short: the time until the last answer, or until the first."""

    throughput = "throughput"
    latency = "latency"


def objective_of(name: str) -> Objective:
    """Of a name, or of itself. Raises InputError for an unknown one."""
    try:
        return Objective(name)
    except ValueError:
        raise InputError(f"no objective {name!r}", hint=f"one of {', '.join(Objective)}") from None


@dataclass(frozen=True)
class Option:
    """A scheme on one of its packings for so many texts: its plan, or why there is none."""

    scheme: str
    inputs: int
    plan: Plan | None
    refused: str = ""
    packing: str = ""

    @property
    def name(self) -> str:
        """Of the scheme, and of the packing where the scheme has several."""
        return f"{self.scheme} in {self.packing}" if self.packing else self.scheme

    @property
    def requests(self) -> int:
        """Requests that the texts take."""
        return ceil(self.inputs / self.plan.batch) if self.plan else 0

    def seconds(self, objective: Objective) -> float:
        """Predicted seconds of evaluation until the last or the first answer; infinite without a plan."""
        if self.plan is None:
            return inf
        one = self.plan.prediction.seconds["evaluate"]
        return one * self.requests if objective_of(objective) is Objective.throughput else one


@dataclass(frozen=True)
class Choice:
    """All options, the chosen one first, and what they were compared by."""

    options: tuple[Option, ...]
    objective: Objective

    @property
    def plan(self) -> Plan:
        """The chosen plan."""
        plan = self.options[0].plan
        assert plan is not None  # `choose` refuses otherwise
        return plan


def choose(options: Sequence[Option], objective: Objective) -> Choice:
    """The quickest option first. Raises PlanError when no scheme has a plan."""
    ordered = sorted(options, key=lambda option: option.seconds(objective))
    if ordered[0].plan is None:
        reasons = "; ".join(f"{option.name}: {option.refused}" for option in ordered)
        raise PlanError(f"no scheme admits this model ({reasons})", hint="use other tokens or a larger ring")
    return Choice(tuple(ordered), objective)


def plan_best(
    model: Checkpoint,
    parameters: Sequence[ParameterInfo],
    prices: Prices | None = None,
    *,
    tokens: int,
    inputs: int,
    schemes: Sequence[str] = tuple(SCHEMES),
    packing: str | None = None,
    objective: Objective = Objective.throughput,
    texts: Sequence[Text] | None = None,
    hidden_states: Sequence[Sample] = (),
    accuracy: Accuracy | None = None,
    functions: Functions | None = None,
    salt: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    processes: int = 1,
) -> Choice:
    """Calibrates once for one text and once for batches, plans every scheme for `inputs` texts and chooses;
    see `make_plan` for the rest.

    packing: "auto" to plan each packing of a scheme that has several; a name for the schemes that have it;
    else each scheme's default. Raises InputError where none has it.
    """
    schemes = [scheme for scheme in schemes if _has(scheme, packing)] or schemes
    wanted = [(scheme, one) for scheme in schemes for one in packings_of(scheme, packing)]
    own = salt or draw()
    goals = [Goal(scheme, inputs, accuracy, functions, own, one) for scheme, one in wanted]
    undecided = {scheme for scheme in schemes if len(packings_of(scheme, packing)) > 1}
    phases = Phases(progress, [goal.label for goal in goals])
    calibrated = calibrate_model(
        model, tokens, phases, texts=texts, hidden_states=hidden_states, processes=processes
    )

    def option(goal: Goal) -> Option:
        told = goal.packing or "" if goal.scheme in undecided else ""
        try:
            plan = plan_scheme(calibrated, parameters, prices, phases, goal)
        except (ShapeError, PlanError, FitError) as error:
            return Option(goal.scheme, inputs, None, str(error), told)
        return Option(goal.scheme, inputs, plan, packing=told)

    found = choose([option(goal) for goal in goals], objective)
    phases.enter("done")
    return found


def _has(scheme: str, packing: str | None) -> bool:
    """Whether a scheme can be planned on a packing, or on whichever."""
    return packing in (None, AUTO, *scheme_named(scheme).packings)
