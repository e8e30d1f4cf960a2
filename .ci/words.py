"""Holds the words of the package and the benches to CONTRIBUTING.md: docstrings with a subject, plain names.

    python .ci/words.py           the counts, and an error where one is above its cap
    python .ci/words.py --list    each place too

A docstring that begins with one of FRAGMENTS has no subject. A function that is named by one of PARTICIPLES
does not say whether it asks, acts or answers.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, BENCHES = ROOT / "python" / "tacita", ROOT / "bench"
FRAGMENTS = re.compile(r"(Of|By|With|As|Its|Those|From)\b")
PARTICIPLES = {"asked", "found", "given", "heard", "kept", "made", "opened", "said", "seen", "shown", "told"}
# Caps of the day on which they were set: docstrings; functions and variables of the package.
MOST_FRAGMENTS, MOST_PARTICIPLES, MOST_VARIABLES = 0, 5, 20
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines and docstrings.

    >>> list(documented(ast.parse("def f():\\n    'Returns one.'")))
    [(1, 'Returns one.')]
    """
    for node in ast.walk(tree):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def participles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines and names of functions.

    >>> list(participles(ast.parse("def _told(): ...")))
    [(1, '_told')]
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in PARTICIPLES:
            yield node.lineno, node.name


def variables(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in PARTICIPLES:
            yield node.lineno, node.id


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--list", action="store_true")
    listed = options.parse_args().list
    docstrings, places = 0, {"fragment": 0, "function": 0, "variable": 0}
    for path in sorted([*PACKAGE.rglob("*.py"), *BENCHES.rglob("*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = list(documented(tree))
        docstrings += len(texts)
        fragments = [(line, text.splitlines()[0]) for line, text in texts if FRAGMENTS.match(text)]
        names = (list(participles(tree)), list(variables(tree))) if path.is_relative_to(PACKAGE) else ([], [])
        kinds = (fragments, *names)
        for kind, hits in zip(places, kinds, strict=True):
            places[kind] += len(hits)
            for line, text in hits if listed else ():
                print(f"{path.relative_to(ROOT)}:{line}: {kind}: {text}")
    print(
        f"{places['fragment']} of {docstrings} docstrings have no subject; "
        f"{places['function']} functions and {places['variable']} variables are participles"
    )
    return int(
        places["fragment"] > MOST_FRAGMENTS
        or places["function"] > MOST_PARTICIPLES
        or places["variable"] > MOST_VARIABLES
    )


if __name__ == "__main__":
    sys.exit(main())
