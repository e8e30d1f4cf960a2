"""Requests on a Ray cluster of two nodes on this machine, on a toy ring: the bytes of one machine, a node
that dies, Ctrl-C, and that nothing is left running."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import interrupts
from random_checkpoint import make_random_checkpoint, write_folder

import tacita
from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.options import variables
from tacita.errors import PeerError
from tacita.plans import envelope
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.schemes.base import Place
from tacita.server.machines.cluster import where_of
from tacita.server.machines.spread import Nodes, spreading

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytest.importorskip("ray", reason="Ray is not installed: the extra ray")
pytestmark = [
    pytest.mark.native,
    # What Ray itself does is not ours to mend: it warns of its own future, and leaves files and sockets open.
    *(
        pytest.mark.filterwarnings(f"ignore::{kind}")
        for kind in ("DeprecationWarning", "FutureWarning", "ResourceWarning")
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOY: dict[str, Any] = {"tokens": 8, "preset": "insecure_toy_n10"}
TEXTS = ["a fine film", "the plot is dull", "never boring", "very good", "bad", "a film", "dull", "fine"]
PATIENCE = 900.0  # seconds
MARK = "TACITA_TEST_CLUSTER"
# a node that does not answer is given up after some seconds, not after 15; a busy machine needs some
HASTE = {
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "8",
}


@dataclass(frozen=True)
class Asked:
    """A client's folder with keys and requests, and the responses of one machine."""

    plan: Plan
    model: Checkpoint
    client: api.Client
    requests: list[bytes]
    responses: list[bytes]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    model = make_random_checkpoint(layers=1)
    plan = api.plan(model, texts=TEXTS, **TOY)
    client = api.Client(api.public_of(plan, model), tmp_path_factory.mktemp("client"), allow_insecure=True)
    client.keygen()
    server = api.Server(plan, model, client.work, allow_insecure=True, threads=1)
    requests, responses = [], []
    for text in TEXTS:
        client.encrypt(text)
        requests.append(client.work.request.read_bytes())
        server.evaluate()
        responses.append(client.work.response.read_bytes())
    return Asked(plan, model, client, requests, responses)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """What all processes that begin in a test have in their environment."""
    monkeypatch.setenv(MARK, mark := secrets.token_hex(8))
    for name, value in HASTE.items():
        monkeypatch.setenv(name, value)
    return mark


def running(mark: str) -> list[int]:
    """Processes with this mark; none of them is this one, whose environment is what it began with."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended
            continue
    return found


def ended(pid: int, seconds: float) -> bool:
    """Whether the process ends within so many seconds."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


def require_nothing_left(mark: str) -> None:
    """Processes that are on their way out may take a moment."""
    until = time.monotonic() + PATIENCE / 2
    left = [pid for pid in running(mark) if not ended(pid, max(0.0, until - time.monotonic()))]
    assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]


@contextmanager
def two_nodes(asked: Asked, folder: Path) -> Iterator[Nodes]:
    """Evaluators of the plan on two nodes."""
    place = Place(folder, allow_insecure=True)
    with spreading(asked.plan, asked.model, place, where_of("local", nodes=2)) as run:
        assert [site.cores for site in run.nodes.sites] == [1, 1] and len(set(run.nodes.sites)) == 2
        run.nodes.start()
        yield run.nodes


def submit(asked: Asked, nodes: Nodes, folder: Path, number: int) -> None:
    """Sends a request, of those that there are in turn."""
    (job := folder / str(number)).mkdir()
    (job / "request.ct").write_bytes(asked.requests[number % len(TEXTS)])
    key_id = envelope.key_of(job / "request.ct", "request")
    nodes.submit(number, key_id, asked.client.work.evaluation_keys, job)


def second_raylet(mark: str) -> int:
    """The process of the node without the cluster's head."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in running(mark)}
    (pid,) = (pid for pid, each in words.items() if each[0].endswith(b"/raylet") and b"--head" not in each)
    return pid


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill(*pids: int) -> None:
    """Kills processes; one that ended by itself in the meantime is as dead as the others."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def jobs_of(log: Path, event: str) -> list[tuple[int, str]]:
    """(worker, job) of each such event, in their order."""
    found = []
    for line in log.read_text().splitlines():
        with suppress(ValueError):  # Ray's own
            if (entry := json.loads(line)).get("event") == event:
                found.append((entry["worker"], entry["job"]))
    return found


def test_a_node_that_dies_in_the_middle_changes_no_byte(asked: Asked, mark: str, tmp_path: Path) -> None:
    sent = answered = killed = 0
    with two_nodes(asked, tmp_path) as nodes:
        while answered < sent or not killed:
            begun = [job for _, job in jobs_of(nodes.log, "begins")]
            # until one that the dead node had is with the other one, there is work for both
            while len(begun) == len(set(begun)) and sent - answered < len(TEXTS):
                submit(asked, nodes, tmp_path, sent)
                sent += 1
            assert nodes.event(wait=True) is not None
            answered += 1
            if not killed and len({worker for worker, _ in jobs_of(nodes.log, "done")}) == 2:
                killed = second_raylet(mark)
                kill(*children(killed), killed)
        begun = [job for _, job in jobs_of(nodes.log, "begins")]
        assert len(begun) > len(set(begun)) == sent
    for number in range(sent):
        response = (tmp_path / str(number) / "response.ct").read_bytes()
        assert response == asked.responses[number % len(TEXTS)]
    require_nothing_left(mark)


def test_the_last_node_that_dies_ends_the_run(asked: Asked, mark: str, tmp_path: Path) -> None:
    with two_nodes(asked, tmp_path) as nodes:
        submit(asked, nodes, tmp_path, 0)
        nodes.event(wait=True)
        raylets = [pid for pid in running(mark) if b"/raylet\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        kill(*raylets)
        with pytest.raises(PeerError, match="no evaluator is left after 1 answers"):
            nodes.event(wait=True)
    require_nothing_left(mark)


def test_many_texts_in_one_call(asked: Asked, mark: str) -> None:
    said: list[Progress] = []
    options: dict[str, Any] = {"ray": "local", "threads": 1, "allow_insecure": True, "progress": said.append}
    found = tacita.classify_many(TEXTS[:3], model=asked.model, texts=TEXTS, **options, **TOY)
    for text, answer in zip(TEXTS, found, strict=False):
        assert np.abs(answer.vector - api.reference_logits(asked.plan, asked.model, text)).max() < 0.05
    stages = [now.stage for now in said]
    assert any(stage.startswith("3 requests on 1 evaluator: 3 x ") for stage in stages)
    assert [now.index for now in said if now.total == 3 and now.stage == "done"] == [1, 2, 3]
    require_nothing_left(mark)


def test_where_nobody_answers_it_says_so(mark: str) -> None:
    with pytest.raises(PeerError, match="nobody listens there"):
        tacita.classify_many(TEXTS, ray="127.0.0.1:1", allow_insecure=True, **TOY)
    assert not running(mark)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """`tacita classify` of eight lines on two nodes."""
    for name, value in variables({"run": {"allow_insecure": True}, "ray": {"nodes": 2}}).items():
        monkeypatch.setenv(name, value)
    folder = write_folder(make_random_checkpoint(layers=1), tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    yield [
        *(sys.executable, "-u", "-m", "tacita", "classify", "--file", str(tmp_path / "texts.txt")),
        *("--model", str(folder), "--texts", str(tmp_path / "texts.txt"), "--scheme", "thor"),
        *("--tokens", str(TOY["tokens"]), "--preset", TOY["preset"]),
        *("--ray", "local", "--json", str(tmp_path / "report.json")),
    ]


def test_the_command_answers_lines_in_order(command: list[str], mark: str, tmp_path: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert [row["text"] for row in report["results"]] == TEXTS
    assert report["max_abs_error"] < 0.05 and report["encrypted"]
    cluster = report["cluster"]
    assert (cluster["nodes"], cluster["cores"], report["requests"]) == (2, [1, 1], len(TEXTS))
    assert cluster["predicted"]["rounds"] == 4 and cluster["predicted_by_nodes"]["16"]["rounds"] == 1
    assert 0.0 < cluster["processor_seconds_per_request"] < PATIENCE
    assert report["wall_seconds"] < cluster["measured_seconds"] < PATIENCE
    assert "8 requests on 2 evaluators: 4 x" in done.stdout and "predicted on 16 such nodes" in done.stdout
    require_nothing_left(mark)


def test_an_interrupt_leaves_nothing_running(command: list[str], mark: str, tmp_path: Path) -> None:
    with interrupts():
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    assert process.stdout is not None
    for line in process.stdout:
        if "by prediction" in line:
            break
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does
    _, complaint = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, complaint
    assert "no file was left half-written" in complaint and not (tmp_path / "report.json").exists()
    require_nothing_left(mark)
