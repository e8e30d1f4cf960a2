"""Requests of clients that were killed are removed at the next start, those of living clients never."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tacita.client import store
from tacita.client.store import PlanFolder, Store
from tacita.resources import hold_lock

BUSY = """
import sys
from pathlib import Path
from tacita.client.store import PlanFolder

with PlanFolder(Path(sys.argv[1])).request_folder() as folder:
    folder.request.write_bytes(b"a ciphertext")
    print(folder.path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def plan(tmp_path: Path) -> PlanFolder:
    found = PlanFolder(tmp_path / "servers" / "host_1" / "abcd")
    found.path.mkdir(parents=True)
    return found


def busy(plan: PlanFolder) -> tuple[subprocess.Popen[str], Path]:
    """A client in the middle of a request, and its folder."""
    command = [sys.executable, "-c", BUSY, str(plan.path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_only_what_a_killed_client_left_is_removed(tmp_path: Path, plan: PlanFolder) -> None:
    (killed, left), (living, kept) = busy(plan), busy(plan)
    plan.secret_key.touch()
    with plan.request_folder() as own:
        Store(tmp_path).ready()
        assert left.exists() and kept.exists() and own.path.exists(), "all of them live"
        killed.kill()
        killed.wait(180)
        assert (left / "request.ct").exists(), "nobody tidied up"
        Store(tmp_path).ready()
        assert not left.exists() and (kept / "request.ct").exists() and own.path.exists()
    living.communicate("", timeout=180)
    assert not list(plan.path.glob("request-*")) and plan.secret_key.exists()
    for process in (killed, living):
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def test_nothing_is_removed_while_a_folder_is_being_made(plan: PlanFolder) -> None:
    (plan.path / "request-old").mkdir()
    with hold_lock(plan.path, wait=True):
        assert store.remove_stale(plan.path) == 0
    assert store.remove_stale(plan.path) == 1


def test_a_link_is_not_followed(tmp_path: Path, plan: PlanFolder) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (plan.path / "request-link").symlink_to(elsewhere)
    assert store.remove_stale(plan.path) == 0 and elsewhere.exists()
