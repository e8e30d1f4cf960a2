"""Making a plan for a command: which scheme by default, and the line that says why it was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacita import api
from tacita.api import Choice, Objective
from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, out, progress, several, shown
from tacita.cli.options import PackingName, SchemeName
from tacita.placement.cost import Prices
from tacita.planning.choose import Option
from tacita.plans.plan import Plan
from tacita.run.resources import threads


def planned(
    model: Checkpoint | Path,
    *,
    tokens: int,
    preset: str,
    scheme: SchemeName | None,
    packing: PackingName | None = None,
    inputs: int | None,
    objective: Objective | None,
    functions: str,
    texts: Sequence[str] | None = None,
    prices: Prices | None = None,
    salt: str | None = None,
) -> Plan:
    """Plans with a progress bar; salt: of the commitment to the weights. Says in one line why, when the
    scheme or its packing was ours to choose."""
    several = (inputs or 1) > 1
    name = scheme or (SchemeName.auto if several and packing is None else SchemeName.thor)
    goal = objective or (Objective.throughput if several else Objective.latency)
    with progress("plan") as report:
        choice = api.choose_plan(
            model,
            tokens=tokens,
            preset=preset,
            scheme=name.value,
            packing=packing.value if packing else None,
            inputs=inputs,
            objective=goal,
            functions=functions,
            texts=texts,
            prices=prices,
            salt=salt,
            progress=report,
            processes=threads(),
        )
    if name is SchemeName.auto or packing is PackingName.auto:
        what = "scheme" if name is SchemeName.auto else "packing"
        out.print(why(choice, what), soft_wrap=True)
    return choice.plan


def why(choice: Choice, what: str = "scheme") -> str:
    """scheme auto: arion (4 texts: arion 12 s in 1 request; thor 2 min 28 s in 4 requests; by throughput).

    what: was to be chosen.
    """
    first, *others = choice.options
    texts = several(first.inputs, "text")
    numbers = "; ".join(_told(option, choice.objective) for option in (first, *others))
    return f"{what} auto: {first.name} ({texts}: {numbers}; by {choice.objective.value})"


def _told(option: Option, objective: Objective) -> str:
    if option.plan is None:
        return f"{option.name} not possible: {shown(str(option.refused))}"
    until = (
        "until the first answer"
        if objective is Objective.latency
        else f"in {several(option.requests, 'request')}"
    )
    return f"{option.name} {duration(option.seconds(objective))} {until}"
