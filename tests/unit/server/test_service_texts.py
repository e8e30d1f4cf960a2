"""Texts whose rows the service keeps: who may name one, what it takes of a quota, and when it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import service_world
from service_world import ASKED, KEY, MODEL, SCHEME, Clock, World, offers, problem, world

from tacita.plans import wire
from tacita.plans.wire import State
from tacita.server.core.offers import Offers
from tacita.server.core.texts import KeptText, Texts
from tacita.server.store import keys, tokens
from tacita.server.store.tables import Quota

Patch = pytest.MonkeyPatch
BYTES, SILENT, OTHER = 1000, 600.0, "cd" * 16


def keeping() -> Offers:
    """Returns the offers of a world, whose plan keeps the rows of texts."""
    only = offers().named[MODEL, SCHEME]
    kept = {"kept_bytes": BYTES, "kept_seconds": SILENT}
    plan = replace(only.files, kept=only.files.request)
    offer = only.offer.model_copy(update={"plan": plan.hash, **kept})
    return Offers({(MODEL, SCHEME): replace(only, plan=plan, offer=offer)}, offers().models)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: Patch) -> Iterator[World]:
    found = keeping()
    monkeypatch.setattr(service_world, "offers", lambda: found)
    with world(tmp_path / "data", monkeypatch, silent=SILENT) as made:
        assert made.put_keys().status_code == 201
        yield made


def begin(there: World, key: str = KEY, token: str | None = None, **headers: str) -> Any:
    return there.call("POST", "/v1/texts", params={**ASKED, "key": key}, token=token, headers=headers)


def end(there: World, id: str, key: str = KEY, token: str | None = None) -> Any:
    return there.call("DELETE", f"/v1/texts/{id}", params={"key": key}, token=token)


def folders(there: World) -> list[str]:
    return [path.name for path in (there.folder / "texts").glob("*/*/*")]


def test_a_text_has_a_folder_below_its_key_until_it_is_ended(there: World) -> None:
    kept = wire.Kept.model_validate_json(begin(there).content)
    assert (kept.bytes, kept.seconds) == (BYTES, SILENT)
    id = there.post(params={"text": kept.id}).json()["id"]
    folder = there.pool.jobs[id].order.text
    assert folder is not None and folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700
    assert folder.parts[-2:] == (KEY, kept.id) and folders(there) == [kept.id]
    assert end(there, kept.id).status_code == 204
    assert there.pool.cancelled == [id] and not folder.exists()
    assert list((there.folder / "texts").iterdir()) == []
    problem(there.post(params={"text": kept.id}), 410, wire.NO_TEXT)
    problem(end(there, kept.id), 410, wire.NO_TEXT)


def test_a_handle_is_nobodys_but_below_the_key_that_it_was_made_with(there: World) -> None:
    """Another client with the same id of keys, and another key of the same client, are told what they are
    told of a handle that never was."""
    id, other = begin(there).json()["id"], there.client("other")
    assert there.put_keys(token=other).status_code == 201 == there.put_keys(id=OTHER).status_code
    told = problem(there.post(params={"text": "0" * 32}), 410, wire.NO_TEXT)
    data = service_world.request_bytes(there.folder, OTHER)
    for found in (
        there.post(params={"text": id}, token=other),
        there.post(data, params={"text": id, "key": OTHER}),
        end(there, id, token=other),
        end(there, id, OTHER),
    ):
        assert problem(found, 410, wire.NO_TEXT) == told
    assert folders(there) == [id]
    for hostile in ("", "../" + id, id.upper(), id[:-1], f"{id}%00", "٣" * 32):
        assert there.post(params={"text": hostile}).status_code == 422
        assert end(there, hostile.replace("/", "%2F") or ".").status_code in (404, 405, 422)
    assert there.post().status_code == 400 and folders(there) == [id]


def test_a_quota_is_taken_whole_before_the_first_row(there: World) -> None:
    """What is refused says what is taken and what is allowed, and nobody's text is dropped for it."""
    few, small = there.client("few", Quota(caches=1)), there.client("small", Quota(cache_bytes=2 * BYTES - 1))
    other = begin(there).json()["id"]
    for token, says in [
        (few, "1 texts of this client are kept, at most 1"),
        (small, f"texts of this client take {BYTES} bytes, this one {BYTES}, at most {2 * BYTES - 1}"),
    ]:
        problem(begin(there, token=token), 404, "no-keys")
        assert there.put_keys(token=token).status_code == 201
        id = begin(there, token=token).json()["id"]
        refused = problem(begin(there, token=token), 403, "quota")
        assert refused.detail == says and {id, other} <= {*folders(there)}
        assert end(there, id, token=token).status_code == 204
        assert begin(there, token=token).status_code == 201
    assert there.post(params={"text": other}).status_code == 202
    assert 'tacita_refused_total{why="quota-caches"} 2.0' in there.service.metrics.text().decode()


def test_a_disk_without_room_for_all_texts_whole_begins_no_other(there: World, monkeypatch: Patch) -> None:
    begin(there)
    layout = type(there.service.layout)
    monkeypatch.setattr(layout, "has_room", lambda self, count: count < 2 * BYTES)
    problem(begin(there), 507, "no-room")
    assert len(folders(there)) == 1


def test_a_silent_text_goes_and_one_that_is_asked_stays(there: World) -> None:
    silent, asked = (begin(there).json()["id"] for _ in range(2))
    id = there.post(params={"text": asked}).json()["id"]
    there.sweep(after=SILENT + 1)
    assert folders(there) == [asked]
    there.pool.answer(id)
    there.sweep(after=SILENT - 1)
    assert folders(there) == [asked]
    there.sweep(after=2)
    assert folders(there) == []
    for gone in (silent, asked):
        problem(there.post(params={"text": gone}), 410, wire.NO_TEXT)


def test_a_text_that_is_asked_while_others_end_stays(there: World, monkeypatch: Patch) -> None:
    first, second = (begin(there).json()["id"] for _ in range(2))
    asked, true = there.service.texts.all[1], Texts.end

    async def ending(texts: Texts, text: KeptText) -> None:
        await true(texts, text)
        texts.step(asked, first)

    monkeypatch.setattr(Texts, "end", ending)
    there.sweep(after=SILENT + 1)
    assert folders(there) == [second]


def test_keys_make_no_room_for_others_while_a_text_needs_them_and_take_it_along(there: World) -> None:
    id, days = begin(there).json()["id"], 40 * 86400.0
    clock = there.service.settings.clock
    assert isinstance(clock, Clock)
    clock.now += days
    (row,) = keys.every(there.service.ledger)
    assert there.service.sweep._in_order(visitors_only=False) == []
    assert there.call("DELETE", f"/v1/keys/{KEY}").status_code == 204
    assert folders(there) == [] and there.service.texts.all == []
    problem(there.post(params={"text": id}), 404, "no-keys")
    assert row.id == KEY


def test_rows_stay_until_no_worker_is_at_them(there: World, monkeypatch: Patch) -> None:
    """A request that is cancelled leaves the ledger at once, and its worker later, at its next stage."""
    text = begin(there).json()["id"]
    at, waited = {there.post(params={"text": text}).json()["id"]}, list[tuple[str, list[str]]]()

    async def wait_ended(id: str) -> None:
        waited.append((id, folders(there)))
        at.discard(id)

    (id,) = at
    assert there.call("DELETE", f"/v1/requests/{id}").status_code == 204
    monkeypatch.setattr(there.pool, "works", at.__contains__)
    monkeypatch.setattr(there.pool, "wait_ended", wait_ended)
    there.sweep(after=SILENT + 1)
    assert folders(there) == [text] and at == {id}, "a text is not silent while a worker is at it"
    assert there.post(params={"text": text}).status_code == 202
    assert end(there, text).status_code == 204
    assert (id, [text]) in waited and folders(there) == [] and not at


def test_texts_of_a_revoked_client_go(there: World) -> None:
    begin(there)
    tokens.revoke(there.service.ledger, "c0")
    there.sweep()
    assert folders(there) == [] == list((there.folder / "keys").iterdir())


def test_a_repeated_call_is_one_row(there: World) -> None:
    id = begin(there).json()["id"]
    how: dict[str, Any] = {"params": {"text": id}, "Idempotency-Key": "one"}
    first = there.post(**how).json()["id"]
    there.pool.answer(first)
    again = there.post(**how).json()
    assert (again["id"], again["state"]) == (first, State.done) and there.pool.jobs == {}
    end(there, id)
    assert there.post(**how).json()["id"] == first  # the response that is there


def test_a_text_that_is_begun_again_is_one(there: World) -> None:
    """A client that does not hear the answer repeats its call, and pays for one text of its quota."""
    once, small = {"Idempotency-Key": "once"}, there.client("small", Quota(caches=1))
    assert there.put_keys(token=small).status_code == 201 == there.put_keys(id=OTHER).status_code
    first, again = (begin(there, token=small, **once).json() for _ in range(2))
    assert first == again and len(folders(there)) == 1
    problem(begin(there, token=small, **{"Idempotency-Key": "twice"}), 403, "quota")
    id = begin(there, **once).json()["id"]  # another client's
    assert {*folders(there)} == {id, first["id"]} and begin(there).json()["id"] not in (id, first["id"])
    problem(begin(there, OTHER, **once), 422, "other-request")
    problem(begin(there, **{"Idempotency-Key": "x" * 65}), 400, "bad-call")
    assert end(there, first["id"], token=small).status_code == 204
    assert begin(there, token=small, **once).json()["id"] != first["id"]


def test_a_restart_ends_all_texts(there: World, monkeypatch: Patch, tmp_path: Path) -> None:
    """An unfinished row fails by the word that has its client read the text anew."""
    text = begin(there).json()["id"]
    id = there.post(params={"text": text}).json()["id"]
    with world(tmp_path / "data", monkeypatch) as again:
        assert folders(again) == [] and again.pool.jobs == {}
        status = again.call("GET", f"/v1/requests/{id}", token=there.token).json()
        assert (status["state"], status["problem"]["code"]) == (State.failed, wire.NO_TEXT)
        problem(again.post(params={"text": text}, token=there.token), 410, wire.NO_TEXT)


def test_a_plan_that_keeps_none_takes_no_text(tmp_path: Path, monkeypatch: Patch) -> None:
    with world(tmp_path / "data", monkeypatch) as there:
        there.put_keys()
        problem(begin(there), 400, "bad-call")
        problem(there.post(params={"text": "0" * 32}), 400, "bad-call")
        offer = there.call("GET", "/v1/models").json()["models"][0]["offers"][0]
        assert not any(name.startswith("kept") for name in offer)
    told = keeping().named[MODEL, SCHEME].offer
    assert wire.Offer.model_validate_json(told.model_dump_json()) == told and told.kept_bytes == BYTES
