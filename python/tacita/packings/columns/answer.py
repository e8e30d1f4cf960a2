"""Turns the tensors of a batch into the ciphertexts of its answers, laid out as `layouts.columns` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.layouts.columns import Array, BatchAnswer, Cells, Columns, IntArray, token_total
from tacita.layouts.runs import Response
from tacita.packings.columns.cells import CellMap
from tacita.packings.columns.linear import ColumnMap, Cts
from tacita.packings.encoding import Encoding
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class BatchAnswering:
    """Makes the answer of a tensor: one linear map gives both copies of its numbers. One level."""

    answer: BatchAnswer
    map: CellMap | ColumnMap

    @property
    def response(self) -> Response:
        """The layout of the response."""
        return self.answer.response

    def apply(self, be: Backend, x: Sequence[Ct], check: Ct) -> Cts:
        """Makes the response of x and the check: in its cell, or behind the columns of every token."""
        outs = self.map.apply(be, x)
        if self.answer.rows != 1:
            return *outs, check
        place = self.answer.check_cell[0]
        return tuple(be.add(out, check) if i == place else out for i, out in enumerate(outs))


def cell_answering(
    weight: Array, bias: Array, cells: Cells, entry: Encoding, answer: BatchAnswer
) -> BatchAnswering:
    """The answer of the first token. weight (answer, hidden). entry: encoding of the cells."""
    matrix, offset = entry.fold(weight, bias)
    both = np.concatenate([matrix, matrix, np.zeros((1, cells.size))]) / answer.bound
    shift = np.concatenate([offset, offset, [0.0]]) / answer.bound
    return BatchAnswering(answer, CellMap.build(both, shift, cells, answer.cells))


def token_answering(
    weight: Array, bias: Array, columns: Columns, entry: Encoding, answer: BatchAnswer
) -> BatchAnswering:
    """An answer for every token. No rotation but those of lanes. Arguments: as of `cell_answering`."""
    both, twice = (np.concatenate([side, side]) / answer.bound for side in entry.fold(weight, bias))
    return BatchAnswering(answer, ColumnMap.build([(both, columns)], twice, answer.columns))


@dataclass(frozen=True, eq=False)
class MeanAnswering(BatchAnswering):
    """Mean over real tokens and classifier, on columns: classify every token, add up, gather.

    The columns come weighed by the mask, whose sum is 1. Only the answers' columns are summed, never those of
    `hidden` features, and offsets are added once, at the end.
    """

    classify: ColumnMap

    @staticmethod
    def build(
        weight: Array, bias: Array, columns: Columns, entry: Encoding, answer: BatchAnswer
    ) -> MeanAnswering:
        """Builds both maps. weight (answer, hidden), or the identity for a model without classifier. entry:
        encoding of the columns."""
        matrix, offset = entry.fold(weight, bias)
        answers = Columns.dense(columns.shape, len(bias))
        classify = ColumnMap.build([(matrix / answer.bound, columns)], 0.0 * offset, answers)
        places = _places(answers.index.T.ravel(), len(bias))
        twice = np.concatenate([places, places, np.zeros((1, places.shape[1]))])
        shift = np.concatenate([offset, offset, [0.0]]) / answer.bound
        return MeanAnswering(answer, CellMap.gather(twice, shift, answer.cells), classify)

    def mean(self, be: Backend, x: Cts) -> Cts:
        """Answer columns / bound, the same in every token: one level, log2(tokens) rotations per answer
        column."""
        scores, shape = self.classify.apply(be, x), self.answer.cells.shape
        return tuple(token_total(be, ct, shape) for ct in scores)

    def apply(self, be: Backend, x: Sequence[Ct], check: Ct) -> Cts:
        """Makes the response of the means and the check. One level."""
        turned = [be.rotate(ct, lane) if lane else ct for lane in range(self.answer.shape.lanes) for ct in x]
        return super().apply(be, turned, check)


def mean_cells(be: Backend, x: Sequence[Ct], columns: Columns, gather: CellMap) -> Cts:
    """Columns weighed by the mask -> their mean over tokens in cells. gather: of `gathering`. One level,
    log2(tokens) rotations a column."""
    return gather.apply(be, tuple(token_total(be, ct, columns.shape) for ct in x))


def gathering(columns: Columns, cells: Cells) -> CellMap:
    """The map from columns with the same numbers in every token, which must have one lane, to cells."""
    return CellMap.gather(_places(columns.index[:, 0], cells.size), np.zeros(cells.size), cells)


def _places(features: IntArray, size: int) -> Array:
    """(size, inputs): 1 where the input of this number is the feature."""
    return np.asarray(np.arange(size)[:, None] == features, np.float64)
