"""Commands whose programs run under another Python, with packages that are no dependencies of the project."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated

from bench.options import ROOT, Output, PeerPython
from tacita.cli.options import option
from tacita.errors import TacitaError


def family_vectors(
    python: PeerPython,
    output: Output,
    only: Annotated[str, option("--only", help="Cases whose name begins with this.")] = "",
) -> None:
    """Write tiny random models of every family with their answers, by transformers and torch in that
    environment."""
    _run(python, ROOT / "bench" / "models" / "family_vectors.py", "--output", str(output), "--only", only)


def lattice(
    python: PeerPython,
    estimator: Annotated[Path, option("--estimator", help="Checkout of the lattice estimator.")],
    row: Annotated[str | None, option("--row", help="One row of inputs.json (default: all).")] = None,
    attack: Annotated[str | None, option("--attack", help="One attack (default: all of the row).")] = None,
) -> None:
    """What the known lattice attacks cost on our parameters, by the public estimator under a Python with
    Sage."""
    chosen = {"--row": row, "--attack": attack}
    words = [word for name, value in chosen.items() if value for word in (name, value)]
    program = ROOT / "bench" / "kernels" / "lattice" / "estimate.py"
    _run(python, program, "--estimator", str(estimator), *words)


def _run(python: Path, program: Path, *words: str) -> None:
    """Raises TacitaError where it fails; what it says has been shown."""
    status = subprocess.run([str(python), str(program), *words], check=False).returncode
    if status:
        raise TacitaError(f"{program.name}: ended with status {status}", hint=f"is {python} the right one?")
