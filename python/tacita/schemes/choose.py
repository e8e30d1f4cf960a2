"""The plan that a plan request asks for; of all schemes the one that is quickest by estimate, with the
numbers that decided.

Throughput is the time until the last answer, latency the time until the first one; both are the server's
predicted seconds on the machine of the price table, and over the plan request's link what is sent. Keys and
encryption are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from tacita.approx.fit import FitError
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, InputError, PlanError, ShapeError
from tacita.planning.request import Objective, PlanRequest, objective_of
from tacita.planning.survey import Subject, phase_label, phases_of
from tacita.plans.commitment import LinkSpeed
from tacita.plans.scheme import AUTO
from tacita.schemes.base import AnyPlan, Report, silent
from tacita.schemes.registry import scheme_of

REFUSALS = (ShapeError, PlanError, FitError, CheckpointError)  # of one scheme, where another may be possible
UNWEIGHED = "needs a connection; pass --link to weigh it"


@dataclass(frozen=True)
class Option:
    """A scheme on one of its packings for so many texts: its plan, or why there is none. link: that it is
    weighed over. packing: told where it was to be chosen.
    """

    scheme: str
    inputs: int
    plan: AnyPlan | None
    refused: str = ""
    packing: str = ""
    link: LinkSpeed | None = None

    @property
    def name(self) -> str:
        """The name of the scheme, and of the packing where that was to be chosen."""
        return f"{self.scheme} in {self.packing}" if self.packing else self.scheme

    @property
    def requests(self) -> int:
        """Requests that the texts take."""
        return ceil(self.inputs / self.plan.batch) if self.plan else 0

    def seconds(self, objective: Objective) -> float:
        """Predicted seconds until the last or the first answer; infinite without a plan."""
        if self.plan is None:
            return inf
        one = self.plan.predicted_seconds(self.link)
        return one * self.requests if objective_of(objective) is Objective.throughput else one


@dataclass(frozen=True)
class Choice:
    """All options, the chosen one first, and what they were compared by."""

    options: tuple[Option, ...]
    objective: Objective

    def __repr__(self) -> str:
        """Returns at most 300 characters."""
        return f"Choice({self.plan!r}, of {len(self.options)} by {self.objective.value})"

    @property
    def plan(self) -> AnyPlan:
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


def choose_plan(
    model: Checkpoint, request: PlanRequest, progress: Report = silent, processes: int = 1
) -> Choice:
    """Plans the plan request's scheme, or with "auto" every one that can be weighed, and keeps the quickest.

    Calibrates once for each packing. processes: that calibrate on many texts; a script that asks for more
    than one needs `if __name__ == "__main__"`. Cost: see `planning.trial`; a minute at full size for
    all. Raises CheckpointError, InputError, ShapeError (sizes that the scheme does not admit), PlanError.
    """
    if model.config.image is not None and not (request.texts or request.hidden_states):
        raise InputError("a model of images is calibrated on images", hint="--texts with a file name a line")
    auto = AUTO in (request.scheme_name, request.packing)
    weighed = request.link is not None or request.scheme_name != AUTO  # what needs a connection
    pairs = [pair for pair in request.wanted if weighed or not scheme_of(pair[0]).connected]
    labels = [phase_label(scheme, packing) for scheme, packing in pairs]
    subject = Subject(model, request, phases_of(progress, labels, model, request), processes)
    if auto:
        options = [_option(scheme, packing, subject) for scheme, packing in pairs]
        left_out = [pair[0] for pair in request.wanted if pair not in pairs]
        options += [Option(scheme, request.inputs or 1, None, UNWEIGHED) for scheme in left_out]
        choice = choose(options, request.goal)
    else:
        ((scheme, packing),) = pairs
        plan = scheme_of(scheme).plan(subject.on(scheme, packing))
        choice = Choice(
            (Option(scheme, request.inputs or plan.batch, plan, link=request.link),), request.goal
        )
    subject.phases.enter("done")
    return choice


def _option(scheme: str, packing: str | None, subject: Subject) -> Option:
    inputs, link = subject.request.inputs or 1, subject.request.link
    undecided = sum(wanted == scheme for wanted, _ in subject.request.wanted) > 1
    shown_packing = packing or "" if undecided else ""
    try:
        plan = scheme_of(scheme).plan(subject.on(scheme, packing))
    except REFUSALS as error:
        return Option(scheme, inputs, None, str(error), shown_packing)
    return Option(scheme, inputs, plan, packing=shown_packing, link=link)
