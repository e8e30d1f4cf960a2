"""Plans with a progress bar, and says in one line why this scheme was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tacita import api
from tacita.api import Choice, Objective, PlanRequest
from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, progress, say, several, shown
from tacita.planning.calibrate.excesses import FAR, FEW
from tacita.plans.error import FOLDS, NOT_ESTIMATED, Population
from tacita.plans.plan import Plan
from tacita.plans.scheme import AUTO
from tacita.resources import threads
from tacita.schemes.base import AnyPlan
from tacita.schemes.choose import UNWEIGHED, Option
from tacita.schemes.prices import describe_prices, prices_here
from tacita.schemes.registry import scheme_of

LINE = (
    *("model", "pooling", "documents", "scheme", "packing", "inputs", "objective"),
    *("tokens", "preset", "functions", "texts", "begin", "reveal", "link"),
)  # what a command that plans has on its line, and FILE what a file gives it
FILE = ("prices", "gap")
CONNECTED = "needs a connection: `tacita serve` answers, `tacita classify --connect HOST:PORT` asks"


def planned(model: Checkpoint, request: PlanRequest) -> AnyPlan:
    """Makes a plan by this machine's prices unless others are wished, and says which; and in one line why,
    when the scheme or its packing was ours to choose. Raises what `choose_plan` raises, FileError for damaged
    prices."""
    request = replace(request, prices=request.prices or prices_here(request.preset))
    with progress("plan") as report:
        choice = api.choose_plan(model, request, progress=report, processes=threads())
    if request.prices:
        say(describe_prices(request.prices))
    if AUTO in (request.scheme_name, request.packing):
        say(why(choice, "scheme" if request.scheme_name == AUTO else "packing"))
    return choice.plan


def tell_connection(plan: AnyPlan) -> None:
    """Says how to connect, for a plan of a scheme that needs a connection."""
    if scheme_of(plan.scheme).connected:
        say(f"{plan.scheme} {CONNECTED}")


def why(choice: Choice, what: str = "scheme") -> str:
    """Explains a choice in a line, as
    "scheme auto: arion (4 texts: arion 12 s in 1 request; thor 2 min 28 s in 4 requests; by throughput)".

    what: was to be chosen.
    """
    first, *others = choice.options
    texts = several(first.inputs, "text")
    numbers = "; ".join(_option_cost(option, choice.objective) for option in (first, *others))
    return f"{what} auto: {first.name} ({texts}: {numbers}; by {choice.objective.value})"


def _option_cost(option: Option, objective: Objective) -> str:
    if option.refused == UNWEIGHED:
        return f"{option.scheme}: {UNWEIGHED}"
    if option.plan is None:
        return f"{option.name} not possible: {shown(str(option.refused))}"
    until = (
        "until the first answer"
        if objective is Objective.latency
        else f"in {several(option.requests, 'request')}"
    )
    return f"{option.name} {duration(option.seconds(objective))} {until}"


# What a plan says of texts outside its intervals, in words.

MADE_BY = {
    "held out": "held out (every fifth line)",
    FOLDS: "tested by folds (each fifth against the other four)",
}


def population_line(plan: Plan) -> Iterator[str]:
    """Yields a line about texts outside the intervals, and one about what they do to others in the same
    request."""
    population = plan.population
    if population.method == NOT_ESTIMATED:
        yield (
            f"texts outside the intervals: not estimated: too few texts (under {FEW}); give more with --texts"
        )
    else:
        yield (
            f"texts outside the intervals: {population.outside} of {population.texts} "
            f"{MADE_BY[population.method]}: {_rates(population.per_text, population.per_text_bound)} of "
            "texts; their own answers may be off"
        )
    if plan.batch > 1:
        yield _others(plan, population)


def _others(plan: Plan, population: Population) -> str:
    where = f"a text further than {FAR:g} half-widths out can spoil every answer of its request"
    if population.method == NOT_ESTIMATED:
        return f"requests: {where}; how often is not known"
    rates = _rates(population.per_request, population.per_request_bound)
    return (
        f"requests of {plan.batch} texts: {where}; {population.far} texts did, which makes {rates} of full "
        "requests"
    )


def _rates(expected: float, bound: float) -> str:
    return f"{100 * expected:.2g} %, at most {100 * bound:.2g} % (95 % confidence),"
