"""Runs a case, on loopback first and then over the links that were asked for, and makes its figures of what
both parties reported."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.runs.two_party.cases.case import Case, computed
from bench.runs.two_party.cost import Cost, Run
from bench.runs.two_party.party import ROLES, Report, Watch, run_pair
from bench.runs.two_party.session import LOOPBACK, Options, choices
from tacita import compiled
from tacita.errors import InputError
from tacita.resources import processor
from tacita.resources import threads as all_threads

YARDSTICK_LOG_N = 16
PARTS = ("before", "after", "together")
Figures = dict[str, Any]


def measure_case(
    case: Case,
    links: Sequence[str] = (LOOPBACK,),
    options: Options = Options(),
    watch: Watch = lambda *_: None,
) -> Figures:
    """The case's figures over the first link; under `measured_seconds` the wall seconds over each of the
    others.

    Raises InputError for a case that cannot run here, TacitaError with the words of a party that fails.
    """
    # a shipped model's name is no path
    model, data = (
        path and (path.absolute() if path.exists() else path) for path in (options.model, options.data)
    )
    options = replace(options, model=model, data=data)
    list(map(choices, links))  # refuses what is no link
    if missing := case.available(options):
        raise InputError(f"bench: {case.name}: {missing}")
    figures, *others = (_once(case, replace(options, link=link), watch) for link in links)
    for link, found in zip(links[1:], others, strict=True):
        for part in ((figures, found), *((figures[name], found[name]) for name in PARTS if name in found)):
            part[0][f"{link}_measured_seconds"] = part[1]["wall_seconds"]
    return figures


def _once(case: Case, options: Options, watch: Watch) -> Figures:
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        options = replace(options, folder=folder)
        case.share(options)
        reports = run_pair(case, options, watch)
        client, server = (reports[role].result for role in ROLES)
        judged = case.judge(client, server, options)
    figures = case_figures(reports, judged, options.link)
    return figures | dict(case.finish(figures, client))


def summary(options: Options) -> Figures:
    """The machine, threads of a party, transport, yardstick Y in ms."""
    native = compiled.native
    return {
        "machine": processor().name,
        "cores": all_threads(),
        "threads": options.threads,
        "simd": native.simd_path(),
        "transport": "TLS 1.3" if options.tls else "TCP",
        "yardstick_ms": native.yardstick_ms(YARDSTICK_LOG_N, 50),
    }


def case_figures(reports: Mapping[str, Report], judged: Mapping[str, Any], link: str) -> Figures:
    """The JSON of one case. wall_seconds: of the slower party; megabytes: what both sent, framing included.

    wall_seconds, cpu_seconds, megabytes and rounds contain the correlated transfers that the run used, at the
    average price of those made; `as_measured` has the run as it happened, `without_cots` neither (see
    cost.py).
    """
    runs, both = {role: reports[role].run for role in ROLES}, [reports[role] for role in ROLES]
    figures = _combined({role: run.amortised for role, run in runs.items()})
    return {
        "link": link,
        **figures,
        **judged,
        "peak_rss_gb": [report.peak_gb for report in both],
        "setup_seconds": max(report.seconds for report in both),
        "setup_cpu_seconds": [report.cpu_seconds for report in both],
        "setup_megabytes": sum(report.reading.sent for report in both) / 1e6,
        "as_measured": _combined({role: run.whole for role, run in runs.items()}),
        "without_cots": _combined({role: run.bare for role, run in runs.items()}),
        "cots": _cots(runs),
        **computed(figures, link),
        **_parts(reports, link),
        "operations": operation_rows(runs),
        **reports["client"].extra,
    }


def _parts(reports: Mapping[str, Report], link: str) -> Figures:
    """What was prepared before a text and what followed it, as a run's figures, and their sum."""
    if not (names := [*reports["client"].parts]):
        return {}
    runs = [{role: reports[role].parts[name].amortised for role in ROLES} for name in names]
    runs.append({role: sum((run[role] for run in runs), Cost()) for role in ROLES})
    parts = dict(zip(PARTS, map(_combined, runs), strict=True))
    return {name: part | computed(part, link) for name, part in parts.items()}


def operation_rows(runs: Mapping[str, Run]) -> list[Figures]:
    """Calls, seconds, bytes and rounds by operation, in the client's view; server_cpu_seconds beside its own.
    Largest first."""
    rows = []
    for path, cost in runs["client"].operations.items():
        other = runs["server"].operations.get(path, Cost())
        rows.append(
            {
                "operation": path,
                "calls": round(cost.calls),
                "seconds": cost.wall,
                "client_cpu_seconds": cost.cpu,
                "server_cpu_seconds": other.cpu,
                "sent": round(cost.sent),
                "received": round(cost.received),
                "rounds": round(cost.rounds),
            }
        )
    return sorted(rows, key=lambda row: -float(str(row["seconds"])))


def sums_by_name(rows: Sequence[Figures]) -> list[Figures]:
    """The rows of `operation_rows` added up by the last part of their path; what runs inside one of its own
    name is in that one. Most bytes first."""
    found: dict[str, Figures] = {}
    for row in rows:
        *outer, name = row["operation"].split("/")
        if name not in outer:
            others = found.get(name, dict.fromkeys(row, 0))
            found[name] = {key: name if key == "operation" else others[key] + row[key] for key in row}
    return sorted(found.values(), key=lambda row: -float(row["sent"] + row["received"]))


def _combined(costs: Mapping[str, Cost]) -> Figures:
    parties = [costs[role] for role in ROLES]
    return {
        "wall_seconds": max(cost.wall for cost in parties),
        "cpu_seconds": [cost.cpu for cost in parties],
        "megabytes": sum(cost.sent for cost in parties) / 1e6,
        "rounds": max(math.ceil(round(cost.rounds, 6)) for cost in parties),
    }


def _cots(runs: Mapping[str, Run]) -> Figures:
    one = {role: run.per_cot for role, run in runs.items()}
    return {
        "used": runs["client"].used,
        "made_in_run": runs["client"].refill,
        "made_in_session": runs["client"].made,
        "bytes_per_cot": sum(cost.sent for cost in one.values()),
        "cpu_seconds_per_million": [1e6 * one[role].cpu for role in ROLES],
    }
