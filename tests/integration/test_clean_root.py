"""What `deploy/Dockerfile` starts, started for real without a container runtime; see
`deploy/try_in_clean_root.py`."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from hub_world import hub
from random_checkpoint import make_random_checkpoint, write_folder

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


def test_the_steps_to_a_first_answer_give_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs what `--first-answer` times with a wheel and MiniLM, in this environment and with a small model
    that the server fetches by its name."""
    monkeypatch.syspath_prepend(str(TRIAL.parent))
    steps = importlib.import_module("clean_root.first_answer")
    model = write_folder(make_random_checkpoint(labels=(), pooling="mean"), tmp_path / "model")
    said: list[str] = []

    def command(words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "tacita", *words]

    with hub() as here:
        here.models["org/tiny"] = model
        monkeypatch.setenv("HF_ENDPOINT", here.endpoint)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        answer = steps.private_answer(command, "org/tiny", str(tmp_path / "server"), said.append)
    assert answer.startswith("16 numbers, norm") and steps.TEXT in answer
    assert [line.partition(":")[0] for line in said] == ["serve", "ask", "serve and ask"]
    with pytest.raises(steps.TrialError, match="ended before it listened"):
        steps.private_answer(command, str(tmp_path / "none"), str(tmp_path / "other"), said.append)
