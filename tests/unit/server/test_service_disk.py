"""A full disk that can be emptied; keys and requests that go by themselves."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from service_world import KEY, KEYS, World, world
from test_service_routes import problem

from tacita.errors import ResourceError
from tacita.plans.files import Workdir
from tacita.server import logs
from tacita.server.core import service as core
from tacita.server.store import bodies, keys, ledger, tokens, usage
from tacita.server.store.tables import KeyRow, Quota

Patch = pytest.MonkeyPatch
DAY, MB = 86400.0, 1 << 20


@pytest.fixture
def there(tmp_path: Path, monkeypatch: Patch) -> Iterator[World]:
    with world(tmp_path / "data", monkeypatch) as found:
        yield found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB."""
    libc, path = ctypes.CDLL(None, use_errno=True), tmp_path / "small"
    path.mkdir()
    if libc.mount(b"tmpfs", bytes(path), b"tmpfs", 0, b"size=64m"):
        pytest.skip(f"a file system of its own needs root ({os.strerror(ctypes.get_errno())})")
    yield path
    libc.umount2(bytes(path), 2)  # MNT_DETACH


def fill(folder: Path) -> None:
    """Leaves no byte free."""
    with (folder / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        for size in (MB, 4096, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass


def test_a_full_disk_is_said_and_can_be_emptied(small_disk: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(bodies, "SPARE", MB)
    with world(small_disk / "data", monkeypatch) as there:
        token = there.client("prometheus", operator=True)
        there.put_keys()
        asked = there.post().json()["id"]
        there.pool.answer(asked)
        assert there.call("GET", "/readyz").status_code == 200
        fill(small_disk)
        problem(there.call("GET", "/readyz"), 503, "no-room")
        assert "tacita_disk_free_bytes 0.0" in there.call("GET", "/metrics", token=token).text
        problem(there.put_keys(id="cd" * 16), 507, "no-room")
        assert there.call("GET", f"/v1/requests/{asked}/response").content == b"an answer"
        assert there.call("DELETE", f"/v1/requests/{asked}").status_code == 204
        fill(small_disk)
        assert there.call("DELETE", f"/v1/keys/{KEY}").status_code == 204
        assert there.call("GET", "/v1/keys").json()["keys"] == []
        (small_disk / "ballast").unlink()
        there.sweep()
        assert there.call("GET", "/readyz").status_code == 200
        assert (there.folder / ledger.RESERVE).stat().st_size == ledger.BYTES


def test_an_answer_is_fetched_though_its_use_cannot_be_written_down(there: World, monkeypatch: Patch) -> None:
    there.put_keys()
    asked = there.post().json()["id"]
    there.pool.answer(asked)

    def full(*_: object, **__: object) -> None:
        raise ResourceError("ledger: the disk is full", hint="")

    monkeypatch.setattr(usage, "charge", full)
    assert there.call("GET", f"/v1/requests/{asked}/response").content == b"an answer"


def test_a_sweep_that_fails_is_logged(
    there: World, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokens, "gone", lambda _: 1 / 0)
    caplog.set_level(logging.WARNING, logs.NAME)

    async def once() -> None:
        task = core.asyncio.create_task(core._repeat(0.0, there.service.sweep.run, "sweep-failed"))
        while not caplog.records:
            await core.asyncio.sleep(0)
        task.cancel()

    there.runner.run(once())
    assert caplog.records[0].getMessage() == "sweep-failed"


def test_a_row_whose_files_are_gone_goes_too(there: World) -> None:
    there.put_keys()
    there.put_keys(id="cd" * 16)
    who = tokens.client_of(there.service.ledger, there.token)
    assert who is not None
    bodies.whole(there.service.layout.keys(who.id, KEY)).unlink()
    asked = there.post(params={"key": KEY}).json()["id"]
    there.pool.answer(asked)
    Workdir(there.service.layout.request(asked)).response.unlink()
    there.sweep()
    assert [row["id"] for row in there.call("GET", "/v1/keys").json()["keys"]] == ["cd" * 16]
    problem(there.call("GET", f"/v1/requests/{asked}"), 404, "not-found")


def test_nothing_of_a_revoked_client_stays(there: World) -> None:
    token = there.client("clinic")
    there.put_keys(token=token)
    done, waits = (there.post(token=token).json()["id"] for _ in range(2))
    there.pool.answer(done)
    tokens.revoke(there.service.ledger, "clinic")
    there.sweep()
    assert set(there.pool.cancelled) == {waits}, "by the sweep, or once more by the look of each second"
    assert not any((there.folder / "keys").iterdir()) and not any((there.folder / "requests").iterdir())


def test_a_rotated_token_finds_its_keys(there: World) -> None:
    first = there.client("clinic")
    there.put_keys(token=first)
    listed = there.call("GET", "/v1/keys", token=first).json()
    second = tokens.rotate(there.service.ledger, "clinic", overlap=60.0)
    there.sweep(after=61.0)
    assert there.call("GET", "/v1/keys", token=second).json() == listed and listed["keys"]
    problem(there.call("GET", "/v1/keys", token=first), 401, "no-token")


@pytest.mark.parametrize(("end", "seconds"), [(100, DAY), (None, 30 * DAY)], ids=["stalled", "unused"])
def test_keys_that_nobody_uses_go(there: World, end: int | None, seconds: float) -> None:
    there.put_keys(end=end)
    there.sweep(after=seconds - 60)
    assert len(there.call("GET", "/v1/keys").json()["keys"]) == 1
    there.sweep(after=120)
    assert there.call("GET", "/v1/keys").json()["keys"] == []
    assert not any((there.folder / "keys").iterdir())


def test_keys_that_were_used_longest_ago_make_room(tmp_path: Path, monkeypatch: Patch) -> None:
    with world(tmp_path / "data", monkeypatch, most_keys=2 * len(KEYS)) as there:
        first, second, third = (f"{number:032x}" for number in range(3))
        there.put_keys(id=first)
        there.put_keys(id=second)
        problem(there.put_keys(id=third), 507, "no-room")  # both were used just now
        there.sweep(after=3600.0)
        keys.touch(there.service.ledger, keys.every(there.service.ledger)[0].client, first)
        assert there.put_keys(id=third).status_code == 201
        assert {row["id"] for row in there.call("GET", "/v1/keys").json()["keys"]} == {first, third}


@pytest.mark.parametrize("why", ["unused", "room"])
def test_keys_that_are_asked_by_while_others_go_stay(why: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """Files of gigabytes take a while to go; a text may begin meanwhile."""
    with world(tmp_path / "data", monkeypatch, most_keys=2 * len(KEYS)) as there:
        first, second, third = (f"{number:032x}" for number in range(3))
        there.put_keys(id=first)
        there.put_keys(id=second)
        (client, *_) = (row.client for row in keys.every(there.service.ledger))
        remove = keys.remove

        async def removing(row: KeyRow, *held: Any) -> None:
            await remove(row, *held)
            there.service.texts.begin(client, second, 1, None)

        monkeypatch.setattr(keys, "remove", removing)
        there.sweep(after=3600.0)
        if why == "room":
            monkeypatch.setattr(type(there.service.sweep), "_fits", lambda self, new: False)
            problem(there.put_keys(id=third), 507, "no-room")
        else:
            there.sweep(after=40 * DAY)
        assert {row["id"] for row in there.call("GET", "/v1/keys").json()["keys"]} == {second}


def test_visitors_push_out_visitors_alone(tmp_path: Path, monkeypatch: Patch) -> None:
    with world(tmp_path / "data", monkeypatch, most_keys=2 * len(KEYS), anybody=Quota()) as there:
        named, visitor = there.token, there.visitor()
        there.put_keys(token=named)
        there.sweep(after=3000.0)
        there.put_keys(token=visitor)
        there.sweep(after=3000.0)
        assert there.put_keys(token=there.visitor()).status_code == 201
        assert there.call("GET", "/v1/keys", token=visitor).json()["keys"] == []
        assert len(there.call("GET", "/v1/keys", token=named).json()["keys"]) == 1
        problem(there.put_keys(token=there.visitor()), 507, "no-room")
