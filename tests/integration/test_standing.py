"""`tacita evaluate --listen` and `--connect` as processes, on a toy ring: what stays, what is refused, how it
ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from interrupts import interrupts

from tacita import api
from tacita.checkpoint import load
from tacita.errors import GoneError
from tacita.evaluate.desk import TOLD_BYTES, VERSION, Lines, connect
from tacita.evaluate.keyring import KeyRing, server_bytes
from tacita.evaluate.standing import Standing
from tacita.plans.plan import Plan

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET, TOKENS = "insecure_toy_n11", 8
TEXTS = ["a film of quiet beauty", "a waste of time", "it is neither good nor bad , only long"]
TOY = "--allow-insecure"
PATIENCE = 180.0  # seconds


@dataclass
class Service:
    """A server's process, its folder and socket."""

    process: subprocess.Popen[str]
    root: Path

    @property
    def at(self) -> Path:
        return self.root / "sock"

    def ask(self, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """`--connect` in a process of its own."""
        return tacita("evaluate", "--work", str(folder), "--connect", str(self.at), *options)

    def lines(self, folder: Path) -> Lines:
        """A request, by the protocol."""
        lines = connect(self.at)
        lines.send({"tacita": VERSION, "evaluate": str(folder)})
        return lines


def tacita(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tacita", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def client_of(root: Path, name: str, text: str = TEXTS[0]) -> tuple[api.Client, Path]:
    """A client with keys and a request in a folder below the root."""
    folder = root / name
    folder.mkdir()
    client = api.Client(root / "public", folder, allow_insecure=True)
    client.keygen()
    client.encrypt(text)
    return client, folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's folder with a plan."""
    root = tmp_path_factory.mktemp("standing")
    model = load(api.DEFAULT_MODEL)
    (root / "texts.txt").write_text("\n".join(TEXTS))
    done = tacita(
        *("publish", "--work", str(root), "--output", str(root / "public"), "--preset", PRESET),
        *("--tokens", str(TOKENS), "--texts", str(root / "texts.txt")),
    )
    assert done.returncode == 0, done.stderr
    assert Plan.load(root / "plan.json").model.labels == model.config.labels
    return root


@pytest.fixture
def service(published: Path, tmp_path: Path) -> Iterator[Service]:
    """It listens when the test begins, and is ended after it."""
    root = tmp_path / "root"
    shutil.copytree(published, root)
    command = [sys.executable, "-m", "tacita", "evaluate", TOY, "--work", str(root)]
    command += ["--listen", str(root / "sock")]
    wide, pipe = os.environ | {"COLUMNS": "300"}, subprocess.PIPE
    with interrupts():
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=wide)
    assert process.stdout is not None
    for line in process.stdout:
        if "listens at" in line:
            break
    yield Service(process, root)
    process.kill()
    process.communicate()


def told(lines: Lines) -> list[dict[str, Any]]:
    """All that the server says, until it closes."""
    found = []
    with contextlib.closing(lines), contextlib.suppress(GoneError):
        while True:
            found.append(lines.receive(TOLD_BYTES, PATIENCE))
    return found


def test_a_client_is_answered_and_its_keys_stay(service: Service) -> None:
    assert stat.S_IMODE(service.at.stat().st_mode) == 0o600
    client, folder = client_of(service.root, "a")
    done = service.ask(folder, "--json", str(folder / "report.json"))
    assert done.returncode == 0, done.stderr
    first = client.decrypt()
    report = json.loads((folder / "report.json").read_text())
    plan = Plan.load(service.root / "plan.json")
    assert list(report["stage_seconds"]) == [stage.name for stage in plan.stages]
    assert report["bytes"]["response"] == (folder / "response.ct").stat().st_size
    assert report["seconds"]["evaluate"] >= report["server_seconds"] > 0
    (folder / "evaluation.keys").unlink()
    (folder / "response.ct").unlink()
    client.encrypt(TEXTS[1])
    assert service.ask(folder).returncode == 0
    second = client.decrypt()
    assert (first.label, second.label) == ("positive", "negative")


def test_clients_are_told_apart(service: Service) -> None:
    clients = [client_of(service.root, name, text) for name, text in zip("ab", TEXTS, strict=False)]
    for client, folder in clients + clients[:1]:
        assert service.ask(folder).returncode == 0
        assert client.decrypt().label in ("positive", "negative")
    shutil.copy(clients[1][1] / "request.ct", clients[0][1])
    assert service.ask(clients[0][1]).returncode == 0  # under the other's key: of no use to the first
    refused = tacita(
        *("decrypt", TOY, "--work", str(clients[0][1]), "--public", str(service.root / "public"))
    )
    assert refused.returncode == 2 and "made with key" in refused.stderr


def test_bad_requests_get_an_error_and_the_server_lives_on(service: Service, tmp_path: Path) -> None:
    client, folder = client_of(service.root, "a")
    keys = (folder / "evaluation.keys").read_bytes()
    (folder / "evaluation.keys").write_bytes(keys[:-100])
    assert "evaluation.keys" in service.ask(folder).stderr
    (folder / "evaluation.keys").write_bytes(keys)
    good = (folder / "request.ct").read_bytes()
    for spoiled in (b"", good[: len(good) // 2], good[:-1] + bytes([good[-1] ^ 1]), os.urandom(4096)):
        (folder / "request.ct").write_bytes(spoiled)
        done = service.ask(folder)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ") and "request.ct" in done.stderr
    (folder / "request.ct").write_bytes(good)
    assert service.ask(folder).returncode == 0
    assert client.decrypt().label == "positive"


def test_no_folder_outside_the_root_is_touched(service: Service, tmp_path: Path) -> None:
    _, folder = client_of(service.root, "a")
    outside = tmp_path / "outside"
    shutil.copytree(folder, outside)
    (service.root / "link").symlink_to(outside)
    for name in (
        outside,
        service.root / "link",
        service.root / "a" / ".." / ".." / "outside",
        tmp_path / "no",
    ):
        messages = told(service.lines(name))
        assert [list(message) for message in messages] == [["error", "hint"]]
        assert "no folder of that name" in messages[0]["error"]
    assert not (outside / "response.ct").exists()
    assert told(service.lines(Path("\0")))[-1]["error"].startswith("evaluate: no folder")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_in_the_middle_of_a_request(service: Service, number: signal.Signals) -> None:
    _, folder = client_of(service.root, "a")
    lines = service.lines(folder)
    while "progress" not in lines.receive(TOLD_BYTES, PATIENCE):
        pass
    service.process.send_signal(number)
    assert told(lines)[-1]["error"] == "the server has ended"
    _, complaint = service.process.communicate(timeout=PATIENCE)
    assert service.process.returncode == 130, complaint
    assert not service.at.exists()
    assert not (folder / "response.ct").exists()
    assert not [entry for entry in folder.iterdir() if entry.name.endswith(".part")]


def test_one_process_has_one_role(tmp_path: Path) -> None:
    both = tacita("evaluate", "--listen", str(tmp_path / "a"), "--connect", str(tmp_path / "b"))
    assert both.returncode == 2 and "both --listen and --connect" in both.stderr
    stray = tacita("evaluate", "--requests", str(tmp_path))
    assert stray.returncode == 2 and "--requests without --listen" in stray.stderr
    (tmp_path / "request.ct").write_bytes(b"")
    absent = tacita("evaluate", "--work", str(tmp_path), "--connect", str(tmp_path / "b"))
    assert absent.returncode == 2 and "no server listens there" in absent.stderr


def test_keys_stay_within_the_limit_and_share_what_is_no_clients(published: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(published, root)
    plan, folders = Plan.load(root / "plan.json"), [client_of(root, name)[1] for name in "abc"]
    need = server_bytes(plan)
    one = KeyRing(plan, memory=need / 1e9, allow_insecure=True)
    nbytes = one.load(folders[0] / "evaluation.keys").nbytes
    ring = KeyRing(plan, memory=(need + 1.5 * nbytes) / 1e9, allow_insecure=True)
    a, b = (ring.load(folder / "evaluation.keys").key_id for folder in folders[:2])
    assert (len(one), len(ring), ring.further_bytes) == (1, 2, nbytes)
    assert ring.held(a) is not None  # used last now
    c = ring.load(folders[2] / "evaluation.keys").key_id
    assert [ring.held(key) is not None for key in (a, b, c)] == [True, False, True]
    one.load(folders[1] / "evaluation.keys")
    assert len(one) == 1 and one.held(a) is None


def test_two_clients_get_what_a_fresh_server_gives(published: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(published, root)
    plan, model = Plan.load(root / "plan.json"), load(api.DEFAULT_MODEL)
    standing = Standing(plan, model, root, allow_insecure=True, threads=1)
    for folder in [client_of(root, name)[1] for name in "ab"]:
        standing.evaluate(folder, lambda now: None, lambda line: None)
        kept = (folder / "response.ct").read_bytes()
        api.Server(plan, model, folder, allow_insecure=True, threads=1).evaluate()
        assert (folder / "response.ct").read_bytes() == kept
