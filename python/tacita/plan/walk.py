"""The float model over many samples: in this process, or over processes with one thread of linear algebra each.

Every sample runs by itself and leaves two numbers for each intermediate, so the result is the same however samples are dealt
out. Texts of one length are not stacked: one text's products are as large as the caches like them, and the rest of the
time goes into elementwise functions.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType

import numpy as np
from safetensors.numpy import load_file, save_file

from tacita.checkpoint import Checkpoint
from tacita.models.bert import BertConfig
from tacita.models.reference import reference
from tacita.plan.ranges import Ranges, Watch
from tacita.plan.resources import available_memory
from tacita.plan.rows import Rows, estimates
from tacita.plan.samples import Array, Sample

Progress = Callable[[int, int], None]

CHUNK = 16  # samples that a process takes at a time
WORTH = 400  # samples below which starting processes takes longer than it saves
AHEAD = 4  # chunks that wait for each process
ROOM = 300 << 20  # bytes that a process takes beside the model
BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def walk(
    model: Checkpoint,
    samples: Iterable[Sample],
    count: int,
    *,
    rows: Rows,
    kept: int = 0,
    progress: Progress = lambda done, total: None,
    processes: int = 1,
) -> Ranges:
    """Ranges of all samples, in their order.

    count: of the samples. rows: what is taken from the scores. kept: inputs of the activation kept of each sample.
    progress: called with (done, count). processes: at most so many; a script that asks for more than one must be
    importable (`if __name__ == "__main__"`), as with every use of multiprocessing. Errors: as `models.bert.reference`.
    """
    chunks = _chunks(samples)
    if processes > 1 and count >= WORTH:
        return _collected(_dealt(model, chunks, rows, kept, processes), count, progress)
    return _collected((_ranges(model, chunk, rows, kept) for chunk in chunks), count, progress)


def _collected(parts: Iterable[Ranges], count: int, progress: Progress) -> Ranges:
    found: list[Ranges] = []
    for part in parts:
        found.append(part)
        progress(sum(len(one.rows) for one in found), count)
    return Ranges.joined(found)


def _chunks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    left = iter(samples)
    while chunk := list(islice(left, CHUNK)):
        yield chunk


def _ranges(model: Checkpoint, samples: Sequence[Sample], rows: Rows, kept: int) -> Ranges:
    return Ranges.joined([_one(model, hidden, mask, rows, kept) for hidden, mask in samples])


def _one(model: Checkpoint, hidden: Array, mask: Array, rows: Rows, kept: int) -> Ranges:
    watch = Watch(model.config.heads, mask, lambda name, x: estimates(model, rows, name, x), kept)
    reference(model, hidden, mask, watch.see)
    return watch.ranges()


def _dealt(
    model: Checkpoint, chunks: Iterable[list[Sample]], rows: Rows, kept: int, processes: int
) -> Iterator[Ranges]:
    """Results in the order of the chunks; the encoder's weights travel once, in a file of this user's."""
    with tempfile.TemporaryDirectory(prefix="tacita-calibrate-") as folder, _one_thread_each():
        path = Path(folder) / "encoder.safetensors"
        encoder = {name: t for name, t in model.tensors.items() if "embeddings." not in name}
        save_file({name: np.ascontiguousarray(t) for name, t in encoder.items()}, path)
        number = _affordable(processes, path.stat().st_size)
        with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
            waiting: deque[Future[Ranges]] = deque()
            for chunk in chunks:
                waiting.append(pool.submit(_task, str(path), model.config, chunk, rows, kept))
                if len(waiting) >= AHEAD * number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _affordable(processes: int, size: int) -> int:
    free = available_memory()
    return processes if free is None else max(1, min(processes, free // (size + ROOM)))


def _task(path: str, config: BertConfig, samples: Sequence[Sample], rows: Rows, kept: int) -> Ranges:
    return _ranges(_opened(path, config), samples, rows, kept)


@lru_cache(maxsize=1)
def _opened(path: str, config: BertConfig) -> Checkpoint:
    """The encoder of a worker process."""
    return Checkpoint("encoder", config, MappingProxyType(load_file(path)), None, "")


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside get one thread of linear algebra: they share the cores among themselves."""
    before = {name: os.environ.get(name) for name in BLAS}
    os.environ.update(dict.fromkeys(BLAS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
