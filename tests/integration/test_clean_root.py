"""What `deploy/Dockerfile` starts, started for real without a container runtime; see
`deploy/try_in_clean_root.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.native, pytest.mark.slow]
TRIAL = Path(__file__).parents[2] / "deploy" / "try_in_clean_root.py"
PATIENCE = 600.0


def test_the_image_serves_without_root_on_a_root_that_can_only_be_read(tmp_path: Path) -> None:
    command = [sys.executable, str(TRIAL), "--light", "--work", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if found.returncode == 2:
        pytest.skip(found.stderr.strip())
    assert found.returncode == 0, found.stdout + found.stderr
    for said in ("GET /healthz: 200", "GET /readyz: 200", "health check: passes", "SIGTERM: it ended"):
        assert said in found.stdout
    assert "GET /readyz under another host name: 200" in found.stdout, "a container that is made anew starts"
    assert not list(tmp_path.iterdir()), "a trial leaves nothing behind"
