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
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from tacita.blocks.floats import FloatTensors, See
from tacita.blocks.sequence import Past
from tacita.blocks.shapes import CAUSAL, REACH, RELATIVE, ROTARY, options
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.models.registry import Config, attentions, forward, shapes
from tacita.planning.calibrate.excesses import FIFTHS
from tacita.planning.calibrate.intervals import INPUT, Estimate, Ranges, Watch
from tacita.planning.calibrate.row_estimates import AttentionRows, Rows, RowSamples, estimator
from tacita.resources import BLAS, available_memory, keep_freed_memory
from tacita.texts.embed import Text, embedded, length_of, parts_of, tokenize

Progress = Callable[[int, int], None]
Answers = Mapping[bytes, NDArray[np.float64]]  # before a client divides them by their length
Kept = Mapping[str, int]  # how many inputs of which functions are kept of each sample

CHUNK = 4  # samples that a process takes at a time: 1.6 s of BERT-base, after which progress moves
# products of floats below which starting processes takes longer than it saves: 400 short texts through the
# default model's 400,000 weights, 70 through the ten million of twelve layers of width 256
WORTH = 2e10
ROWS = 40  # of a text, about
MOST_ANSWER = 4096  # numbers of an answer that is kept
AHEAD = 4  # chunks that wait for each process
MOST_PADDED = 512  # tokens; a longer text's padding is no part of what is measured, as its time is quadratic
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
    part = partial(_ranges, rows=rows, kept=dict(kept), behind=behind)
    ranges: list[Ranges] = []
    for number, one in enumerate(_parts(model, samples, count, part, processes), 1):
        ranges.append(one)
        progress(min(number * CHUNK, count), count)
    return Ranges.joined(ranges)


def row_samples(
    model: Checkpoint,
    samples: Iterable[Sample],
    count: int,
    processes: int = 1,
    progress: Progress = lambda done, total: None,
    kept: Kept | None = None,
) -> tuple[RowSamples, Ranges | None, Answers]:
    """What row estimates are fitted to, of all samples in their order; and unless `kept` is None the ranges
    of the same walk, without what follows from the rows (`RowSamples.completed`), and the model's answers by
    `mark`. Arguments: see `walk`."""
    result, ranges, answers = RowSamples(model), list[Ranges](), dict[bytes, Array]()
    part = partial(_row_samples, kept=None if kept is None else dict(kept))
    for number, (rows, of_part, answers_of_part) in enumerate(
        _parts(model, samples, count, part, processes), 1
    ):
        result.take(rows)
        ranges += of_part
        answers |= answers_of_part
        progress(min(number * CHUNK, count), count)
    return result, Ranges.joined(ranges) if ranges else None, answers


def _parts(
    model: Checkpoint,
    samples: Iterable[Sample],
    count: int,
    part: Callable[..., Any],
    processes: int,
) -> Iterator[Any]:
    """Yields part(model, chunk) of all chunks in their order."""
    if processes > 1 and count * ROWS * weights_of(model) >= WORTH:
        return _dealt(model, _chunks(samples), part, processes)
    return (part(model, chunk) for chunk in _chunks(samples))


def weights_of(model: Checkpoint) -> int:
    """Counts the weights after the embedding."""
    return sum(model.tensors[name].size for name in shapes(model.config, 1).tensors)


def _chunks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    rest = iter(samples)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _ranges(model: Checkpoint, samples: Sequence[Sample], rows: Rows, kept: Kept, behind: int) -> Ranges:
    estimate, ranges = estimator(model, rows), list[Ranges]()
    for hidden, mask in samples:
        watch = _watch(model, mask, estimate, kept)
        see = _after(behind, len(hidden), watch.see) if behind else watch.see
        see(INPUT, hidden)
        reference(model, hidden, mask, see, all_rows=_all_rows(model))
        ranges.append(watch.ranges())
    return Ranges.joined(ranges)


def _row_samples(
    model: Checkpoint, samples: Sequence[Sample], kept: Kept | None
) -> tuple[Mapping[str, AttentionRows], list[Ranges], Answers]:
    collector, ranges, answers = RowSamples(model), list[Ranges](), dict[bytes, Array]()
    for hidden, mask in samples:
        collector.start(mask)
        watch = None if kept is None else _watch(model, mask, None, kept, collector.by_attention)
        see = collector.see if watch is None else _both(collector.see, watch.see)
        see(INPUT, hidden)
        answer = reference(model, hidden, mask, see, all_rows=_all_rows(model)).trace["answer"]
        ranges += [] if watch is None else [watch.ranges()]
        if watch is not None and answer.size <= MOST_ANSWER:
            answers[mark((hidden, mask))] = answer
    return collector.by_attention, ranges, answers


def _both(first: See, second: See) -> See:
    def see(name: str, value: Array) -> None:
        first(name, value)
        second(name, value)

    return see


def _watch(
    model: Checkpoint, mask: Array, estimate: Estimate | None, kept: Kept, by_row: Container[str] = ()
) -> Watch:
    nodes = attentions(model.config).items()
    heads, reaches = {name: a.heads for name, a in nodes}, {name: a.reach for name, a in nodes}
    return Watch(heads, mask, estimate, kept, reaches, by_row)


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
    processes: int,
) -> Iterator[Any]:
    """Results in the order of the chunks; the encoder's weights travel once, in a file of this user's."""
    with tempfile.TemporaryDirectory(prefix="tacita-calibrate-") as folder, _one_thread_each():
        path = Path(folder) / "encoder.safetensors"
        encoder = shapes(model.config, 1).tensors  # what follows the embedding
        save_file({name: np.ascontiguousarray(model.tensors[name]) for name in encoder}, path)
        free = available_memory()
        fitting = processes if free is None else free // (path.stat().st_size + ROOM)
        number = max(1, min(processes, fitting))
        with ProcessPoolExecutor(number, get_context("spawn"), keep_freed_memory) as pool:
            waiting: deque[Future[Any]] = deque()
            for chunk in chunks:
                waiting.append(pool.submit(_task, str(path), model.config, chunk, part))
                if len(waiting) >= AHEAD * number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _task(path: str, config: Config, samples: Sequence[Sample], part: Callable[..., Any]) -> Any:
    return part(_load_encoder(path, config), samples)


@lru_cache(maxsize=1)
def _load_encoder(path: str, config: Config) -> Checkpoint:
    return Checkpoint("encoder", config, MappingProxyType(load_file(path)), None, str)


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


def prefix_rows(model: Checkpoint, ids: Sequence[int]) -> Past[NDArray[np.float64]]:
    """Keys and values of a public beginning, behind which every text stands, in floats. Cost: a walk over so
    many rows."""
    ops = FloatTensors(Weights(model.tensors), np.ones(len(ids)), past=Past())
    forward(TensorBlocks(ops), model.config, embedded(model, list(ids), [0] * len(ids)))
    return ops.past


# What a calibration runs on: texts, cut to the plan's tokens, and given hidden states.

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)
POSITIONAL = frozenset({REACH, RELATIVE, ROTARY})


@dataclass(frozen=True)
class Samples:
    """Texts that fit and given states as (hidden, mask) pairs, numbered through; texts are embedded again at
    each use.

    behind: ids of a decoder's public beginning (`PlanRequest.begin`), which stand before each text.
    padded: tokens to which texts are padded, as a client does, up to `MOST_PADDED`; None for texts as they
    are. Padding's rows are like those of the first token, unless attention knows positions and is not causal.
    """

    checkpoint: Checkpoint
    texts: Sequence[Text]
    states: Sequence[Sample]
    padded: int | None = None
    behind: tuple[int, ...] = ()

    @staticmethod
    def of(
        checkpoint: Checkpoint,
        tokens: int,
        texts: Iterable[Text],
        states: Sequence[Sample],
        behind: tuple[int, ...] = (),
    ) -> Samples:
        """Collects the samples; texts over `tokens` tokens are cut at word boundaries. Errors: as
        `texts.embed`."""
        flags = [options(a) for a in attentions(checkpoint.config).values()]
        padded = any(each & POSITIONAL and CAUSAL not in each for each in flags)
        cut = [_cut(checkpoint, text, tokens) for text in texts]
        return Samples(checkpoint, cut, states, tokens if padded else None, behind)

    def __len__(self) -> int:
        return len(self.texts) + len(self.states)

    def at(self, numbers: Iterable[int]) -> Iterator[Sample]:
        """Yields the samples with these numbers; texts without padding, unless it is asked for."""
        for i in numbers:
            yield self._text(self.texts[i]) if i < len(self.texts) else self.states[i - len(self.texts)]

    def _text(self, text: Text) -> Sample:
        if self.behind:
            ids = [*self.behind, *tokenize(self.checkpoint, text, special=False)[0]]
            return embedded(self.checkpoint, ids, [0] * len(ids)), np.ones(len(ids))
        length = length_of(self.checkpoint, text)
        return embed(self.checkpoint, text, max(length, min(self.padded or 0, MOST_PADDED)))


def trimmed(sample: Sample) -> Sample:
    """Returns the sample without padding that stands behind its real rows, none of which depends on it."""
    hidden, mask = sample
    real = np.count_nonzero(mask)
    return (hidden[:real], mask[:real]) if mask[:real].all() else sample


def mark(sample: Sample) -> bytes:
    """Returns what tells a sample from others, whatever its padding."""
    digest = blake2b(digest_size=16)
    for part in trimmed(sample):
        digest.update(part.tobytes())
    return digest.digest()


def neighbours(texts: Sequence[Text]) -> list[Text]:
    """Pairs to calibrate a model of pairs on where only single texts are at hand: each with a neighbour, and
    with itself. Pairs stay as they are. Of many texts, every fifth of which tests what the others make, the
    neighbour is the fifth behind, and both pairs of a text are in one fifth, but for the last texts.

    >>> neighbours(["a", "b"])
    [('a', 'b'), ('a', 'a'), ('b', 'a'), ('b', 'b')]
    """
    result, count = list[Text](), len(texts)
    step = FIFTHS if count >= 2 * FIFTHS else 1
    for first in range(0, count, step):
        here, themselves = texts[first : first + step], list[Text]()
        for number, text in enumerate(here, first):
            following = texts[number + step if number + step < count else number % step]
            if isinstance(text, str) and isinstance(following, str):
                result.append((text, following))
                themselves.append((text, text))
            else:
                result.append(text)
        result += themselves
    return result


def _cut(checkpoint: Checkpoint, text: Text, tokens: int) -> Text:
    """The text without the last words that do not fit; of a pair, the longer one loses them first. An image
    is left as it is."""
    if checkpoint.config.image is not None:
        return text
    parts = [part.split() for part in parts_of(text)]
    while (excess := len(tokenize(checkpoint, _joined(parts))[0]) - tokens) > 0:
        longest = max(parts, key=len)
        if len(longest) < 2:
            break
        del longest[-min(len(longest) - 1, max(1, excess // 4)) :]
    return _joined(parts)


def _joined(parts: Sequence[Sequence[str]]) -> Text:
    first, *second = (" ".join(words) for words in parts)
    return (first, second[0]) if second else first
