"""What an evaluation is said to have taken: names and numbers, for metrics and logs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tacita.run.progress import Progress
from tacita.run.resources import peak_memory_gb
from tacita.server.session import Usage

STAGE = "stage_seconds."  # before a stage's name
SPILL_WRITTEN = "spill_written_gb"


def figures(
    usage: Usage, passed: Sequence[Progress], *, keys_loaded: bool, keys_seconds: float, evaluate: float
) -> dict[str, float]:
    """Seconds: evaluate_seconds, keys_seconds (0 where the keys were in memory, keys_loaded then 0), and
    stage_seconds.NAME of each stage of this run, bootstraps included. resumed_stages: that an earlier run had
    finished. GB: ciphertext_gb in memory, spilled_gb on disk at most, spill_written_gb, spill_read_gb,
    peak_memory_gb of the process so far."""
    return {
        "evaluate_seconds": evaluate,
        "keys_seconds": keys_seconds,
        "keys_loaded": float(keys_loaded),
        "resumed_stages": float(usage.resumed),
        "ciphertext_gb": usage.ciphertexts,
        "spilled_gb": usage.disk,
        SPILL_WRITTEN: usage.written,
        "spill_read_gb": usage.read,
        "peak_memory_gb": peak_memory_gb(),
        **{STAGE + a.stage: b.seconds - a.seconds for a, b in pairwise(passed)},
    }
