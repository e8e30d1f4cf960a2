"""Files of spilled ciphertexts: checked when read, whole or absent, in a private folder that one process
owns."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spilling import encrypt, leave_disk, spilling

from tacita.errors import FileError, ResourceError
from tacita.evaluate.spill import SpillStore
from tacita.evaluate.spill.folder import JOURNAL
from tacita.evaluate.spill.store import HEADER

PAYLOAD = bytes(range(200))


def entries(store: SpillStore) -> set[str]:
    return {path.name for path in store.folder.iterdir()}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SpillStore]:
    made = SpillStore(tmp_path / "spill")
    yield made
    made.close(keep=True)


def test_what_is_written_is_read_and_counted(store: SpillStore) -> None:
    files = [store.write(PAYLOAD), store.write(b"")]
    assert [store.load(file) for file in files] == [PAYLOAD, b""]
    assert store.on_disk == store.peak == store.bytes_written == store.bytes_read == 200 + 2 * HEADER.size
    store.remove(files[0])
    assert (store.on_disk, store.peak) == (HEADER.size, 200 + 2 * HEADER.size)
    assert entries(store) == {files[1].name, JOURNAL}


def test_what_has_a_file_makes_room_before_what_is_older(store: SpillStore) -> None:
    be = spilling(store, ciphertexts=2)
    old, young = (encrypt(be, [float(i)]) for i in range(2))
    be.pool.persist(young)
    written, third = store.bytes_written, encrypt(be, [2.0])
    assert store.bytes_written == written, "nothing is written again"
    assert [each.entry.value is None for each in (old, young, third)] == [False, True, False]


def test_only_the_owner_can_look(store: SpillStore) -> None:
    path = store.folder / store.write(PAYLOAD).name
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "251 bytes, 252 were spilled"),
        (lambda data: data + b"x", "were spilled"),
        (lambda data: b"", "0 bytes"),
        (lambda data: data[:-1] + b"x", "checksum does not match"),
        (lambda data: b"x" + data[1:], "not the file that was spilled"),
        (lambda data: data[:20] + b"x" + data[21:], "not the file that was spilled"),
    ],
    ids=["truncated", "longer", "empty", "payload", "magic", "header"],
)
def test_damaged_files_are_refused(store: SpillStore, damage: Callable[[bytes], bytes], message: str) -> None:
    file = store.write(PAYLOAD)
    path = store.folder / file.name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileError, match=message) as caught:
        store.load(file)
    assert file.name in str(caught.value)
    assert "--no-resume" in caught.value.hint


def test_an_absent_file_and_a_swapped_one_are_refused(store: SpillStore) -> None:
    a, b = store.write(PAYLOAD), store.write(PAYLOAD[::-1])
    (store.folder / a.name).replace(store.folder / b.name)
    with pytest.raises(FileError, match="cannot be read"):
        store.load(a)
    with pytest.raises(FileError, match="not the file that was spilled"):
        store.load(b)


def test_a_full_disk_is_told_in_bytes_and_changes_nothing(
    store: SpillStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_disk(monkeypatch, 400)
    file = store.write(PAYLOAD)
    with pytest.raises(
        ResourceError, match=f"needs {file.size} bytes in .*spill, {400 - file.size} are free"
    ):
        store.write(PAYLOAD)
    assert store.load(file) == PAYLOAD
    assert entries(store) == {file.name, JOURNAL}


def test_the_systems_full_disk_is_the_same_error(store: SpillStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.rename", full)
    with pytest.raises(ResourceError, match="spilling a ciphertext needs"):
        store.write(PAYLOAD)
    assert entries(store) == {JOURNAL}
    assert store.on_disk == 0


def test_held_files_stay_until_they_are_held_no_more(store: SpillStore) -> None:
    a, b = store.write(PAYLOAD), store.write(PAYLOAD)
    store.hold({a.name})
    store.remove(a)
    assert store.load(a) == PAYLOAD
    store.hold({b.name})
    assert entries(store) == {b.name, JOURNAL}
    assert store.on_disk == b.size


def test_one_process_has_the_folder(store: SpillStore) -> None:
    with pytest.raises(ResourceError, match="in use by another evaluate"):
        SpillStore(store.folder)
    store.close(keep=True)
    SpillStore(store.folder).close(keep=False)
    assert not store.folder.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be made|not a folder"):
        SpillStore(tmp_path / "file" / "spill")
