"""Backups: what is in one, what is left out, and what a restore refuses."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tacita.errors import FileError, InputError, ResourceError
from tacita.plans.wire import State
from tacita.schemes.base import silent
from tacita.server.core import backup
from tacita.server.core.backup import back_up, restore
from tacita.server.core.settings import signing_key
from tacita.server.store import keys, requests, tokens
from tacita.server.store.bodies import Layout, part, whole
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import KeyRow, Quota, RequestRow

KEY, PARTLY, GONE, DAMAGED = ("ab" * 16, "bc" * 16, "cd" * 16, "de" * 16)
WAITS, DONE, FAILED, LOST = ("01" * 16, "23" * 16, "45" * 16, "67" * 16)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a server that runs, with rows and files of every kind."""
    folder = tmp_path / "data"
    ledger, layout = Ledger(folder), Layout(folder)
    signing_key(folder)
    who = tokens.client_of(ledger, tokens.add(ledger, "clinic", Quota()))
    assert who is not None
    for id, content in ((KEY, b"keys"), (PARTLY, b"half"), (GONE, b""), (DAMAGED, b"kexs")):
        complete = id != PARTLY
        row = KeyRow(who.id, id, "m", "thor", "c" * 64, 4, 4, sha256(b"keys"), complete, 1.0)
        keys.put(ledger, row)
        if content:
            layout.keys(who.id, id).mkdir(parents=True)
            (whole if complete else part)(layout.keys(who.id, id)).write_bytes(content)
    for id, state in (
        (WAITS, State.running),
        (DONE, State.done),
        (FAILED, State.failed),
        (LOST, State.waiting),
    ):
        response = sha256(b"answer") if state is State.done else None
        row_ = RequestRow(
            id, who.id, "m", "thor", "c" * 64, KEY, sha256(b"ask"), state, 1.0, response=response
        )
        requests.add(ledger, row_)
        if id in (WAITS, DONE):
            layout.request(id).mkdir(parents=True)
            (layout.request(id) / "request.ct").write_bytes(b"ask")
            (layout.request(id) / "response.ct").write_bytes(b"answer" if id == DONE else b"half of an ans")
            (layout.request(id) / "resume.json").write_text("of this process")
    public = folder / "offers" / "m" / "thor" / "public"
    public.mkdir(parents=True)
    (public / "public.json").write_text("{}")
    (public / ".public.json.part").write_text("being written")
    return folder


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    folder = tmp_path / "tls"
    folder.mkdir()
    for name in ("certificate.pem", "key.pem"):
        (folder / name).write_text(name)
    return folder


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_restored_folder_holds_what_rows_name_and_is_private(data: Path, tls: Path, tmp_path: Path) -> None:
    made = back_up(data, tmp_path / "copy", tls, silent, with_keys=True)
    assert (made.keys, made.requests, made.left_out) == (1, 2, 4)
    restore(tmp_path / "copy", tmp_path / "again", tmp_path / "tls2", silent)
    files = below(tmp_path / "again")
    ledger = Ledger(tmp_path / "again")
    (row,), (who,) = keys.every(ledger), tokens.everyone(ledger)
    wanted = {f"keys/{who.id}/{KEY}/evaluation.keys", f"requests/{WAITS}/request.ct"}
    wanted |= {f"requests/{DONE}/response.ct", "offers/m/thor/public/public.json"}
    assert files.keys() == wanted | {"ledger.sqlite", "signing.key"} and row.id == KEY
    assert set(requests.ids(ledger)) == {WAITS, DONE, FAILED}
    assert files["signing.key"] == (data / "signing.key").read_bytes()
    assert below(tmp_path / "tls2") == below(tls)
    tops = [tmp_path / name for name in ("copy", "again", "tls2")]
    assert {path.stat().st_mode & 0o777 for path in tops} == {0o700}
    copies = [path for top in tops for path in top.rglob("*") if path.is_file()]
    assert {path.name for path in copies if path.stat().st_mode & 0o077} <= {"SHA256SUMS"}


def test_a_backup_without_keys(data: Path, tmp_path: Path) -> None:
    made = back_up(data, tmp_path / "copy", None, silent, with_keys=False)
    assert made.keys == 0 and not list((tmp_path / "copy").rglob("*.keys"))
    restore(tmp_path / "copy", tmp_path / "again", None, silent)
    assert keys.every(Ledger(tmp_path / "again")) == []
    assert len(keys.every(Ledger(data))) == 4, "the server's own folder stays as it is"


def test_rows_that_come_while_it_copies_are_of_the_next_one(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, count = backup.Copy.file, itertools.count()

    def slow(self: Any, source: Path, path: str) -> str:
        tokens.add(Ledger(data), f"c{next(count)}", Quota())
        return copy(self, source, path)

    monkeypatch.setattr(backup.Copy, "file", slow)
    back_up(data, tmp_path / "copy", None, silent, with_keys=True)
    restore(tmp_path / "copy", tmp_path / "again", None, silent)
    assert [who.name for who in tokens.everyone(Ledger(tmp_path / "again"))] == ["clinic"]
    assert len(tokens.everyone(Ledger(data))) > 4


def test_what_holds_something_is_not_written_over(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("kept")
    with pytest.raises(InputError, match="holds something already"):
        back_up(data, tmp_path / "full", None, silent, with_keys=True)
    back_up(data, tmp_path / "copy", None, silent, with_keys=True)
    before = below(data)
    with pytest.raises(InputError, match="holds something already"):
        restore(tmp_path / "copy", data, None, silent)
    assert below(data) == before
    with pytest.raises(InputError, match="no server's data folder"):
        back_up(tmp_path / "full", tmp_path / "other", None, silent, with_keys=True)


@pytest.mark.parametrize("name", ["data/signing.key", f"data/requests/{DONE}/response.ct", "tls/key.pem"])
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_damaged_backup_is_refused_and_leaves_nothing(
    name: str, damage: str, data: Path, tls: Path, tmp_path: Path
) -> None:
    back_up(data, tmp_path / "copy", tls, silent, with_keys=True)
    path = tmp_path / "copy" / name
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-1] + b"x")
    before = set(tmp_path.iterdir())
    with pytest.raises(FileError, match="not what SHA256SUMS says" if damage == "changed" else "No such"):
        restore(tmp_path / "copy", tmp_path / "again", tmp_path / "tls2", silent)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "data/../x",
        "data/.hidden",
        "other/x",
        "data",
        "data//x",
        "data/x y",
        "data/x\0",
    ],
)
def test_a_list_that_names_other_files_is_refused(path: str, data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "copy", None, silent, with_keys=True)
    sums = tmp_path / "copy" / "SHA256SUMS"
    for text in (f"{sums.read_text()}{'0' * 64}  {path}\n", "", "zz  data/ledger.sqlite\n"):
        sums.write_text(text)
        with pytest.raises(FileError, match="no list of a backup"):
            restore(tmp_path / "copy", tmp_path / "again", None, silent)
        assert not (tmp_path / "again").exists()


def test_a_certificate_is_not_forgotten(data: Path, tls: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "copy", tls, silent, with_keys=True)
    with pytest.raises(InputError, match="holds a certificate"):
        restore(tmp_path / "copy", tmp_path / "again", None, silent)


def test_a_backup_of_a_later_release_is_refused(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "copy", None, silent, with_keys=True)
    ledger, sums = tmp_path / "copy" / "data" / "ledger.sqlite", tmp_path / "copy" / "SHA256SUMS"
    with sqlite3.connect(ledger) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    lines = [line for line in sums.read_text().splitlines() if "ledger" not in line]
    sums.write_text("\n".join([*lines, f"{sha256(ledger.read_bytes())}  data/ledger.sqlite"]))
    with pytest.raises(FileError, match="version 99"):
        restore(tmp_path / "copy", tmp_path / "again", None, silent)
    assert not (tmp_path / "again").exists()


def test_a_disk_without_room_is_said_before(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacita.resources.shutil.disk_usage", lambda _: type("Usage", (), {"free": 0}))
    with pytest.raises(ResourceError, match="backup needs"):
        back_up(data, tmp_path / "copy", None, silent, with_keys=True)
    assert not (tmp_path / "copy").exists() and not list(tmp_path.glob(".*"))
