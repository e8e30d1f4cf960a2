"""`tacita serve` and `tacita classify --connect` as two processes over TLS; bad peers leave the server up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from interrupts import interrupts
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from tacita.checkpoint import embed, load
from tacita.checkpoint.reference import reference
from tacita.cli.options import Values, variables
from tacita.client.store import PublicCache
from tacita.errors import InputError, PeerError
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.party import Identity, Party, dial, fingerprint, new_identity

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(getattr(native, "TwoParty", None), "softmax_parts"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
SECONDS = 900


@dataclass
class Served:
    """A running server: where it listens, its certificate, and everything it said so far."""

    process: subprocess.Popen[str]
    port: int
    certificate: Path
    model: Path
    said: list[str] = field(default_factory=list)
    spoke: threading.Condition = field(default_factory=threading.Condition)

    def says(self, text: str) -> bool:
        """Whether this is among what it says, now or soon: sessions end in threads of their own."""
        with self.spoke:
            return self.spoke.wait_for(lambda: text in self.output, SECONDS)

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        return "".join(self.said)


@contextlib.contextmanager
def serving(
    folder: Path, *options: str, given_model: Path | None = None, settings: Values | None = None
) -> Iterator[Served]:
    model = given_model or write_folder(make_random_checkpoint(), folder / "model")
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    given = ["--model", str(model), "--tokens", "16", "--texts", str(folder / "texts.txt")]
    command = [sys.executable, "-m", "tacita", "serve", *given, *options]
    own = os.environ | variables({"service": {"timeout": 20}}) | variables(settings or {})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own)
    assert process.stdout is not None
    served = Served(process, 0, folder / "pem" / "certificate.pem", model)
    ready = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with served.spoke:
                served.said.append(line)
                served.spoke.notify_all()
            if "listening on" in line:
                served.port = int(line.split(",")[0].rpartition(":")[2])
                ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert ready.wait(SECONDS) and served.port, served.output
        yield served
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("server")
    with serving(folder, "--new-certificate", str(folder / "pem")) as served:
        yield served


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def classify(target: str, *arguments: str, **network: object) -> subprocess.CompletedProcess[str]:
    """Runs the client. network: settings."""
    return ask("classify", target, *arguments, **network)


def ask(verb: str, target: str, *arguments: str, **network: object) -> subprocess.CompletedProcess[str]:
    """Runs the client in this process, which is quicker."""
    settings = {f"network__{name}": value for name, value in ({"timeout": 20} | network).items()}
    command = [verb, "--connect", target, *arguments]
    return subprocess.CompletedProcess(command, *run(*command, **settings))


def trusting(server: Served) -> list[str]:
    return ["--trust", str(server.certificate)]


def dialled(server: Served) -> Party:
    """A connection to the server, over TLS where it has a certificate."""
    pem = server.certificate
    trust: dict[str, Any] = {"trust": pem} if pem.exists() else {"insecure_plain": True}
    return dial("127.0.0.1", server.port, timeout=SECONDS, **trust)


@contextlib.contextmanager
def session(server: Served, tmp_path: Path) -> Iterator[TwoPartyClient]:
    """A client in this process, which hangs up in the end."""
    client = TwoPartyClient(dialled(server), PublicCache(tmp_path / "cache"))
    yield client
    client.party.close()


def assert_as_float(server: Served, text: str, answer: dict[str, Any]) -> None:
    model = load(server.model)
    wanted = reference(model, *embed(model, text, 16)).logits
    assert answer["logits"] == pytest.approx(list(wanted), abs=0.0016)
    assert answer["label"] == model.config.labels[int(wanted.argmax())]


def assert_serves(server: Served, tmp_path: Path) -> None:
    """Another client gets the float model's answer."""
    report = tmp_path / "report.json"
    done = classify(server.target, TEXTS[1], *trusting(server), "--json", str(report))
    assert done.returncode == 0, done.stderr + server.output
    assert_as_float(server, TEXTS[1], json.loads(report.read_text())["results"][0])


def test_two_processes_agree_on_the_float_models_answers(server: Served, tmp_path: Path) -> None:
    texts, report = tmp_path / "texts.txt", tmp_path / "report.json"
    texts.write_text("\n".join([*TEXTS[:2], "film " * 40]))
    command = [sys.executable, "-m", "tacita", "classify", "--connect", server.target, "--file", str(texts)]
    command += [*trusting(server), "--json", str(report)]
    own = os.environ | variables({"network": {"timeout": 20, "profile": True}})
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, env=own)
    assert done.returncode == 1, done.stderr  # the third line is too long, and named
    assert f"{texts}:3:" in done.stderr.replace("\n", "")
    figures = json.loads(report.read_text())
    for text, row in zip(TEXTS, figures["results"], strict=False):
        assert_as_float(server, text, row)
        assert row["bytes_sent"] > 0 and row["rounds"] > 0
    first, second = figures["results"]
    assert abs(second["rounds"] - first["rounds"]) < first["rounds"]  # the set-up is the first one's
    assert "operation" in done.stdout and "session:" in done.stdout
    assert {"path", "wall", "sent", "received", "rounds", "calls"} <= set(figures["profile"][0])


WATCHED = """
import json, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from pathlib import Path
from tacita.client.store import PublicCache
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.protocol.party import dial
party = dial("127.0.0.1", int(sys.argv[1]), trust=Path("certificate.pem"))
client = TwoPartyClient(party, PublicCache(Path("cache")))
answers = [client.classify(text) for text in json.load(open("texts.json"))]
client.end()
json.dump([{"label": a.label, "logits": a.logits} for a in answers], open("answers.json", "w"))
assert not [path for path in opened if path.endswith("model.safetensors")], opened
"""


def test_a_client_opens_no_weights_and_needs_no_folder_but_its_own(server: Served, tmp_path: Path) -> None:
    (tmp_path / "certificate.pem").write_bytes(server.certificate.read_bytes())
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS[:2]))
    source = str(Path(native.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {source!r})\n{WATCHED}"
    command = [sys.executable, "-I", "-c", program, str(server.port)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    for text, found in zip(TEXTS, json.loads((tmp_path / "answers.json").read_text()), strict=False):
        assert_as_float(server, text, found)


def test_costs_do_not_depend_on_the_text(server: Served, tmp_path: Path) -> None:
    """Over a link that is named: a measured one depends on what else the machine does."""
    (settings := tmp_path / "link.toml").write_text('[plan]\nlink = "lan"\n')
    costs = []
    for text in ("bad", "never boring , very good film"):
        report = tmp_path / "report.json"
        options = [*trusting(server), "--config", str(settings), "--json", str(report)]
        assert classify(server.target, text, *options).returncode == 0
        figures = json.loads(report.read_text())
        costs.append([figures["results"][0][name] for name in ("bytes_sent", "bytes_received", "rounds")])
    assert costs[0] == costs[1]


@pytest.mark.parametrize("text", ["film " * 40, "   "])
def test_bad_texts_are_refused_and_the_server_goes_on(server: Served, tmp_path: Path, text: str) -> None:
    done = classify(server.target, text, *trusting(server))
    assert done.returncode == 2 and "text" in done.stderr
    assert_serves(server, tmp_path)


def test_a_wrong_certificate_is_refused(server: Served, tmp_path: Path) -> None:
    other = new_identity(tmp_path / "other", ["127.0.0.1"])
    done = classify(server.target, "bad", "--trust", str(other.certificate))
    assert done.returncode == 2 and "certificate" in done.stderr.lower()
    assert_serves(server, tmp_path)


def test_plain_clients_are_refused_by_a_server_with_tls(server: Served, tmp_path: Path) -> None:
    done = classify(server.target, "bad", insecure_plain_tcp=True)
    assert done.returncode == 2 and done.stderr.startswith("error:")
    assert_serves(server, tmp_path)


def test_garbage_does_not_take_the_server_down(server: Served, tmp_path: Path) -> None:
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as raw:
            raw.sendall(noise)
    assert_serves(server, tmp_path)


def test_a_client_that_leaves_half_way_ends_its_session_only(server: Served, tmp_path: Path) -> None:
    with session(server, tmp_path) as client:
        client.party.send(handshake.CLASSIFY)  # and then nothing
        assert client.plan.tokens == 16
    assert_serves(server, tmp_path)
    assert server.says('"ending": "broken off"')


def test_a_client_that_stalls_keeps_nobody_waiting(server: Served, tmp_path: Path) -> None:
    with session(server, tmp_path) as client:
        client.party.send(handshake.CLASSIFY)  # the server sets the session up and waits for its keys
        assert_serves(server, tmp_path)


def test_a_client_with_another_plan_is_told(server: Served, tmp_path: Path) -> None:
    party = dialled(server)
    party.send(handshake.CLIENT_HELLO.pack(handshake.MAGIC, handshake.VERSION))
    party.receive(handshake.SERVER_HELLO.size)
    party.send(handshake.HAVE)
    party.send(bytes(32))
    assert party.receive(1) == handshake.REFUSED
    party.close()
    assert_serves(server, tmp_path)
    assert server.says('"ending": "damaged"')


def test_a_hidden_embedding_is_looked_up(tmp_path: Path) -> None:
    hidden = {"two_party": {"hidden_embeddings": True, "insecure_any_client": True}}
    with serving(tmp_path, "--insecure-plain-tcp", settings=hidden) as served:
        with session(served, tmp_path) as client:
            assert not client.part.tables and client.part.encrypted
            model = load(served.model)
            for text in TEXTS[1:]:
                wanted = reference(model, *embed(model, text, 16)).logits
                # twice the largest of several runs: truncations of shares are random
                assert client.classify(text).logits == pytest.approx(list(wanted), abs=0.0045)
            with pytest.raises(InputError, match="pair"):
                client.classify(("bad", "good"))
            with pytest.raises(InputError, match="tokens"):
                client.classify("film " * 40)
            client.end()
        done = classify(
            served.target, "bad", insecure_plain_tcp=True
        )  # which keeps the part in its own cache
        assert done.returncode == 0, done.stderr + served.output


def test_once_serves_one_client_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    mine: Identity = new_identity(tmp_path / "client", ["client"])
    admitting = ["--new-certificate", str(tmp_path / "pem"), "--client-ca", str(mine.certificate)]
    with serving(tmp_path, *admitting, settings={"service": {"once": True}}) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as raw:
            raw.sendall(b"not TLS")
        with pytest.raises(
            PeerError
        ):  # without a certificate: refused in the handshake, or at the first message
            TwoPartyClient(
                dial("127.0.0.1", served.port, trust=served.certificate), PublicCache(tmp_path / "cache")
            )
        shown = {"certificate": mine.certificate, "key": mine.key}
        done = classify(served.target, "bad", *trusting(served), **shown)
        assert done.returncode == 0, done.stderr + served.output
        assert served.process.wait(SECONDS) == 0
        known_by = f'"client": "{fingerprint(mine.certificate)}"'
        assert '"texts": 1, "ending": "answered"' in served.output and known_by in served.output


def test_once_is_not_for_clients_that_ask_for_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, "--insecure-plain-tcp", settings={"service": {"once": True}}) as served:
        with session(served, tmp_path) as client:
            client.end()
        assert served.says('"texts": 0, "ending": "asked nothing"')
        assert classify(served.target, "bad", insecure_plain_tcp=True).returncode == 0
        assert served.process.wait(SECONDS) == 0


def test_a_fingerprint_or_a_name_is_enough_to_know_the_server(tmp_path: Path) -> None:
    named = ["--new-certificate", str(tmp_path / "pem"), "--name", "model.example"]
    with serving(tmp_path, *named, "--max-texts", "3") as served:
        hashed = fingerprint(served.certificate)
        assert hashed in served.output
        trusted = ["--trust", str(served.certificate)]
        assert classify(served.target, "bad", fingerprint=hashed.upper()).returncode == 0, served.output
        assert classify(served.target, "bad", *trusted, name="model.example").returncode == 0, served.output
        assert classify(served.target, "bad", *trusted).returncode == 0, served.output
        done = classify(served.target, "bad", *trusted)
        assert done.returncode == 2 and "3 texts of one client" in done.stderr
        assert served.says('"ending": "refused"')
        done = classify(served.target, "bad", *trusted, name="other.example")
        assert done.returncode == 2 and "not valid for name" in done.stderr
        done = classify(served.target, "bad", fingerprint="00" * 32)
        assert done.returncode == 2 and "fingerprint" in done.stderr


def test_a_server_that_everybody_reaches_is_warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACITA_SERVICE__HOST", "0.0.0.0")
    with serving(tmp_path, "--insecure-plain-tcp") as served:
        assert served.says("warning: whoever reaches this address is served")


def test_a_hidden_embedding_is_for_known_clients() -> None:
    status, _, err = run("serve", "--insecure-plain-tcp", two_party__hidden_embeddings=True)
    assert status == 2 and "--client-ca" in err and "insecure_any_client" in err


def test_a_server_that_dies_ends_the_client_with_an_error(tmp_path: Path) -> None:
    with serving(tmp_path, "--insecure-plain-tcp") as served:

        def die(step: str) -> None:
            if step == "layer0.feed_forward":
                served.process.kill()

        with session(served, tmp_path) as client, pytest.raises(PeerError):
            client.classify(TEXTS[0], die)


def test_answers_that_came_are_written_when_the_session_breaks(tmp_path: Path) -> None:
    texts, report = tmp_path / "three.txt", tmp_path / "report.json"
    texts.write_text("\n".join(TEXTS[:3]))
    with serving(tmp_path, "--insecure-plain-tcp", "--max-texts", "2") as served:
        done = classify(served.target, "--file", str(texts), "--json", str(report), insecure_plain_tcp=True)
    assert done.returncode == 2 and "2 texts" in done.stderr.replace("\n", " "), done.stderr
    found = json.loads(report.read_text())
    assert [row["line"] for row in found["results"]] == [1, 2]
    assert found["unanswered"] == [3]


def test_control_c_ends_the_server(tmp_path: Path) -> None:
    with interrupts(), serving(tmp_path, "--insecure-plain-tcp") as served:
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(SECONDS) == 130


def test_a_server_in_the_background_is_not_ended_by_control_c(tmp_path: Path) -> None:
    with interrupts(signal.SIG_IGN), serving(tmp_path, "--insecure-plain-tcp") as served:
        served.process.send_signal(signal.SIGINT)
        done = classify(served.target, "bad", insecure_plain_tcp=True)
        assert done.returncode == 0, done.stderr + served.output
        assert served.process.poll() is None


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        done = classify(f"127.0.0.1:{taken.getsockname()[1]}", "bad", insecure_plain_tcp=True)
    assert done.returncode == 2 and done.stderr.startswith("error:")
