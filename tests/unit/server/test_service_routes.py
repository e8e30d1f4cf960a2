"""The service's paths: what is told, what is kept, what is refused, and that nothing of it is another
client's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_world import ASKED, KEY, KEYS, World, offers, plan, problem, request_bytes, sha256, world

from tacita.plans import files, wire
from tacita.plans.public_folder import open_public
from tacita.plans.wire import State
from tacita.progress import Progress
from tacita.server.core.sweep import REST, Sweep
from tacita.server.jobs.messages import Done, Passed
from tacita.server.sessions.messages import SessionSpec
from tacita.server.sessions.supervisor import Sessions
from tacita.server.store import tokens, usage
from tacita.server.store.tables import Quota

Patch = pytest.MonkeyPatch
DAY = 86400.0
REQUIRE_KEYS_OF = files.require_keys_of  # which a world does without


@pytest.fixture
def there(tmp_path: Path, monkeypatch: Patch) -> Iterator[World]:
    with world(tmp_path / "data", monkeypatch) as found:
        yield found


@pytest.fixture
def asked(there: World) -> str:
    """The id of a request that waits."""
    assert there.put_keys().status_code == 201
    return str(there.post().json()["id"])


def test_models_are_told_with_their_cost(there: World) -> None:
    found = wire.Models.model_validate_json(there.call("GET", "/v1/models").content)
    (offer,) = found.models[0].offers
    assert (offer.scheme, offer.plan, offer.security_bits) == (
        "thor",
        plan().hash,
        plan().parameters.security_bits,
    )
    assert offer.keys_bytes > 0 and offer.seconds > 0 and found.signer == there.service.signer


def test_the_public_part_is_whole_and_cached(there: World, tmp_path: Path) -> None:
    folder = tmp_path / "public"
    folder.mkdir()
    base = "/v1/models/sst2-tiny/public"
    for name, path in (
        ("public.json", base),
        *((n, f"{base}/{n}") for n in ("plan.json", "tokenizer.json", "embedding.safetensors")),
    ):
        response = there.call("GET", path, params={"scheme": "thor"})
        (folder / name).write_bytes(response.content)
        headers = {"If-None-Match": response.headers["etag"]}
        assert there.call("GET", path, params={"scheme": "thor"}, headers=headers).status_code == 304
    assert open_public(folder).sha256 == offers().models[0].offers[0].public


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/other/public",
        "/v1/models/sst2-tiny/public/salt",
        "/v1/models/sst2-tiny/public/..%2Fplan.json",
    ],
)
def test_nothing_else_is_public(there: World, path: str) -> None:
    assert there.call("GET", f"/v1/models/{path}", params={"scheme": "thor"}).status_code in (404, 422)


def test_keys_come_in_pieces_and_go_on_where_they_stood(there: World) -> None:
    assert there.put_keys(end=9000).json()["received"] == 9000
    problem(there.put_keys(begin=8000), 409, "wrong-place")
    state = there.call("GET", f"/v1/keys/{KEY}").json()
    assert (state["received"], state["bytes"], state["complete"]) == (9000, len(KEYS), False)
    last = there.put_keys(begin=9000)
    assert last.status_code == 201 and last.json()["complete"]
    assert there.put_keys(begin=9000).json()["complete"]  # again is no harm
    assert len(there.call("GET", "/v1/keys").json()["keys"]) == 1


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Content-Range": "bytes 0-1/2"}, 400),
        ({"Content-Range": "bytes 0--1/15000"}, 400),
        ({"Content-Range": "bytes ٣-٤/٥"}, 400),
        ({"Content-Range": f"bytes 0-{len(KEYS) - 1}/{10**14}"}, 422),
        ({wire.SHA256: "0" * 64}, 422),
        ({wire.SHA256: "x"}, 400),
        ({wire.WHOLE_SHA256: "0" * 64}, 422),
        ({wire.PLAN: "0" * 64}, 409),
    ],
)
def test_keys_that_are_not_as_they_say_are_refused(
    there: World, changed: dict[str, str], status: int
) -> None:
    if not changed.get("Content-Range", "").isascii():
        changed = {"Content-Range": changed["Content-Range"].encode()}  # type: ignore[dict-item]
    assert there.put_keys(**changed).status_code == status
    assert (
        not there.call("GET", "/v1/keys").json()["keys"]
        or not there.call("GET", f"/v1/keys/{KEY}").json()["complete"]
    )


@pytest.mark.parametrize("count", [1000, len(KEYS) - 1, len(KEYS) + 1, 10**7])
def test_keys_of_another_length_than_the_plans_are_refused_before_others_make_room(
    count: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    with world(tmp_path / "data", monkeypatch, most_keys=len(KEYS)) as there:
        assert there.put_keys(id="cd" * 16).status_code == 201
        there.sweep(after=REST + 1)
        problem(there.put_keys(bytes(count)), 422, "bad-file")
        (kept,) = there.call("GET", "/v1/keys").json()["keys"]
        assert (kept["id"], kept["complete"]) == ("cd" * 16, True)
        assert there.put_keys().status_code == 201  # those of the right length take its place
        assert [each["id"] for each in there.call("GET", "/v1/keys").json()["keys"]] == [KEY]


def test_keys_are_no_keys_without_their_header(there: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(files, "require_keys_of", REQUIRE_KEYS_OF)
    problem(there.put_keys(), 422, "bad-file")
    (row,) = there.call("GET", "/v1/keys").json()["keys"]
    assert (row["received"], row["complete"]) == (0, False)


def test_a_piece_that_is_too_large_is_refused_before_it_is_read(there: World) -> None:
    headers = {"Content-Length": str(wire.MOST_CHUNK_BYTES + 1)}
    problem(there.put_keys(**headers), 413, "too-large")


def test_more_keys_than_the_quota_are_refused(there: World) -> None:
    token = there.client("one", Quota(keys=1))
    assert there.put_keys(token=token).status_code == 201
    problem(there.put_keys(id="cd" * 16, token=token), 403, "quota")
    assert there.call("DELETE", f"/v1/keys/{KEY}", token=token).status_code == 204
    assert there.put_keys(id="cd" * 16, token=token).status_code == 201


def test_no_more_keys_are_taken_while_others_make_room(there: World, monkeypatch: Patch) -> None:
    async def make_room(*_: object, **__: object) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(Sweep, "make_room", make_room)
    token = there.client("one", Quota(keys=1))
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Range": f"bytes 0-{len(KEYS) - 1}/{len(KEYS)}",
        wire.SHA256: sha256(KEYS),
        wire.WHOLE_SHA256: sha256(KEYS),
        wire.PLAN: plan().hash,
    }
    how = {"params": ASKED, "content": KEYS, "headers": headers}

    async def puts() -> list[int]:
        calls = (there._called("PUT", f"/v1/keys/{id * 16}", how) for id in ("ab", "cd", "ef"))
        return sorted(response.status_code for response in await asyncio.gather(*calls))

    assert there.runner.run(puts()) == [201, 403, 403]


def test_whoever_cancels_a_request_waits_for_the_worker_in_its_folder(
    there: World, asked: str, monkeypatch: Patch
) -> None:
    folder, seen = there.service.layout.request(asked), list[bool]()

    async def wait_ended(id: str) -> None:
        seen.append(folder.exists())

    monkeypatch.setattr(there.pool, "cancel", lambda id: False)  # as when another call did
    monkeypatch.setattr(there.pool, "wait_ended", wait_ended)
    assert there.call("DELETE", f"/v1/requests/{asked}").status_code == 204
    assert seen == [True] and not folder.exists()


def test_a_request_is_answered_and_the_answer_signed(there: World, asked: str) -> None:
    assert there.call("GET", f"/v1/requests/{asked}").json()["state"] == "waiting"
    there.pool.listener(asked, State.running)
    there.pool.listener(asked, Passed(asked, Progress("attention", 1, 4, 1.0, 3.0)))
    running = there.call("GET", f"/v1/requests/{asked}").json()
    assert (running["state"], running["stage"], running["total"]) == ("running", "attention", 4)
    problem(there.call("GET", f"/v1/requests/{asked}/response"), 409, "not-done")
    there.pool.answer(asked)
    done = wire.Status.model_validate_json(there.call("GET", f"/v1/requests/{asked}").content)
    response = there.call("GET", f"/v1/requests/{asked}/response")
    assert done.receipt is not None and response.content == b"an answer"
    sent = sha256(request_bytes(there.folder))
    wire.check(
        done.receipt, there.service.signer, plan=plan().hash, request=sent, response=sha256(response.content)
    )
    assert there.call("DELETE", f"/v1/requests/{asked}").status_code == 204
    assert not there.service.layout.request(asked).exists()
    problem(there.call("GET", f"/v1/requests/{asked}"), 404, "not-found")


def test_events_end_with_the_request(there: World, asked: str) -> None:
    there.pool.answer(asked)
    response = there.call("GET", f"/v1/requests/{asked}/events")
    (event,) = [line for line in response.text.splitlines() if line.startswith("data: ")]
    assert json.loads(event.removeprefix("data: "))["state"] == "done"
    assert response.headers["content-type"].startswith("text/event-stream")


def test_a_request_that_failed_says_why(there: World, asked: str) -> None:
    there.pool.fail(asked, "refused", "the file is damaged", "copy it again")
    found = there.call("GET", f"/v1/requests/{asked}").json()
    assert found["state"] == State.failed and found["problem"]["detail"] == "the file is damaged"


def test_a_defect_is_told_without_its_words(there: World, asked: str) -> None:
    there.pool.fail(asked, "internal", "ValueError: a secret", "")
    assert "secret" not in there.call("GET", f"/v1/requests/{asked}").text


def test_a_request_without_a_response_has_failed(there: World, asked: str) -> None:
    there.pool.listener(asked, Done(asked, 1.5, {}, 1))
    found = there.call("GET", f"/v1/requests/{asked}").json()
    assert found["state"] == State.failed and found["problem"]["code"] == "internal"


@pytest.mark.parametrize("path", ["", "/events", "/response"])
def test_a_request_is_not_told_to_another_client(there: World, asked: str, path: str) -> None:
    other = there.client("other")
    problem(there.call("GET", f"/v1/requests/{asked}{path}", token=other), 404, "not-found")
    problem(there.call("DELETE", f"/v1/requests/{asked}", token=other), 404, "not-found")
    problem(there.call("GET", f"/v1/keys/{KEY}", token=other), 404, "not-found")
    assert there.pool.place(asked) == 0


def test_the_same_call_again_is_the_same_request(there: World) -> None:
    there.put_keys()
    first, second = (there.post(**{"Idempotency-Key": "once"}).json()["id"] for _ in range(2))
    assert first == second and len(there.pool.jobs) == 1
    other = request_bytes(there.folder, content=b"another")
    problem(there.post(other, **{"Idempotency-Key": "once"}), 422, "other-request")


@pytest.mark.parametrize(
    ("data", "changed", "status"),
    [
        (b"garbage", {}, 422),
        (b"", {}, 422),
        (None, {wire.SHA256: "0" * 64}, 422),
        (None, {wire.SHA256: ""}, 400),
        (None, {"Idempotency-Key": "x" * 65}, 400),
        (None, {"Content-Length": str(1 << 40)}, 413),
        (None, {"Content-Length": "1e3"}, 411),
    ],
)
def test_a_request_that_is_not_as_it_says_leaves_nothing(
    there: World, data: bytes | None, changed: dict[str, str], status: int
) -> None:
    there.put_keys()
    response = there.post(data, **changed)
    assert response.status_code == status and str(there.folder) not in response.text
    assert not there.pool.jobs
    requests = there.folder / "requests"
    assert not requests.exists() or not list(requests.iterdir())


@pytest.mark.parametrize(
    "params", [{"deadline": 0}, {"deadline": "nan"}, {"deadline": 1e9}, {"key": "x"}, {"model": "x" * 101}]
)
def test_a_parameter_that_is_none_is_refused(there: World, params: dict[str, object]) -> None:
    there.put_keys()
    found = problem(there.post(params=params), 422, "bad-call")
    assert "x" * 101 not in found.detail


def test_a_request_of_keys_that_are_not_there_is_refused(there: World) -> None:
    problem(there.post(), 404, "no-keys")
    there.put_keys(end=100)
    problem(there.post(), 404, "no-keys")


def test_keys_in_use_are_not_forgotten(there: World, asked: str) -> None:
    problem(there.call("DELETE", f"/v1/keys/{KEY}"), 409, "in-use")
    assert there.call("DELETE", f"/v1/requests/{asked}").status_code == 204
    assert there.pool.cancelled == [asked]
    assert there.call("DELETE", f"/v1/keys/{KEY}").status_code == 204
    who = tokens.client_of(there.service.ledger, there.token)
    assert who is not None and not there.service.layout.keys(who.id, KEY).exists()


def test_a_full_queue_is_told_and_nothing_stays(tmp_path: Path, monkeypatch: Patch) -> None:
    with world(tmp_path / "data", monkeypatch, waiting=1) as there:
        there.put_keys()
        first = there.post()
        assert first.status_code == 202 and first.headers["location"].endswith(first.json()["id"])
        response = there.post()
        problem(response, 429, "busy")
        assert int(response.headers["retry-after"]) > 0
        assert len(list((there.folder / "requests").iterdir())) == 1


def test_what_was_not_finished_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path / "data", monkeypatch) as there:
        there.put_keys()
        first, second = there.post().json()["id"], there.post().json()["id"]
        there.pool.listener(first, State.running)
        token = there.token
        stray = there.service.layout.request("9" * 32)
        stray.mkdir()
    with world(tmp_path / "data", monkeypatch) as again:
        assert list(again.pool.jobs) == [first, second] and not stray.exists()
        again.pool.answer(first)
        found = again.call("GET", f"/v1/requests/{first}", token=token).json()
        assert found["state"] == "done" and found["receipt"]["signature"]


def test_a_server_that_ends_takes_nothing_new(there: World) -> None:
    there.put_keys()
    there.service.close_doors()
    problem(there.post(), 429, "busy")
    problem(there.call("GET", "/readyz", token=""), 503, "not-ready")
    assert there.call("GET", "/healthz", token="").status_code == 200


def test_a_server_without_a_worker_is_not_ready(there: World) -> None:
    assert there.call("GET", "/readyz", token="").status_code == 200
    there.pool.there = False
    problem(there.call("GET", "/readyz", token=""), 503, "not-ready")


def test_a_server_without_the_process_of_its_sessions_is_not_ready(there: World, monkeypatch: Patch) -> None:
    sessions = Sessions(SessionSpec("m", Path("m"), Path("p"), 1, 4, "0" * 64))
    monkeypatch.setitem(there.service.sessions, "m", sessions)
    problem(there.call("GET", "/readyz", token=""), 503, "not-ready")


def test_want_of_room_is_not_the_clients_fault(there: World, asked: str) -> None:
    there.pool.fail(asked, "resources", "the disk is full", "later")
    assert there.call("GET", f"/v1/requests/{asked}").json()["problem"]["status"] == 507


def test_answers_that_nobody_fetched_go(there: World, asked: str) -> None:
    there.pool.answer(asked)
    there.sweep()
    assert there.call("GET", f"/v1/requests/{asked}").status_code == 200
    there.sweep(after=2 * DAY)
    assert there.call("GET", f"/v1/requests/{asked}").status_code == 404


def test_metrics_are_for_operators(there: World, asked: str) -> None:
    there.pool.answer(asked)
    problem(there.call("GET", "/metrics"), 403, "not-operator")
    text = there.call("GET", "/metrics", token=there.client("prometheus", operator=True)).text
    assert 'tacita_requests_total{model="sst2-tiny",scheme="thor",state="done"} 1.0' in text
    spec, first = 'model="sst2-tiny",scheme="thor"', plan().stages[0].name
    assert f'tacita_stage_seconds_total{{{spec},stage="{first}"}} 1.0' in text
    planned = plan().prediction.stage_seconds[0]
    assert f'tacita_stage_estimated_seconds_total{{{spec},stage="{first}"}} {planned!r}' in text
    assert f"tacita_spilled_bytes_total{{{spec}}} 5e+08" in text
    assert "tacita_keys_kept 1.0" in text


def test_use_is_written_down(there: World, asked: str) -> None:
    there.pool.answer(asked)
    there.call("GET", f"/v1/requests/{asked}/response")
    who = tokens.client_of(there.service.ledger, there.token)
    assert who is not None
    used = usage.today(there.service.ledger, who.id)
    assert used.bytes == len(KEYS) + len(request_bytes(there.folder)) + len(b"an answer")
    assert (used.texts, used.seconds) == (1, 1.5)


def test_the_page_of_the_api_names_every_path_and_runs_nothing(there: World) -> None:
    page = there.call("GET", "/docs", token="")
    for path in there.app.openapi()["paths"]:
        assert path.replace("{", "{") in page.text
    assert "<script" not in page.text and "http:" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    takes = "key in query: string ^[0-9a-f]{32}$; deadline in query, optional: number"
    assert takes in page.text and "application/octet-stream" in page.text
    assert there.call("GET", "/docs/style.css", token="").headers["content-type"].startswith("text/css")


def test_no_answer_echoes_what_was_sent(there: World) -> None:
    for path in ("/v1/keys/<script>", "/v1/<script>", "/v1/requests/secret-words"):
        text = there.call("GET", path).text
        assert "<script>" not in text and "secret-words" not in text


def test_plain_names_stand_in_addresses(there: World) -> None:
    problem(
        there.call("POST", "/v1/requests", params={**ASKED, "scheme": "moai", "key": KEY}), 404, "not-found"
    )
