"""What bytes cost beside arithmetic: memory that is touched for the first time, ciphertexts that go to disk.

A process that grows by a gigabyte waits for the system to find and clear its pages; on a virtual machine
whose memory nobody has used yet that takes many times as long as on one that has been up for a day.
"""

from __future__ import annotations

import mmap
import tempfile
import time
from pathlib import Path
from typing import Any

from tacita import compiled
from tacita.evaluate.spill import SpillStore
from tacita.resources import GB, available_memory

TOUCHED = 1 << 30  # bytes; of a machine with less, a quarter of what is free
PAGE = 4096
SPILLED = 24  # ciphertexts


def touch_seconds_per_gb(most: int = TOUCHED) -> float:
    """Seconds for 10^9 bytes that this process has never used, in pages as the engine asks for them."""
    free = available_memory()
    size = min(most, most if free is None else free // 4) // PAGE * PAGE
    with mmap.mmap(-1, max(size, PAGE)) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        first, again = _written(memory), _written(memory)
        return max(0.0, first - again) / (len(memory) / GB)


def _written(memory: mmap.mmap) -> float:
    began = time.perf_counter()
    for at in range(0, len(memory), PAGE):
        memory[at] = 1
    return time.perf_counter() - began


def spill_seconds_per_gb(params: Any, ciphertext: Any, folder: Path | None = None) -> float:
    """Seconds for 10^9 bytes of ciphertexts in memory: packed, written with a checksum, read and unpacked, as
    an evaluation within a limit does it.

    folder: on the disk that is measured (default: that of temporary files). What the system keeps in its
    cache between the two is kept there in a run as well.
    """
    with tempfile.TemporaryDirectory(prefix="tacita-bench-", dir=folder) as place:
        store = SpillStore(Path(place) / "spill")
        began = time.perf_counter()
        files = [store.write(ciphertext.to_bytes()) for _ in range(SPILLED)]
        for file in files:
            compiled.native.Ciphertext.from_bytes(params, store.load(file))
            store.remove(file)
        seconds = time.perf_counter() - began
        store.close(keep=False)
    return float(seconds / (SPILLED * ciphertext.nbytes / GB))
