"""Spreads a command's requests over machines (`--ray`), and shows the predicted time before and beside the
measured one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, out, several
from tacita.errors import InputError
from tacita.plans.commitment import LinkSpeed
from tacita.schemes.base import AnyPlan, Place, Seconds
from tacita.server.machines.cluster import Where, require_reachable, where_of
from tacita.server.machines.costs import NODES
from tacita.server.machines.spread import Group, Spread, spreading
from tacita.settings import BackendName, Settings
from tacita.texts.embed import Text

if TYPE_CHECKING:
    from tacita.cli.ask.core import Answerer

MANY = 16  # nodes that a prediction is shown for, too


def require_spread(settings: Settings) -> None:
    """Checks the options before a plan is made. Raises InputError for those that do not go together, or
    without Ray."""
    backend = settings.run.backend
    if settings.ray.address is None:
        return
    where = _where(settings)
    if settings.network.connect:
        raise InputError("both --ray and --connect", hint="one of the two: who evaluates")
    if backend not in (None, BackendName.ckks):
        raise InputError(f"--ray with --backend {backend}", hint="it evaluates what is encrypted")
    require_reachable(where)


@contextmanager
def by_ray(
    plan: AnyPlan,
    model: Checkpoint,
    place: Place,
    settings: Settings,
    texts: Sequence[Text],
    link: LinkSpeed | None,
    seconds: Seconds,
    figures: dict[str, Any],
) -> Iterator[Answerer]:
    """Yields what answers request after request, which are evaluated side by side. Afterwards `seconds` has
    those of what was done once, and `figures` what the report says of the machines. Raises as `spreading`."""
    groups = [texts[at : at + plan.batch] for at in range(0, len(texts), plan.batch)]
    with spreading(plan, model, place, _where(settings), link=link) as run:
        first = run.forecast(len(groups))
        out.print(f"{first.words()}; {duration(first.seconds)} by prediction", soft_wrap=True)
        began, answers = time.monotonic(), run.answers(groups)
        yield lambda texts, title: next(answers)
        measured = time.monotonic() - began
        seconds |= run.seconds
        figures |= _figures(run, groups, measured, seconds)
        _show(run, len(groups), measured)


def _where(settings: Settings) -> Where:
    ray = settings.ray
    return where_of(ray.address or "", ray.nodes, ray.cores)


def _figures(run: Spread, groups: Sequence[Group], measured: float, seconds: Seconds) -> dict[str, Any]:
    """Returns the figures of a run side by side, which replace the sums over its requests."""
    wall, count = measured - seconds.get("keygen", 0.0), sum(map(len, groups))
    sites = run.nodes.sites
    cluster = {
        "nodes": len({site.node for site in sites}),
        "evaluators": min(run.evaluators, len(groups)),
        "cores": [site.cores for site in sites],
        "measured_seconds": measured,
        "processor_seconds_per_request": sum(run.processor) / len(groups),
        "predicted": run.forecast(len(groups)).to_json(),
        "predicted_by_nodes": {n: run.forecast(len(groups), n).to_json() for n in NODES},
    }
    each = {"seconds_per_input": wall / count, "seconds_per_request": wall / len(groups)}
    return {"wall_seconds": wall, **each, "cluster": cluster}


def _show(run: Spread, requests: int, measured: float) -> None:
    here, many = (run.forecast(requests, count) for count in (None, MANY))
    on = several(here.evaluators, "evaluator")
    out.print(
        f"on {on}: {duration(measured)} measured, {duration(here.seconds)} predicted; "
        f"{duration(many.seconds)} predicted on {MANY} such nodes",
        soft_wrap=True,
    )
