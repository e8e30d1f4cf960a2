"""What an evaluation's folder holds of others survives it: files, folders, targets of links; and it is
told."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tacita.errors import FileError, ResourceError
from tacita.evaluate import resume
from tacita.evaluate.resume import MANIFEST
from tacita.evaluate.session import FOLDER
from tacita.evaluate.spill import SpillStore
from tacita.evaluate.spill.folder import HEAD, JOURNAL
from tacita.evaluate.spill.store import SpillFile

SPILL = "0123456789abcdef.spill"


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): "" if path.is_dir() else path.read_text()
        for path in sorted(folder.rglob("*"), key=str)
    }


def evaluated(folder: Path) -> list[str]:
    """What a run does to the folder when it finds no resume point; what it tells."""
    told: list[str] = []
    with resume.workspace(folder, told.append) as store:
        store.sweep()
        store.write(b"x")
        store.write_manifest("{}")
    return told


def foreign(folder: Path) -> dict[str, str]:
    (folder / "sub").mkdir(parents=True)
    (folder / "letter.txt").write_text("mine")
    (folder / "sub" / SPILL).write_text("mine too")
    return tree(folder)


def test_a_run_leaves_nothing(tmp_path: Path) -> None:
    assert evaluated(tmp_path / FOLDER) == []
    assert tree(tmp_path) == {}


def test_a_foreign_folder_of_our_name_is_refused_and_survives(tmp_path: Path) -> None:
    before = foreign(tmp_path / FOLDER)
    (tmp_path / FOLDER).chmod(0o755)
    with pytest.raises(FileError, match=r"holds 'letter.txt' and no written.list: not made by Tacita"):
        evaluated(tmp_path / FOLDER)
    assert tree(tmp_path / FOLDER) == before
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o755


def test_a_link_in_place_of_the_folder_is_refused_and_its_target_survives(tmp_path: Path) -> None:
    before = foreign(tmp_path / "target")
    (tmp_path / "target").chmod(0o755)
    (tmp_path / FOLDER).symlink_to(tmp_path / "target")
    with pytest.raises(FileError, match="a symbolic link") as caught:
        evaluated(tmp_path / FOLDER)
    assert "--work" in caught.value.hint
    assert tree(tmp_path / "target") == before
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o755


def test_unknown_files_in_our_folder_survive_and_are_told(tmp_path: Path) -> None:
    SpillStore(tmp_path / FOLDER).close(keep=True)
    before = foreign(tmp_path / FOLDER)
    (tmp_path / FOLDER / SPILL).write_text("looks like ours")
    before[SPILL] = "looks like ours"
    for _ in range(2):  # the folder stays ours
        (line,) = evaluated(tmp_path / FOLDER)
        assert f"holds {SPILL}, letter.txt, sub, which Tacita did not write" in line
        assert tree(tmp_path / FOLDER) == before | {JOURNAL: HEAD.decode()}


def test_a_link_among_our_files_is_neither_read_nor_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    store = SpillStore(tmp_path / FOLDER)
    file = store.write(b"payload")
    target.write_bytes((store.folder / file.name).read_bytes())
    before = target.read_bytes()
    (store.folder / file.name).unlink()
    (store.folder / file.name).symlink_to(target)
    with pytest.raises(FileError, match="a spilled ciphertext cannot be read"):
        store.load(file)
    store.remove(file)
    store.close(keep=False)
    assert target.read_bytes() == before
    assert (tmp_path / FOLDER / file.name).is_symlink()


@pytest.mark.parametrize("name", [MANIFEST, MANIFEST + ".part"])
@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_what_stands_where_we_would_write_is_left_alone(
    name: str, make: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    store = SpillStore(tmp_path / FOLDER)
    make(store.folder / name, target)
    with pytest.raises(FileError, match="did not write"):
        store.write_manifest("{}")
    store.close(keep=False)
    assert target.read_text() == (tmp_path / FOLDER / name).read_text() == "mine"


def test_a_manifest_that_is_a_link_is_no_resume_point(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("{}")
    store = SpillStore(tmp_path / FOLDER)
    (store.folder / MANIFEST).symlink_to(tmp_path / "target")
    with pytest.raises(FileError, match="not a whole resume point"):
        resume.find(store, resume.Run("", "", "", ""))
    store.close(keep=False)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_a_journal_must_be_a_file_and_ours(make: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    make(tmp_path / FOLDER / JOURNAL)
    with pytest.raises(FileError, match=JOURNAL):
        SpillStore(tmp_path / FOLDER)
    assert os.path.lexists(tmp_path / FOLDER / JOURNAL)


def test_a_journal_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / JOURNAL).write_text("milk\neggs\n")
    with pytest.raises(FileError, match="not a list of Tacita's"):
        SpillStore(tmp_path / FOLDER)


def test_a_journal_cannot_name_files_that_we_would_not_write(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    SpillStore(tmp_path / FOLDER).close(keep=True)
    (tmp_path / FOLDER / "notes").write_text("mine")
    with (tmp_path / FOLDER / JOURNAL).open("a") as journal:
        journal.write("\n../letter.txt\nnotes\n" + SPILL[:-3])
    evaluated(tmp_path / FOLDER)
    assert (tmp_path / "letter.txt").exists()
    assert (tmp_path / FOLDER / "notes").exists()


def test_a_process_killed_before_its_first_line_leaves_a_folder_that_is_ours(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / JOURNAL).touch()
    assert evaluated(tmp_path / FOLDER) == []
    assert tree(tmp_path) == {}


def test_a_store_that_is_closed_touches_nothing(tmp_path: Path) -> None:
    store = SpillStore(tmp_path / FOLDER)
    file = store.write(b"x")
    store.hold({file.name})
    store.close(keep=True)
    store.hold(frozenset())
    store.remove(file)
    assert (tmp_path / FOLDER / file.name).exists()
    with pytest.raises(FileError, match="closed"):
        store.write(b"y")


def test_the_folder_cannot_be_taken_from_under_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SpillStore(tmp_path / FOLDER)
    store.folder.rename(tmp_path / "moved")
    before = foreign(tmp_path / FOLDER)
    store.write(b"x")
    store.close(keep=False)
    assert tree(tmp_path / FOLDER) == before
    assert tree(tmp_path / "moved") == {JOURNAL: tree(tmp_path / "moved")[JOURNAL]}


def test_a_folder_that_another_run_removes_meanwhile_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(descriptor: int, _: int) -> None:
        (tmp_path / FOLDER).rmdir()

    monkeypatch.setattr("fcntl.flock", lose)
    with pytest.raises(ResourceError, match="removed by another evaluate"):
        SpillStore(tmp_path / FOLDER)


def test_only_spilled_files_are_read(tmp_path: Path) -> None:
    store = SpillStore(tmp_path / FOLDER)
    (store.folder / SPILL).mkdir()
    with pytest.raises(FileError, match="cannot be read"):
        store.load(SpillFile(SPILL, 1, "00" * 32))
    store.close(keep=False)
    assert (tmp_path / FOLDER / SPILL).is_dir()
