"""The float model over many samples: in this process, or over processes with one thread of linear algebra
each.

Every sample runs by itself and leaves two numbers for each intermediate (and its queries, where row estimates
are fitted), so the result is the same however samples are dealt out. Texts of one length are not stacked: one
text's products are as large as the caches like them, and the rest of the time goes into elementwise
functions.
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
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tacita.blocks.floats import See
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.models.registry import Config, attentions, shapes
from tacita.planning.calibrate.intervals import INPUT, Estimate, Ranges, Watch
from tacita.planning.calibrate.row_estimates import AttentionRows, Rows, RowSamples, estimator
from tacita.planning.calibrate.samples import Array, Sample
from tacita.resources import BLAS, available_memory

Progress = Callable[[int, int], None]
Kept = Mapping[str, int]  # how many inputs of which functions are kept of each sample

CHUNK = 16  # samples that a process takes at a time
# products of floats below which starting processes takes longer than it saves: 400 short texts through the
# default model's 400,000 weights, 70 through the ten million of twelve layers of width 256
WORTH = 2e10
ROWS = 40  # of a text, about
AHEAD = 4  # chunks that wait for each process
ROOM = 300 << 20  # bytes that a process takes beside the model
BY_ROW = (".variance", ".log_sum_exp")  # recorded with a number a row


def walk(
    model: Checkpoint,
    samples: Iterable[Sample],
    count: int,
    *,
    rows: Rows,
    kept: Kept = MappingProxyType({}),
    progress: Progress = lambda done, total: None,
    processes: int = 1,
    behind: int = 0,
) -> Ranges:
    """Measures the ranges of all samples, in their order.

    count: of the samples. rows: what is taken from the scores. kept: how many inputs of which functions are
    kept of each sample.
    progress: called with (done, count). behind: the first rows of every sample, which are no part of what is
    measured. processes: at most so many; a script that asks for more than one must
    be importable (`if __name__ == "__main__"`), as with every use of multiprocessing. Errors: as
    `checkpoint.reference`.
    """
    parts = _parts(model, samples, count, _ranges, (rows, dict(kept), behind), processes)
    return _collected(parts, count, progress)


def row_samples(model: Checkpoint, samples: Iterable[Sample], count: int, processes: int = 1) -> RowSamples:
    """What row estimates are fitted to, of all samples in their order. Arguments: see `walk`."""
    result = RowSamples(model)
    for part in _parts(model, samples, count, _row_samples, (), processes):
        result.take(part)
    return result


def _parts(
    model: Checkpoint,
    samples: Iterable[Sample],
    count: int,
    part: Callable[..., Any],
    options: tuple[Any, ...],
    processes: int,
) -> Iterator[Any]:
    """Yields part(model, chunk, *options) of all chunks in their order."""
    if processes > 1 and count * ROWS * _weights(model) >= WORTH:
        return _dealt(model, _chunks(samples), part, options, processes)
    return (part(model, chunk, *options) for chunk in _chunks(samples))


def _weights(model: Checkpoint) -> int:
    """Counts the weights after the embedding."""
    return sum(model.tensors[name].size for name in shapes(model.config, 1).tensors)


def _collected(parts: Iterable[Ranges], count: int, progress: Progress) -> Ranges:
    ranges: list[Ranges] = []
    for part in parts:
        ranges.append(part)
        progress(sum(len(one.rows) for one in ranges), count)
    return Ranges.joined(ranges)


def _chunks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    rest = iter(samples)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _ranges(model: Checkpoint, samples: Sequence[Sample], rows: Rows, kept: Kept, behind: int) -> Ranges:
    estimate = estimator(model, rows)
    return Ranges.joined([_one(model, hidden, mask, estimate, kept, behind) for hidden, mask in samples])


def _row_samples(model: Checkpoint, samples: Sequence[Sample]) -> Mapping[str, AttentionRows]:
    collector = RowSamples(model)
    for hidden, mask in samples:
        collector.start(mask)
        reference(model, hidden, mask, collector.see, all_rows=_all_rows(model))
    return collector.by_attention


def _one(
    model: Checkpoint, hidden: Array, mask: Array, estimate: Estimate, kept: Kept, behind: int
) -> Ranges:
    nodes = attentions(model.config).items()
    heads, reaches = {name: a.heads for name, a in nodes}, {name: a.reach for name, a in nodes}
    watch = Watch(heads, mask, estimate, kept, reaches)
    see = _after(behind, len(hidden), watch.see) if behind else watch.see
    see(INPUT, hidden)
    reference(model, hidden, mask, see, all_rows=_all_rows(model))
    return watch.ranges()


def _after(behind: int, rows: int, see: See) -> See:
    """Tells the rows behind the first ones, which no circuit computes, of tensors (..., rows, features) and
    of what is recorded by row. Keys stay."""

    def see_behind(name: str, value: Array) -> None:
        axis = -1 if name.endswith(BY_ROW) else -2
        whole = value.ndim >= -axis and value.shape[axis] == rows
        see(name, np.moveaxis(np.moveaxis(value, axis, 0)[behind:], 0, axis) if whole else value)

    return see_behind


def _all_rows(model: Checkpoint) -> bool:
    """Whether the last layer is watched in all rows where circuits compute the first alone. Of texts it is:
    every row is a sample more. An image's patches are unlike its first token, and intervals for both would
    cost precision that no answer needs."""
    return model.config.image is None


def _dealt(
    model: Checkpoint,
    chunks: Iterable[list[Sample]],
    part: Callable[..., Any],
    options: tuple[Any, ...],
    processes: int,
) -> Iterator[Any]:
    """Results in the order of the chunks; the encoder's weights travel once, in a file of this user's."""
    with tempfile.TemporaryDirectory(prefix="tacita-calibrate-") as folder, _one_thread_each():
        path = Path(folder) / "encoder.safetensors"
        encoder = shapes(model.config, 1).tensors  # what follows the embedding
        save_file({name: np.ascontiguousarray(model.tensors[name]) for name in encoder}, path)
        number = _affordable(processes, path.stat().st_size)
        with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
            waiting: deque[Future[Any]] = deque()
            for chunk in chunks:
                waiting.append(pool.submit(_task, str(path), model.config, chunk, part, options))
                if len(waiting) >= AHEAD * number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _affordable(processes: int, size: int) -> int:
    free = available_memory()
    return processes if free is None else max(1, min(processes, free // (size + ROOM)))


def _task(
    path: str, config: Config, samples: Sequence[Sample], part: Callable[..., Any], options: tuple[Any, ...]
) -> Any:
    return part(_load_encoder(path, config), samples, *options)


@lru_cache(maxsize=1)
def _load_encoder(path: str, config: Config) -> Checkpoint:
    """Loads the encoder in a worker process."""
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
