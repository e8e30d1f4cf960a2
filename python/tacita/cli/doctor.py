"""`tacita doctor` says whether a default run fits on this machine: processor, memory, disk, kernels, extras,
prices; `tacita device`, which devices OpenCL has and whether one computes what the processor does; and
`tacita --version`, which engine this is."""

from __future__ import annotations

import platform
import shutil
import tempfile
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

from tacita import api, compiled
from tacita.cli.console import (
    INCOMPLETE,
    UNTRUSTED,
    err,
    out,
    progress,
    reporting,
    say,
    show_rows,
    shown,
)
from tacita.cli.options import Json
from tacita.errors import TacitaError
from tacita.evaluate.keyring import server_bytes
from tacita.extras import how_to_install
from tacita.plans import engine as door
from tacita.resources import GB, available_memory, device_number, devices, processor, threads
from tacita.schemes.prices import describe_prices, prices_here
from tacita.version import __version__

# names of `simd_path`, and what brings an extra's first package
KERNELS = {"scalar": "portable", "neon": "NEON", "avx2": "AVX2", "avx512": "AVX-512"}
KERNELS["avx512ifma"] = "AVX-512 IFMA"
EXTRAS = {"client": "httpx2", "service": "fastapi", "ray": "ray", "gguf": "gguf", "images": "PIL"}


class Check(NamedTuple):
    """A line of the table. missing: what a default run lacks, empty where it has it."""

    value: str
    missing: str = ""


def engine() -> tuple[str, str]:
    """Returns the kernels that run and the commit that was built, empty where nobody knows. Raises
    TacitaError without an engine."""
    commit = getattr(compiled.native, "commit", str)  # an engine of before says none
    return KERNELS.get(path := compiled.native.simd_path(), path), commit()


def version() -> str:
    """Returns the line of `tacita --version`."""
    try:
        kernels, commit = engine()
    except TacitaError:
        return f"tacita {__version__} (no engine)"
    return f"tacita {__version__} ({f'commit {commit}, ' if commit else ''}{kernels} kernels)"


def doctor(json: Json = None) -> None:
    """Show whether this machine can run `tacita classify` by its defaults; exit status 1 says it cannot.

    Plans that run, for what it takes of memory and disk."""
    checks = {"release": Check(version()), "processor": Check(f"{processor().name}, {threads()} cores")}
    checks |= _engine() | _space()
    for name, module in EXTRAS.items():  # of which a default run needs none
        checks[f"extra {name}"] = Check("installed" if find_spec(module) else how_to_install(name))
    prices = prices_here("n16")
    checks["prices"] = Check(describe_prices(prices).removeprefix("prices: ") if prices else "formulas")
    checks["OpenCL"] = Check(_opencl())
    missing = [f"{name}: {check.missing}" for name, check in checks.items() if check.missing]
    report: dict[str, Any] = {"fits": not missing, "missing": missing}
    report["checks"] = {name: check._asdict() for name, check in checks.items()}
    with reporting(json, report):
        for name, check in checks.items():
            mark = "[red]no[/red]" if check.missing else "ok"
            out.print(f"{mark:2} {name:14} {shown(check.value, 400)}", soft_wrap=True)
    for each in missing:
        err.print(f"[red]missing:[/red] {shown(each)}", soft_wrap=True)
    if missing:
        raise typer.Exit(INCOMPLETE)


def _engine() -> dict[str, Check]:
    try:
        return {"kernels": Check(engine()[0])}
    except TacitaError as error:
        return {"kernels": Check("none", f"{error} ({error.hint})")}


def _space() -> dict[str, Check]:
    """Compares memory and disk with what the default plan takes."""
    with progress("plan") as report:
        plan = api.plan(api.DEFAULT_MODEL, scheme="thor", quick=True, progress=report)
    disk = sum(plan.prediction.bytes[name] for name in ("evaluation_keys", "request", "response"))
    folder = tempfile.gettempdir()
    free, room = available_memory(), shutil.disk_usage(folder).free
    return {
        "memory": _fits(server_bytes(plan), free, "available"),
        "disk": _fits(disk, room, f"free in {folder}"),
    }


def _fits(need: int, have: int | None, where: str) -> Check:
    if have is None:
        return Check(f"{need / GB:.1f} GB needed; the system does not say what is {where}")
    value = f"{need / GB:.1f} GB needed, {have / GB:.1f} GB {where}"
    return Check(value, "" if need <= have else value)


# Devices of OpenCL.

device_app = typer.Typer(help="List the devices of OpenCL, or verify one.", no_args_is_help=True)
COMPARED = ("kernel", "flavour", "log_n", "residues", "differ")
Device = Annotated[str, typer.Option("--device", help="As `tacita device list` names it.")]


def _opencl() -> str:
    """Describes OpenCL in one line; an engine or a driver that fails is no defect of a run on processors."""
    try:
        rows, reason = devices()
    except (TacitaError, AttributeError) as error:  # an engine of before has no devices
        rows, reason = [], str(error)
    names = ", ".join(f"{each['device']} {each['name']}" for each in rows)
    return names or reason.partition(";")[0]


@device_app.command("list")
def list_devices(json: Json = None) -> None:
    """List the devices of OpenCL: maker, driver, memory, largest buffer, doubles."""
    rows, reason = devices()
    with reporting(json, {"devices": rows, "reason": reason}):
        for each in rows:
            words = ", ".join(shown(each[field], 80) for field in ("device", "name", "maker", "driver"))
            doubles = "doubles" if each["fp64"] else "no doubles: computes with integers"
            say(f"{words}, {each['memory'] / GB:.1f} GB, {each['buffer'] / GB:.1f} GB a buffer, {doubles}")
        if not rows:
            say(f"{shown(reason, 400)}; the processor computes")


@device_app.command()
def verify(device: Device = "opencl:0", json: Json = None) -> None:
    """Run every kernel on a device and on the processor, and compare all residues bit for bit.

    The report is made to be posted: it names card, driver, release and kernels, and no secret. Exit status 2
    says that the device must not be used: a residue differs."""
    number = device_number(device, others=()) or 0
    rows, _ = devices()
    with door.translated(TacitaError, rows[number]["device"]):
        compared = compiled.native.opencl_verify(number)
    checks: list[dict[str, Any]] = [dict(zip(COMPARED, each, strict=True)) for each in compared]
    kernels, commit = engine()
    here = {"release": __version__, "commit": commit, "kernels": kernels, "processor": processor().name}
    sums = {name: sum(each[name] for each in checks) for name in ("residues", "differ")}
    report = {**rows[number], **here, "system": platform.platform(), **sums, "checks": checks}
    wrong = sorted({each["kernel"] for each in checks if each["differ"]})
    with reporting(json, report):
        show_rows({name: shown(str(value), 120) for name, value in report.items() if name != "checks"})
        table = Table("kernel", "flavour", "N", "residues", "differ", box=None)
        for each in checks:
            counts = (f"{each[name]:,}" for name in ("residues", "differ"))
            table.add_row(each["kernel"], each["flavour"], f"2^{each['log_n']}", *counts)
        out.print(table)
        say(f"do not use this device: {', '.join(wrong)}" if wrong else "every residue is the processor's")
    if wrong:
        raise typer.Exit(UNTRUSTED)
