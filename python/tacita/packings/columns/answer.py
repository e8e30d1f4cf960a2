"""Turns the pooled vectors of a batch into the ciphertexts of its answers, laid out as `response` says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.layouts.columns import Array, BatchResponse, Cells, Columns, token_total
from tacita.packings.columns.cells import CellMap
from tacita.packings.columns.linear import ColumnMap, Cts, Encoding
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class CellAnswering:
    """Makes the answer of the pooled vector in cells: one linear map gives both copies. One level."""

    response: BatchResponse
    map: CellMap

    @staticmethod
    def build(
        weight: Array, bias: Array, cells: Cells, entry: Encoding, response: BatchResponse
    ) -> CellAnswering:
        """Builds the map. weight (answer, hidden). entry: encoding of the pooled cells."""
        matrix, offset = entry.fold(weight, bias)
        zero = np.zeros((1, cells.size))
        both = np.concatenate([matrix, matrix, zero]) / response.bound
        return CellAnswering(
            response,
            CellMap.build(
                both, np.concatenate([offset, offset, [0.0]]) / response.bound, cells, response.cells
            ),
        )

    def apply(self, be: Backend, pooled: Cts, check: Ct) -> Cts:
        """Makes the response of the pooled cells and the check."""
        return _with_check(be, self.map.apply(be, pooled), check, self.response)


@dataclass(frozen=True, eq=False)
class MeanAnswering:
    """Mean over real tokens and classifier, on columns: classify every token, add up, gather.

    The columns come weighed by the mask, whose sum is 1. Only the answers' columns are summed, never those of
    `hidden` features, and offsets are added once, at the end.
    """

    response: BatchResponse
    columns: Columns
    classify: ColumnMap
    gather: CellMap

    @staticmethod
    def build(
        weight: Array, bias: Array, columns: Columns, entry: Encoding, response: BatchResponse
    ) -> MeanAnswering:
        """Builds both maps. weight (answer, hidden), or the identity for a model without classifier. entry:
        encoding of the columns."""
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
        """Answer columns / bound, the same in every token: one level, log2(tokens) rotations per answer
        column."""
        scores = self.classify.apply(be, x)
        return tuple(token_total(be, ct, self.columns.shape) for ct in scores)

    def apply(self, be: Backend, means: Cts, check: Ct) -> Cts:
        """Makes the response of the means and the check. One level."""
        lanes = self.columns.shape.lanes
        turned = [ct if lane == 0 else be.rotate(ct, lane) for lane in range(lanes) for ct in means]
        return _with_check(be, self.gather.apply(be, turned), check, self.response)


@dataclass(frozen=True, eq=False)
class MeanCells:
    """The mean over tokens, every feature of it, for what is done with it before the answer."""

    columns: Columns
    gather: CellMap

    @staticmethod
    def build(columns: Columns, cells: Cells) -> MeanCells:
        """Builds the map from columns, which must have one lane, to cells."""
        places = np.zeros((cells.size, columns.count))
        for column, feature in enumerate(columns.index[:, 0]):
            if feature >= 0:
                places[feature, column] = 1.0
        return MeanCells(columns, CellMap.gather(places, np.zeros(cells.size), cells))

    def apply(self, be: Backend, x: Cts) -> Cts:
        """Columns weighed by the mask -> cells. One level, log2(tokens) rotations a column."""
        return self.gather.apply(be, tuple(token_total(be, ct, self.columns.shape) for ct in x))


@dataclass(frozen=True, eq=False)
class TokenAnswering:
    """An answer for every token: its columns, their copies, and the check. One level, no rotation but those
    of lanes."""

    map: ColumnMap

    @staticmethod
    def build(
        weight: Array, bias: Array, columns: Columns, entry: Encoding, response: BatchResponse
    ) -> TokenAnswering:
        """Builds the map. weight (answer, hidden). entry: encoding of the columns."""
        matrix, offset = entry.fold(weight, bias)
        both, twice = (np.concatenate([side, side]) / response.bound for side in (matrix, offset))
        return TokenAnswering(ColumnMap.build([(both, columns)], twice, response.columns))

    def apply(self, be: Backend, x: Cts, check: Ct) -> Cts:
        """Makes the response of x and the check."""
        return *self.map.apply(be, x), check


def _with_check(be: Backend, outs: Cts, check: Ct, response: BatchResponse) -> Cts:
    place = response.check_cell[0]
    return tuple(be.add(out, check) if i == place else out for i, out in enumerate(outs))
