"""`tacita choose` names the cheapest scheme that promises what is needed, or says what fits in its place.

Whom you trust decides first (docs/which-protection.md): who trusts the operator needs TLS alone, and who
trusts a chip maker a trusted processor. Of our own schemes those whose promise fits are planned and priced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.table import Table

from tacita import api
from tacita.api import PlanRequest
from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, finite, out, progress, reporting, say, several, shown, size
from tacita.cli.options import Json, load_model, option, plan_request, taking
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.plans.plan import Plan
from tacita.plans.scheme import PROMISES, Client, Needs, Rounds, Server, Trusted
from tacita.schemes.base import AnyPlan
from tacita.schemes.choose import REFUSALS
from tacita.schemes.prices import prices_here
from tacita.settings import Settings
from tacita.two_party.program.cost import SET_UP

OTHERWISE = {
    "operator": ("tls", "the operator may read: TLS to an ordinary server fits, with any model, at no cost"),
    "chip": ("tee", "a trusted processor fits, at nearly full speed: check its attestation yourself"),
}
TOO_DEAR = "no scheme of ours does it within these limits: loosen them, or trust a chip maker (TEE)"
UNPROMISED = "no scheme of ours promises this: compute on a machine of your own"
LEAST: Any = {"min": 0.0, "callback": finite}  # of limits


@taking(
    {"plan": ("model", "tokens", "inputs", "link", "preset", "texts")},
    {"plan": ("pooling", "functions", "reveal", "gap", "prices")},
)
def choose(
    settings: Settings,
    trust: Annotated[Trusted, option("--trust", help="Who may see the text (default: nobody).")] = "nobody",
    rounds: Annotated[Rounds, option("--rounds", help="one: the client sends once (default: any).")] = "any",
    server: Annotated[
        Server, option("--server", help="How the server may behave (default: semi-honest).")
    ] = "semi-honest",
    client: Annotated[
        Client, option("--client", help="How a client may, who wants the weights (default: semi-honest).")
    ] = "semi-honest",
    post_quantum: Annotated[
        bool, typer.Option("--post-quantum", help="Texts of today must outlast quantum computers to come.")
    ] = False,
    seconds: Annotated[
        float | None, option("--seconds", help="Most seconds until the last answer, keys included.", **LEAST)
    ] = None,
    megabytes: Annotated[
        float | None, option("--megabytes", help="Most MB that are sent in all, keys included.", **LEAST)
    ] = None,
    json: Json = None,
) -> None:
    """Name the cheapest scheme that promises what you need.

    Every scheme hides the text from a server that follows the protocol, and the weights from such a client.
    Without --link it is weighed over a WAN of 400 Mbit/s and 4 ms.
    """
    request = plan_request(settings.plan)
    prices, link = request.prices or prices_here(request.preset), request.link or LINKS["WAN"]
    request, model = replace(request, prices=prices, link=link), load_model(settings.plan)
    needs, limits = Needs(rounds, server, client, post_quantum), {"seconds": seconds, "megabytes": megabytes}
    rows = [_option(name, needs, limits, model, request) for name in PROMISES]
    rows.sort(key=lambda row: (not row["fits"], row["all_seconds"] or math.inf))
    verdict, reason = _verdict(trust, rows)
    figures = {
        "verdict": verdict,
        "reason": reason,
        "needs": {"trust": trust, **asdict(needs), **limits},
        "inputs": request.inputs or 1,
        "options": rows,
    }
    with reporting(json, figures):
        _show(figures)


def _option(
    name: str, needs: Needs, limits: Mapping[str, float | None], model: Checkpoint, request: PlanRequest
) -> dict[str, Any]:
    """Returns what the report says of a scheme; without figures where its promise does not fit, or no
    plan."""
    reasons, figures = PROMISES[name].misses(needs), dict[str, Any](dict.fromkeys(FIGURES))
    if not reasons:
        try:
            with progress(f"plan {name}") as report:
                plan = api.choose_plan(model, replace(request, scheme=name), progress=report).plan
            figures = _figures(plan, request.inputs or 1, request.link)
            spent = {"seconds": figures["all_seconds"], "megabytes": figures["all_bytes"] / 1e6}
            over = {what: most for what, most in limits.items() if most is not None and spent[what] > most}
            reasons = [f"it takes {spent[what]:.3g} {what}, over {most:g}" for what, most in over.items()]
        except REFUSALS as error:
            reasons = [str(error)]
    return {"scheme": name, "fits": not reasons, "reasons": reasons, **asdict(PROMISES[name]), **figures}


FIGURES = (
    "all_seconds",
    "all_bytes",
    "seconds_per_request",
    "bytes_per_request",
    "once_seconds",
    "once_bytes",
)


def _figures(plan: AnyPlan, inputs: int, link: LinkSpeed | None) -> dict[str, Any]:
    """Returns seconds and bytes: of all together, of each request, of what is done once (keys, a set-up)."""
    requests, keys, keygen = -(-inputs // plan.batch), SET_UP, 0.0
    if isinstance(plan, Plan):
        keys, keygen = int(plan.prediction.bytes["evaluation_keys"]), plan.prediction.seconds["keygen"]
    once = keygen + (link.seconds(keys, 1.0) if link and keys else 0.0)
    seconds, count = plan.predicted_seconds(link), int(plan.predicted_bytes(link))
    together = once + requests * seconds, keys + requests * count
    return dict(zip(FIGURES, (*together, seconds, count, once, keys), strict=True))


def _verdict(trust: str, rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Returns what fits, and why in a sentence."""
    if trust != "nobody":
        return OTHERWISE[trust]
    if (first := rows[0])["fits"]:
        return first["scheme"], f"the cheapest that fits: {duration(first['all_seconds'])} in all"
    promised = any(row["all_seconds"] is not None for row in rows)
    return "nothing", TOO_DEAR if promised else UNPROMISED


def _show(figures: Mapping[str, Any]) -> None:
    table = Table("scheme", several(figures["inputs"], "text"), "keys", "sent", "rounds", "quantum", "fits")
    for row in figures["options"]:
        times = ["", "", ""]
        if row["all_seconds"] is not None:
            times = [duration(row["all_seconds"]), duration(row["once_seconds"]), size(row["all_bytes"])]
        words = ["one" if row["one_round"] else "many", "safe" if row["post_quantum"] else "not safe"]
        table.add_row(row["scheme"], *times, *words, "yes" if row["fits"] else "no")
    out.print(table)
    for row in figures["options"]:
        if row["reasons"]:
            say(f"{row['scheme']}: {shown('; '.join(row['reasons']))}")
    say(f"[bold]{figures['verdict']}[/bold]: {figures['reason']}")
