"""The figures of today, frozen: what a restructuring must leave as they are or make better.

    python evaluation/freeze.py --check                                   all against evaluation/frozen
    python evaluation/freeze.py --check --only sst2-thor,logits-shipped   two of them, in seconds
    python evaluation/freeze.py --only sst2-thor                          writes frozen/sst2-thor.json anew

Frozen are, for plans of sst2-tiny (thor; arion and moai at 256 texts of 128 tokens), of MiniLM-L6's shape
(thor, arion) and of DASHformer (arion): stages in their order, levels, bootstraps, operations, predicted
seconds and bytes. For the two-party mode: bytes and rounds of whole sessions of both parties in one process,
and the estimates. And the logits of 20 sentences, with all their digits: in floating point, on `plain` and
`sim`, and in the two-party mode's fixed-point arithmetic.

Seconds are predicted by the shipped price table `tacita/plans/prices/tables/n16.json`, never by one that this
machine measured; its hash is frozen too. MiniLM-L6 has random weights, always the same ones, since its own
are not in the tree. Its costs then depend on its shape, and on intervals that 16 shipped sentences calibrate.
In a batch it has a classifier of two labels (see `subject.minilm_plan` for why).

SST-2's sentences and the published DASHformer are read from ../shared. Where they are absent, the parts that
need them are skipped, and said to be. What may differ, and how far, stands in freezing/compare.py. The one
file to edit when code moves is freezing/subject.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from freezing.compare import Difference, differences
from freezing.known import known
from freezing.layout import to_text
from freezing.parts import PARTS

FROZEN = Path(__file__).parent / "frozen"
MOST = 25  # differences of a part that are shown


def main() -> int:
    """Returns the exit status: 1 where a figure is worse than the frozen one."""
    parts = "; ".join(f"{name} takes {part.cost}" for name, part in PARTS.items())
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=f"Parts: {parts}.")
    options.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    options.add_argument("--only", type=_names, default=list(PARTS), help="some parts, with commas between")
    options.add_argument("--frozen", type=Path, default=FROZEN, help="folder of the frozen figures")
    args = options.parse_args()
    treat = check if args.check else freeze
    return max(_timed(treat, name, args.frozen) for name in args.only)


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


def freeze(name: str, folder: Path) -> tuple[int, str]:
    """Writes the part's file."""
    if absent := _absent(name):
        return 0, absent
    path = _path(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = to_text(PARTS[name].compute())
    path.write_text(text, encoding="utf-8")
    return 0, f"{len(text)} bytes"


def _shown(found: list[Difference], reasons: Mapping[str, str]) -> list[str]:
    lines = [f"  {'WORSE' if d.wrong else 'ok   '} {d}{_known(reasons.get(d.path))}" for d in found[:MOST]]
    return lines + ([f"  and {len(found) - MOST} more"] if len(found) > MOST else [])


def _known(reason: str | None) -> str:
    return f": known, {reason}" if reason else ""


def _timed(treat: Any, name: str, folder: Path) -> int:
    began = time.monotonic()
    status, text = treat(name, folder)
    print(f"{name} ({time.monotonic() - began:.0f} s): {text}", flush=True)
    return int(status)


def _absent(name: str) -> str:
    needs = PARTS[name].needs
    return "" if needs is None or needs.exists() else f"skipped: {needs.name} is not in ../shared/data"


def _names(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := [name for name in chosen if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    return chosen


def _path(name: str, folder: Path) -> Path:
    return folder / f"{name}.json"


if __name__ == "__main__":
    sys.exit(main())
