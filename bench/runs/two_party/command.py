"""`python -m bench two-party`: each case run by two processes over a link of this machine, one core a
party."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.runs.two_party import LINKS, measure_case, summary
from bench.runs.two_party.bench import Settings, cases
from tacita.cli.console import err, out, progress, reporting, shown, write_report
from tacita.cli.options import Json
from tacita.errors import InputError
from tacita.progress import Progress

ROLES = ("client", "server")
STEPS = ("set-up", "warm-up", "run")
WIDTH = 100  # columns that a table needs at least, also where the output is no terminal
DEPTH = 2  # operations inside operations that --profile shows; the JSON has all


class LinkName(StrEnum):
    """Links that can be had."""

    loopback = "loopback"
    lan = "lan"
    wan = "wan"


Cases = Annotated[
    list[str] | None,
    typer.Option("--case", help="A case; may be given several times (default: all).", show_default=False),
]
Links = Annotated[
    list[LinkName] | None,
    typer.Option(
        "--link",
        help="loopback, lan (1 Gbit/s, 0.5 ms) or wan (400 Mbit/s, 4 ms); several: each is run (default: "
        "loopback).",
        show_default=False,
    ),
]
Tls = Annotated[bool, typer.Option("--tls/--plain", help="TLS 1.3, or bare TCP.")]
ModelFolder = Annotated[
    Path | None, typer.Option("--model", help="Folder of MiniLM-L6 for the case minilm.", show_default=False)
]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="SST-2's validation.tsv for the case accuracy.", show_default=False),
]
Sentences = Annotated[
    int,
    typer.Option("--sentences", help="Of the case accuracy, by the protocol itself; 0: all of them.", min=0),
]
Threads = Annotated[
    int, typer.Option("--threads", help="Threads of each party; one is pinned to a core.", min=1)
]
Profile = Annotated[bool, typer.Option("--profile", help="Also show what every operation took.")]


def two_party(
    case: Cases = None,
    json: Json = None,
    link: Links = None,
    tls: Tls = True,
    model: ModelFolder = None,
    data: Data = None,
    sentences: Sentences = 8,
    threads: Threads = 1,
    profile: Profile = False,
) -> None:
    """Measure the two-party mode: time, CPU seconds, traffic, rounds, error and memory of both parties, case
    by case.

    Without --case, cases that cannot run here (no model folder) are left out with a line that says why, and
    the largest shapes are.
    """
    how = Settings(tls=tls, threads=threads, model=model, data=data, sentences=sentences or None)
    links = [LINKS[name.value] for name in link or [LinkName.loopback]]
    report = summary(how) | {"link": links[0].name, "cases": {}}
    skipped: dict[str, str] = {}
    names = case or [name for name, one in cases(how).items() if not one.named]
    for name in names:
        try:
            with progress(name) as show:
                report["cases"][name] = measure_case(name, links, how, steps_shown(show))
        except InputError as missing:
            if case:
                raise
            skipped[name] = str(missing)
            err.print(f"left out: {shown(str(missing))}", soft_wrap=True)
        else:
            write_report(json, report | {"left_out": skipped})
    with reporting(json, report | {"left_out": skipped} | _alone(report["cases"], names)):
        _show(report)
        if profile:
            for name, figures in report["cases"].items():
                show_operations(name, figures["operations"])


def _alone(found: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The figures of a single case are at the top of the report as well."""
    return dict(found[names[0]]) if len(names) == 1 else {}


def steps_shown(show: Callable[[Progress], None]) -> Callable[[str, str, float], None]:
    """Draws the client's steps."""
    began = time.monotonic()

    def watch(role: str, stage: str, done: float) -> None:
        if role != "client":
            return
        spent = time.monotonic() - began
        left = spent * (1.0 - done) / done if done > 0 else 0.0
        show(
            Progress(stage, STEPS.index(stage) if stage in STEPS else len(STEPS) - 1, len(STEPS), spent, left)
        )

    return watch


def _show(report: dict[str, Any]) -> None:
    shown_machine(report)
    columns = ("case", "s", "CPU s", "MB", "rounds", "error", "GB", "LAN s", "WAN s")
    table = Table(*columns, box=None, pad_edge=False)
    for name, f in report["cases"].items():
        table.add_row(
            name,
            f"{f['wall_seconds']:.2f}",
            "{:.2f}/{:.2f}".format(*f["cpu_seconds"]),
            f"{f['megabytes']:.2f}",
            str(f["rounds"]),
            f"{f['max_abs_error']:.1e}",
            "{:.2f}/{:.2f}".format(*f["peak_rss_gb"]),
            _linked(f, "lan"),
            _linked(f, "wan"),
        )
    _wide(table)
    out.print("CPU s and GB: client/server. LAN s and WAN s: by bytes and rounds/measured.", soft_wrap=True)


def shown_machine(report: dict[str, Any]) -> None:
    """Processor, threads, transport and yardstick."""
    out.print(
        f"{report['machine']}, {report['threads']} thread(s) a party, {report['transport']}, Y = "
        f"{report['yardstick_ms']:.2f} ms",
        soft_wrap=True,
    )


def _wide(table: Table) -> None:
    Console(highlight=False, width=max(out.width, WIDTH)).print(table)


def _linked(figures: dict[str, Any], link: str) -> str:
    """Computed / measured."""
    if figures["link"] == link:
        return f"-/{figures['wall_seconds']:.1f}"
    computed, measured = figures.get(f"{link}_seconds"), figures.get(f"{link}_measured_seconds")
    return "/".join("-" if seconds is None else f"{seconds:.1f}" for seconds in (computed, measured))


def show_operations(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """A table of them, with their seconds, bytes and rounds."""
    out.print(f"{name}, by operation (those inside others are in both):", soft_wrap=True)
    columns = ("operation", "calls", "s", "CPU s", "sent MB", "received MB", "rounds")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        if row["operation"].count("/") >= DEPTH:
            continue
        table.add_row(
            row["operation"],
            str(row["calls"]),
            f"{row['seconds']:.3f}",
            f"{row['client_cpu_seconds']:.3f}/{row['server_cpu_seconds']:.3f}",
            f"{row['sent'] / 1e6:.3f}",
            f"{row['received'] / 1e6:.3f}",
            str(row["rounds"]),
        )
    _wide(table)
