"""A client of the service: one call a text, by files and by two parties, one after the other and at once."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_api import fake_service
from fake_service import CHECKPOINT, SECONDS, TEXTS, TOKEN, Fake, connected, expected, patient, plan_of

import tacita
from tacita.client.connect import connect_async
from tacita.errors import InputError, KeyBudgetWarning, PeerError, PlanError, RefusedError
from tacita.plans.wire import State, Status
from tacita.progress import Progress
from tacita.two_party.protocol.party import Party, over_socket
from tacita.two_party.server import TwoPartyServer

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


def swapped(response: Path) -> None:
    """Another file of the same size."""
    response.write_bytes(response.read_bytes()[::-1])


CLOSE = 0.02  # of two roundings


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Fake]:
    with fake_service(tmp_path / "service") as serving:
        yield serving


def test_one_call_answers_a_text(fake: Fake, tmp_path: Path) -> None:
    seen: list[Progress] = []
    with connected(fake, tmp_path / "data", progress=seen.append) as service:
        assert [each.name for each in service.models().models] == ["toy"]
        assert service.last is None
        answer = service.classify(TEXTS[0])
        first = service.last
        again = service.classify(TEXTS[:2], model="toy", scheme="thor")
    assert np.allclose(answer.logits, expected(TEXTS[0]), atol=CLOSE) and not answer.warnings
    assert isinstance(again, list)
    assert np.allclose([one.logits for one in again], [expected(text) for text in TEXTS[:2]], atol=CLOSE)
    told = next(now for now in seen if "made once" in now.stage)
    assert "MB to send" in told.stage and told.left == pytest.approx(0.2)
    assert any(now.stage.startswith("sending keys") for now in seen)
    steps = ["public", "keygen", "upload", "encrypt", "send", "evaluate", "receive", "decrypt"]
    assert first is not None and list(first.seconds) == steps
    assert first.sent > 9e6 and first.received > 37_000
    assert service.last is not None and "upload" not in service.last.seconds
    assert service.last.sent < 1e6
    assert fake.count("GET", "public") == 4 and fake.count("POST", "requests$") == 3
    assert fake.count("DELETE", "requests/") == 3, "what was fetched is removed at the server"


def test_a_service_without_await_works_where_a_loop_runs_and_closes_twice(fake: Fake, tmp_path: Path) -> None:
    async def notebook() -> None:
        service = connected(fake, tmp_path / "data")
        assert service.models().models
        service.close()
        service.close()

    asyncio.run(notebook())


def test_keys_and_public_part_are_used_by_the_next_process(fake: Fake, tmp_path: Path) -> None:
    for _ in range(2):
        with connected(fake, tmp_path / "data") as service:
            service.classify(TEXTS[0])
    assert fake.count("GET", "public") == 4 and fake.count("PUT", "keys") == 3
    assert len(fake.complete) == 1


def test_four_texts_at_once_each_get_their_answer(fake: Fake, tmp_path: Path) -> None:
    async def ask() -> list[tacita.Answer]:
        how = {"token": fake.token, "trust": fake.certificate, "patience": patient()}
        async with connect_async(fake.url, data=tmp_path / "data", allow_insecure=True, **how) as service:
            return list(await asyncio.gather(*(service.classify(text) for text in TEXTS)))

    found = asyncio.run(ask())
    assert np.allclose([one.logits for one in found], [expected(text) for text in TEXTS], atol=CLOSE)
    assert len(fake.complete) == 1 and fake.count("POST", "requests$") == 4
    (use,) = (tmp_path / "data").rglob("secret.key.use")
    assert json.loads(use.read_text())["answers"] == 4
    assert not list((tmp_path / "data").rglob("request-*")), "nothing is left of requests"


def test_more_answers_of_a_key_than_its_budget_are_warned_of(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacita.plans.presets.answers_of_a_key", lambda plan: 1)
    with connected(fake, tmp_path / "data") as service:
        service.classify(TEXTS[0])
        with pytest.warns(KeyBudgetWarning, match="2 answers were decrypted with this key"):
            service.classify(TEXTS[1])


def test_a_server_without_a_stream_is_asked_again_and_again(fake: Fake, tmp_path: Path) -> None:
    fake.streams = False
    waits: list[float] = []
    with connected(fake, tmp_path / "data", patience=patient(waits)) as service:
        assert np.allclose(service.classify(TEXTS[1]).logits, expected(TEXTS[1]), atol=CLOSE)
    assert fake.count("GET", "events") == 1 and fake.count("GET", r"requests/\w+$") >= 1
    assert waits == sorted(waits) and max(waits, default=0.0) <= 5.0


def test_a_key_that_the_server_lost_is_made_again(fake: Fake, tmp_path: Path) -> None:
    seen: list[Progress] = []
    with connected(fake, tmp_path / "data", progress=seen.append) as service:
        service.classify(TEXTS[0])
        (lost,) = fake.complete
        (fake.folder / "keys" / lost).unlink()
        fake.complete.clear()
        assert np.allclose(service.classify(TEXTS[0]).logits, expected(TEXTS[0]), atol=CLOSE)
    assert fake.complete and lost not in fake.complete
    assert any(now.stage.startswith("new keys") for now in seen)


@pytest.mark.parametrize("what", ["response", "signer"])
def test_a_swapped_response_is_refused(what: str, fake: Fake, tmp_path: Path) -> None:
    """Another of the same size, or one that somebody else signed."""
    with connected(fake, tmp_path / "data") as service:
        service.models()
        if what == "response":
            fake.spoil = swapped
        else:
            fake.signer = Ed25519PrivateKey.generate()
        with pytest.raises(PeerError, match="receipt: ") as caught:
            service.classify(TEXTS[0])
    assert "ask again" in caught.value.hint


def test_another_signer_later_is_refused(fake: Fake, tmp_path: Path) -> None:
    with connected(fake, tmp_path / "data") as service:
        service.models()
    fake.signer = Ed25519PrivateKey.generate()
    with connected(fake, tmp_path / "data") as service:
        with pytest.raises(PeerError, match="signs with key") as caught:
            service.classify(TEXTS[0])
        assert f"tacita keys forget {fake.url}" in caught.value.hint
    assert not fake.count("POST", "requests")


def test_a_failed_request_says_why(fake: Fake, tmp_path: Path) -> None:
    def broken(_: Path) -> None:
        job = next(iter(fake.jobs.values()))
        problem = {"title": "out of memory", "status": 500, "hint": "come back"}
        job.told.append(Status.model_validate({"id": job.told[-1].id, "state": "failed", "problem": problem}))

    fake.spoil = broken
    with (
        connected(fake, tmp_path / "data") as service,
        pytest.raises(PeerError, match="out of memory") as caught,
    ):
        service.classify(TEXTS[0])
    assert caught.value.hint == "come back"
    assert fake.count("DELETE", "requests/") == 1, "and nothing of it stays at the server"


def test_a_request_that_is_cancelled_there_is_refused_here(fake: Fake, tmp_path: Path) -> None:
    fake.go.clear()

    def watch(now: Progress) -> None:
        if now.stage == "waiting":
            (job,) = fake.jobs.values()
            job.tell(state=State.cancelled)

    with (
        connected(fake, tmp_path / "data", progress=watch) as service,
        pytest.raises(RefusedError, match="cancelled"),
    ):
        service.classify(TEXTS[0])


def cancel_at(stage: str, fake: Fake, folder: Path) -> None:
    """Asks, and stops waiting as soon as this stage is shown."""

    async def ask() -> None:
        shown, loop = asyncio.Event(), asyncio.get_running_loop()

        def watch(now: Progress) -> None:
            if now.stage == stage:
                loop.call_soon_threadsafe(shown.set)

        how = {"token": fake.token, "trust": fake.certificate, "progress": watch}
        async with connect_async(fake.url, data=folder, allow_insecure=True, **how) as service:
            asking = asyncio.create_task(service.classify(TEXTS[0]))
            await asyncio.wait_for(shown.wait(), SECONDS)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(ask())


def test_who_stops_waiting_cancels_the_request(fake: Fake, tmp_path: Path) -> None:
    fake.go.clear()
    cancel_at("waiting", fake, tmp_path / "data")
    (job,) = fake.jobs.values()
    assert job.told[-1].state == "cancelled"


def test_what_is_not_offered_is_refused_with_what_is(fake: Fake, tmp_path: Path) -> None:
    with connected(fake, tmp_path / "data") as service:
        for call, match, hint in (
            (lambda: service.classify("fine", model="other"), "no model 'other'", "toy"),
            (lambda: service.classify("fine", scheme="moai"), "scheme 'moai'", "one of thor"),
            (lambda: service.embed("fine"), "no model of the server answers so", "toy"),
            (lambda: service.embed("fine", model="toy"), "answers with a label, not a vector", "classify"),
            (lambda: service.search("fine"), "answers with a label, not scores", "classify"),
            (lambda: service.classify([]), "no text", "pass a text"),
            (lambda: service.classify("fine " * 60), "tokens", ""),
        ):
            with pytest.raises(InputError, match=match) as caught:
                call()
            assert hint in caught.value.hint
    assert not fake.count("POST", "requests")


def test_insecure_parameters_are_refused_before_keys_are_made(fake: Fake, tmp_path: Path) -> None:
    with (
        connected(fake, tmp_path / "data", allow_insecure=False) as service,
        pytest.raises(PlanError, match="bits of security"),
    ):
        service.classify(TEXTS[0])
    assert not list(tmp_path.rglob("secret.key"))


@pytest.mark.parametrize("change", [{"plan": "0" * 64}, {"public": "0" * 64}, {"batch": 7}])
def test_a_public_folder_that_was_not_offered_is_refused(
    change: dict[str, object], fake: Fake, tmp_path: Path
) -> None:
    fake.offered = change
    with connected(fake, tmp_path / "data") as service, pytest.raises(PeerError, match="public folder"):
        service.classify(TEXTS[0])
    assert not list(tmp_path.rglob("secret.key"))


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Party]]]:
    """URLs that were dialled, and the server's party of each; a thread serves it."""
    dialled: list[tuple[str, Party]] = []
    server = TwoPartyServer(plan_of("bumblebee"), CHECKPOINT)
    with ExitStack() as stack:

        def dial(url: str, *, token: str, context: object, **_: object) -> Party:
            assert token == TOKEN and context is not None
            ends = zip(socket.socketpair(), (True, False), strict=True)
            client, party = (over_socket(s, client=c, timeout=SECONDS, threads=1) for s, c in ends)
            dialled.append((url, party))
            serving = threading.Thread(target=server.session, args=(party,))
            serving.start()
            stack.callback(serving.join, SECONDS)
            return client

        module = ModuleType("tacita.client.http.websocket")
        monkeypatch.setattr(module, "dial", dial, raising=False)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        yield dialled


def test_two_parties_are_asked_by_the_same_call(tmp_path: Path, sessions: list[tuple[str, Party]]) -> None:
    with fake_service(tmp_path / "service", ("bumblebee",)) as fake:
        with connected(fake, tmp_path / "data") as service:
            found = service.classify(TEXTS[:2])
            assert service.last is not None and service.last.sent > 1000 and service.last.received > 1000
            with pytest.raises(InputError, match="tokens"):
                service.classify("fine " * 60)
            service.classify(TEXTS[2])
        assert [url for url, _ in sessions] == [fake.url.replace("https", "wss") + "/v1/two-party?model=toy"]
    wanted = [expected(text, "bumblebee") for text in TEXTS[:2]]
    assert np.allclose([one.logits for one in found], wanted, atol=CLOSE)
    assert not list((tmp_path / "data").rglob("secret.key"))


def test_a_connection_that_was_closed_meanwhile_is_made_again(
    tmp_path: Path, sessions: list[tuple[str, Party]]
) -> None:
    with (
        fake_service(tmp_path / "service", ("bumblebee",)) as fake,
        connected(fake, tmp_path / "data") as service,
    ):
        service.classify(TEXTS[0])
        sessions[0][1].native.abort()  # while its thread waits in it
        found = service.classify(TEXTS[1])
    assert len(sessions) == 2 and np.allclose(found.logits, expected(TEXTS[1], "bumblebee"), atol=CLOSE)


@pytest.mark.parametrize("scheme", ["thor", "bumblebee"])
def test_a_visitor_shows_the_token_that_it_is_offered(
    scheme: str, tmp_path: Path, sessions: list[tuple[str, Party]]
) -> None:
    with fake_service(tmp_path / "service", (scheme,)) as fake:
        fake.visitors = True
        with connected(fake, tmp_path / "data", token=None) as service:
            assert service.classify(TEXTS[0]).label
        with connected(fake, tmp_path / "data", token="another") as service, pytest.raises(InputError):
            service.models()


def test_two_parties_of_another_plan_do_not_begin(tmp_path: Path, sessions: list[tuple[str, Party]]) -> None:
    with fake_service(tmp_path / "service", ("bumblebee",)) as fake:
        fake.offered = {"plan": "0" * 64}
        with connected(fake, tmp_path / "data") as service, pytest.raises(PeerError, match="offered was"):
            service.classify(TEXTS[0])


def test_making_keys_can_be_interrupted(fake: Fake, tmp_path: Path) -> None:
    """Nothing is left half-made, and the next call begins anew."""
    cancel_at("evaluation keys", fake, tmp_path / "data")
    kept = {path.name for path in (tmp_path / "data" / "servers").rglob("*") if path.is_file()}
    assert kept == {"server.json", "lock"}
    with connected(fake, tmp_path / "data") as service:
        assert np.allclose(service.classify(TEXTS[0]).logits, expected(TEXTS[0]), atol=CLOSE)


CLIENT = """
import json, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
import tacita
url, token, trust, data = sys.argv[1:]
with tacita.connect(url, token=token, trust=trust, data=data, allow_insecure=True) as service:
    answer = service.classify("a fine film")
assert not [path for path in opened if path.endswith("model.safetensors")], opened
forbidden = ("tacita.models", "tacita.blocks", "tacita.approx", "tacita.checkpoint", "tacita.evaluate")
assert not [name for name in sys.modules if name.startswith(forbidden)], sorted(sys.modules)
assert not [name for name in sys.modules if name.endswith((".parts", ".lowering", ".attention"))]
print(json.dumps(answer.logits))
"""


def test_a_process_without_weights_is_answered(fake: Fake, tmp_path: Path) -> None:
    """It imports nothing that knows a model, and opens no file of one."""
    options = [fake.url, fake.token, str(fake.certificate), str(tmp_path / "data")]
    command = [sys.executable, "-c", CLIENT, *options]
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path, check=False
    )
    assert found.returncode == 0, found.stderr
    assert np.allclose(json.loads(found.stdout), expected("a fine film"), atol=CLOSE)


def test_what_http_and_a_server_need_is_imported_when_somebody_connects() -> None:
    code = """
import sys, tacita, tacita.cli.app
from tacita.client import connect, store
found = sys.modules.keys() & {"httpx2", "websockets", "cryptography", "sqlalchemy"}
assert not found, found
sys.modules["httpx2"] = None
try:
    tacita.connect("https://127.0.0.1:1")
except tacita.TacitaError as error:
    print(error, "|", error.hint)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("connect: httpx2 is not installed | pip install ")
