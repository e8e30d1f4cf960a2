"""Runs fuzz targets one after the other, each for so many executions, and keeps a log of each: what `make
fuzz` calls.

    python fuzz/campaign.py --runs 10000000 [--targets keys,request] [--logs FOLDER] [--more] [--minimise]

Inputs that reach something new are collected in build/fuzz/corpus; `--minimise` then keeps, of these and
of those in the tree, the fewest that reach the same, in the tree. A target that fails leaves its input
under build/fuzz/found and the campaign exits with status 1.

`--more` adds to what earlier logs say was run, up to `--runs` in all: a slow target is fuzzed over several
days. An interrupted run counts for what it did.

`--sanitizer address` says what Rust's targets were built with: they alone are then run, since no sanitizer
watches those in Python, and their logs lie in a folder of their own, out of the table's.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
CORPUS = {"rust": ROOT / "crates" / "fuzz" / "corpus", "python": ROOT / "tests" / "fuzz" / "corpus"}
EXECUTED = re.compile(r"^stat::number_of_executed_units: +(\d+)$", re.MULTILINE)
SECONDS_AN_INPUT = 20  # an execution that takes longer is a finding
MEGABYTES = 4096
MOST_KEPT = 48 << 10  # bytes of a target's inputs in the tree


def main() -> int:
    arguments = parsed()
    arguments.logs = arguments.logs or BUILD / f"logs{suffix(arguments)}"
    arguments.logs.mkdir(parents=True, exist_ok=True)
    kinds = {name: found for name, found in targets().items() if found[0] == "rust" or not suffix(arguments)}
    chosen = [name for name in arguments.targets.split(",") if name] or list(kinds)
    if unknown := [name for name in chosen if name not in kinds]:
        sys.exit(f"no fuzz target {unknown[0]!r}; there are {', '.join(kinds)}")
    failed = [name for name in chosen if not fuzz(name, kinds[name], arguments)]
    if failed:
        print(f"failed: {', '.join(failed)}; inputs under {BUILD / 'found'}, logs under {arguments.logs}")
    return 1 if failed else 0


def parsed() -> argparse.Namespace:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--runs", type=int, default=10_000_000, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=0, help="at most so many for each target; 0: no limit")
    parser.add_argument("--targets", default="", help="names, with commas; default: all")
    parser.add_argument("--logs", type=Path, help="default: build/fuzz/logs, by sanitizer")
    parser.add_argument("--sanitizer", default="none", help="of Rust's targets as they are built")
    parser.add_argument("--more", action="store_true", help="go on from the logs of earlier runs")
    parser.add_argument("--minimise", action="store_true", help="rewrite the corpus in the tree")
    return parser.parse_args()


def suffix(arguments: argparse.Namespace) -> str:
    """Returns the ending of the name of the folder of logs; it is empty without a sanitizer."""
    return "" if arguments.sanitizer == "none" else f"-{arguments.sanitizer}"


def targets() -> dict[str, tuple[str, int]]:
    """Name -> (language, longest input). Each language lists its own."""
    found: dict[str, tuple[str, int]] = {}
    example = ["cargo", "run", "--quiet", "--release", "-p", "tacita-fuzz", "--example", "seeds"]
    lists = {
        "rust": [*example, "--", str(BUILD / "honest")],
        "python": [sys.executable, str(ROOT / "tests" / "fuzz" / "run.py"), "--list"],
    }
    for kind, command in lists.items():
        printed = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
        if printed.returncode:
            sys.exit(printed.stderr)
        rows = (line.split() for line in printed.stdout.splitlines())
        found |= {name: (kind, int(longest)) for name, longest in rows}
    return found


def environment() -> dict[str, str]:
    """One thread each; atheris lies in a folder of the build."""
    paths = ":".join([str(ROOT / "python"), str(BUILD / "atheris"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "RAYON_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths}


def command(name: str, kind: str) -> list[str]:
    if kind == "rust":
        return [str(BUILD / "target" / host() / "release" / name)]
    return [sys.executable, str(ROOT / "tests" / "fuzz" / "run.py"), name]


@functools.cache
def host() -> str:
    """What cargo-fuzz builds for."""
    lines = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def fuzz(name: str, target: tuple[str, int], arguments: argparse.Namespace) -> bool:
    kind, longest = target
    earlier = logs_of(name, arguments.logs) if arguments.more else []
    runs = arguments.runs - sum(map(executed, earlier))
    if runs <= 0:
        return True
    folders = [folder / name for folder in (BUILD / "corpus", CORPUS[kind], BUILD / "honest")]
    for folder in (*folders, found := BUILD / "found"):
        folder.mkdir(parents=True, exist_ok=True)
    options = [f"-runs={runs}", f"-max_len={longest}", f"-timeout={SECONDS_AN_INPUT}"]
    options += [f"-rss_limit_mb={MEGABYTES}", f"-artifact_prefix={found}/{name}-", "-print_final_stats=1"]
    options += [f"-max_total_time={arguments.seconds}"] if arguments.seconds else []
    program = [*command(name, kind), *map(str, folders)]
    version = versions(arguments)[kind]
    good = run([*program, *options], new_log(name, arguments.logs, arguments.more), kind, version)
    if good and arguments.minimise:
        minimise(name, kind, folders[1], folders)
    return good


def logs_of(name: str, logs: Path) -> list[Path]:
    """Of a target's runs, the first one first."""
    return [path for path in (logs / f"{name}.log", *sorted(logs.glob(f"{name}.*.log"))) if path.exists()]


def executed(log: Path) -> int:
    """Executions of a run that came to its end or was interrupted; 0 for one that still runs or was
    killed."""
    found = EXECUTED.search(log.read_text(encoding="utf-8", errors="replace"))
    return int(found[1]) if found else 0


def new_log(name: str, logs: Path, more: bool) -> Path:
    """The next free name with `more`; otherwise the first, earlier logs removed."""
    earlier = logs_of(name, logs)
    if more and earlier:
        return logs / f"{name}.{len(earlier):03}.log"
    for path in earlier:
        path.unlink()
    return logs / f"{name}.log"


def versions(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Commands that name the toolchain of each language's targets."""
    nightly = [f"+{os.environ.get('NIGHTLY', 'nightly')}"] if suffix(arguments) else []
    return {"rust": ["rustc", *nightly, "--version"], "python": [sys.executable, "--version"]}


def run(words: list[str], log: Path, kind: str, version: list[str]) -> bool:
    """Runs it, with what the table needs at the head of the log: language, toolchain, day."""
    toolchain = subprocess.run(version, capture_output=True, text=True).stdout.strip()
    with log.open("w", encoding="utf-8") as file:
        day = time.strftime("%Y-%m-%d")
        print(f"language: {kind}\ntoolchain: {toolchain}\nday: {day}", file=file, flush=True)
        return subprocess.run(words, cwd=ROOT, env=environment(), stdout=file, stderr=file).returncode == 0


def minimise(name: str, kind: str, kept: Path, folders: list[Path]) -> None:
    """Rewrites `kept` with the inputs that reach all that is reached, the shortest first up to `MOST_KEPT`.

    libFuzzer's merge picks the fewest. It does not work under atheris: there the collected corpus, of which
    libFuzzer has replaced inputs by shorter ones while it ran, is taken as it is.
    """
    source = merged(name, kind, folders) if kind == "rust" else folders[0]
    chosen = {path.name: path.read_bytes() for path in source.iterdir()}
    for path in kept.iterdir():
        path.unlink()
    room = MOST_KEPT
    for name, data in sorted(chosen.items(), key=lambda item: len(item[1])):
        if (room := room - len(data)) >= 0:
            (kept / name).write_bytes(data)


def merged(name: str, kind: str, folders: list[Path]) -> Path:
    """A fresh folder with the fewest inputs that reach what those of all folders reach."""
    fresh = BUILD / "minimal" / name
    fresh.mkdir(parents=True, exist_ok=True)
    for path in fresh.iterdir():
        path.unlink()
    words = [*command(name, kind), "-merge=1", str(fresh), *map(str, folders)]
    subprocess.run(words, cwd=ROOT, env=environment(), check=True, capture_output=True)
    return fresh


if __name__ == "__main__":
    sys.exit(main())
