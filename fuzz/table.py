"""Writes the table of docs/fuzzing.md from the logs of a campaign: `python fuzz/table.py [--logs FOLDER]`.

A target without a finished log keeps no row: what was not run is not claimed. Lines of Python modules are
counted while the corpus is replayed; for Rust the fuzzer's own counts of edges and features stand alone.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import campaign

PAGE = campaign.ROOT / "docs" / "fuzzing.md"
BEGIN, END = "<!-- table: fuzz/table.py -->\n", "<!-- end of table -->"
HEAD = """| target | executions | seconds | edges | features | inputs kept | lines run | toolchain, day |
|---|---|---|---|---|---|---|---|
"""
PULSE = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/\S+", re.MULTILINE)
SECONDS = re.compile(r"^Done (\d+) runs in (\d+) second", re.MULTILINE)


def main() -> None:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--logs", type=Path, default=campaign.BUILD / "logs")
    logs = parser.parse_args().logs
    rows = [row(name, kind, logs / f"{name}.log") for name, (kind, _) in campaign.targets().items()]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    table = BEGIN + HEAD + "".join(rows) + END
    PAGE.write_text(before + table + rest.split(END)[1], encoding="utf-8")


def row(name: str, kind: str, log: Path) -> str:
    """One line of the table; nothing for a target that has not come to its end."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    done, pulses = SECONDS.search(text), PULSE.findall(text)
    if not done or not pulses:
        print(f"{name}: no finished run in {log}", file=sys.stderr)
        return ""
    _, edges, features, _ = pulses[-1]
    kept = sum(1 for _ in (campaign.CORPUS[kind] / name).iterdir())
    toolchain, day = (re.search(rf"^{field}: (.*)$", text, re.MULTILINE) for field in ("toolchain", "day"))
    cells = [f"`{name}`", f"{int(done[1]):,}", done[2], edges, features, str(kept), lines(name, kind)]
    return f"| {' | '.join(cells)} | {toolchain[1] if toolchain else '?'}, {day[1] if day else '?'} |\n"


def lines(name: str, kind: str) -> str:
    """Share of the lines of a Python target's modules that its corpus runs."""
    if kind == "rust":
        return ""
    command = [sys.executable, str(campaign.ROOT / "tests" / "fuzz" / "lines.py"), name]
    there = {"cwd": campaign.ROOT, "env": campaign.environment()}
    return subprocess.run(command, **there, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
