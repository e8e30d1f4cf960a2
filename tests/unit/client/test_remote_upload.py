"""Keys on their way: in chunks, from where the server has them, whatever breaks in between; and downloads."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_service import PRESET, SECONDS, TEXTS, Fake, Fault, connected, expected, patient

from tacita.client import keys, session
from tacita.client.blocking import Service
from tacita.client.calls import LoopThread, Meter, Report, in_thread
from tacita.client.store import PlanFolder
from tacita.errors import GoneError, PeerError, RefusedError, TacitaError
from tacita.progress import Progress

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


def chunks(fake: Fake) -> list[int]:
    """Where each chunk that came began."""
    ranges = [headers["content-range"] for method, _, headers in fake.calls if method == "PUT"]
    return [int(each.split()[1].split("-")[0]) for each in ranges]


def test_an_interrupted_upload_sends_only_the_rest(fake: Fake, tmp_path: Path) -> None:
    """In another process: the first had sent two chunks."""

    def interrupt(now: Progress) -> None:
        if now.stage.startswith("sending keys") and now.index == 2:
            raise GoneError("unplugged")

    with connected(fake, tmp_path / "data", progress=interrupt) as service, pytest.raises(GoneError):
        service.classify(TEXTS[0])
    (kept,) = (tmp_path / "data").rglob("evaluation.keys")
    assert kept.stat().st_mode & 0o777 == 0o600 and chunks(fake) == [0, keys.CHUNK_BYTES]
    with connected(fake, tmp_path / "data") as service:
        assert np.allclose(service.classify(TEXTS[0]).logits, expected(TEXTS[0]), atol=0.02)
        cost = service.last
    assert chunks(fake) == [0, keys.CHUNK_BYTES, 2 * keys.CHUNK_BYTES]
    assert cost is not None and cost.sent < 3e6 and "keygen" not in cost.seconds
    assert not kept.exists(), "the server has all of it"


def test_a_chunk_whose_answer_was_lost_is_not_sent_for_good_twice(fake: Fake, tmp_path: Path) -> None:
    """The server took it, so the same again is refused, and the upload goes on behind it."""
    fake.faults = [Fault("PUT", "keys", 502, after=True)]
    with connected(fake, tmp_path / "data") as service:
        service.classify(TEXTS[0])
    assert chunks(fake) == [0, 0, keys.CHUNK_BYTES, 2 * keys.CHUNK_BYTES]


def test_a_server_that_never_takes_a_chunk_is_given_up(fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("PUT", "keys", 409, times=99)]
    waits: list[float] = []
    service = connected(fake, tmp_path / "data", patience=patient(waits, attempts=9))
    with service, pytest.raises(RefusedError, match="a fault: of a test"):
        service.classify(TEXTS[0])
    assert fake.count("PUT", "keys") == keys.CLASHES + 1 and waits == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"received": 0}, "0 bytes after a chunk at 0"),
        ({"bytes": 5, "received": 5}, "the server waits for 5"),
        ({"received": 1 << 60}, "another one"),
        ({"id": "f" * 32}, "another one"),
        ({"plan": "0" * 64}, "another one"),
    ],
)
def test_a_state_that_cannot_be_is_refused(
    change: dict[str, Any], match: str, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fake_api

    true = fake_api.state
    monkeypatch.setattr(fake_api, "state", lambda *a: true(*a).model_copy(update=change))
    with connected(fake, tmp_path / "data") as service, pytest.raises(PeerError, match=match):
        service.classify(TEXTS[0])
    assert fake.count("PUT", "keys") == 1


def test_a_server_that_keeps_no_more_keys_says_so(fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("PUT", "keys", 413)]
    with connected(fake, tmp_path / "data") as service, pytest.raises(RefusedError, match="a fault"):
        service.classify(TEXTS[0])


@pytest.mark.parametrize("cut", [0, 10_000, 30_000])
def test_a_broken_download_is_continued(cut: int, fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("GET", "/response", cut=cut), Fault("GET", "tokenizer.json", cut=cut % 100)]
    with connected(fake, tmp_path / "data") as service:
        assert np.allclose(service.classify(TEXTS[0]).logits, expected(TEXTS[0]), atol=0.02)
    asked = [headers.get("range") for _, path, headers in fake.calls if path.endswith("/response")]
    assert asked == [None, f"bytes={cut}-" if cut else None]


def test_a_damaged_cache_is_fetched_again(fake: Fake, tmp_path: Path) -> None:
    for times in (1, 2):
        with connected(fake, tmp_path / "data") as service:
            service.classify(TEXTS[0])
        assert fake.count("GET", "public") == 4 * times
        (tokenizer,) = (tmp_path / "data").rglob("tokenizer.json")
        tokenizer.write_text("{}")


def test_two_processes_make_one_key(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, and takes what it made."""
    true, began, waited = session.Client.keygen, threading.Event(), threading.Event()

    def generate(*a: Any, **how: Any) -> None:
        began.set()
        assert waited.wait(SECONDS)
        true(*a, **how)

    def watch(now: Progress) -> None:
        if now.stage.startswith("another process"):
            waited.set()

    monkeypatch.setattr(session.Client, "keygen", generate)
    with connected(fake, tmp_path / "data") as one, connected(fake, tmp_path / "data", progress=watch) as two:
        first = threading.Thread(target=one.classify, args=(TEXTS[0],))
        first.start()
        assert began.wait(SECONDS)
        two.classify(TEXTS[1])
        first.join(SECONDS)
    assert len(fake.complete) == 1 and PRESET.startswith("insecure")
    (folder,) = {path.parent for path in (tmp_path / "data").rglob("secret.key")}
    assert {path.name for path in folder.iterdir()} == {"about.json", "lock", "secret.key", "secret.key.use"}
    about = PlanFolder(folder).about
    assert about is not None and {about.key} == fake.complete


@pytest.mark.parametrize("when", ["asked", "sending"])
def test_keys_that_another_process_has_sent_meanwhile_are_not_made_anew(
    when: str, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes the file once the server has all of it: behind our question, or between two chunks."""
    true, begun = keys.key_state, list[str]()

    def send(service: Service, report: Report = lambda now: None) -> None:
        service.run(service.open(["classify"], None, None, Meter()).prepare(Meter(), report))

    def watch(now: Progress) -> None:
        if when == "sending" and now.stage.startswith("sending keys") and now.index == 1:
            send(other)

    async def key_state(*a: Any) -> Any:
        begun.append(when)
        state = await true(*a)
        if when == "asked" and len(begun) == 1:
            await asyncio.to_thread(send, other)
        return state

    monkeypatch.setattr(keys, "key_state", key_state)
    data = tmp_path / "data"
    with connected(fake, data) as other, connected(fake, data) as service:
        send(service, watch)
    assert len(fake.complete) == 1 and chunks(fake) == [0, keys.CHUNK_BYTES, 2 * keys.CHUNK_BYTES]
    assert [*data.rglob("secret.key")] and not [*data.rglob("evaluation.keys")]


def test_an_action_whose_caller_left_ends_at_its_next_report() -> None:
    begun, left = threading.Event(), threading.Event()

    def action(report: Any) -> None:
        begun.set()
        assert left.wait(SECONDS)
        report(Progress("", 0, 1, 0.0, 0.0))
        raise AssertionError("goes on")

    async def leave() -> None:
        task = asyncio.create_task(in_thread(action))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        task.cancel()
        asyncio.get_running_loop().call_soon(left.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())


@pytest.mark.parametrize("handing_over", [True, False])
def test_an_interrupted_call_cleans_up_before_it_ends(
    handing_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the interrupt comes while the call is handed to the loop."""
    loop, order, begun = LoopThread(), list[str](), threading.Event()
    hand_over = loop._loop.call_soon_threadsafe

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            order.append("cleaned")

    def interrupted(*arguments: Any, **_: Any) -> None:
        if handing_over:
            monkeypatch.setattr(loop._loop, "call_soon_threadsafe", hand_over)
            hand_over(*arguments)
        assert begun.wait(SECONDS)
        raise KeyboardInterrupt

    if handing_over:
        monkeypatch.setattr(loop._loop, "call_soon_threadsafe", interrupted)
    with monkeypatch.context() as patch:
        if not handing_over:
            patch.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.run(forever())
        order.append("ended")
    loop.close()
    assert order == ["cleaned", "ended"] and loop.closed


def test_errors_are_of_one_tree(fake: Fake, tmp_path: Path) -> None:
    """Whatever the status of an upload, the error is ours."""
    for status in (400, 401, 403, 404, 410, 422, 500, 302):
        fake.faults = [Fault("PUT", "keys", status)]
        hasty = connected(fake, tmp_path / "data", patience=patient(attempts=1))
        with hasty as service, pytest.raises(TacitaError) as caught:
            service.classify(TEXTS[0])
        assert caught.value.hint
