"""What a client may take a day: reserved when a request is admitted, settled when it has ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from service_world import ASKED, KEY, KEYS, MODEL, World, plan, request_bytes, sha256, world
from starlette.types import Message

from tacita.plans import wire
from tacita.plans.wire import State
from tacita.server.core import service as core
from tacita.server.core.accounts import Account
from tacita.server.http.calls import CountedFile, file_response
from tacita.server.sessions.messages import Used
from tacita.server.store import tokens, usage
from tacita.server.store.tables import Quota
from tacita.two_party.protocol.refusal import Reason, Refusal

PLANNED = plan().predicted_seconds()


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(tmp_path / "data", monkeypatch) as found:
        yield found


def small(there: World, **quota: Any) -> str:
    """The token of a client with this quota, whose keys are there."""
    token = there.client("small", Quota(**quota))
    assert there.put_keys(token=token).status_code == 201
    return token


def used(there: World, token: str) -> Used:
    who = tokens.client_of(there.service.ledger, token)
    assert who is not None
    return usage.today(there.service.ledger, who.id)


def test_ten_posts_at_once_under_a_quota_of_one_text_are_one_request(there: World) -> None:
    token, data = small(there, texts=1), request_bytes(there.folder)
    headers = {"Authorization": f"Bearer {token}", wire.SHA256: sha256(data)}
    how = {"params": {**ASKED, "key": KEY}, "content": data, "headers": headers}

    async def posts() -> list[int]:
        calls = (there._called("POST", "/v1/requests", how) for _ in range(10))
        return [response.status_code for response in await asyncio.gather(*calls)]

    assert Counter(there.runner.run(posts())) == {202: 1, 429: 9}
    response = there.post(token=token)
    assert response.json()["code"] == "quota" and 0 < int(response.headers["retry-after"]) <= 86401


@pytest.mark.parametrize("ends", ["cancelled", "failed", "refused"])
def test_what_a_request_without_an_answer_did_not_use_is_given_back(there: World, ends: str) -> None:
    token = small(there, texts=1, seconds=PLANNED)
    before = used(there, token)
    if ends == "refused":
        there.pool.most = 0
        assert there.post(token=token).json()["code"] == "busy"
        there.pool.most = 64
    else:
        first = there.post(token=token).json()["id"]
        assert used(there, token).texts == 1 and used(there, token).seconds == pytest.approx(PLANNED)
        assert there.post(token=token).status_code == 429
        if ends == "cancelled":
            assert there.call("DELETE", f"/v1/requests/{first}", token=token).status_code == 204
        else:
            there.pool.fail(first, "refused", "damaged", "again")
    assert used(there, token).texts == before.texts and used(there, token).seconds == pytest.approx(0.0)
    assert there.post(token=token).status_code == 202


def test_a_request_that_ran_is_charged_the_seconds_that_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10 * 86400.0 - 50.0]
    with world(tmp_path / "data", monkeypatch, clock=lambda: now[0]) as there:
        token = small(there, seconds=1000.0)
        first, second = (there.post(token=token).json()["id"] for _ in range(2))
        there.pool.answer(first)  # after 1.5 s, as it says
        there.pool.listener(second, State.running)
        now[0] += 40.0
        there.pool.fail(second, "deadline", "", "")
        assert (used(there, token).texts, used(there, token).seconds) == (1, pytest.approx(41.5))
        third = there.post(token=token).json()["id"]
        now[0] += 20.0
        assert used(there, token) == Used(), "another day"
        there.call("DELETE", f"/v1/requests/{third}", token=token)
        assert used(there, token) == Used(), "what is given back counts for the day on which it was taken"


def test_a_request_whose_worker_died_is_not_charged_for_waiting_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10 * 86400.0]
    with world(tmp_path / "data", monkeypatch, clock=lambda: now[0]) as there:
        token = small(there)
        id = there.post(token=token).json()["id"]
        there.pool.listener(id, State.running)
        now[0] += 1.0
        there.pool.listener(id, State.waiting)
        now[0] += 1000.0
        assert there.call("DELETE", f"/v1/requests/{id}", token=token).status_code == 204
        assert used(there, token).seconds == 0.0


@pytest.mark.parametrize(
    ("quota", "what"), [({"seconds": PLANNED / 2}, "seconds"), ({"bytes": 20_000}, "bytes")]
)
def test_a_request_that_would_take_more_than_is_left_is_refused(
    there: World, quota: dict[str, float], what: str
) -> None:
    token = small(there, **quota)
    data = request_bytes(there.folder, content=bytes(10_000))
    response = there.post(data, token=token)
    assert (response.status_code, response.json()["code"]) == (429, "quota")
    assert f" {what}, more than" in response.json()["detail"] and not there.pool.jobs


def test_what_quotas_refuse_is_counted_by_what_lacks(there: World) -> None:
    token = small(there, keys=1, texts=1, tokens=5)
    assert there.put_keys(id="cd" * 16, token=token).status_code == 403
    assert [there.post(token=token).status_code for _ in range(2)] == [202, 429]
    who = tokens.client_of(there.service.ledger, token)
    assert who is not None
    session = Account(there.service.jobs, who, MODEL)
    assert session.admit(Used(), Used(texts=1)) == Refusal(Reason.CLIENT, 1)
    assert session.admit(Used(), Used(tokens=6)) == Refusal(Reason.QUOTA, ANY)
    refused = there.service.metrics.registry.get_sample_value
    counts = {what: refused("tacita_refused_total", {"why": f"quota-{what}"}) for what in vars(Quota())}
    assert {what: count for what, count in counts.items() if count} == {"texts": 2, "keys": 1, "tokens": 1}


def test_a_piece_of_keys_takes_its_bytes_however_it_ends(there: World) -> None:
    token = there.client("small", Quota(bytes=2 * len(KEYS) - 1))
    assert there.put_keys(token=token, **{wire.SHA256: "0" * 64}).status_code == 422
    assert used(there, token) == Used(bytes=len(KEYS))
    assert there.put_keys(token=token).json()["code"] == "quota"
    assert used(there, token) == Used(bytes=len(KEYS))


@pytest.mark.parametrize(
    ("asked", "status", "count"),
    [({}, 200, 9000), ({"Range": "bytes=10-14"}, 206, 5), ({"Range": "bytes=9000-"}, 416, 0)],
)
def test_an_answer_takes_the_bytes_of_it_that_are_sent(
    there: World, asked: dict[str, str], status: int, count: int
) -> None:
    token = small(there)
    request = there.post(token=token).json()["id"]
    there.pool.answer(request, bytes(9000))
    before = used(there, token)
    response = there.call("GET", f"/v1/requests/{request}/response", token=token, headers=asked)
    assert (response.status_code, len(response.content)) == (status, count)
    assert used(there, token) - before == Used(bytes=count)
    carried = f'tacita_bytes_total{{way="out",what="responses"}} {count:.1f}'
    assert carried in there.service.metrics.text().decode()


def test_an_answer_whose_connection_breaks_takes_what_was_sent(tmp_path: Path) -> None:
    path, charged, pieces = tmp_path / "response.ct", list[int](), list[Message]()
    path.write_bytes(bytes(4 * CountedFile.chunk_size))

    async def send(message: Message) -> None:
        if len(pieces) == 3:
            raise OSError("it has gone")
        pieces.append(message)

    async def receive() -> Message:
        raise AssertionError

    scope = {"type": "http", "method": "GET", "headers": [], "asgi": {"spec_version": "2.4"}}
    with pytest.raises(OSError, match="it has gone"):
        asyncio.run(file_response(path, "0" * 64, charged.append)(scope, receive, send))
    assert charged == [3 * CountedFile.chunk_size], "of four pieces the one that broke it, too"


def test_calls_at_the_same_time_open_no_more_streams_than_a_client_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path / "data", monkeypatch, streams=2) as there:
        there.put_keys()
        id = there.post().json()["id"]
        how = {"headers": {"Authorization": f"Bearer {there.token}"}}

        async def watch() -> list[int]:
            calls = [there._called("GET", f"/v1/requests/{id}/events", how) for _ in range(5)]
            watching = [asyncio.create_task(call) for call in calls]
            while sum(task.done() for task in watching) + sum(there.service.streams.values()) < 5:
                await asyncio.sleep(0)
            there.pool.answer(id)
            return sorted(response.status_code for response in await asyncio.gather(*watching))

        assert there.runner.run(watch()) == [200, 200, 429, 429, 429]
        assert not there.service.streams


def test_a_client_that_is_revoked_loses_its_requests_and_their_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "LOOK_SECONDS", 0.01)
    with world(tmp_path / "data", monkeypatch) as there:
        token, other = small(there), there.client("other")
        waits, runs = (there.post(token=token).json()["id"] for _ in range(2))
        there.pool.listener(runs, State.running)
        there.put_keys(token=other)
        stays = there.post(token=other).json()["id"]

        async def events() -> list[int]:
            how = {"headers": {"Authorization": f"Bearer {token}"}}
            paths = (f"/v1/requests/{id}/events" for id in (waits, runs))
            watching = [asyncio.create_task(there._called("GET", path, how)) for path in paths]
            while sum(there.service.streams.values()) < 2:
                await asyncio.sleep(0.01)
            tokens.revoke(there.service.ledger, "small")
            async with asyncio.timeout(60.0):
                responses = await asyncio.gather(*watching)
                await asyncio.gather(*there.service._cancelling)
            return [response.status_code for response in responses]

        assert there.runner.run(events()) == [200, 200]
        assert list(there.pool.jobs) == [stays]
        assert not there.service.layout.request(waits).exists()
