"""The float model over many samples: in this process, or over processes with one thread of linear algebra
each.

Every sample runs by itself and leaves two numbers for each intermediate, so the result is the same however
samples are dealt out. Texts of one length are not stacked: one text's products are as large as the caches
like them, and the rest of the time goes into elementwise functions.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType

import numpy as np
from safetensors.numpy import load_file, save_file

from tacita.calibrate.ranges import INPUT, Estimate, Ranges, Watch
from tacita.calibrate.row_estimates import Rows, estimator
from tacita.calibrate.samples import Array, Sample
from tacita.checkpoint import Checkpoint
from tacita.models.reference import reference
from tacita.models.registry import Config, attentions, shapes
from tacita.run.resources import available_memory

Progress = Callable[[int, int], None]
Kept = Mapping[str, int]  # how many inputs of which functions are kept of each sample

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
    kept: Kept = MappingProxyType({}),
    progress: Progress = lambda done, total: None,
    processes: int = 1,
) -> Ranges:
    """Ranges of all samples, in their order.

    count: of the samples. rows: what is taken from the scores. kept: how many inputs of which functions are
    kept of each sample.
    progress: called with (done, count). processes: at most so many; a script that asks for more than one must
    be importable (`if __name__ == "__main__"`), as with every use of multiprocessing. Errors: as
    `models.reference`.
    """
    chunks = _chunks(samples)
    if processes > 1 and count >= WORTH:
        return _collected(_dealt(model, chunks, rows, dict(kept), processes), count, progress)
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


def _ranges(model: Checkpoint, samples: Sequence[Sample], rows: Rows, kept: Kept) -> Ranges:
    estimate = estimator(model, rows)
    return Ranges.joined([_one(model, hidden, mask, estimate, kept) for hidden, mask in samples])


def _one(model: Checkpoint, hidden: Array, mask: Array, estimate: Estimate, kept: Kept) -> Ranges:
    watch = Watch({name: a.heads for name, a in attentions(model.config).items()}, mask, estimate, kept)
    watch.see(INPUT, hidden)
    reference(model, hidden, mask, watch.see)
    return watch.ranges()


def _dealt(
    model: Checkpoint, chunks: Iterable[list[Sample]], rows: Rows, kept: Kept, processes: int
) -> Iterator[Ranges]:
    """Results in the order of the chunks; the encoder's weights travel once, in a file of this user's."""
    with tempfile.TemporaryDirectory(prefix="tacita-calibrate-") as folder, _one_thread_each():
        path = Path(folder) / "encoder.safetensors"
        encoder = shapes(model.config, 1).tensors  # what follows the embedding
        save_file({name: np.ascontiguousarray(model.tensors[name]) for name in encoder}, path)
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


def _task(path: str, config: Config, samples: Sequence[Sample], rows: Rows, kept: Kept) -> Ranges:
    return _ranges(_opened(path, config), samples, rows, kept)


@lru_cache(maxsize=1)
def _opened(path: str, config: Config) -> Checkpoint:
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
