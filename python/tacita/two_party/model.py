"""What the server of a two-party session knows of its model, step by step of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Dense, Norm, Positions, Relative
from tacita.blocks.weights import Weights
from tacita.resources import available_memory, keep_freed_memory
from tacita.two_party.arithmetic.base import Array, Format, Formats, Integers, encode
from tacita.two_party.arithmetic.residues import WORD, from_floats
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.recorder import Held
from tacita.two_party.program.run import Past
from tacita.two_party.program.simulation import Simulation

NARROWEST = (np.dtype(np.int16), np.dtype(np.int32), np.dtype(np.int64))
ROWS = 16  # of a matrix that are converted at a time: they stay in the processor's caches


def narrowest(values: Array) -> np.dtype[Any]:
    """Returns the type of the fewest bytes that holds these integers, which are floats."""
    least, most = values.min(initial=0), values.max(initial=0)
    return next(kind for kind in NARROWEST if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)


class ServerModel:
    """A `run.Model`. held: see `RecordTensors`."""

    def __init__(self, formats: Formats, weights: Weights, held: Mapping[int, tuple[Held, Format]]) -> None:
        self._formats, self._weights, self._held = formats, weights, held
        numbers, free = sum(each.size for each in weights.tensors.values()), available_memory()
        self._cached = free is None or NARROWEST[0].itemsize * numbers <= free // 4
        if not self._cached:  # matrix after matrix
            keep_freed_memory()

    def matrix(self, step: int) -> Integers:
        """Converts the weights, a few rows at a time. The integers are cached in the fewest bytes where those
        of all maps take a quarter of the memory that is there, or else made anew for each product: 0.03 s for
        the four million weights of a layer of BERT-base, 30 s for LLaMA-7B."""
        maps, _ = self._held[step]
        assert isinstance(maps, tuple)  # or the step would be no linear map
        fraction = self._formats.weight
        if not self._cached:
            return self._integers(maps, fraction, np.int64)
        integers = self._weights.cache((maps, fraction), lambda: self._integers(maps, fraction))
        return np.asarray(integers.astype(np.int64))

    def _integers(
        self, maps: tuple[Dense, ...], fraction: int, kind: type[np.signedinteger[Any]] | None = None
    ) -> NDArray[Any]:
        """Returns (inputs, outputs), row by row in memory. kind: by default the narrowest that holds them."""
        outputs, parts = sum(d.outputs for d in maps), self._weights.parts(maps, ROWS)
        whole, at = np.empty((maps[0].inputs, outputs), kind or NARROWEST[0]), 0
        for part in parts:
            values = np.rint(part * 2.0**fraction)  # floats until they are stored: one pass less
            if kind is None and (wider := narrowest(values)) > whole.dtype:
                whole = whole.astype(wider)
            whole[:, at : at + len(values)] = values.T
            at += len(values)
        return whole

    def bias(self, step: int, shape: tuple[int, ...], first: int, key: int = 0, head: int = 0) -> Integers:
        """Encodes a bias, rows of positions or of distances in the format of the step's result."""
        what, form = self._held[step]
        return encode(self._floats(what, shape, (head, first, key)), form.fraction)

    def norm(self, step: int) -> tuple[Array, Array]:
        """Returns factors and offsets in floats, which the engine encodes."""
        norm, _ = self._held[step]
        assert isinstance(norm, Norm)  # as above
        return self._weights.norm(norm)

    def _floats(self, what: Held, shape: tuple[int, ...], at: tuple[int, int, int]) -> Array:
        match what:
            case Positions():
                return self._weights.positions(what, shape[-2], at[1])
            case Relative():
                head, first, key = at
                whole = self._weights.relative(what, (first + shape[-2], key + shape[-1]))
                return whole[head : head + shape[0], first:, key:]
            case tuple():
                return self._weights.stacked_bias(what)
        raise AssertionError(f"nothing is added by {type(what).__name__}")


def share_prefix(
    plan: TwoPartyPlan, nodes: Mapping[str, tuple[Array, Array]], *, whole: bool = False
) -> Past:
    """Returns the server's share of a public beginning's keys and values, by node: all of them, where the
    client's is `run.empty_past`. In the order and the formats of the program's stores. whole: as a simulation
    has them."""
    tensors = [tensor for node in nodes.values() for tensor in node]
    rings = [step.parameters["ring"] for step in plan.program.steps if step.op == "append"]
    stores = (
        from_floats(tensor, plan.formats.product_fraction, WORD if whole else ring).values
        for tensor, ring in zip(tensors, rings, strict=True)
    )
    return Past(tensors[0].shape[-2], tuple(stores))


def simulation(
    plan: TwoPartyPlan,
    weights: Weights,
    mask: Array,
    past: Past | None = None,
    exact: frozenset[str] = frozenset(),
) -> Simulation:
    """Returns a simulation of both parties on one text, whose answer is not rounded to what a client is sent.
    mask, exact: see `Simulation`."""
    model = ServerModel(plan.formats, weights, plan.recorded.held)
    return Simulation(plan.recorded.exact, mask, model, past, exact)
