"""The benches that write tables of docs/benchmarks.md replace what stands between the markers, in the form
that the pages show, and leave the rest of the pages alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.tables import pages

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
BETWEEN = re.compile(r"(<!-- ([\w-]+): begin -->\n).*?(<!-- \2: end -->\n)", re.DOTALL)
BOOT = {
    "seconds": 9.0,
    "seconds_all_threads": 6.0,
    "all_threads": 2,
    "bits_average": 22.0,
    "bits_worst": 19.0,
}
BOOT |= {"levels_left": 13, "log_scale": 48.0, "log_qp": 1712.0, "keys_gb": 3.0}
BOOT |= {"two_ciphertexts_ratio_one_thread": 1.2}
MOVED = {"bytes": 7e7, "share_of_copy": 0.5}
ENGINE: dict[str, Any] = {"yardstick_ms": 0.9, "simd": "avx2", "bootstrap": BOOT}
ENGINE |= {f"{name}_ms": 7.0 for name in ("ntt", "rotate", "mul_relin", "rescale")}
OPERATIONS = ("rotate", "multiply", "rescale", "bootstrap")
ENGINE["memory"] = {"copy_gb_per_second": 28.0, "operations": dict.fromkeys(OPERATIONS, MOVED)}
STEPS = ("keygen", "encrypt", "evaluate", "decrypt")
DEMO = {
    "threads": 2,
    "parameters": {"security_bits": 128},
    "bytes": {"evaluation_keys": 2e9, "request": 1e7, "response": 2e6},
    "seconds": {"plan": 1.0, "keygen": 2.0},
    "results": [{"seconds": dict.fromkeys(STEPS, 3.0), "max_abs_error": 0.5}],
    "bootstraps": 6,
    "peak_rss_gb_by_step": dict.fromkeys(STEPS, 4.0),
}
CASE = {"wall_seconds": 1.0, "cpu_seconds": [1.0, 2.0], "megabytes": 3.0, "rounds": 4, "max_abs_error": 0.5}
CASE |= {"peak_rss_gb": [0.1, 0.2], "lan_seconds": 5.0, "wan_seconds": 6.0}
HEAD = {"machine": "a machine", "cores": 2, "threads": 1, "transport": "TLS 1.3", "yardstick_ms": 0.9}


def test_figures_replaces_its_tables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("figures", {"engine": ENGINE, "demo": DEMO}, tmp_path, monkeypatch)
    was, now = text(DOCS / "benchmarks.md"), text(tmp_path / "benchmarks.md")
    assert outside(now) == outside(was) and now != was
    assert heads(now) == heads(was)


def test_two_party_figures_replaces_its_tables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("two-party-figures", {"bench": HEAD | {"cases": {"minilm": CASE}}}, tmp_path, monkeypatch)
    for name in ("benchmarks.md", "benchmarks/two-party.md"):
        was, now = text(DOCS / name), text(tmp_path / name)
        assert outside(now) == outside(was) and now != was
        assert heads(now) == heads(was)


def run(script: str, reports: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a bench on copies of the pages, with these reports as its options."""
    (folder / "benchmarks").mkdir()
    for name in ("benchmarks.md", "benchmarks/two-party.md"):
        (folder / name).write_text(text(DOCS / name), encoding="utf-8")
    words = [script]
    for option, report in reports.items():
        (folder / f"{option}.json").write_text(json.dumps(report))
        words += [f"--{option}", str(folder / f"{option}.json")]
    monkeypatch.setattr(pages, "DOCS", folder)
    assert main(words) == 0


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def outside(page: str) -> str:
    """What stands outside the markers."""
    return BETWEEN.sub(r"\1\3", page)


def heads(page: str) -> list[str]:
    """The first rows of tables, without what depends on a run."""
    return re.findall(r"^(\|.*)\n\|---", page, re.MULTILINE)
