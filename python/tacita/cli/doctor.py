"""`tacita doctor` says whether a default run fits on this machine: processor, memory, disk, kernels, extras,
prices; `tacita device`, which devices OpenCL has and whether one computes what the processor does; and
`tacita --version`, which engine this is."""

from __future__ import annotations

import platform
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tacita.errors import InputError, ResourceError, TacitaError
from tacita.evaluate.keyring import server_bytes
from tacita.extras import how_to_install
from tacita.plans import engine as door
from tacita.resources import GB, available_memory, device_number, devices, processor, require_memory, threads
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
    return KERNELS.get(path := compiled.native.simd_path(), path), compiled.native.commit()


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
Preset = Annotated[str, typer.Option("--preset", help="Compare a bootstrap of it, too: n16 takes minutes.")]


def _opencl() -> str:
    """Describes OpenCL in one line; an engine or a driver that fails is no defect of a run on processors."""
    try:
        rows, reason = devices()
    except TacitaError as error:
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
def verify(device: Device = "opencl:0", preset: Preset = "", json: Json = None) -> None:
    """Run every kernel on a device and on the processor, and compare all residues bit for bit.

    The report is made to be posted: it names card, driver, release and kernels, and no secret. Exit status 2
    says that the device must not be used: a residue differs."""
    number = device_number(device, others=()) or 0
    rows, _ = devices()
    with door.translated(TacitaError, rows[number]["device"]), _ended_by_interrupts():
        bootstrap = _Bootstrap(preset, number, rows[number]) if preset else None
        compared = compiled.native.opencl_verify(number)
        compared += bootstrap.compare() if bootstrap else []
    checks: list[dict[str, Any]] = [dict(zip(COMPARED, each, strict=True)) for each in compared]
    kernels, commit = engine()
    here = {"release": __version__, "commit": commit, "kernels": kernels, "processor": processor().name}
    sums = {name: sum(each[name] for each in checks) for name in ("residues", "differ")}
    report = {**rows[number], **here, "system": platform.platform(), **sums, "checks": checks}
    report |= {"preset": preset, "seconds": bootstrap.seconds} if bootstrap else {}
    wrong = sorted({each["kernel"] for each in checks if each["differ"]})
    with reporting(json, report):
        hidden = ("checks", "seconds")
        show_rows({name: shown(str(value), 120) for name, value in report.items() if name not in hidden})
        table = Table("kernel", "flavour", "N", "residues", "differ", box=None)
        for each in checks:
            counts = (f"{each[name]:,}" for name in ("residues", "differ"))
            table.add_row(each["kernel"], each["flavour"], f"2^{each['log_n']}", *counts)
        out.print(table)
        say(f"do not use this device: {', '.join(wrong)}" if wrong else "every residue is the processor's")
    if wrong:
        raise typer.Exit(UNTRUSTED)


@contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """While it is entered, Ctrl-C ends the process at once: the engine is in one call for minutes, and no
    file is written."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Bootstrap:
    """A bootstrap of a preset on the processor and on a device; says what it takes before it begins, and of
    each step how long it took. Raises ResourceError where it does not fit."""

    def __init__(self, preset: str, number: int, device: dict[str, Any]) -> None:
        self._number, self.seconds, name = number, dict[str, float](), f"a bootstrap of {shown(preset)}"
        self._params = compiled.native.Parameters.preset(preset)
        if not self._params.can_bootstrap:
            raise InputError(f"--preset {preset} has no bootstrapping", hint="n16 has")
        here, there = compiled.native.OpenclBootstrap.memory(self._params)
        err.print(f"{name} takes {here / GB:.1f} GB here and {there / GB:.1f} GB of the device")
        require_memory(here if device["gpu"] else here + there, name)
        if there > device["memory"]:
            raise ResourceError(f"{name} does not fit on the device", hint="verify it without --preset")

    def compare(self) -> list[Any]:
        """Returns a comparison for each flavour of the device."""
        reference = self._timed("processor", lambda: compiled.native.OpenclBootstrap(self._params))
        first = self._timed("device", lambda: reference.compare(self._number, 0))
        second = self._timed("device, by its other kernels", lambda: reference.compare(self._number, 1))
        return [first, *([second] if second else [])]

    def _timed(self, step: str, work: Callable[[], Any]) -> Any:
        err.print(f"keys and a bootstrap: {step} ...")
        began, result = time.monotonic(), work()
        self.seconds[step] = time.monotonic() - began
        err.print(f"{step}: {self.seconds[step]:.0f} s")
        return result
