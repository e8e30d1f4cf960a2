"""`tacita estimate` shows time, memory, bytes, error and security of a plan, stage by stage, without running
it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from tacita.cli.console import duration, out, reporting, several, shown, size
from tacita.cli.options import Json, load_model, option, plan_request, taking
from tacita.cli.plans.making import FILE, LINE, planned, tell_connection
from tacita.cli.report import TWO_PARTIES, security_line
from tacita.evaluate.session import MEMORY_GB
from tacita.plans.commitment import LinkSpeed
from tacita.plans.plan import Plan
from tacita.schemes.base import AnyPlan, load
from tacita.schemes.ciphertexts import parameters, stage_estimates
from tacita.schemes.registry import scheme_of
from tacita.settings import Settings
from tacita.two_party.plan.correlations import in_words
from tacita.two_party.plan.plan import TwoPartyPlan

PlanFile = Annotated[Path | None, option("--plan", help="An existing plan; without it one is made.")]


@taking({"plan": LINE, "run": ("memory",)}, {"plan": FILE})
def run(settings: Settings, plan: PlanFile = None, json: Json = None) -> None:
    """Say what a run would cost."""
    request, memory = plan_request(settings.plan), settings.run.memory
    priced = load(plan) if plan is not None else planned(load_model(settings.plan), request)
    inputs, link = request.inputs, request.link
    with reporting(json, scheme_of(priced.scheme).estimate(priced, inputs, link=link, memory=memory)):
        if isinstance(priced, Plan):
            show_stages(priced, memory)
        show_estimate(priced, inputs, memory, link)
        tell_connection(priced)


def show_stages(plan: Plan, memory: float = MEMORY_GB) -> None:
    """Shows one line per stage, wide enough for its name."""
    width = max(len(shown(stage.name)) for stage in plan.stages)
    head = (
        f"{'seconds':>9} {'a text':>9} {'bootstraps':>10} {'switches':>8} {'products':>8} {'memory':>9} "
        f"{'spill':>9}"
    )
    out.print(f"{'stage':<{width}} {head}", soft_wrap=True)
    for s in stage_estimates(plan, memory):
        counts = f"{s.bootstraps or '':>10} {s.key_switches or '':>8} {s.products or '':>8}"
        places = f"{size(s.bytes):>9} {size(s.spill_bytes) if s.spill_bytes else '':>9}"
        line = f"{shown(s.name):<{width}} {s.seconds:>9.2f} {s.seconds_per_input:>9.4f} {counts} {places}"
        out.print(line.rstrip(), soft_wrap=True)


def show_estimate(
    plan: AnyPlan, inputs: int | None = None, memory: float = MEMORY_GB, link: LinkSpeed | None = None
) -> None:
    """Shows the estimate of a whole run as a table."""
    figures = scheme_of(plan.scheme).estimate(plan, inputs, link=link, memory=memory)
    if isinstance(plan, Plan):
        _show_ciphertexts(plan, figures)
    else:
        _show_two_parties(plan, figures)


def _show_ciphertexts(plan: Plan, figures: dict[str, Any]) -> None:
    p, memory = plan.prediction, figures["memory_limit_gb"]
    table = Table(show_header=False, box=None)
    table.add_row("machine", f"{shown(p.machine)}, {p.threads} threads")
    request = f"{several(plan.batch, 'text')} of up to {plan.tokens} tokens a request"
    table.add_row("scheme", f"{plan.scheme} in {plan.packing}, {request}")
    for step in ("keygen", "evaluate"):
        table.add_row(step, duration(p.seconds[step]))
    if "touch" in p.seconds:
        table.add_row("new memory, first request", duration(figures["touch_seconds"]))
        table.add_row("to disk and back, a request", duration(figures["spill_seconds"]))
    counts = f"{several(figures['inputs'], 'text')} in {several(figures['requests'], 'request')}"
    texts = f"{counts}, {figures['seconds_per_input']:.2f} s a text"
    table.add_row("all texts", f"{duration(figures['wall_seconds'])}: {texts}")
    for name, count in p.bytes.items():
        table.add_row(shown(name.replace("_", " ")), size(count))
    table.add_row(
        "disk for spilled ciphertexts",
        f"{figures['spill_gb']:.2f} GB at most, within {memory:g} GB of memory",
    )
    table.add_row("rotation keys", str(len(plan.rotations)))
    table.add_row("bootstraps", str(plan.bootstraps))
    table.add_row("error of the logits", f"{p.error}, shown in steps of {plan.logit_step:g}")
    table.add_row("security", security_line(parameters(plan)))
    out.print(table)
    for line in figures["too_large"]:
        out.print(f"[yellow]warning:[/yellow] {shown(line)}", soft_wrap=True)


def _show_two_parties(plan: TwoPartyPlan, figures: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    table.add_row(
        "model",
        f"{shown(plan.name)}, {several(plan.config.layers, 'layer')}, {plan.tokens} tokens, two parties",
    )
    for link, seconds in figures["seconds_per_input"].items():
        table.add_row(f"a text, {link}", duration(seconds))
    if figures["inputs"] > 1:
        table.add_row(several(figures["inputs"], "text"), duration(figures["wall_seconds"]))
    table.add_row(
        "sent, both directions",
        f"{size(figures['bytes_per_input'])} a text, {size(figures['setup_bytes'])} once",
    )
    table.add_row("correlated transfers", f"{figures['transfers_per_input']:,} a text")
    table.add_row("security", TWO_PARTIES)
    failure = figures["failure_log2"]
    table.add_row("wrong by chance", in_words(-math.inf if failure is None else failure))
    out.print(table)
