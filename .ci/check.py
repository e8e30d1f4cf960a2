"""What `make check` runs: formatting, types and import rules, the unit tests next to what changed, and one
sentence encrypted on a toy ring.

Changed is what differs from where this branch left main, or from HEAD where there is no main. Of a module
those tests run that import it, or else those of its nearest importers; of another file those that name it.
Of many, those that import least come first; what is left out is said. Where Rust changed it is linted, and
the tests of its crates run, which takes minutes more.

    python .ci/check.py [--most 40] [--list]
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = (".ci", "bench", "python", "tests", "fuzz", "training", "deploy", "docs/examples", "examples")
SOURCES, BENCH, UNIT = Path("python"), Path("bench"), Path("tests/unit")
ALWAYS = UNIT / "project" / "test_docs_shape.py"
TOY = ("--preset", "insecure_toy_n11", "--allow-insecure", "--tokens", "16")
Graph = Mapping[str, frozenset[str]]  # module -> those that it imports


def changed(root: Path) -> list[Path]:
    """Files that are there now and differ from the base, also those that git does not know yet."""
    base = git(root, "merge-base", "HEAD", "main") or ["HEAD"]
    names = [*git(root, "diff", "--name-only", base[0]), *git(root, "ls-files", "-o", "--exclude-standard")]
    return [Path(name) for name in dict.fromkeys(names) if (root / name).is_file()]


def git(root: Path, *words: str) -> list[str]:
    """Lines that it printed, none where it failed."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


@cache
def graph_of(root: Path) -> Graph:
    """Imports of the package, the benches and the unit tests, also those within functions."""
    files = {
        module_of(path.relative_to(root)): path
        for folder in (SOURCES, BENCH, UNIT)
        for path in (root / folder).rglob("*.py")
    }
    return {
        name: frozenset(imported(path.read_text(encoding="utf-8")) & files.keys() - {name})
        for name, path in files.items()
    }


def module_of(path: Path) -> str:
    """The name by which others import this file.

    >>> module_of(Path("python/tacita/slots/__init__.py")), module_of(Path("tests/unit/tiny.py"))
    ('tacita.slots', 'tiny')
    >>> module_of(Path("bench/app.py"))
    'bench.app'
    """
    if path.is_relative_to(UNIT):  # whose folders are all in the path
        return path.stem
    folder = SOURCES if path.is_relative_to(SOURCES) else Path()
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(text: str) -> set[str]:
    """Names that may be modules.

    >>> sorted(imported("from tacita.slots import base"))
    ['tacita.slots', 'tacita.slots.base']
    """
    names = set[str]()
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all statements below, also those within functions. No expression, which holds none, is walked:
    most of a file's nodes are theirs.

    >>> [type(each).__name__ for each in statements(ast.parse("if a:\\n  import b\\nelse:\\n  f(c)"))]
    ['If', 'Import', 'Expr']
    """
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(node, field, ()):
            yield each
            yield from statements(each)


def nearest(module: str, graph: Graph) -> set[str]:
    """The tests that import it with the fewest modules between; helpers of tests are none between.

    >>> graph = {"tacita.a": frozenset(), "tacita.b": frozenset({"tacita.a"})}
    >>> graph |= {"test_b": frozenset({"helper"}), "helper": frozenset({"tacita.b"})}
    >>> nearest("tacita.a", graph), nearest("tacita.b", graph), nearest("test_b", graph)
    ({'test_b'}, {'test_b'}, {'test_b'})
    >>> nearest("tacita.a", graph | {"test_a": frozenset({"tacita.a"})})
    {'test_a'}
    """
    seen, ring = {module}, {module}
    while ring:
        if found := {name for name in with_helpers(ring, graph) if name.startswith("test_")}:
            return found
        ring = {name for name, uses in graph.items() if uses & ring} - seen
        seen |= ring
    return set()


def with_helpers(ring: set[str], graph: Graph) -> set[str]:
    """These and all files of tests that reach them through files of tests alone."""
    found = set(ring)
    while more := {n for n, uses in graph.items() if helps(n) and uses & found} - found:
        found |= more
    return found


def helps(name: str) -> bool:
    """Whether it is a file of tests, none of which lies in a package."""
    return "." not in name and name not in {"tacita", "bench"}


def tests_of(files: Iterable[Path], root: Path) -> list[Path]:
    """Unit tests of these files, those that import least first.

    >>> len(tests_of([Path("python/tacita/errors.py")], ROOT)) > 50
    True
    >>> UNIT / "project" / "test_deploy.py" in tests_of([Path("deploy/Dockerfile")], ROOT)
    True
    """
    graph = graph_of(root)
    places = {path.stem: path.relative_to(root) for path in (root / UNIT).rglob("*.py")}
    found = set[str]()
    for path in files:
        if (name := module_of(path)) in graph:
            found |= nearest(name, graph)
        else:
            found |= {n for n, place in places.items() if n.startswith("test_") and names(root / place, path)}
    return [places[name] for name in sorted(found, key=lambda name: (reach(name, graph), name))]


def names(test: Path, path: Path) -> bool:
    return path.name in test.read_text(encoding="utf-8")


def reach(name: str, graph: Graph) -> int:
    """How many modules it imports, directly or not."""
    seen, ring = set[str](), {name}
    while ring:
        seen |= ring
        ring = set().union(*(graph[each] for each in ring)) - seen
    return len(seen)


def steps(files: Sequence[Path], tests: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Commands, from the quickest on."""
    here = str(Path(sys.executable).parent)
    python = [str(path) for path in files if path.suffix in {".py", ".pyi"} and str(path).startswith(PYTHON)]
    if python:
        yield (f"{here}/ruff", "check", *python)
        yield (f"{here}/ruff", "format", "--check", *python)
    yield (f"{here}/lint-imports",)
    yield (f"{here}/mypy",)
    if any(path.parts[0] == "crates" or path.name.startswith("Cargo.") for path in files):
        yield ("make", "--no-print-directory", "lint-rust")
        crates = {path.parts[1] for path in files if path.parts[0] == "crates"} - {"py"}  # which has no tests
        if packages := [word for name in sorted(crates) for word in ("-p", f"tacita-{name}")]:
            yield ("cargo", "test", "--profile", "quick", "--tests", "--quiet", *packages)
    yield (sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", *map(str, tests))
    yield (sys.executable, "-m", "tacita", "demo", *TOY, "--text", "a film of quiet beauty")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--most", type=int, default=40, help="Files of unit tests at the most.")
    parser.add_argument("--list", action="store_true", help="Print the tests alone.")
    given = parser.parse_args()
    files = changed(ROOT)
    found = tests_of(files, ROOT)
    tests, left = dict.fromkeys([*found[: given.most], ALWAYS]), found[given.most :]
    if given.list:
        print(*tests, sep="\n")
        return 0
    failed = [words for words in steps(files, list(tests)) if not passed(words)]
    print(f"{len(files)} changed files, {len(tests)} of {len(tests) + len(left)} files of unit tests")
    if left:
        print(f"left for `make test`: {' '.join(path.stem for path in left)}")
    return bool(failed)


def passed(words: Sequence[str]) -> bool:
    """Runs it from the root; prints its name and seconds."""
    began = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, check=False).returncode == 0
    print(f"{'ok' if done else 'FAILED'}: {short(words)} ({time.monotonic() - began:.0f} s)", flush=True)
    return done


def short(words: Sequence[str]) -> str:
    """The command without its folder and all that follows the first three words."""
    return " ".join([Path(words[0]).name, *words[1:4]])


if __name__ == "__main__":
    sys.exit(main())
