"""The engine's feature for fuzzing opens private decoders and transfers from a public seed: no other crate
may name it."""

from __future__ import annotations

import tomllib
from pathlib import Path

CRATES = Path(__file__).parents[3] / "crates"


def test_only_the_fuzz_crate_enables_it() -> None:
    enabling = [path.parent.name for path in sorted(CRATES.glob("*/Cargo.toml")) if _enables(path)]
    assert enabling == ["fuzz"]


def _enables(manifest: Path) -> bool:
    """Whether one of its dependencies, or a default feature of its own, brings the feature `fuzzing`."""
    data = tomllib.loads(manifest.read_text(encoding="utf-8"))
    tables = [data.get(kind, {}) for kind in ("dependencies", "dev-dependencies", "build-dependencies")]
    asked = [dep.get("features", []) for table in tables for dep in table.values() if isinstance(dep, dict)]
    return any("fuzzing" in features for features in [*asked, data.get("features", {}).get("default", [])])
