"""The shape of the package: what its size, its folders and its imports may come to.

A cap is the figure of the day on which it was set, rounded up a little. What a change adds in one place it
gives up in another; a cap that is raised or removed needs a note in `docs/decisions/`.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "python" / "tacita"
sys.path.insert(0, str(ROOT / ".ci"))
packages, rust_modules = map(importlib.import_module, ("packages", "rust_modules"))
FILES, ARROWS, FOLDER = 340, 88, 14  # decisions 92, 93, 98, 102, 104, 105, 125
LINES = {
    "approx": 2472,  # tables as functions, softmax in rounds, split series (decisions 88, 90, 95, 107)
    "blocks": 1458,  # attention by tiles (decision 105)
    "checkpoint": 2592,  # decoders behind public tokens (decision 98)
    "cli": 6735,  # windows, devices of OpenCL, files of prompts (89, 93, 105 to 125, 140)
    "client": 3165,  # requests on all threads, windows, texts by requests, kept rows (95, 105 to 140)
    "data": 39,
    "evaluate": 1747,  # memory for a client to come; devices, columns in turn (78, 122, 125, 129, 139)
    "gateway": 518,  # decisions 125, 140
    "generation": 492,  # what a remote client needs of it is in texts; plans at hand (110, 139, 140)
    "layouts": 2044,  # texts side by side; cells of one word (decisions 94, 104)
    "models": 2152,  # LLaMA 3, Qwen3, Gemma, Phi-3 (decision 92)
    "packings": 7343,  # exact functions, of an ablation; the largest of several; steps (93, 104, 126 to 141)
    "planning": 4672,  # rounds of attentions, tails of texts held out, fewer levels (100, 107, 121, 137, 141)
    "plans": 3227,  # decisions 125, 140
    "schemes": 1529,  # a device (decision 122)
    "server": 8419,  # a worker on a device, or that hangs; texts whose rows are kept (33, 122, 125, 140)
    "slots": 2734,  # texts side by side; tables and operands in parts; noise (94, 107, 132, 136, 138)
    "texts": 2311,  # tensors in the types of their files, windows, requests of texts (91, 105, 110, 119, 125)
    "two_party": 6333,  # integers in the fewest bytes, attention by tiles (decisions 91, 92, 105)
}


def modules() -> dict[str, Path]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return {".".join(["tacita", *path.relative_to(PACKAGE).with_suffix("").parts]): path for path in paths}


def imports(path: Path) -> Iterator[str]:
    """Names that a file imports before it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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


BENCH = 11411  # lines of the laboratory (57, 58, 77, 89, 90, 92, 106, 108, 120 to 139)


def test_the_laboratory_stays_small() -> None:
    lines = (len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "bench").rglob("*.py"))
    assert sum(lines) <= BENCH


def test_packages_import_few_others() -> None:
    assert len(pairs := packages.arrows()) <= ARROWS, len(pairs)


def test_the_drawing_is_of_today() -> None:
    """`python .ci/packages.py --write` draws it anew."""
    assert doctest.testmod(packages).failed == 0
    assert packages.drawing() in (ROOT / "docs" / "packages.md").read_text(encoding="utf-8")


def test_no_files_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: {n for n in targets(path, known) if n != name} for name, path in known.items()}
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    assert not graph, f"in a circle, or above one: {sorted(graph)}"


def targets(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for name in imports(path):
        module = name if name in known else name.rpartition(".")[0]
        yield from (one for one in (module, f"{module}.__init__") if one in known)


RUST_CIRCLES = {  # each is a type and what is written for it, in files of their own
    "mpc": [["party", "products"]],
    "ring": [
        ["ntt::forward", "ntt::inverse", "ntt::vector"],
        ["simd", "simd::avx2", "simd::avx512", "simd::neon"],
    ],
    "wire": [["error", "fields", "header", "record"]],
}


def test_rust_files_use_each_other_in_no_further_circle() -> None:
    assert doctest.testmod(rust_modules).failed == 0
    assert all(
        ring in RUST_CIRCLES.get(crate, [])
        for crate, rings in rust_modules.by_crate().items()
        for ring in rings
    )


def test_comments_of_rust_hold_no_programs() -> None:
    """`make test-rust` would not run them: a block in a comment says what it is."""
    fence = re.compile(r"^ *//[/!] *```(.*)$", re.MULTILINE)
    for path in (ROOT / "crates").rglob("*.rs"):
        opening = fence.findall(path.read_text(encoding="utf-8"))[::2]
        assert set(opening) <= {"text"}, path
