"""Commands inside a root of its own: what a container runtime does, by unshare, mount, chroot and setpriv.

A room is a root folder, what is mounted in it, and who runs there. No variable of this machine gets in.
Mounts live in the room's own namespace and are gone when it ends. Linux, as root.
"""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from clean_root.dockerfile import PATHS

DEVICES = ("null", "zero", "full", "random", "urandom")
NO_RIGHTS = ("--clear-groups", "--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all")


@dataclass(frozen=True)
class Room:
    """root: its folder. lent: folders and files of this machine, seen at the same paths, to read. writable:
    path in the room -> a folder of this machine. fixed: whether all the rest can only be read, and whoever
    runs has no rights of root's (`read_only`, `cap_drop`, `no-new-privileges` of compose). hostname: what the
    machine is called there; a runtime gives each new container another."""

    root: Path
    lent: tuple[Path, ...] = ()
    writable: dict[str, Path] = field(default_factory=dict)
    fixed: bool = False
    hostname: str = "c0ffee000001"

    def command(
        self, words: tuple[str, ...], env: dict[str, str], user: str = "0", workdir: str = "/"
    ) -> list[str]:
        """The command line that runs these words there. user: a number."""
        group, home = _account(self.root, user)
        known = PATHS | {"HOME": home} | env
        inner = ["env", "-i", *(f"{name}={value}" for name, value in known.items()), *words]
        limits = NO_RIGHTS if self.fixed else ("--clear-groups",)
        inner = ["setpriv", "--reuid", user, "--regid", group, *limits, "--", *inner]
        begun = f"cd {shlex.quote(workdir)} && exec {shlex.join(inner)}"
        entered = ["chroot", str(self.root), "sh", "-c", begun]
        named = f"echo {shlex.quote(self.hostname)} > /proc/sys/kernel/hostname"
        script = "\n".join(["set -e", named, *map(shlex.join, self._mounts()), f"exec {shlex.join(entered)}"])
        alone = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child"]
        return [*alone, "sh", "-c", script]

    def run(self, words: tuple[str, ...], env: dict[str, str], user: str = "0", workdir: str = "/") -> str:
        """What it prints. Raises CalledProcessError; its standard error is the caller's."""
        command = self.command(words, env, user, workdir)
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def _mounts(self) -> list[list[str]]:
        root, dev = str(self.root), str(self.root / "dev")
        found = [["mount", "--bind", root, root]]
        for path in self.lent:
            found += _bound(path, root + str(path), "ro")
        if self.fixed:
            found.append(["mount", "-o", "remount,bind,ro", root])
        for inside, path in self.writable.items():
            found += _bound(path, root + inside, "rw")
        found += [["mount", "-t", "proc", "proc", f"{root}/proc"]]
        found += [["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", dev]]
        for name in DEVICES:
            found += [["touch", f"{dev}/{name}"], ["mount", "--bind", f"/dev/{name}", f"{dev}/{name}"]]
        return [*found, ["mkdir", "-m", "1777", f"{dev}/shm"]]

    def prepared(self) -> Room:
        """The same, with the places that are mounted over."""
        for inside in ("/proc", "/dev", *self.writable, *map(str, self.lent)):
            place = self.root / inside.lstrip("/")
            if Path(inside).is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
            else:
                place.mkdir(parents=True, exist_ok=True)
        return self


def _bound(path: Path, place: str, how: str) -> list[list[str]]:
    return [["mount", "--bind", str(path), place], ["mount", "-o", f"remount,bind,{how}", place]]


def _account(root: Path, user: str) -> tuple[str, str]:
    """Group and home of a user of that root; without an entry, those that a runtime takes."""
    for line in (root / "etc" / "passwd").read_text(encoding="utf-8").splitlines():
        _, _, number, group, _, home, _ = line.split(":")
        if number == user:
            return group, home
    return "0", "/"
