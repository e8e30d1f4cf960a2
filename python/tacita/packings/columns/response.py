"""Where the answers of a batch are: for every sequence its numbers, a second copy, a check of the last
LayerNorm, zeros elsewhere.

In cells: number j at cell j, its copy at cell size + j, half the norm check at cell 2 * size. As for one
input (`packings.one_text.response`), copies that differ, zeros that are not, or a check off 1 tell the client
that a decode is broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacita.omitted import AT_DEFAULT
from tacita.packings.columns.layout import Array, BatchShape, Cells, Columns
from tacita.packings.response import Answer
from tacita.packings.sizes import refuse


@dataclass(frozen=True)
class BatchResponse:
    """Numbers that say where the answers are: plain data, as a plan states it.

    slots, tokens, lanes: as in the request. size: numbers in an answer. bound: they are stored divided by it.
    rows: 1, or all tokens of an answer for every token: that has columns of its numbers, of their copies, and
    a ciphertext of the check at the first token.
    """

    tag: ClassVar[str] = "columns"

    slots: int
    tokens: int
    lanes: int
    size: int
    bound: float
    rows: int = field(default=1, metadata=AT_DEFAULT)

    def check(self) -> None:
        """Raises ShapeError for sizes that columns do not admit."""
        if self.size < 1:
            raise refuse(
                "interleaved", f"an answer of {self.size} numbers", "an answer has one number or more"
            )
        BatchShape(self.slots, self.tokens, self.lanes)
        if self.rows not in (1, self.tokens):
            raise refuse("interleaved", f"an answer of {self.rows} rows", "use an answer of one row or all")

    def fits(self, slots: int, tokens: int, lanes: int, hidden: int, classes: bool) -> bool:
        """Whether it is the answer of such a request: logits and features lie alike."""
        return (self.slots, self.tokens, self.lanes) == (slots, tokens, lanes)

    @cached_property
    def cells(self) -> Cells:
        """Of 2 * size + 1 numbers a sequence."""
        return Cells(BatchShape(self.slots, self.tokens, self.lanes), 2 * self.size + 1)

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return self.cells.count if self.rows == 1 else self.columns.count + 1

    @cached_property
    def columns(self) -> Columns:
        """Of the numbers of every token and their copies."""
        return Columns.dense(BatchShape(self.slots, self.tokens, self.lanes), 2 * self.size)

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """Decoded ciphertexts -> one answer per sequence of the batch."""
        if self.rows != 1:
            return list(self._token_answers(slots))
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

    def _token_answers(self, slots: Sequence[Array]) -> Iterator[Answer]:
        both, n = self.columns.unpack(slots[:-1]), self.size
        checks = Columns.dense(self.columns.shape, 1).unpack(slots[-1:])[:, :, 0]
        for numbers, check in zip(both, checks, strict=True):
            yield Answer(
                values=0.5 * (numbers[:, :n] + numbers[:, n:]) * self.bound,
                disagreement=float(np.max(np.abs(numbers[:, :n] - numbers[:, n:]))) * self.bound,
                leak=float(np.max(np.abs(check[1:]))) * self.bound,
                norm_check=2.0 * float(check[0]),
            )

    @property
    def check_cell(self) -> tuple[int, Array]:
        """(ciphertext, slot vector that is 1 at the check's cell)."""
        if self.rows != 1:
            shape = self.columns.shape
            return self.columns.count, shape.at_tokens((np.arange(shape.tokens) == 0).astype(np.float64))
        flag = np.zeros(self.cells.size)
        flag[-1] = 1.0
        return self.cells.count - 1, self.cells.vectors(flag)[-1]
