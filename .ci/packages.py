"""Draws which package imports which, for docs/packages.md.

    python .ci/packages.py            prints the drawing, in Mermaid
    python .ci/packages.py --write    puts it between the markers of docs/packages.md

An arrow that a longer way implies is left out. Packages that import each other share a box.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, PAGE = ROOT / "python" / "tacita", ROOT / "docs" / "packages.md"
BEGIN, END = "<!-- packages: begin -->\n", "<!-- packages: end -->"
GROUND = {"errors", "data"}  # everybody imports them


def arrows() -> set[tuple[str, str]]:
    """(package, package that it imports), without top-level files and what everybody imports."""
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} - GROUND
    pairs = set[tuple[str, str]]()
    for path in PACKAGE.rglob("*.py"):
        here = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = (f"{node.module}.{alias.name}".split(".") for alias in node.names)
                pairs |= {(here, name[1]) for name in names if name[0] == "tacita"}
    return {(a, b) for a, b in pairs if a != b and {a, b} <= packages}


def below(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """All that a package imports, directly or not.

    >>> sorted(below({"a": {"b"}, "b": {"c"}, "c": set()}, "a"))
    ['b', 'c']
    """
    seen, ring = set[str](), {start}
    while ring := set[str]().union(*(graph[name] for name in ring)) - seen:
        seen |= ring
    return seen


def boxes(graph: Mapping[str, set[str]]) -> dict[str, str]:
    """The box of each package, named by those that import each other, directly or not.

    >>> boxes({"a": {"b"}, "b": {"a", "c"}, "c": set()})
    {'a': 'a, b', 'b': 'a, b', 'c': 'c'}
    """
    reach = {name: below(graph, name) for name in graph}
    return {a: ", ".join(sorted({a} | {b for b in reach[a] if a in reach[b]})) for a in graph}


def reduced(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Arrows between boxes that no longer way implies.

    >>> reduced([("a", "b"), ("b", "c"), ("a", "c")])
    [('a', 'b'), ('b', 'c')]
    """
    pairs = list(pairs)
    graph: dict[str, set[str]] = {name: set() for pair in pairs for name in pair}
    for a, b in pairs:
        graph[a].add(b)
    box = boxes(graph)
    merged: dict[str, set[str]] = {name: set() for name in box.values()}
    for a, b in pairs:
        merged[box[a]] |= {box[b]} - {box[a]}
    implied = {a: set[str]().union(*(below(merged, b) for b in merged[a])) for a in merged}
    return sorted((a, b) for a in merged for b in merged[a] - implied[a])


def drawing() -> str:
    pairs = arrows()
    lines = [f'    {_id(a)}["{a}"] --> {_id(b)}["{b}"]' for a, b in reduced(pairs)]
    return "\n".join(["```mermaid", "graph TD", *lines, "```", ""])


def _id(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--write", action="store_true")
    if not options.parse_args().write:
        print(drawing(), end="")
        return
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(head + BEGIN + drawing() + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
