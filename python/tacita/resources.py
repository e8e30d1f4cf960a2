"""Checks this machine's memory and disk before a run starts, and measures them after it; locks files; names
the devices that compute.

A client also runs on Windows, which has neither `resource` nor `fcntl`.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from tacita import compiled
from tacita.errors import InputError, ResourceError, TacitaError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import resource

Item = TypeVar("Item")
Result = TypeVar("Result")

GB = 1e9
CPU, AUTO = "cpu", "auto"
OPENCL = re.compile(r"opencl(?::(\d{1,3}))?")
DESCRIBED = ("name", "maker", "driver", "memory", "buffer", "fp64", "gpu")
BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # numpy reads them when it is imported


def available_memory() -> int | None:
    """Returns the bytes that can be taken without swapping, the container's limit included; None where the
    system does not say."""
    limits = [value for value in (_meminfo(), _cgroup()) if value is not None]
    return min(limits) if limits else None


def require_memory(need: int, what: str) -> None:
    """Raises ResourceError when `what` would not fit; need in bytes."""
    free = available_memory()
    if free is not None and free < need:
        raise ResourceError(
            f"{what} needs {need / GB:.1f} GB of memory, {free / GB:.1f} GB are available",
            hint="close other programs, use fewer tokens, or run this step on a larger machine",
        )


def require_disk(folder: Path, need: int, what: str) -> None:
    """Raises ResourceError when `what` would not fit into the file system of `folder`; need in bytes."""
    there = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(there).free
    if free < need:
        raise ResourceError(
            f"{what} needs {need / GB:.1f} GB in {folder}, {free / GB:.1f} GB are free",
            hint="choose another --work",
        )


def peak_memory_gb() -> float:
    """Returns the largest resident set of this process so far, in GB; 0 on Windows."""
    if sys.platform == "win32":
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GB


def raise_descriptors() -> int:
    """Lets this process have as many file descriptors as the system allows it, and returns how many. Programs
    are often started with 1,024, and each connection takes one or two."""
    if sys.platform == "win32":
        return sys.maxsize
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        hard = soft
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def resident_bytes() -> int | None:
    """Returns the resident set of this process now, in bytes; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError, AttributeError):
        return None


def trim() -> None:
    """Returns memory to the system that this process freed and the C library keeps for later: after planning
    BERT-base about 1 GB, at some 10 ms a GB. Does nothing where the library has no such call."""
    try:
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return


MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # of mallopt(3): what is allocated alone, what is given back
MOST_ALONE = 1 << 25  # bytes at which glibc's own threshold ends


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """While it is entered, `keep_freed_memory` holds. Then what is free goes back."""
    keep_freed_memory()
    try:
        yield
    finally:
        keep_freed_memory(MOST_ALONE)
        trim()


def keep_freed_memory(alone: int = 1 << 30) -> None:
    """Has the C library keep what arrays below so many bytes free for the next ones: new pages cost up to 3 s
    a GB of the system's time. Does nothing where the library has no such call."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(MMAP_THRESHOLD, alone)
    mallopt(TRIM_THRESHOLD, 2 * alone - 1)


def threads() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], count: int, ahead: int | None = None
) -> Iterator[Result]:
    """Yields what `work` makes of each item, in their order; on so many threads, each in the caller's context
    (`numpy.errstate` is of it). What of its work is numpy's on large arrays runs beside the others', and the
    engine's beside whatever the caller does with what it has. ahead: items that are taken and whose results
    are not yet, at most (default: all)."""
    if count < 2:
        yield from map(work, items)
        return
    context, left = copy_context(), iter(items)
    with ThreadPoolExecutor(count) as pool:
        under_way: deque[Future[Result]] = deque()
        try:
            while True:
                for item in islice(left, None if ahead is None else ahead - len(under_way)):
                    under_way.append(pool.submit(context.copy().run, work, item))
                if not under_way:
                    return
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def one_blas_thread() -> dict[str, str]:
    """Returns the environment for processes whose numpy shall use one thread; what the user has set stays.
    Several threads wait for each other by spinning: beside eight busy processes a plan takes six times the
    processor seconds."""
    return {name: os.environ.get(name, "1") for name in BLAS}


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def _cgroup() -> int | None:
    try:
        root = Path("/sys/fs/cgroup")
        limit = (root / "memory.max").read_text().strip()
        used = int((root / "memory.current").read_text())
        stat = dict(line.split() for line in (root / "memory.stat").read_text().splitlines())
        return (
            None if limit == "max" else int(limit) - used + int(stat.get("inactive_file", 0))
        )  # cache can go
    except (OSError, ValueError):
        return None


# Locks of files that are open, which the system opens when the process ends, however it ends. Windows locks
# bytes, and nobody else can then read them: we take one that no file of ours has.

BEYOND = 1 << 30
AGAIN = 0.05  # seconds between two tries on Windows, which does not wait for longer than ten


def try_lock(descriptor: int) -> bool:
    """Takes the lock of an open file for this process alone, if nobody has it, and tells whether it did."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, BEYOND, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def lock(descriptor: int) -> None:
    """Takes the lock of an open file for this process alone, and waits for it."""
    if sys.platform == "win32":
        while not try_lock(descriptor):
            time.sleep(AGAIN)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def open_lock(folder: Path) -> int:
    """Opens what is locked of a folder: the folder itself, on Windows a file in it. Raises OSError for a
    link."""
    if sys.platform == "win32":
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


@contextmanager
def hold_lock(folder: Path, *, wait: bool) -> Iterator[None]:
    """Holds the lock of a folder. Raises BlockingIOError where others hold it and nobody waits for it."""
    held = open_lock(folder)
    try:
        if wait:
            lock(held)
        elif not try_lock(held):
            raise BlockingIOError
        yield
    finally:
        os.close(held)


@contextmanager
def run_alone(folder: Path) -> Iterator[None]:
    """Holds the lock of a work folder, made if need be, for a run: another would take this one's request for
    its own. Raises ResourceError where one works there, or none can."""
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(hold_lock(folder.resolve(), wait=False))
        except OSError as error:
            why = "another run works there" if isinstance(error, BlockingIOError) else error.strerror
            hint = "one run after the other, or a --work of its own"
            raise ResourceError(f"{folder}: {why}", hint=hint) from None
        yield


# The processor of this machine: its name for people, and the key of prices measured on it.
#
# Many cloud machines of different speed share one name ("AMD EPYC"), so the key has family and model too.

CPUINFO = Path("/proc/cpuinfo")
UNKNOWN = "unknown processor"


@dataclass(frozen=True)
class Processor:
    """A processor. name: as the system has it. family, model: its numbers, empty where the system has
    none."""

    name: str
    family: str = ""
    model: str = ""
    architecture: str = ""

    @property
    def key(self) -> str:
        """A key for prices: 16 hexadecimal digits of a hash of all fields."""
        return hashlib.sha256("\n".join(asdict(self).values()).encode()).hexdigest()[:16]


def processor(cpuinfo: Path = CPUINFO) -> Processor:
    """Returns this machine's processor. cpuinfo: a file as Linux writes it; without it, what Python knows."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    fields: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        fields.setdefault(name.strip(), value.strip())
    name = fields.get("model name") or platform.processor() or UNKNOWN
    return Processor(name, fields.get("cpu family", ""), fields.get("model", ""), platform.machine())


def devices() -> tuple[list[dict[str, Any]], str]:
    """Returns the devices of OpenCL, and why there is none where there is none. Raises TacitaError."""
    native = compiled.native
    try:
        rows, reason = native.opencl_devices()
    except native.TacitaError as error:
        text, _, hint = str(error).partition("; hint: ")
        raise TacitaError(f"OpenCL: {text}", hint=hint) from error
    fields = [dict(zip(DESCRIBED, row, strict=True)) for row in rows]
    return [{"device": f"opencl:{number}", **each} for number, each in enumerate(fields)], reason


def device_number(name: str, others: tuple[str, ...] = (CPU, AUTO)) -> int | None:
    """Returns the number of the device of OpenCL that this name means, None for the processor. auto means
    the first that is a GPU, else the processor. others: names admitted beside the devices'. Raises
    InputError, which lists all there are."""
    if name == CPU and name in others:
        return None
    rows, reason = devices()
    if name == AUTO and name in others:
        return next((number for number, each in enumerate(rows) if each["gpu"]), None)
    match = OPENCL.fullmatch(name)
    if not rows and (match or not others):
        text, _, hint = reason.partition("; hint: ")
        raise InputError(f"device {name:.60}: {text}", hint=hint)
    number = int(match.group(1) or 0) if match else len(rows)
    if number >= len(rows):
        names = ", ".join((*others, *(each["device"] for each in rows)))
        raise InputError(f"device {name:.60}: there is none of this name", hint=f"one of {names}")
    return number


def require_device(name: str, *without: str | bool | None) -> None:
    """Refuses a device that there is not, and one where this process evaluates no ciphertexts, rather than
    ignore it. without: each, unless empty, says why it evaluates none, as "--connect". Raises InputError."""
    why = next(filter(None, without), None)
    if why is None:
        device_number(name)
    elif name not in (CPU, AUTO):
        raise InputError(
            f"--device {name:.60}: it evaluates ciphertexts of this process alone, and {why} has none",
            hint="--device cpu; else --backend ckks without --connect and --ray, and no two parties",
        )
