"""A process of the service that opens little: `python -m tacita.server.confined` binds itself by Landlock
and runs another module in its place.

What is left is the program itself, what it is told to read and to write, and no network of its own. So a
worker that a stranger's bytes took over reads neither the signing key nor the ledger. The kernel binds the
thread that asks and those that it starts, therefore this comes before any library. Linux has it from 5.13 on;
where it is absent, or where the data folder lies in what every process must read, the log says `unconfined`.
Numbers and structures are those of linux/landlock.h; the library of C has no names for them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import runpy
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tacita.server import logs

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on every processor
ASK_VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL  # rights that a file can have, too
PACKAGES = str(Path(__file__).parents[2])  # the folder with this one
SYSTEM = ("/usr", "/lib", "/lib64")  # libraries
FACTS = ("/etc", "/proc", "/sys")  # of the machine: time zone, memory, processors
NAMES = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV", "OPENCL_DYLIB_PATH")
OWN = ("TACITA_MODEL", "TACITA_SIMD")  # and not TACITA_TOKEN
PREFIXES = (
    *("LC_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON", "RAYON_", "RUST_BACKTRACE"),
    *("CUDA_VISIBLE", "OCL_ICD_", "ROCR_VISIBLE"),  # so that a number means the same device
)
KILLED_FIRST = 500  # of 1000, added to a process's badness: see oom_score_adj in proc(5)
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
CARDS = ("/dev/dri", "/dev/kfd", "/dev/nvidia*")  # patterns of what drivers of OpenCL open
CACHES = ("XDG_CACHE_HOME", "CUDA_CACHE_PATH")  # variables of the folder in which they keep kernels


class AbsentError(Exception):
    """Says why a process cannot be confined."""


def command(
    module: str,
    *arguments: str,
    hidden: Path,
    reads: Iterable[Path] = (),
    writes: Iterable[Path] = (),
    cards: bool = False,
) -> tuple[str, ...]:
    """Returns a command that runs a module with these arguments, confined. hidden: a folder in which nothing
    but `reads` and `writes` may be read. cards: whether it computes on a GPU. Start it with `environment`."""
    options = [f"--hidden={hidden.absolute()}", *(f"--read={path.absolute()}" for path in reads)]
    options += [f"--write={path.absolute()}" for path in writes] + ["--cards"] * cards
    return (sys.executable, "-P", "-m", __name__, *options, module, *arguments)


def environment() -> dict[str, str]:
    """Returns the environment of a confined process: what libraries look at, and not what else the operator's
    shell holds. It does not look for modules in the current folder, but where this one found them."""
    names = (*NAMES, *OWN)
    variables = {
        name: value for name, value in os.environ.items() if name in names or name.startswith(PREFIXES)
    }
    return variables | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def confine(hidden: Path, reads: Sequence[Path], writes: Sequence[Path], *, cards: bool = False) -> None:
    """Restricts this thread, and whatever it starts, to these files, and to GPUs where `cards`. Raises
    AbsentError."""
    version = _call(CREATE, None, 0, ASK_VERSION)
    readable = [*_program(hidden), *reads, *(link for path in reads for link in _links(path))]
    rules = [(path, READ) for path in readable] + [(path, _all(version)) for path in writes]
    rules += [(Path(path), READ | WRITE_FILE) for path in DEVICES]
    for pattern in CARDS if cards else ():
        paths = Path("/").glob(pattern.removeprefix("/"))
        rules += [(path, READ | WRITE_FILE | IOCTL) for path in paths]
    network, scope = (0b11 if version >= 4 else 0), (0b11 if version >= 6 else 0)
    fields = (_all(version), network, scope)[: 1 + (version >= 4) + (version >= 6)]
    handle = _call(CREATE, packed := struct.pack(f"{len(fields)}Q", *fields), len(packed), 0)
    try:
        for path, rights in rules:
            _add(handle, path, rights & _all(version))
        ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _call(RESTRICT, handle, 0)
    finally:
        os.close(handle)


def _all(version: int) -> int:
    """Returns every right over files that the kernel of this version of Landlock knows: 13 of the first one,
    then moving between folders, truncating, commands of devices."""
    return (1 << 13 + (version >= 2) + (version >= 3) + (version >= 5)) - 1


def _program(hidden: Path) -> Iterator[Path]:
    """Yields what every process reads. Raises AbsentError where the hidden folder lies in what it cannot do
    without."""
    for path in map(Path, (sys.prefix, sys.base_prefix, PACKAGES, *SYSTEM)):
        if _contains(path, hidden):
            raise AbsentError(f"the data folder lies in {path}")
        yield path
    yield from (path for path in map(Path, (*sys.path, *FACTS)) if not _contains(path, hidden))


def _contains(path: Path, hidden: Path) -> bool:
    return hidden.resolve().is_relative_to(path.resolve())


def _links(folder: Path) -> Iterator[Path]:
    """Yields the files elsewhere that links of a folder, or of one in it, name: as in a cache of models."""
    for pattern in ("*", "*/*"):
        yield from (path.resolve() for path in folder.glob(pattern) if path.is_symlink())


def _add(handle: int, path: Path, rights: int) -> None:
    """Adds a rule for a path; one that is not there needs none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = rights if path.is_dir() else rights & OF_FILES
        _call(ADD, handle, PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes | None) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    wide = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    result = int(library.syscall(ctypes.c_long(number), *wide))
    if result < 0:
        raise AbsentError(f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result


def yield_memory() -> None:
    """Has the kernel end this process before the service where the machine runs short of memory (Linux)."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(KILLED_FIRST), encoding="ascii")


def main() -> None:
    """Lets the kernel end this process first, confines it, and runs the module that it is told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=Path, required=True)
    parser.add_argument("--read", type=Path, action="append", default=[])
    parser.add_argument("--write", type=Path, action="append", default=[])
    parser.add_argument("--cards", action="store_true")
    parser.add_argument("module")
    parser.add_argument("arguments", nargs="*")
    arguments = parser.parse_args()
    yield_memory()
    try:
        confine(arguments.hidden, arguments.read, arguments.write, cards=arguments.cards)
    except (AbsentError, AttributeError, OSError) as error:  # AttributeError: another system than Linux
        logs.start()
        logs.warn("unconfined", why=str(error), module=arguments.module)
    sys.argv = [arguments.module, *arguments.arguments]
    runpy.run_module(arguments.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
