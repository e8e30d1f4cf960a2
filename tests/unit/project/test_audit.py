"""The audit page names what is there: files, tests, parameters, and every file with unsafe code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacita.cli.report import TWO_PARTIES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
CLAIMS = re.findall(r"\| `([\w/.]+)::(\w+)` \|$", PAGE, re.MULTILINE)
UNSAFE = re.compile(r"\bunsafe (?:fn|impl|extern|\{)|\bunsafe\(")


@pytest.mark.parametrize(("file", "test"), CLAIMS, ids=[test for _, test in CLAIMS])
def test_a_claim_has_its_test(file: str, test: str) -> None:
    assert re.search(rf"^\s*(?:def|fn) {test}\b", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_there_are_claims_and_twelve_files() -> None:
    assert len(CLAIMS) > 20
    order = PAGE.partition("## Twelve files")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/.]+)`", order)
    assert len(named) == 12 and all((ROOT / name).is_file() for name in named)


def test_every_file_with_unsafe_code_is_listed() -> None:
    listed = set(re.findall(r"`(crates/[\w/.]+)`", PAGE.partition("## Where the code is")[2]))
    assert listed == set(unsafe_files())


def unsafe_files() -> list[str]:
    """Files of the product; in Rust a test is a file or a module of that name."""
    outside = {"tests", "benches", "examples", "fuzz"}
    paths = [p for p in (ROOT / "crates").rglob("*.rs") if not outside & set(p.relative_to(ROOT).parts)]
    paths = [path for path in paths if "test" not in path.stem]
    code = {path: path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0] for path in paths}
    return sorted(str(path.relative_to(ROOT)) for path, text in code.items() if UNSAFE.search(text))


def test_parameters_of_two_parties_are_those_of_the_engine() -> None:
    """What the command line prints of them too."""
    sets = (ROOT / "crates/mpc/src/ot/ferret/params.rs").read_text(encoding="utf-8")
    large = re.search(r"LARGE: Set = Set \{\s*log: (\d+),\s*t: (\d+),\s*k: ([\d_]+)", sets)
    ring = re.search(r"LOG_N: u32 = (\d+)", (ROOT / "crates/bfv/src/params.rs").read_text(encoding="utf-8"))
    assert large and ring
    t, k = int(large[2]), int(large[3].replace("_", ""))
    n = int(large[1]) + t.bit_length() - 1
    for text in (PAGE, TWO_PARTIES):
        assert f"N = 2^{ring[1]}," in text and f"LPN n = 2^{n}, k = {k:,}, t = {t}" in text.replace(
            "LPN, regular noise: n", "LPN n"
        )
