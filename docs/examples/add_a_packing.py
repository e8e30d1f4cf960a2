"""The example of docs/guides/add-a-packing.md: its layout and its linear part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Blocks, Dense
from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.errors import PlanError
from tacita.layouts.arrays import refuse
from tacita.layouts.numbered import repeated, tensor_of
from tacita.layouts.runs import Request, Response
from tacita.packings.base import Operation, Tensor, refuse_node
from tacita.packings.conformance import CASES, Case, check, counts
from tacita.packings.shared.linear import Linear
from tacita.packings.shared.lowering import Lowering
from tacita.packings.specs import CircuitSpecs
from tacita.slots.base import Backend, Ct
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

Array = NDArray[np.float64]


# layout.py: which slot holds what
@dataclass(frozen=True)
class Layout:
    """Feature f is ciphertext f, token t is slot t, and the slots after the last token are zero."""

    slots: int
    tokens: int
    size: int

    def __post_init__(self) -> None:
        if self.tokens > self.slots:
            raise refuse("tiny", f"{self.tokens} tokens in {self.slots} slots", "use fewer tokens")

    def pack(self, tensor: Array) -> list[Array]:
        """(tokens, size) -> one slot vector per feature."""
        out = np.zeros((self.size, self.slots))
        out[:, : self.tokens] = tensor.T
        return list(out)

    def unpack(self, slots: Sequence[Array]) -> Array:
        """Slot vectors -> (tokens, size)."""
        return np.stack([np.real(v[: self.tokens]) for v in slots], axis=1)

    def inner(self, size: int) -> Layout:
        """The same with so many features."""
        return Layout(self.slots, self.tokens, size)

    def vectors(self, per_feature: Array) -> list[Array]:
        """One vector per ciphertext: a feature's number at all tokens."""
        return [np.full(self.slots, number) for number in per_feature]


layout = Layout(slots=64, tokens=16, size=5)
x = np.random.default_rng(0).normal(size=(16, 5))
assert np.array_equal(layout.unpack(layout.pack(x)), x)


# linear.py: the operations that this layout makes cheap, on the contract of backends alone
@dataclass(frozen=True)
class Matrix:
    """x W^T + b for weight (outputs, inputs): one level, a matrix product over ciphertexts, no rotation."""

    weight: Array
    bias: Array
    src: Layout
    dst: Layout

    def apply(self, be: Backend, cts: Sequence[Ct]) -> tuple[Ct, ...]:
        """Ciphertexts of src -> ciphertexts of dst."""
        return tuple(be.matmul(cts, self.weight[:, :, None], self.bias[:, None]))


def residual(be: Backend, x: Sequence[Ct], layout: Layout, factor: float, *, centred: bool) -> tuple[Ct, ...]:
    """(x minus its mean over features, if centred) * factor. One level, no rotation."""
    scaled = tuple(be.mul_const(ct, factor) for ct in x)
    if not centred:
        return scaled
    mean = be.mul_const(reduce(be.add, x), factor / layout.size)
    return tuple(be.sub(ct, mean) for ct in scaled)


def total(be: Backend, ct: Ct, slots: int) -> Ct:
    """The sum over all slots, in every slot: log2(slots) rotations, no level."""
    reach = slots // 2
    while reach:
        ct = be.add(ct, be.rotate(ct, reach))
        reach //= 2
    return ct


# request.py, response.py: what the client encrypts, and where the answers are
def request_of(layout: Layout, bound: float) -> Request:
    """Hidden states within [-1, 1], and 1/n at the n real tokens."""
    slots, tokens, size = layout.slots, layout.tokens, layout.size
    mask = Layout(slots, tokens, 1)
    tensors = {
        "hidden": tensor_of("hidden", (tokens, size), slots, layout.pack),
        "mask": tensor_of("mask", (tokens,), slots, lambda keep: mask.pack(keep[:, None])),
    }
    return Request(slots, 1, tokens, size, bound, tensors)


def response_of(slots: int, count: int, bound: float) -> Response:
    """Number j / bound in every slot of ciphertext j, of which two are read: copies that differ show a broken
    decode. There is no norm to check, and no slot that must be zero."""
    numbers, copies = (repeated(((slot, 0),), count, slots, 1) for slot in (0, 1))
    return Response(slots, count, 1, 1, count, bound, numbers, copies, norms=(), zeros=())


# lowering.py: the blocks as operations
class TinyLowering(Lowering):
    """The mean over tokens and a dense map of it. `Lowering` refuses an attention, of which there is none."""

    packing, options = "tiny", frozenset[str]()  # no option of a block (`blocks/shapes.py`)

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, slots: int) -> None:
        (tokens, size) = graph.steps[0].inputs[0].shape
        self._layout, self._outputs = Layout(slots, tokens, size), graph.steps[-1].output.shape[1]
        linear = Linear(self._layout, Matrix, None, residual, None, self._layout)
        super().__init__(graph, weights, specs, (slots, tokens), linear, linear)

    def request(self) -> Request:
        """Its layout."""
        return request_of(self._layout, self._specs.entry)

    def response(self) -> Response:
        """Its layout."""
        return response_of(self._slots, self._outputs, self._specs.answer)

    def answer(self, x: Tensor, dense: Dense | None, mean: str) -> None:
        """The mean of a dense map, which is the dense map of the mean. Two levels."""
        if dense is None or not mean:
            raise refuse_node("tiny", "answer", "no dense map of a mean")
        weight, bias = x.form.encoding.fold(*self._weights.dense(dense))
        matrix, offset = weight / self._specs.answer, bias / self._specs.answer
        mapped = Matrix(matrix, 0.0 * offset, self._layout, self._layout.inner(self._outputs))

        def run(be: Backend, x: Sequence[Ct], mask: Sequence[Ct]) -> tuple[Ct, ...]:
            means = [total(be, be.mul(ct, mask[0]), self._slots) for ct in mapped.apply(be, x)]
            return tuple(be.add_const(ct, b) for ct, b in zip(means, offset, strict=True))

        self.operations.append(Operation.of("answer", (x.live, "mask"), "answer", run))


# tests: the exported suite, first on a case of our own
def averaged(b: Blocks[Any, Any], x: Any) -> Any:
    """The classes of the mean of the hidden states."""
    return b.answer(b.linear(b.mean(x, "mean"), Dense("classifier", 5, 3), "classifier"))


def tiny(graph: Graph, weights: Weights, specs: CircuitSpecs) -> TinyLowering:
    return TinyLowering(graph, weights, specs, slots=64)


mine = Case("a dense map of the mean", averaged, features=5)
check(mine, tiny, PlainBackend(64), tokens=16, tolerance=1e-9)
assert counts(mine, tiny, SimBackend(64), tokens=16)["rotate"] == 3 * 6  # outputs * log2(slots), as stated

# then on the suite's own: each passes or, until its blocks are written, is refused
refused = 0
for case in CASES:
    try:
        check(case, tiny, PlainBackend(64), tokens=16, tolerance=0.005)
    except PlanError:
        refused += 1
assert refused == len(CASES)  # 0 for a packing that is complete
