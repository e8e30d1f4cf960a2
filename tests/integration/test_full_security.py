"""One real sentence at 128-bit security through `tacita demo`: five processes, files, the float model's
answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tacita.resources import available_memory

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")

NEED = 9e9  # bytes: the server's peak with room


@pytest.mark.skipif((available_memory() or NEED) < NEED, reason="needs 9 GB of free memory")
def test_a_sentence_is_classified_at_full_security(tmp_path: Path) -> None:
    report = tmp_path / "demo.json"
    text = "a film of quiet beauty , and the ending stayed with me for days"
    command = [sys.executable, "-m", "tacita", "demo", "--text", text, "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["parameters"]["security_bits"] >= 128
    assert found["parameters"]["log_n"] == 16
    assert found["backend"] == "ckks"
    assert found["label"] == "positive"
    assert found["max_abs_error"] <= 0.02
    assert found["warnings"] == []
    assert found["peak_rss_gb"] <= 12
    assert found["peak_rss_gb_by_step"]["keygen"] <= 4
    assert found["peak_rss_gb_by_step"]["encrypt"] <= 4
    assert found["peak_rss_gb_by_step"]["decrypt"] <= 4
