"""The shape of the package: what its size, its folders and its imports may come to.

A cap is the figure of the day on which it was set, rounded up a little. What a change adds in one place it
gives up in another; a cap that is raised or removed needs a note in `docs/decisions/`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "python" / "tacita"
FILES, ARROWS, FOLDER = 490, 102, 14
GROUND = {"errors", "data"}  # everybody imports them
LINES = {
    "approx": 2800,
    "blocks": 1600,
    "checkpoint": 2000,
    "cli": 6700,
    "client": 3200,
    "data": 50,
    "evaluate": 2000,
    "generation": 650,
    "layouts": 2150,
    "measure": 4350,
    "models": 2300,
    "packings": 7950,
    "planning": 4400,
    "plans": 3500,
    "schemes": 1200,
    "server": 8600,
    "slots": 2600,
    "texts": 1950,
    "two_party": 5700,
}


def modules() -> dict[str, Path]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return {".".join(["tacita", *path.relative_to(PACKAGE).with_suffix("").parts]): path for path in paths}


def imports(path: Path, *, at_start: bool) -> Iterator[str]:
    """Names that a file imports: all of them, or only those that it needs before it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if at_start else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def arrows() -> set[tuple[str, str]]:
    """(package, package that it imports), without top-level files and what everybody imports."""
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} - GROUND
    found = set()
    for path in modules().values():
        here = path.relative_to(PACKAGE).parts[0]
        for name in imports(path, at_start=False):
            there = [*name.split("."), ""][1] if name.startswith("tacita.") else ""
            if here in packages and there in packages and here != there:
                found.add((here, there))
    return found


def test_files_and_folders_stay_few() -> None:
    folders = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    large = {str(folder.relative_to(PACKAGE)): count for folder, count in folders.items() if count > FOLDER}
    assert len(modules()) <= FILES and not large, (len(modules()), large)


def test_packages_stay_small() -> None:
    """A new package is a new row."""
    lines = Counter[str]()
    for path in modules().values():
        if (parts := path.relative_to(PACKAGE).parts)[1:]:
            lines[parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
    assert set(lines) == set(LINES)
    assert not (large := {name: count for name, count in lines.items() if count > LINES[name]}), large


def test_packages_import_few_others() -> None:
    assert len(arrows()) <= ARROWS, len(arrows())


def test_no_files_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: {n for n in targets(path, known) if n != name} for name, path in known.items()}
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    assert not graph, f"in a circle, or above one: {sorted(graph)}"


def targets(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for name in imports(path, at_start=True):
        module = name if name in known else name.rpartition(".")[0]
        yield from (one for one in (module, f"{module}.__init__") if one in known)
