"""A folder of this program alone, in which it never touches what it did not write.

The journal `written.list` marks the folder as ours and names every file before it is made, so that a killed
process's files are known to the next one. Only regular files whose names are in it and fit the pattern are
ever overwritten or deleted, one by one. The folder is opened once, without following a symbolic link, and
everything in it is reached through that descriptor; a link in place of the folder or of a file is refused,
and its target stays as it is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from tacita.errors import FileError, ResourceError

JOURNAL = "written.list"
HEAD = b"tacita-spill 1"  # then a name on each line
PART = ".part"  # of the name of a file that is being written
FOREIGN = "look at it, and move it away or choose another --work"
REFUSED = (errno.ELOOP, errno.ENOTDIR)  # a link, or a file where the folder should be


class OwnFolder:
    """Private (0700) and locked for this process until `release`. owned: what names of files look like.

    Raises FileError when the folder cannot be made, is a link, of another user or holds files without our
    journal; ResourceError when another process has it.
    """

    def __init__(self, path: Path, owned: re.Pattern[str]) -> None:
        self.path, self._owned = path, owned
        self._folder = _open_folder(path)
        try:
            _lock(path, self._folder)
            self._journal = _journal(path, self._folder)
            self._written = self._read_journal()
        except BaseException:
            os.close(self._folder)
            raise
        os.fchmod(self._folder, 0o700)

    def write(self, name: str, *parts: bytes) -> None:
        """Makes or replaces a file in one step. Raises FileError; then the folder is as before."""
        temporary = name + PART
        try:
            self._claim(temporary)
            self._claim(name)
            self._put(temporary, parts)
            os.rename(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            with suppress(OSError):
                self.delete(temporary)
            raise FileError(
                f"{self.path / name}: cannot be written ({error})", hint="check the folder's space and rights"
            ) from error

    def read(self, name: str, most: int, head: int = 0) -> tuple[bytes, bytes]:
        """Up to `most` + 1 bytes of a regular file, in two parts: `head` bytes, and the rest. Raises OSError:
        absent, a link."""
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            return file.read(head), file.read(most + 1 - head)

    def names(self) -> set[str]:
        """Files that this program wrote, in this process or an earlier one."""
        return {name for name in os.listdir(self._folder) if self._is_ours(name)}

    def unknown(self) -> list[str]:
        """Everything else in the folder but the journal, sorted. It is never touched."""
        return sorted(set(os.listdir(self._folder)) - self.names() - {JOURNAL})

    def delete(self, name: str) -> None:
        """Removes a file if it is there and ours."""
        if self._is_ours(name):
            os.unlink(name, dir_fd=self._folder)

    def free(self) -> int:
        """Bytes that the disk has left for us."""
        disk = os.fstatvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def release(self, *, keep: bool) -> None:
        """Gives the folder free; unless `keep`, removes what is ours, and the folder if that was all."""
        try:
            if not keep:
                with suppress(OSError):
                    self._remove()
        finally:
            os.close(self._journal)
            os.close(self._folder)

    def _remove(self) -> None:
        for name in self.names():
            self.delete(name)
        if self.unknown():
            os.ftruncate(self._journal, len(HEAD))
        elif _same(self.path, self._folder):
            os.unlink(JOURNAL, dir_fd=self._folder)
            os.rmdir(self.path)

    def _claim(self, name: str) -> None:
        """Enters a name into the journal. Raises OSError when something of this name is there that is not
        ours."""
        if self._mode(name) is not None and not self._is_ours(name):
            raise OSError(errno.EEXIST, "this name is taken by something that Tacita did not write")
        if name not in self._written:
            os.write(self._journal, b"\n" + name.encode())
            self._written.add(name)

    def _put(self, name: str, parts: tuple[bytes, ...]) -> None:
        self.delete(name)  # what a killed process left
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=self._folder), "wb") as file:
            for part in parts:
                file.write(part)

    def _is_ours(self, name: str) -> bool:
        return name in self._written and stat.S_ISREG(self._mode(name) or 0)

    def _mode(self, name: str) -> int | None:
        """Returns the mode of the entry itself, not of what it links to; None when there is none."""
        try:
            return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None

    def _read_journal(self) -> set[str]:
        """Names of earlier processes' files. A line that was cut by a full disk or a kill names no file."""
        with os.fdopen(os.dup(self._journal), "rb") as file:
            head, *lines = file.read().decode("ascii", "replace").split("\n")
        if not head:  # killed when it had just been made
            os.write(self._journal, HEAD)
        elif head != HEAD.decode():
            raise FileError(f"{self.path / JOURNAL}: not a list of Tacita's", hint=FOREIGN)
        return {line for line in lines if self._owned.fullmatch(line.removesuffix(PART))}


def _open_folder(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        what = "not a folder but a file or a symbolic link" if error.errno in REFUSED else "cannot be made"
        raise FileError(f"{path}: {what} ({error})", hint="move it away or choose another --work") from error
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise FileError(f"{path}: belongs to another user", hint="choose another --work")
    return descriptor


def _lock(path: Path, folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same(path, folder):
            return
    except OSError as error:
        raise ResourceError(f"{path}: in use by another evaluate", hint="wait for it or end it") from error
    raise ResourceError(f"{path}: removed by another evaluate just now", hint="run it again")


def _same(path: Path, folder: int) -> bool:
    """Whether the path still leads to the folder that was opened."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(folder))
    except FileNotFoundError:
        return False


def _journal(path: Path, folder: int) -> int:
    """A descriptor of the journal; a new one only in an empty folder."""
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
    try:
        names = sorted(os.listdir(folder))
        if names and JOURNAL not in names:
            raise FileError(f"{path}: holds {names[0]!r} and no {JOURNAL}: not made by Tacita", hint=FOREIGN)
        journal = os.open(JOURNAL, flags | (0 if names else os.O_CREAT | os.O_EXCL), 0o600, dir_fd=folder)
        if stat.S_ISREG(os.fstat(journal).st_mode):
            return journal
        os.close(journal)
        raise OSError(errno.EINVAL, "not a regular file")
    except OSError as error:
        raise FileError(f"{path / JOURNAL}: cannot be opened ({error})", hint=FOREIGN) from error
