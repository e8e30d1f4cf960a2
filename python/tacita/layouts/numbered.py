"""Derives runs from a packing: numbers that are counted are packed, and the slots then tell where each one
went."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from tacita.errors import ShapeError
from tacita.layouts.runs import MASK, Array, Request, Run, Runs, Tensor, interleaved


def tensor_of(
    source: str,
    shape: tuple[int, ...],
    slots: int,
    move: Callable[[Array], Sequence[Array]],
    *,
    window: int = 0,
) -> Tensor:
    """Describes what a packing does to the numbers of one text. shape: (tokens, features) of hidden states,
    (tokens,) of a mask. move: numbers of this shape -> slot vectors, or their periods. window: as of
    `runs_of`.

    The result is checked on another sample, so that a packing that does more than moving numbers is refused
    with a ShapeError rather than described wrongly. Cost: two samples packed, about 1 s for 4 million slots.
    """

    def packed(numbers: Array) -> Array:
        return np.stack([np.tile(vector, slots // len(vector)) for vector in move(numbers)])

    count = math.prod(shape)
    table = packed(np.arange(1.0, count + 1.0).reshape(shape))
    tensor = Tensor(source, len(table), runs_of(table, count if source == MASK else 0, window))
    sample = np.random.default_rng(1).uniform(-1.0, 1.0, shape)
    if not np.array_equal(tensor.fill(sample.reshape(-1), slots), packed(sample)):
        raise ShapeError(
            f"layout: a tensor of {source} that holds more than numbers that were moved",
            hint="state it by another source",
        )
    return tensor


def runs_of(table: Array, modulus: int = 0, window: int = 0) -> Runs:
    """Slots (ciphertexts, slots) that hold numbers from 1 on, 0 for none -> runs. modulus: as of `joined`.
    window: slots of a token, where tokens lie one after the other: it makes fewer runs."""
    slots = period = table.shape[1]
    while period % 2 == 0 and np.array_equal(table[:, : period // 2], table[:, period // 2 : period]):
        period //= 2
    cts, places = np.nonzero(table[:, :period])
    numbers = table[cts, places].astype(np.int64) - 1
    pairs: Sequence[Run] = list(zip((cts * slots + places).tolist(), numbers.tolist(), strict=True))
    if window:
        windows = groupby(pairs, key=lambda pair: pair[0] // window)
        pairs = [run for _, part in windows for run in joined(list(part), modulus)]
        pairs = sorted(pairs, key=lambda run: run[0] % window)
    return repeated(joined(pairs, modulus), slots // period, period, 0)


def beside(one: Request, count: int) -> Request:
    """Returns the request of so many such texts, of which number n has every slot s at s * count + n. Numbers
    of a mask are those of its text then, where runs of one text may go on with the first."""

    def apart(tensor: Tensor) -> Tensor:
        runs, numbers = tensor.runs, one.tokens * one.size
        if tensor.source == MASK:
            table, numbers = tensor.fill(np.arange(1.0, one.tokens + 1.0), one.slots), one.tokens
            runs = runs_of(table) if tensor.last >= numbers else runs
        return replace(tensor, runs=interleaved(runs, count, numbers))

    tensors = {name: apart(tensor) for name, tensor in one.tensors.items()}
    return replace(one, slots=one.slots * count, texts=count, tensors=tensors)


def repeated(runs: Runs, times: int, slots: int, numbers: int) -> Runs:
    """Returns the runs so many times, so many slots and numbers apart."""
    return tuple((*run[:2], times, slots, numbers, *run[2:]) for run in runs) if times > 1 else runs


def joined(runs: Sequence[Run], modulus: int = 0) -> Runs:
    """Runs -> fewer ones of the same slots and numbers, greedily: those that follow one another at equal
    distances become one. modulus: numbers after this one go on with the first; 0 where they do not."""
    while len(fewer := list(_joined(runs, modulus))) < len(runs):
        runs = fewer
    return tuple(runs)


def _joined(runs: Sequence[Run], modulus: int) -> Iterator[Run]:
    at = 0
    while at < len(runs):
        first, end = runs[at], at + 1
        step = _step(first, runs[end], modulus) if end < len(runs) else None
        while step and end < len(runs) and _step(runs[end - 1], runs[end], modulus) == step:
            end += 1
        yield (*first[:2], end - at, *step, *first[2:]) if step else first
        at = end


def _step(run: Run, after: Run, modulus: int) -> tuple[int, int] | None:
    """Returns the slots and numbers from one run to another; None where they cannot be one."""
    slots, numbers = after[0] - run[0], after[1] - run[1]
    if modulus and (numbers := numbers % modulus) > modulus // 2:
        return None
    return (slots, numbers) if run[2:] == after[2:] and slots > 0 and numbers >= 0 else None
