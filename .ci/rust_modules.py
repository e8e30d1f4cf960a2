"""Finds files of a Rust crate that use each other in a circle.

    python .ci/rust_modules.py            prints the circles of each crate

It reads `use` declarations and the paths in code that begin with `crate`, `super` or `self`; what is for
tests alone is left out. A re-export counts as the file that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

CRATES = Path(__file__).parents[1] / "crates"
Module = tuple[str, ...]  # ("linear", "babies"); () is the root of the crate
Uses = list[tuple[bool, Module]]  # (whether it is exported again, absolute path)


def modules(source: Path) -> dict[Module, Path]:
    """Each module of a crate with its file. source: the crate's folder `src`."""
    paths = {path.relative_to(source).with_suffix("").parts: path for path in source.rglob("*.rs")}
    return {name[:-1] if name[-1] in ("mod", "lib") else name: path for name, path in paths.items()}


def expanded(tree: str) -> Iterator[str]:
    """Yields the paths of a `use`.

    >>> list(expanded("a::{b, c::{d, e as f}}"))
    ['a::b', 'a::c::d', 'a::c::e']
    """
    head, brace, rest = tree.partition("{")
    if not brace:
        yield tree.split(" as ")[0].strip()
        return
    depth, item = 0, ""
    for char in rest[: rest.rindex("}")] + ",":
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if item.strip():
                yield from expanded(head.strip() + item.strip())
            item = ""
        else:
            item += char


def product_code(text: str) -> str:
    """Leaves out comments, and what is compiled for tests alone."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"#\[cfg\(test\)\]\s*(?:pub )?mod \w+\s*(?:;|\{.*\Z)", "", text, flags=re.DOTALL)
    text = re.sub(r"#\[cfg\(test\)\]\s*(?:pub )?use [^;]*;", "", text)
    return re.sub(r"#\[cfg\(test\)\][^;{,]*(?:[;,]|\{[^}]*\})", "", text)


def uses(module: Module, text: str, known: Mapping[Module, Path]) -> Uses:
    """Returns what a module names of its own crate."""
    declared = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
    named = [(bool(again), path) for again, tree in declared.findall(text) for path in expanded(tree)]
    inline = re.findall(r"\b((?:crate|self|super)(?:::\w+)+)", declared.sub("", text))
    pairs = named + [(False, path) for path in inline]
    absolute = ((again, _absolute(module, path.split("::"), known)) for again, path in pairs)
    return [(again, path) for again, path in absolute if path is not None]


def _absolute(module: Module, path: list[str], known: Mapping[Module, Path]) -> Module | None:
    """The path from the crate's root; None for another crate's."""
    if path[0] == "crate":
        return tuple(path[1:])
    if path[0] == "self":
        return (*module, *path[1:])
    up = next(i for i, name in enumerate([*path, ""]) if name != "super")
    if up:
        return (*module[: len(module) - up], *path[up:])
    return (*module, *path) if (*module, path[0]) in known else None


def graph(source: Path) -> dict[Module, set[Module]]:
    """Module -> the modules of the same crate that it uses. A module that exports its own part again does not
    use it."""
    known = modules(source)
    found = {name: uses(name, product_code(path.read_text("utf-8")), known) for name, path in known.items()}
    exports = {(*name, path[-1]): path for name, pairs in found.items() for again, path in pairs if again}

    def home(path: Module, depth: int = 6) -> Module:
        for size in range(len(path), -1, -1):
            again = exports.get(path[:size])
            if depth and again and again != path[:size]:
                return home(again + path[size:], depth - 1)
            if path[:size] in known:
                return path[:size]
        return ()

    def used(name: Module, pairs: Uses) -> set[Module]:
        homes = ((again, home(path)) for again, path in pairs)
        return {at for again, at in homes if at != name and not (again and at[: len(name)] == name)}

    return {name: used(name, pairs) for name, pairs in found.items()}


def circles(arrows: Mapping[Module, set[Module]]) -> list[list[str]]:
    """The groups of modules each of which leads to all others of its group, as Rust writes their names.

    >>> circles({("a",): {("b",)}, ("b",): {("a",), ("c",)}, ("c",): set()})
    [['a', 'b']]
    """
    reach = {name: _below(arrows, name) for name in arrows}
    groups = {frozenset(b for b in reach[a] if a in reach[b]) for a in arrows if a in reach[a]}
    return sorted(sorted("::".join(name) or "lib" for name in group) for group in groups)


def _below(arrows: Mapping[Module, set[Module]], start: Module) -> set[Module]:
    seen, ring = set[Module](), {start}
    while ring := set[Module]().union(*(arrows[name] for name in ring)) - seen:
        seen |= ring
    return seen


def by_crate() -> dict[str, list[list[str]]]:
    """Crate -> its circles; crates without one are left out."""
    every = {path.parent.name: circles(graph(path)) for path in sorted(CRATES.glob("*/src"))}
    return {crate: rings for crate, rings in every.items() if rings}


if __name__ == "__main__":
    for crate, rings in by_crate().items():
        for ring in rings:
            print(f"{crate}: {', '.join(ring)}")
