"""`python -m bench freeze`: the figures of today, frozen: what a restructuring must leave as they are or make
better.

    python -m bench freeze --check                                   all against bench/freeze/frozen
    python -m bench freeze --check --only sst2-thor,logits-shipped   two of them, in seconds
    python -m bench freeze --only sst2-thor                          writes frozen/sst2-thor.json anew

Frozen are, for plans of sst2-tiny (thor; arion and moai at 256 texts of 128 tokens), of MiniLM-L6's shape
(thor, arion) and of DASHformer (arion): stages in their order, levels, bootstraps, operations, predicted
seconds and bytes. For the two-party mode: bytes and rounds of whole sessions of both parties in one process,
and the estimates. And the logits of 20 sentences, with all their digits: in floating point, on `plain` and
`sim`, and in the two-party mode's fixed-point arithmetic.

Seconds are predicted by the shipped price table, whose hash is frozen too, and MiniLM-L6 has random weights,
always the same ones (`subject`).

SST-2's sentences and the published DASHformer are read from ../shared. Where they are absent, the parts that
need them are skipped, and said to be. What may differ, and how far, stands in `compare.py`. The one file to
edit when code moves is `subject.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.freeze.compare import Difference, differences, known
from bench.freeze.parts import PARTS, to_text
from tacita.cli.options import option
from tacita.errors import InputError

FROZEN = Path(__file__).parent / "frozen"
MOST = 25  # differences of a part that are shown


def freeze(
    check_only: Annotated[bool, option("--check", help="Compare with the files, write nothing.")] = False,
    only: Annotated[str, option("--only", help="Some parts, with commas between them (default: all).")] = "",
    frozen: Annotated[Path, option("--frozen", help="Folder of the frozen figures.")] = FROZEN,
) -> None:
    """Compare plans, two-party sessions and logits of today with the frozen ones, or freeze them anew.

    Fails where a figure is worse. Nothing is encrypted but the sessions.
    """
    treat = check if check_only else write
    if max(_timed(treat, name, frozen) for name in chosen(only)):
        raise typer.Exit(1)


def chosen(only: str) -> list[str]:
    """Names of parts. Raises InputError for one that is none."""
    names = only.split(",") if only else list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        raise InputError(f"bench freeze: no part {unknown[0]!r:.40}", hint=f"there are {', '.join(PARTS)}")
    return names


def check(name: str, folder: Path) -> tuple[int, str]:
    """(status, what to say): the part as it is today against its frozen file."""
    if absent := _absent(name):
        return 0, absent
    old = json.loads(_path(name, folder).read_text(encoding="utf-8"))
    return verdict(old, PARTS[name].compute(), name)


def verdict(old: Any, new: Any, part: str = "") -> tuple[int, str]:
    """(1 if a difference is forbidden, what to say: a line, and the differences, forbidden ones first).

    part: whose known shortfalls are let pass, and said.
    """
    found = sorted(differences(old, new), key=lambda difference: not difference.wrong)
    if not found:
        return 0, "ok, identical"
    worse = [difference for difference in found if difference.wrong]
    reasons = {d.path: known(part, d.path, d.new) for d in worse}
    wrong = sum(not reason for reason in reasons.values())
    told = f", {len(worse)} of them worse and known" if worse else ""
    allowed = f"ok, {len(found)} allowed differences{told}"
    head = f"{wrong} of {len(found)} differences are forbidden" if wrong else allowed
    return int(wrong > 0), "\n".join([head, *_shown(found, reasons)])


def write(name: str, folder: Path) -> tuple[int, str]:
    """Writes the part's file."""
    if absent := _absent(name):
        return 0, absent
    path = _path(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = to_text(PARTS[name].compute())
    path.write_text(text, encoding="utf-8")
    return 0, f"{len(text)} bytes"


def _shown(found: list[Difference], reasons: Mapping[str, str]) -> list[str]:
    why = {path: f": known, {reason}" for path, reason in reasons.items() if reason}
    lines = [f"  {'WORSE' if d.wrong else 'ok   '} {d}{why.get(d.path, '')}" for d in found[:MOST]]
    return lines + ([f"  and {len(found) - MOST} more"] if len(found) > MOST else [])


def _timed(treat: Any, name: str, folder: Path) -> int:
    began = time.monotonic()
    status, text = treat(name, folder)
    print(f"{name} ({time.monotonic() - began:.0f} s): {text}", flush=True)
    return int(status)


def _absent(name: str) -> str:
    needs = PARTS[name].needs
    return "" if needs is None or needs.exists() else f"skipped: {needs.name} is not in ../shared/data"


def _path(name: str, folder: Path) -> Path:
    return folder / f"{name}.json"
