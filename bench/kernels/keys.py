"""Keys and an evaluator in this process, secret key included: a laboratory may hold both, no program does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tacita import compiled
from tacita.plans import engine
from tacita.slots.ckks import CkksBackend


def keyed(
    params: Any, rotations: Iterable[tuple[int, int]] = (), threads: int = 0
) -> tuple[CkksBackend, Any]:
    """(backend, secret key) for rotations (steps, highest level) beside those of bootstrapping. threads: 0
    for all. Cost: at full size 10 to 40 s, and the keys' gigabytes in a temporary folder."""
    native, pairs = compiled.native, list(rotations)
    with engine.translated(), tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        secret, keys = (str(Path(folder) / name) for name in ("secret.key", "evaluation.keys"))
        native.keygen(params, pairs, secret, keys, lambda _done, _total: None)
        loaded = native.EvaluationKeys.load(keys, params, pairs)
        return CkksBackend(native.Evaluator(params, loaded, threads)), native.SecretKey.load(secret, params)
