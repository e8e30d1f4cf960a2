"""A service as its operator and its clients meet it: processes, a network socket, kill -9."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from test_cli import run

import tacita
from bench.runs.service.processes import family
from tacita.cli.options import Values, variables
from tacita.cli.service.started import PATIENCE, Started, ended, started
from tacita.client.connect import connect
from tacita.errors import InputError, PeerError, RefusedError, ResourceError
from tacita.plans import envelope, wire
from tacita.plans import wire as receipt
from tacita.two_party.protocol.party import new_identity

pytestmark = pytest.mark.native
TOY: Values = {
    "plan": {"preset": "insecure_toy_n10", "tokens": 8},
    "run": {"allow_insecure": True},
    "service": {"drain": 0},
}
# Of tests that watch a request under way: it has more to do than those of the others.
LONGER: Values = {**TOY, "plan": {"preset": "insecure_toy_n11", "tokens": 16}}
SECRET = "her secret of quiet beauty"
ASKED = {"model": "sst2-tiny", "scheme": "thor"}


@dataclass
class Caller:
    """One who speaks HTTP by hand. work: keys and request of a client of the server's public part."""

    server: Started
    token: str
    work: Path

    @property
    def http(self) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        trust = ssl.create_default_context(cafile=self.server.certificate)
        return httpx2.Client(base_url=self.server.url, headers=headers, verify=trust, timeout=PATIENCE)

    def get(self, path: str) -> httpx2.Response:
        with self.http as http:
            return http.get(path, params={"scheme": "thor"}).raise_for_status()

    def prepare(self) -> tacita.Client:
        """Public part, keys made and sent, a request encrypted."""
        public = self.work / "public"
        public.mkdir(parents=True)
        base = "/v1/models/sst2-tiny/public"
        (public / "public.json").write_bytes(self.get(base).content)
        for name in ("plan.json", "tokenizer.json", "embedding.safetensors"):
            (public / name).write_bytes(self.get(f"{base}/{name}").content)
        client = tacita.Client(public, self.work / "own", allow_insecure=True)
        client.keygen()
        client.encrypt(SECRET)
        self.send_keys(client)
        return client

    def send_keys(self, client: tacita.Client) -> None:
        data = client.work.evaluation_keys.read_bytes()
        key = envelope.key_of(client.work.request, "request")
        headers = {
            "Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}",
            wire.SHA256: sha256(data),
            wire.WHOLE_SHA256: sha256(data),
            wire.PLAN: client.plan.hash,
        }
        with self.http as http:
            http.put(f"/v1/keys/{key}", params=ASKED, content=data, headers=headers).raise_for_status()

    def post(self, client: tacita.Client) -> str:
        data = client.work.request.read_bytes()
        params = {**ASKED, "key": envelope.key_of(client.work.request, "request")}
        with self.http as http:
            found = http.post(
                "/v1/requests", params=params, content=data, headers={wire.SHA256: sha256(data)}
            )
            return str(found.raise_for_status().json()["id"])

    def events(self, id: str) -> Iterator[wire.Status]:
        with self.http as http, http.stream("GET", f"/v1/requests/{id}/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield wire.Status.model_validate_json(line.removeprefix("data: "))

    def answer(self, id: str) -> bytes:
        """The response, once it is there, with its receipt checked."""
        *_, last = self.events(id)
        assert last.state is wire.State.done and last.receipt is not None, last
        data = self.get(f"/v1/requests/{id}/response").content
        signer = self.get("/v1/models").json()["signer"]
        plan, request = last.receipt.plan, last.receipt.request
        receipt.check(last.receipt, signer, plan=plan, request=request, response=sha256(data))
        return data


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def gone(processes: list[int]) -> bool:
    """Whether none of them runs any more; waits for those that are just ending."""
    for pid in processes:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(descriptor, "rb", closefd=True) as watched:
            if not select.select([watched], [], [], 30)[0]:
                return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("service")
    yield found
    shutil.rmtree(found)


def test_a_request_survives_the_death_of_the_server_bit_for_bit(folder: Path) -> None:
    with started(folder, "--schemes", "thor", settings=LONGER) as server:
        caller = Caller(server, server.token("clinic"), folder / "clinic")
        client = caller.prepare()
        undisturbed = caller.answer(caller.post(client))
        id = caller.post(client)
        for status in caller.events(id):
            if status.state is wire.State.running and status.done:
                break
        processes = family(server.process.pid)
        server.process.kill()
        server.process.wait()
        assert gone(processes), "no worker outlives its server"
    with started(folder, "--schemes", "thor", settings=LONGER) as again:
        caller = Caller(again, caller.token, caller.work)
        assert caller.answer(id) == undisturbed
        client.work.response.write_bytes(undisturbed)
        assert client.decrypt().label == "positive"


def test_a_server_that_is_asked_to_end_leaves_what_it_cannot_finish_for_later(folder: Path) -> None:
    with started(folder, "--schemes", "thor", settings=LONGER) as server:
        caller = Caller(server, server.token("bank"), folder / "bank")
        client = caller.prepare()
        id = caller.post(client)
        next(status for status in caller.events(id) if status.state is wire.State.running)
        processes = family(server.process.pid)
        assert ended(server.process) == 0
        assert gone(processes)
    with started(folder, "--schemes", "thor", settings=LONGER) as again:
        assert Caller(again, caller.token, caller.work).answer(id)


def test_a_worker_that_is_killed_is_replaced(folder: Path) -> None:
    with started(folder, "--schemes", "thor", settings=TOY) as server:
        caller = Caller(server, server.token("killed"), folder / "killed")
        id = caller.post(caller.prepare())
        (status,) = (each for each in [next(caller.events(id))] if not each.state.final)
        (worker,) = (pid for pid in family(server.process.pid) if pid != server.process.pid)
        os.kill(worker, signal.SIGKILL)
        assert status.id == id and caller.answer(id)
        operator = Caller(server, server.token("prometheus", operator=True), folder)
        stages = re.findall(
            r"^tacita_stage_(?:estimated_)?seconds_total\{", operator.get("/metrics").text, re.M
        )
        assert len(stages) > 10, "seconds of stages beside their estimates"


def test_both_schemes_by_one_call(folder: Path, tmp_path: Path) -> None:
    """And nothing of the text, the token or the client's secret is at the server, or in its log."""
    with started(folder, settings=TOY) as server:
        token = server.token("both")
        how: dict[str, Any] = {
            "token": token,
            "trust": server.certificate,
            "data": tmp_path,
            "allow_insecure": True,
        }
        with connect(server.url, **how) as service:
            answers = {scheme: service.classify(SECRET, scheme=scheme) for scheme in ("thor", "bumblebee")}
        assert {answer.label for answer in answers.values()} == {"positive"}
        with (
            pytest.raises(InputError),
            connect(server.url, **{**how, "token": "tacita_" + "x" * 43}) as nobody,
        ):
            nobody.models()
        other = tmp_path / "other.pem"
        shutil.copy(made_certificate(tmp_path / "tls"), other)
        with pytest.raises(PeerError), connect(server.url, **{**how, "trust": other}) as swapped:
            swapped.models()
        (secret,) = tmp_path.rglob("secret.key")
        hidden = [SECRET.encode(), token.encode(), secret.read_bytes()[-256:]]
    server_files = [folder / "log", *(folder / "data").rglob("*")]
    for path in filter(Path.is_file, server_files):
        assert not any(each in path.read_bytes() for each in hidden), path


def made_certificate(folder: Path) -> Path:
    return new_identity(folder, ["127.0.0.1"]).certificate


def test_the_command_asks_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(folder, settings=TOY) as server:
        (tmp_path / "token").write_text(server.token("command"))
        options = ["--connect", server.url]
        more: Values = {"network": {"token_file": tmp_path / "token"}, "run": {"allow_insecure": True}}
        options += ["--trust", str(server.certificate), "--json", str(tmp_path / "report.json")]
        environment = {**os.environ, **variables(more), "XDG_DATA_HOME": str(tmp_path / "share")}
        command = [sys.executable, "-m", "tacita", "classify", SECRET, *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        assert "positive" in done.stdout and json.loads((tmp_path / "report.json").read_text())
        monkeypatch.setenv("XDG_DATA_HOME", environment["XDG_DATA_HOME"])
        status, listed, _ = run("keys", "list")
        assert status == 0 and "sst2-tiny" in listed


@contextmanager
def silent_sockets(server: Started, token: str, count: int) -> Iterator[None]:
    """WebSockets of the two-party protocol that say nothing: as many as there are places for sessions. Their
    heads are written by hand, since the `websockets` package reads and writes one TLS connection in two
    threads, which loses one head in some hundreds."""
    host, _, port = server.url.removeprefix("https://").partition(":")
    head = (
        f"GET /v1/two-party?model=sst2-tiny HTTP/1.1\r\nHost: {host}:{port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    trust = ssl.create_default_context(cafile=server.certificate)
    with ExitStack() as stack:
        for _ in range(count):
            raw = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE))
            silent = stack.enter_context(trust.wrap_socket(raw, server_hostname=host))
            silent.sendall(head.encode())
            assert b" 101 " in silent.recv(1024)
        yield


def test_a_session_ends_with_its_clients_texts(folder: Path, tmp_path: Path) -> None:
    """Which others that only connect do not delay."""
    with started(folder, settings=TOY) as server:
        how: dict[str, Any] = {"trust": server.certificate, "data": tmp_path}
        with (
            silent_sockets(server, server.token("silent"), 4),
            connect(server.url, token=server.token("one", texts=1), **how) as service,
        ):
            assert service.classify("a waste of time", scheme="bumblebee").label == "negative"
            with pytest.raises(RefusedError, match="1 text"):
                service.classify("a waste of time", scheme="bumblebee")


def test_the_demo_asks_by_both_schemes_and_leaves_nothing(tmp_path: Path) -> None:
    words = ["demo-service", "--preset", "insecure_toy_n10", "--allow-insecure", "--tokens", "8"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tacita", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "thor: 'a film of quiet beauty' is positive" in done.stdout
    assert "bumblebee: 'a waste of time' is negative" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught, started(tmp_path, "--schemes", "nosuch"):
        pass
    assert "no scheme 'nosuch'" in caught.value.hint


def test_under_load_all_is_right_and_in_turn(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ["--clients", "2", "--callers", "6", "--asked", "1", "--waiting", "6", "--no-thor"]
    command = [sys.executable, "-m", "bench", "service", *words, "--json", str(report)]
    environment = os.environ | variables({"plan": {"tokens": 8}})
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["many"]["right"] == found["many"]["texts"] == 8
    assert found["turns"]["in_turn"] and found["turns"]["requests"] == 6
    assert set(found["hostile"]["tries"].values()) != {0}
