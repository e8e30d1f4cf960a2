"""Bodies into files: sizes, checksums, silence, want of disk; uploads that break off; folders that nobody
knows."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacita.errors import FileError, InputError, LateError, ResourceError
from tacita.server.store import keys, tokens
from tacita.server.store.bodies import AT_ONCE, Layout, MinRate, part, receive, whole
from tacita.server.store.keys import Piece
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import KeyRow, Quota

ID = "a" * 32
MIN_RATE = MinRate(patience=30.0, least_rate=1e3)
CONTENT = bytes(range(256)) * 40


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for each in parts:
        yield each


async def silence(first: bytes) -> AsyncIterator[bytes]:
    yield first
    await asyncio.Event().wait()


def received(path: Path, *parts: bytes, count: int, min_rate: MinRate = MIN_RATE) -> bytes:
    asyncio.run(receive(pieces(*parts), path, 0, count, sha256(b"".join(parts)), min_rate))
    return path.read_bytes()


def test_a_body_is_written(tmp_path: Path) -> None:
    assert received(tmp_path / "body", b"ab", b"", b"c", count=3) == b"abc"
    assert (tmp_path / "body").stat().st_mode & 0o077 == 0


def test_bytes_are_written_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, thread = set[str](), asyncio.to_thread

    async def noted(work: Callable[..., Any], *arguments: Any) -> Any:
        threads.add(work.__name__)
        return await thread(work, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    received(tmp_path / "body", bytes(AT_ONCE), b"rest", count=AT_ONCE + 4)
    assert threads == {"write", "fsync"}


@pytest.mark.parametrize(("count", "what"), [(2, "more than the 2"), (4, "3 bytes, 4 were announced")])
def test_a_body_of_another_size_is_refused(tmp_path: Path, count: int, what: str) -> None:
    with pytest.raises(InputError, match=what):
        received(tmp_path / "body", b"ab", b"c", count=count)


def test_a_sender_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(LateError):
        asyncio.run(receive(silence(b"ab"), tmp_path / "body", 0, 4, "", MinRate(0.0, 1e3)))


def test_a_body_may_take_what_its_size_needs() -> None:
    assert MinRate(20.0, 1000.0).whole(5000) == 25.0


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


@pytest.fixture
def row(ledger: Ledger) -> KeyRow:
    who = tokens.client_of(ledger, tokens.add(ledger, "clinic", Quota()))
    assert who is not None
    found = KeyRow(who.id, ID, "m", "thor", "b" * 64, len(CONTENT), 0, sha256(CONTENT), False, 1.0)
    keys.put(ledger, found)
    return found


def accepted(_: Path) -> None:
    """Takes any file for keys."""


def sent(row: KeyRow, data: bytes, ledger: Ledger, layout: Layout, *, said: bytes | None = None) -> KeyRow:
    """A piece where the upload stands. said: what its checksum is of."""
    piece = Piece(row.received, len(data), sha256(data if said is None else said))
    return asyncio.run(keys.take(row, piece, pieces(data), ledger, layout, MIN_RATE, accepted))


def test_pieces_make_the_whole(row: KeyRow, ledger: Ledger, layout: Layout) -> None:
    half = sent(row, CONTENT[:5000], ledger, layout)
    assert (half.received, half.complete) == (5000, False)
    assert not whole(layout.keys(row.client, ID)).exists()
    done = sent(half, CONTENT[5000:], ledger, layout)
    assert done.complete and keys.get(ledger, row.client, ID) == done
    path = whole(layout.keys(row.client, ID))
    assert path.read_bytes() == CONTENT and path.stat().st_mode & 0o077 == 0
    assert not part(path.parent).exists()


def test_a_piece_that_breaks_off_is_sent_again(row: KeyRow, ledger: Ledger, layout: Layout) -> None:
    half = sent(row, CONTENT[:5000], ledger, layout)
    piece = Piece(5000, len(CONTENT) - 5000, sha256(CONTENT[5000:]))
    with pytest.raises(InputError, match="announced"):
        asyncio.run(keys.take(half, piece, pieces(b"x" * 100), ledger, layout, MIN_RATE, accepted))
    assert keys.get(ledger, row.client, ID) == half
    assert sent(half, CONTENT[5000:], ledger, layout).complete
    assert whole(layout.keys(row.client, ID)).read_bytes() == CONTENT


def test_a_damaged_piece_does_not_count(row: KeyRow, ledger: Ledger, layout: Layout) -> None:
    with pytest.raises(FileError, match="body: its checksum"):
        sent(row, CONTENT[:5000], ledger, layout, said=b"other")
    assert keys.get(ledger, row.client, ID) == row


def test_a_whole_of_another_checksum_begins_again(row: KeyRow, ledger: Ledger, layout: Layout) -> None:
    half = sent(row, b"x" * 5000, ledger, layout)
    with pytest.raises(FileError, match="whole file's checksum"):
        sent(half, CONTENT[5000:], ledger, layout)
    found = keys.get(ledger, row.client, ID)
    assert found is not None and (found.received, found.complete, found.sha256) == (0, False, "")
    assert sent(replace(found, sha256=row.sha256), CONTENT, ledger, layout).complete


def test_bytes_behind_the_end_of_an_earlier_try_are_cut_off(
    row: KeyRow, ledger: Ledger, layout: Layout
) -> None:
    folder = layout.keys(row.client, ID)
    folder.mkdir(parents=True)
    part(folder).write_bytes(b"y" * 3 * len(CONTENT))
    assert sent(row, CONTENT, ledger, layout).complete
    assert whole(folder).read_bytes() == CONTENT


def test_a_disk_without_room_is_told_before_anything_is_written(
    row: KeyRow, ledger: Ledger, layout: Layout
) -> None:
    large = replace(row, bytes=1 << 60)
    with pytest.raises(ResourceError, match="no room"):
        sent(large, CONTENT, ledger, layout)
    assert not layout.keys(row.client, ID).exists()


def test_what_the_ledger_does_not_know_is_swept(layout: Layout) -> None:
    known, stray, keys_known, keys_stray = (f"{n:032x}" for n in range(4))
    for folder in (layout.request(known), layout.request(stray), layout.keys(ID, keys_known)):
        folder.mkdir(parents=True)
    layout.keys(ID, keys_stray).mkdir()
    assert layout.sweep({(ID, keys_known)}, {known}) == 2
    assert layout.request(known).exists() and layout.keys(ID, keys_known).exists()
    assert not layout.request(stray).exists() and not layout.keys(ID, keys_stray).exists()


@pytest.mark.parametrize("name", ["", "..", "../" * 3, "A" * 32, "a" * 31, "a" * 33, "a" * 31 + "/"])
def test_no_name_leads_elsewhere(layout: Layout, name: str) -> None:
    with pytest.raises(InputError, match="no id"):
        layout.request(name)
