"""Runs cases: on loopback first, then over the links that were asked for, and what the machine is."""

from __future__ import annotations

import importlib
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from bench.runs.two_party.cases.case import Case, Options
from bench.runs.two_party.child import Order
from bench.runs.two_party.links import LINKS, LOOPBACK, Link
from bench.runs.two_party.pair import ROLES, Watch, run_pair
from bench.runs.two_party.report import Figures, case_figures
from tacita import compiled
from tacita.errors import InputError
from tacita.resources import threads as all_threads

WORLD = "bench.runs.two_party.cases.catalogue"
YARDSTICK_LOG_N = 16


@dataclass(frozen=True)
class Settings(Options):
    """How cases run. world: where cases and connections come from."""

    tls: bool = True
    world: str = WORLD


def cases(settings: Settings | None = None) -> Mapping[str, Case]:
    """All cases by name."""
    found: Mapping[str, Case] = importlib.import_module((settings or Settings()).world).CASES
    return found


def measure_case(
    name: str,
    links: Sequence[Link] = (LOOPBACK,),
    settings: Settings | None = None,
    watch: Watch = lambda *_: None,
) -> Figures:
    """The case's figures over the first link; under `measured_seconds` the wall seconds over each of the
    others.

    Raises InputError for an unknown case or one that cannot run here, TacitaError with the words of a party
    that fails.
    """
    how = settings or Settings()
    case = _known(name, how)
    figures = _once(case, links[0], how, watch)
    others = {link.name: _once(case, link, how, watch) for link in links[1:]}
    for link, found in others.items():
        figures[f"{link}_measured_seconds"] = found["wall_seconds"]
    return figures


def summary(settings: Settings | None = None) -> Figures:
    """The machine, threads of a party, transport, yardstick Y in ms."""
    how = settings or Settings()
    native = compiled.native
    return {
        "machine": processor(),
        "cores": all_threads(),
        "threads": how.threads,
        "simd": native.simd_path(),
        "transport": "TLS 1.3" if how.tls else "TCP",
        "yardstick_ms": native.yardstick_ms(YARDSTICK_LOG_N, 50),
    }


def processor() -> str:
    """What the system calls this processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _known(name: str, how: Settings) -> Case:
    all_cases = cases(how)
    if name not in all_cases:
        raise InputError(f"bench: no case {name}", hint="one of " + ", ".join(all_cases))
    if missing := all_cases[name].available(_order(name, "client", LOOPBACK, how, "").options):
        raise InputError(f"bench: {name}: {missing}")
    return all_cases[name]


def _once(case: Case, link: Link, how: Settings, watch: Watch) -> Figures:
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        orders = {role: _order(case.name, role, link, how, folder) for role in ROLES}
        options = orders["client"].options
        case.share(options)
        reports = run_pair(orders, watch)
        client, server = (np.load(Path(folder) / f"{role}.npy") for role in ROLES)
        judged = case.judge(client, server, options)
    figures = case_figures(reports, judged, LINKS[link.name])
    return figures | dict(case.finish(figures, client))


def _order(name: str, role: str, link: Link, how: Settings, folder: str) -> Order:
    # a shipped model's name is no path
    model, data = (path and (path.absolute() if path.exists() else path) for path in (how.model, how.data))
    given = {each.name: getattr(how, each.name) for each in fields(Options)}
    options = Options(**given | {"model": model, "data": data, "folder": folder})
    return Order(how.world, name, role, link.name, how.tls, options)
