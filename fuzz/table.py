"""Writes the table of docs/fuzzing.md from the logs of a campaign: `python fuzz/table.py [--logs FOLDER]`.

Executions and seconds of a target are those of all its logs (`campaign.py --more`), coverage that of the
last. A target without a finished log keeps no row: what was not run is not claimed. Lines of Python modules
are counted while the corpus is replayed; for Rust the fuzzer's own counts of edges and features stand alone.
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
SPEED = re.compile(r"^stat::average_exec_per_sec: +(\d+)$", re.MULTILINE)


def main() -> None:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--logs", type=Path, default=campaign.BUILD / "logs")
    logs = parser.parse_args().logs
    rows = [row(name, kind, campaign.logs_of(name, logs)) for name, (kind, _) in campaign.targets().items()]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    table = BEGIN + HEAD + "".join(rows) + END
    PAGE.write_text(before + table + rest.split(END)[1], encoding="utf-8")


def row(name: str, kind: str, logs: list[Path]) -> str:
    """One line of the table; nothing for a target of which no run has come to its end."""
    ended = [log for log in logs if campaign.executed(log)]
    if not ended:
        print(f"{name}: no finished run", file=sys.stderr)
        return ""
    texts = [log.read_text(encoding="utf-8", errors="replace") for log in ended]
    _, edges, features, _ = PULSE.findall(texts[-1])[-1]
    kept = sum(1 for _ in (campaign.CORPUS[kind] / name).iterdir())
    toolchain, day = (
        re.search(rf"^{field}: (.*)$", texts[-1], re.MULTILINE) for field in ("toolchain", "day")
    )
    counts = [f"{sum(map(campaign.executed, ended)):,}", str(sum(map(seconds, texts)))]
    cells = [f"`{name}`", *counts, edges, features, str(kept), lines(name, kind)]
    return f"| {' | '.join(cells)} | {toolchain[1] if toolchain else '?'}, {day[1] if day else '?'} |\n"


def seconds(text: str) -> int:
    """Of one run, from the fuzzer's own executions and executions a second."""
    executed, speed = campaign.EXECUTED.search(text), SPEED.search(text)
    return round(int(executed[1]) / max(int(speed[1]), 1)) if executed and speed else 0


def lines(name: str, kind: str) -> str:
    """Share of the lines of a Python target's modules that its corpus runs."""
    if kind == "rust":
        return ""
    command = [sys.executable, str(campaign.ROOT / "tests" / "fuzz" / "lines.py"), name]
    there = {"cwd": campaign.ROOT, "env": campaign.environment()}
    return subprocess.run(command, **there, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
