"""The layouts of requests and responses, of every packing: all that a client knows of a packing.

A layout is a dataclass of numbers. `planning.build` writes it into the plan and the client reads it there: it
packs texts and reads answers without the circuit, which takes the weights.

    plan.layout.request.pack([(hidden, mask)])     # slot vectors to encrypt
    plan.layout.response.read(slots)               # of the decrypted ciphertexts

Nothing is imported here that computes on ciphertexts. The list of packings that do is `registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tacita.errors import PlanError
from tacita.packings.coefficients.request import CoefficientRequest
from tacita.packings.coefficients.response import CoefficientResponse
from tacita.packings.coefficients.turn import Turn
from tacita.packings.columns.layout import ROTATIONS, BatchShape
from tacita.packings.columns.request import BatchRequest
from tacita.packings.columns.response import BatchResponse
from tacita.packings.multidiagonal.layout import MultiDiagonal
from tacita.packings.multidiagonal.request import DiagonalRequest
from tacita.packings.multidiagonal.response import DiagonalResponse
from tacita.packings.request import Request
from tacita.packings.response import Response
from tacita.packings.rows.layout import RowsShape
from tacita.packings.rows.request import RowsRequest
from tacita.packings.rows.response import RowsResponse
from tacita.packings.rows.steps.request import StepRequest

Estimates = Literal["none", "linear", "quadratic"]  # of rows (`approx.row_estimate`)
NONE: Estimates = "none"
LINEAR: Estimates = "linear"
QUADRATIC: Estimates = "quadratic"
AnyRequest = RowsRequest | StepRequest | CoefficientRequest | DiagonalRequest | BatchRequest
AnyResponse = RowsResponse | CoefficientResponse | DiagonalResponse | BatchResponse


@dataclass(frozen=True)
class Layout:
    """Where a circuit takes its input and leaves its answers."""

    request: AnyRequest
    response: AnyResponse

    def check(self) -> None:
        """Raises ShapeError for numbers that are no layout. Builds nothing larger than a request's index."""
        _ = self.request.counts
        self.response.check()


def layout_of(request: Request, response: Response) -> Layout:
    """Of a circuit. Raises PlanError for a packing whose layouts are not listed above: no plan could state
    them."""
    if not isinstance(request, AnyRequest) or not isinstance(response, AnyResponse):
        raise PlanError(f"a layout of type {type(request).__name__}", hint="list it in packings/layouts.py")
    return Layout(request, response)


@dataclass(frozen=True)
class Rules:
    """What may be asked of a packing.

    rotations: ways to rotate in attention. lanes: to choose from, the most first. row_estimates: what
    attention may take from the scores of each row. two_phases: whether it may find softmax in
    two (`approx.exponentials.softmax`). refreshes: whether a function may be computed by a bootstrap
    (`approx.fourier`). steps: whether a text may be asked row by row (`rows.steps`).
    check(slots, tokens, lanes) raises ShapeError;
    texts(slots, tokens, lanes) is the size of a request.
    """

    rotations: tuple[str, ...]
    lanes: tuple[int, ...]
    row_estimates: Estimates
    two_phases: bool
    refreshes: bool
    steps: bool
    check: Callable[[int, int, int], object]
    texts: Callable[[int, int, int], int]

    def takes(self, *, linear: bool) -> bool:
        """Whether attention may take an estimate with a linear part alone, or with a quadratic one."""
        return self.row_estimates == QUADRATIC or (self.row_estimates == LINEAR and linear)


RULES: Mapping[str, Rules] = {
    "rows": Rules(
        rotations=("hoisted",),
        lanes=(1,),
        row_estimates=LINEAR,
        two_phases=False,
        refreshes=True,
        steps=True,
        check=lambda slots, tokens, lanes: RowsShape(slots, tokens),
        texts=lambda slots, tokens, lanes: 1,
    ),
    "coefficients": Rules(
        rotations=("hoisted",),
        lanes=(1,),
        row_estimates=LINEAR,
        two_phases=False,
        refreshes=True,
        steps=False,
        check=lambda slots, tokens, lanes: Turn(RowsShape(slots, tokens)),
        texts=lambda slots, tokens, lanes: 1,
    ),
    "multidiagonal": Rules(
        rotations=("hoisted",),
        lanes=(1,),
        row_estimates=LINEAR,
        two_phases=True,
        refreshes=True,
        steps=False,
        check=lambda slots, tokens, lanes: MultiDiagonal(slots, 1, tokens, 1),  # heads are not known here
        texts=lambda slots, tokens, lanes: 1,
    ),
    "columns": Rules(
        rotations=ROTATIONS,
        lanes=(4, 2, 1),
        row_estimates=QUADRATIC,
        two_phases=False,
        refreshes=False,
        steps=False,
        check=BatchShape,
        texts=lambda slots, tokens, lanes: slots // (tokens * lanes),
    ),
}
