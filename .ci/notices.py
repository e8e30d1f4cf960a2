"""Writes THIRD-PARTY-NOTICES.txt: the licences of the crates that are linked into `tacita._native`.

    python .ci/notices.py            writes the file
    python .ci/notices.py --check    fails where another crate or version is linked than the file names

A crate is listed if a wheel of any platform that we release holds it: `cargo metadata` of `tacita-py`,
without what is for tests and builds alone. The texts come from the crates' own sources, which cargo has
downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "THIRD-PARTY-NOTICES.txt"
TARGETS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
)
NAMES = ("license", "licence", "copying", "copyright", "notice", "unlicense")
RULE = "=" * 100
HEAD = """\
Tacita's compiled module, tacita/_native.*, contains the crates listed here, which are under licences of
their own. Rust's standard library, which it contains too, is under the MIT and Apache-2.0 licences:
https://github.com/rust-lang/rust/blob/master/COPYRIGHT

The models in tacita/data/models are trained numbers, with a card each. austen-tiny is under Apache-2.0.
sst2-tiny is not: it was trained on SST-2 and on reviews of films, whose terms allow research, so read its
card before any commercial use. Tacita runs without both.
"""


def linked(target: str) -> dict[str, dict[str, Any]]:
    """Returns the crates by their id that a wheel for `target` holds, ours left out."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node["deps"] for node in found["resolve"]["nodes"]}
    waiting = [name for name, package in packages.items() if package["name"] == "tacita-py"]
    reached: set[str] = set()
    while waiting:
        if (name := waiting.pop()) not in reached:
            reached.add(name)
            waiting += [dep["pkg"] for dep in nodes[name] if any(k["kind"] is None for k in dep["dep_kinds"])]
    macros = {n for n, p in packages.items() if any("proc-macro" in t["kind"] for t in p["targets"])}
    return {name: packages[name] for name in reached - macros if packages[name]["source"]}


def crates() -> list[dict[str, Any]]:
    """Returns the crates of all wheels, by name and version."""
    found: dict[str, dict[str, Any]] = {}
    for target in TARGETS:
        found |= linked(target)
    return sorted(found.values(), key=lambda package: (package["name"], package["version"]))


def texts(package: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the names and texts of a crate's licences."""
    for path in sorted(Path(package["manifest_path"]).parent.iterdir()):
        if path.is_file() and path.name.lower().startswith(NAMES):
            text = path.read_text(encoding="utf-8", errors="replace")
            yield path.name, "\n".join(line.rstrip() for line in text.strip().splitlines())


def notices(packages: list[dict[str, Any]]) -> str:
    """Returns the file: a line a crate, then every text once with the crates that have it."""
    names = {id(package): f"{package['name']} {package['version']}" for package in packages}
    lines = [f"{names[id(p)]}: {p['license']}; {p['repository'] or 'no address'}" for p in packages]
    users: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for name, text in texts(package):
            users[text].append(f"{names[id(package)]} ({name})")
    parts = [f"{RULE}\n" + "\n".join(who) + f"\n{RULE}\n{text}\n" for text, who in users.items()]
    return "\n".join([HEAD, *lines, "", *parts])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    packages = crates()
    if not parser.parse_args().check:
        FILE.write_text(notices(packages), encoding="utf-8")
        print(f"{len(packages)} crates, {FILE.stat().st_size / 1000:.0f} kB: {os.path.relpath(FILE)}")
        return 0
    kept = FILE.read_text(encoding="utf-8").split(RULE)[0].splitlines()
    now = {f"{p['name']} {p['version']}: {p['license']}" for p in packages}
    listed = {line.split("; ")[0] for line in kept if "; " in line and ": " in line.split("; ")[0]}
    if listed != now:
        print(f"THIRD-PARTY-NOTICES.txt is old: {sorted(now ^ listed)}; hint: python .ci/notices.py")
    return int(listed != now)


if __name__ == "__main__":
    sys.exit(main())
