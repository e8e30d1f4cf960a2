"""`tacita estimate` shows time, memory, bytes, error and security of a plan, stage by stage, without running
it; `tacita prices` measures what operations cost on this machine. How other commands make plans, too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from tacita import api
from tacita.api import Choice, Objective, PlanRequest
from tacita.checkpoint import Checkpoint
from tacita.cli.console import duration, progress, reporting, say, several, show_rows, shown, size, writable
from tacita.cli.options import Json, Without, load_model, option, plan_request, taking
from tacita.cli.plot import bars
from tacita.cli.report import TWO_PARTIES, security_line
from tacita.cli.service.port import expectation
from tacita.errors import PlanError
from tacita.evaluate.session import MEMORY_GB
from tacita.planning.calibrate.excesses import FAR, FEW
from tacita.plans import engine as door
from tacita.plans.error import FOLDS, HELD_OUT, NOT_ESTIMATED, Population
from tacita.plans.files import write_text
from tacita.plans.plan import Plan
from tacita.plans.presets import can_bootstrap
from tacita.plans.prices.cost import Prices
from tacita.plans.prices.formulas import prices_of
from tacita.plans.scheme import AUTO, BUMBLEBEE
from tacita.resources import threads
from tacita.schemes.base import AnyPlan, load
from tacita.schemes.choose import UNWEIGHED, Option
from tacita.schemes.ciphertexts import KEY_SWITCHES, parameters, stage_estimates
from tacita.schemes.measure import measure_prices
from tacita.schemes.prices import describe_prices, keep, measured_prices, prices_here
from tacita.schemes.registry import scheme_of
from tacita.settings import Settings
from tacita.texts.task import NEXT, SEARCH
from tacita.two_party.plan.correlations import in_words
from tacita.two_party.plan.plan import TwoPartyPlan

LINE = (
    *("model", "pooling", "documents", "scheme", "packing", "inputs", "objective"),
    *("tokens", "preset", "functions", "texts", "begin", "reveal", "link"),
)  # what a command that plans has on its line, and FILE what a file gives it
FILE = ("prices", "gap", "nearest", "titles", "cache")
VECTOR = 16  # bytes for each number of a document at a server of two parties: a float and an integer
CONNECTED = "needs a connection: `tacita serve` answers, `tacita classify --connect HOST:PORT` asks"
PlanFile = Annotated[Path | None, option("--plan", help="An existing plan; without it one is made.")]
PLANNED = Without(
    {*LINE} - {"inputs", "link"}, lambda _, others: others["plan"], "with --plan: that plan is as it is"
)


Plot = Annotated[Path | None, option("--plot", help="Draw the figures there, as SVG.", callback=writable)]


@taking({"plan": LINE, "run": ("memory",)}, {"plan": FILE}, PLANNED)
def estimate(settings: Settings, plan: PlanFile = None, plot: Plot = None, json: Json = None) -> None:
    """Say what a run would cost."""
    request, memory = plan_request(settings.plan), settings.run.memory
    priced = load(plan) if plan is not None else planned(load_model(settings.plan), request)
    figures = api.estimate(priced, request.inputs, link=request.link, memory=memory)
    with reporting(json, figures):
        if isinstance(priced, Plan):
            show_stages(priced, memory)
        show_estimate(priced, figures)
        tell_connection(priced)
    if plot is not None:
        write_text(plot, cost_chart(priced, figures["seconds_per_input"]))
        say(f"drawn: {shown(str(plot))}")


def cost_chart(plan: AnyPlan, links: Mapping[str, float]) -> str:
    """Draws seconds by stage and kind; of two parties seconds by connection.

    Bootstraps are priced by their number, key switches at the highest level of their stage; the rest of a
    stage's seconds are products, additions and rescaling.
    """
    if not isinstance(plan, Plan):
        rows = [(link, {"a text": seconds}) for link, seconds in links.items()]
        return bars(f"Seconds of a text, {plan.name}", rows, "s", "One bar a connection.")
    prices, rows = prices_of(plan.parameters), []
    for stage, seconds in zip(plan.stages, plan.prediction.stage_seconds, strict=True):
        level = max(stage.levels.values(), default=0)
        switches = sum(stage.counts.get(op, 0) * prices.seconds(op, level) for op in KEY_SWITCHES)
        refreshed = min(seconds, prices.bootstrap_seconds(stage.kinds))
        parts = {"bootstraps": refreshed, "key switches": min(switches, seconds - refreshed)}
        rows.append((stage.name, {**parts, "products and the rest": seconds - sum(parts.values())}))
    total = sum(plan.prediction.stage_seconds)
    words = f"{len(rows)} stages, {total:.1f} seconds in all, {plan.bootstraps} bootstraps."
    return bars(f"Seconds by stage, {plan.name}, {plan.scheme}", rows, "s", words)


def show_stages(plan: Plan, memory: float = MEMORY_GB) -> None:
    """Shows one line per stage, wide enough for its name."""
    width = max(len(shown(stage.name)) for stage in plan.stages)
    head = (
        f"{'seconds':>9} {'a text':>9} {'bootstraps':>10} {'switches':>8} {'products':>8} {'memory':>9} "
        f"{'spill':>9}"
    )
    say(f"{'stage':<{width}} {head}")
    for s in stage_estimates(plan, memory):
        counts = f"{s.bootstraps or '':>10} {s.key_switches or '':>8} {s.products or '':>8}"
        places = f"{size(s.bytes):>9} {size(s.spill_bytes) if s.spill_bytes else '':>9}"
        line = f"{shown(s.name):<{width}} {s.seconds:>9.2f} {s.seconds_per_input:>9.4f} {counts} {places}"
        say(line.rstrip())


def show_estimate(plan: AnyPlan, figures: Mapping[str, Any]) -> None:
    """Shows the estimate of a whole run as a table. figures: of `api.estimate`."""
    if isinstance(plan, Plan):
        _show_ciphertexts(plan, figures)
    else:
        _show_two_parties(plan, figures)


def _show_ciphertexts(plan: Plan, figures: Mapping[str, Any]) -> None:
    p, memory = plan.prediction, figures["memory_limit_gb"]
    request = f"{several(plan.batch, 'text')} of up to {plan.tokens} tokens a request"
    rows = {
        "machine": f"{shown(p.machine)}, {p.threads} threads",
        "scheme": f"{plan.scheme} in {plan.packing}, {request}",
        **{step: duration(p.seconds[step]) for step in ("keygen", "evaluate")},
    }
    if "touch" in p.seconds:
        rows["new memory, first request"] = duration(figures["touch_seconds"])
        rows["to disk and back, a request"] = duration(figures["spill_seconds"])
    counts = f"{several(figures['inputs'], 'text')} in {several(figures['requests'], 'request')}"
    wall, disk = duration(figures["wall_seconds"]), f"{figures['spill_gb']:.2f} GB at most"
    show_rows(
        {
            **rows,
            "all texts": f"{wall}: {counts}, {figures['seconds_per_input']:.2f} s a text",
            **{shown(name.replace("_", " ")): size(count) for name, count in figures["bytes"].items()},
            "disk for spilled ciphertexts": f"{disk}, within {memory:g} GB of memory",
            "rotation keys": str(len(plan.rotations)),
            "bootstraps": str(plan.bootstraps),
            "error of the logits": f"{p.error}, shown in steps of {plan.logit_step:g}",
            "security": security_line(parameters(plan)),
        }
    )
    for line in figures["too_large"]:
        say(f"[yellow]warning:[/yellow] {shown(line)}")


def _show_two_parties(plan: TwoPartyPlan, figures: Mapping[str, Any]) -> None:
    layers = several(plan.config.layers, "layer")
    rows = {"model": f"{shown(plan.name)}, {layers}, {plan.tokens} tokens, two parties"}
    text = f"a prompt of {plan.tokens} tokens" if plan.task == NEXT else "a text"
    rows |= {f"{text}, {link}": duration(each) for link, each in figures["seconds_per_input"].items()}
    for link, before in figures["before_seconds"].items():
        after = figures["after_seconds"][link]
        words = f"{duration(before)} before the text, {duration(after)} after it"
        rows[f"prepared, {link}"] = f"{words}, {duration(before + after)} together"
    if figures["inputs"] > 1:
        rows[several(figures["inputs"], "text")] = duration(figures["wall_seconds"])
    if plan.problem == SEARCH:
        count, nearest = len(plan.labels), plan.nearest or "all"
        rows["documents"] = f"{count:,}, {nearest} told; {size(VECTOR * count * plan.hidden)} at the server"
    if plan.task == NEXT:
        rows["a text that is written"] = expectation(plan.program, plan.pace)
    failure, once = figures["failure_log2"], (size(figures[f"{name}_bytes"]) for name in ("setup", "public"))
    words = "{} once a session, up to {} once a client".format(*once)
    rows["sent, both directions"] = f"{size(figures['bytes_per_input'])} {text}, {words}"
    before, after = size(figures["before_bytes"]), size(figures["after_bytes"])
    rows["the same, prepared"] = f"{before} before the text, {after} after it"
    rows["correlated transfers"] = f"{figures['transfers_per_input']:,} a text"
    rows["security"] = TWO_PARTIES
    rows["wrong by chance"] = in_words(-math.inf if failure is None else failure)
    show_rows(rows)


# The machine's own prices, in a minute. From then on plans and estimates use them.

LEVEL = 9  # 12 limbs, as in the engine's figures


@taking({"plan": ("preset",), "run": ("allow_insecure",)})
def prices(settings: Settings, json: Json = None) -> None:
    """Measure what operations cost here; plan, estimate and scheme auto use it from then on. A minute, 5 GB.

    Kept in the user's cache, for this processor, thread count and release. Anything else that runs beside it
    makes prices too high.
    """
    preset, allow_insecure = settings.plan.preset, settings.run.allow_insecure
    info = door.describe(preset)
    door.require_secure(info, allow_insecure=allow_insecure)
    if not can_bootstrap(info):
        raise PlanError(f"prices: {preset} has no bootstrapping", hint="formulas price its operations")
    with progress("prices") as report:
        table = measure_prices(preset, allow_insecure=allow_insecure, progress=report)
    path = keep(table)
    with reporting(json, table):
        measured = measured_prices(info.log_n)
        assert measured is not None  # just written
        _show_prices(measured, table)
        say(f"{describe_prices(measured)}, kept in {shown(str(path))}")


def _show_prices(prices: Prices, table: dict[str, Any]) -> None:
    rows = {
        "machine": f"{shown(prices.machine)}, {prices.threads} threads",
        "yardstick": f"{prices.yardstick_ms:.3f} ms",
    }
    for name, op in (("rotate", "rotate"), ("product", "mul"), ("rescale", "rescale")):
        rows[f"{name} at 12 limbs"] = f"{1e3 * prices.seconds(op, LEVEL):.2f} ms"
    for kind in ("complex", "real"):
        alone, each = (prices.bootstrap_ms[kind][how] / 1e3 for how in ("alone", "each"))
        rows[f"bootstrap, {kind}"] = f"{alone:.2f} s alone, {each:.2f} s of several"
    rows["first touch of memory"] = f"{table['touch_seconds_per_gb']:.2f} s a GB"
    rows["ciphertexts to disk and back"] = f"{table['spill_seconds_per_gb']:.2f} s a GB"
    rows["two parties"] = f"{prices.pace:.2f} s for one of their estimate"
    show_rows(rows)


# Plans with a progress bar, and one line that says why this scheme was chosen.


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


def planned_to_publish(model: Checkpoint, request: PlanRequest) -> Plan:
    """Makes a plan as `planned`. Raises InputError for one of two parties, where that is asked for before it
    is made."""
    if request.scheme == BUMBLEBEE:
        raise api.unpublished(BUMBLEBEE)
    plan = planned(model, request)
    if not isinstance(plan, Plan):
        raise api.unpublished(plan.scheme)
    return plan


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


def tell_population(plan: AnyPlan) -> None:
    """Says how many texts are outside the intervals, and what they do to others in the same request."""
    for line in _population(plan) if isinstance(plan, Plan) else ():
        say(line)


def _population(plan: Plan) -> Iterator[str]:
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
    tails = "with the tails of the others " if population.method == HELD_OUT else "which "
    texts = f"{population.far} texts did, {tails}makes {rates} of full requests"
    return f"requests of {plan.batch} texts: {where}; {texts}"


def _rates(expected: float, bound: float) -> str:
    return f"{100 * expected:.2g} %, at most {100 * bound:.2g} % (95 % confidence),"
