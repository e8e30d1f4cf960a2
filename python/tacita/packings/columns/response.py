"""The answers of a batch: for every sequence its numbers, a second copy, a check of the last LayerNorm, zeros elsewhere.

In cells: number j at cell j, its copy at cell size + j, half the norm check at cell 2 * size. As for one input
(`packings.rows.response`), copies that differ, zeros that are not, or a check off 1 tell the client that a decode is broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.columns.cells import CellMap, Cells
from tacita.packings.columns.layout import Array, Columns, token_total
from tacita.packings.columns.linear import ColumnMap, Cts, Meaning
from tacita.packings.response import Answer
from tacita.packings.stored import Stored
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True)
class BatchResponse:
    """cells: of 2 * size + 1 numbers. bound: of the answer."""

    cells: Cells
    bound: float

    @staticmethod
    def of(size: int, columns: Columns, bound: float) -> BatchResponse:
        """For an answer of `size` numbers."""
        return BatchResponse(Cells(columns.shape, 2 * size + 1), bound)

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return self.cells.count

    @property
    def size(self) -> int:
        """Numbers in an answer."""
        return self.cells.size // 2

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """Decoded ciphertexts -> one answer per sequence of the batch."""
        return [self._answer(row) for row in self.cells.unpack(slots)]

    def _answer(self, row: Array) -> Answer:
        n = self.size
        first, second, rest = row[:n], row[n : 2 * n], row[2 * n + 1 :]
        return Answer(
            values=0.5 * (first + second) * self.bound,
            disagreement=float(np.max(np.abs(first - second))) * self.bound,
            leak=float(np.max(np.abs(rest), initial=0.0)) * self.bound,
            norm_check=2.0 * float(row[2 * n]),
        )

    @property
    def check_cell(self) -> tuple[int, Array]:
        """(ciphertext, slot vector that is 1 at the check's cell)."""
        flag = np.zeros(self.cells.size)
        flag[-1] = 1.0
        return self.cells.count - 1, self.cells.vectors(flag)[-1]


def norm_check(be: Backend, variance: Ct, root: Ct, norm_rsqrt: Spec, top: float, cell: Array) -> Ct:
    """Half of variance * 1/sqrt(variance)^2 at `cell`, zero elsewhere. root: 1/sqrt times `top`. Levels: two."""
    form = Stored.input_of(norm_rsqrt)
    moved = be.add_const(variance, -form.offset) if form.offset else variance
    return be.mul(be.mul_vector(moved, cell * (0.5 / (form.scale * top**2))), be.square(root))


@dataclass(frozen=True, eq=False)
class CellAnswering:
    """From the pooled vector in cells: one linear map gives both copies. One level."""

    response: BatchResponse
    map: CellMap

    @staticmethod
    def build(weight: Array, bias: Array, cells: Cells, entry: Meaning, response: BatchResponse) -> CellAnswering:
        """weight (answer, hidden). entry: meaning of the pooled cells."""
        matrix, offset = entry.fold(weight, bias)
        zero = np.zeros((1, cells.size))
        both = np.concatenate([matrix, matrix, zero]) / response.bound
        return CellAnswering(
            response,
            CellMap.build(both, np.concatenate([offset, offset, [0.0]]) / response.bound, cells, response.cells),
        )

    def apply(self, be: Backend, pooled: Cts, check: Ct) -> Cts:
        """pooled, check -> the response."""
        return _with_check(be, self.map.apply(be, pooled), check, self.response)


@dataclass(frozen=True, eq=False)
class MeanAnswering:
    """Mean over real tokens and classifier, on columns: classify every token, add up, gather.

    The columns come weighed by the mask, whose sum is 1. Only the answers' columns are summed, never those of `hidden`
    features, and offsets are added once, at the end.
    """

    response: BatchResponse
    columns: Columns
    classify: ColumnMap
    gather: CellMap

    @staticmethod
    def build(weight: Array, bias: Array, columns: Columns, entry: Meaning, response: BatchResponse) -> MeanAnswering:
        """weight (answer, hidden), or the identity for a model without classifier. entry: meaning of the columns."""
        size, lanes = len(bias), columns.shape.lanes
        matrix, offset = entry.fold(weight, bias)
        answers = Columns.dense(columns.shape, size)
        classify = ColumnMap.build([(matrix / response.bound, columns)], 0.0 * offset, answers)
        places = np.zeros((response.cells.size, answers.count * lanes))
        for lane in range(lanes):
            for column, feature in enumerate(answers.index[:, lane]):
                if feature >= 0:
                    places[[feature, size + feature], lane * answers.count + column] = 1.0
        both = np.concatenate([offset, offset, [0.0]]) / response.bound
        return MeanAnswering(response, columns, classify, CellMap.gather(places, both, response.cells))

    def mean(self, be: Backend, x: Cts) -> Cts:
        """Answer columns / bound, the same in every token: one level, log2(tokens) rotations per answer column."""
        scores = self.classify.apply(be, x)
        return tuple(token_total(be, ct, self.columns.shape) for ct in scores)

    def apply(self, be: Backend, means: Cts, check: Ct) -> Cts:
        """means, check -> the response. One level."""
        lanes = self.columns.shape.lanes
        turned = [ct if lane == 0 else be.rotate(ct, lane) for lane in range(lanes) for ct in means]
        return _with_check(be, self.gather.apply(be, turned), check, self.response)


def _with_check(be: Backend, outs: Cts, check: Ct, response: BatchResponse) -> Cts:
    place = response.check_cell[0]
    return tuple(be.add(out, check) if i == place else out for i, out in enumerate(outs))
