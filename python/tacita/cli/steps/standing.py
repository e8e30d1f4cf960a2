"""Both ends of `tacita evaluate` with a server that stays: `--listen` and `--connect`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacita.api import Server
from tacita.cli.console import MESSAGE, duration, err, out, progress, shown, size
from tacita.cli.steps.step import StageTimes, figures_of, forecast_text, step
from tacita.errors import PeerError, TacitaError
from tacita.evaluate.desk import TOLD_BYTES, VERSION, Desk, Lines, connect, listening
from tacita.evaluate.standing import Standing
from tacita.plans.files import Workdir, require
from tacita.progress import Progress
from tacita.resources import peak_memory_gb


def stay(standing: Standing, at: Path, waiting: int) -> None:
    """Answers requests until Ctrl-C. Keys that are in the root already are read first."""
    folder = Workdir(standing.root)
    with _terminable(), listening(at) as listener:
        server = standing.server(standing.root)
        out.print(f"evaluate: {forecast_text(*server.forecast())}", soft_wrap=True)
        if folder.evaluation_keys.is_file():
            server.load_keys()
        out.print(f"evaluate: listens at {shown(str(at))} for folders in {shown(str(standing.root))}")
        Desk(standing, waiting=waiting, figures=_figures, told=_note).serve(listener)


def ask(at: Path, work: Workdir, json: Path | None) -> None:
    """Has the folder's request answered by the server at the socket. Raises what that server refuses it
    with."""
    with step("evaluate", json) as timed, progress("evaluate") as report:
        require(work.request, "encrypt")
        lines, stages = connect(at), StageTimes(report)
        try:
            lines.send({"tacita": VERSION, "evaluate": str(work.path.resolve())})
            timed.fields |= _followed(lines, stages) | {"stage_seconds": stages.seconds()}
        finally:
            lines.close()
        written = require(work.response, "evaluate").stat().st_size
    out.print(
        f"evaluate: {shown(str(work.response))} ({size(written)}) in {duration(timed.seconds)}",
        soft_wrap=True,
    )


def _followed(lines: Lines, stages: StageTimes) -> dict[str, Any]:
    """Shows how the request goes; the figures at its end."""
    while True:
        told = lines.receive(TOLD_BYTES)
        match told:
            case {"waiting": int(count)}:
                if count:
                    err.print(f"evaluate: {count} before this one")
            case {"progress": dict(now)}:
                stages(_progress(now))
            case {"notice": str(text)}:
                err.print(f"evaluate: {shown(text, MESSAGE)}", soft_wrap=True)
            case {"done": dict(figures)}:
                return figures
            case {"error": str(text), "hint": str(hint)}:
                raise TacitaError(text, hint=hint)
            case _:
                raise PeerError("the server says what this program does not know", hint="use one release")


def _progress(now: dict[str, Any]) -> Progress:
    try:
        index, total, seconds, left = (now[name] for name in ("index", "total", "seconds", "left"))
        return Progress(str(now["stage"]), int(index), int(total), float(seconds), float(left))
    except (KeyError, TypeError, ValueError) as error:
        raise PeerError(
            f"the server reports no progress that this program knows ({error})", hint=""
        ) from error


def _figures(server: Server, seconds: float) -> dict[str, Any]:
    return figures_of(server) | {"server_seconds": seconds, "peak_rss_gb": peak_memory_gb()}


def _note(folder: str, ending: str, seconds: float) -> None:
    """A line for each request."""
    out.print(f"{shown(folder)}: {shown(ending, MESSAGE)}, {duration(seconds)}", soft_wrap=True)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, by which services are stopped, does what Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
