"""Schemes by name, the packing each one means, and the shape of a request: how many texts it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacita.errors import InputError, PlanError
from tacita.models.bert import BertConfig
from tacita.packings.columns.layout import BatchShape
from tacita.packings.rows.layout import RowsShape
from tacita.plan.plan import Plan

ROWS = "rows"
PACKINGS = {"thor": ROWS, "arion": "arion", "moai": "moai"}  # as users say -> as plans say
LANES = (4, 2, 1)


@dataclass(frozen=True)
class Shape:
    """Slots, tokens and lanes of a circuit in a packing. Errors: ShapeError for sizes that the packing does not admit, PlanError
    for a packing that there is not."""

    packing: str
    slots: int
    tokens: int
    lanes: int = 1

    def __post_init__(self) -> None:
        scheme_named(self.packing)
        if self.packing == ROWS:
            RowsShape(self.slots, self.tokens)
        else:
            BatchShape(self.slots, self.tokens, self.lanes)

    @property
    def texts(self) -> int:
        """Texts in a request."""
        return 1 if self.packing == ROWS else self.slots // (self.tokens * self.lanes)

    def shrunk(self, texts: int) -> Shape:
        """The same circuit with no more sequences than hold `texts`: same stages, levels and numbers, fewer slots.

        Interpreters in the clear run it in a fraction of the time. Rows have one sequence and stay as they are.
        """
        if self.packing == ROWS:
            return self
        places = 1 << max(1, texts - 1).bit_length()
        return replace(self, slots=min(self.slots, places * self.tokens * self.lanes))


def packing_of(scheme: str) -> str:
    """Plan.scheme for a user's scheme. Raises InputError for an unknown name."""
    if scheme not in PACKINGS:
        raise InputError(f"no scheme {scheme!r}", hint=f"one of {', '.join(PACKINGS)}")
    return PACKINGS[scheme]


def scheme_of(plan: Plan) -> str:
    """The user's name of a plan's scheme. Raises PlanError for a packing that there is not."""
    return scheme_named(plan.scheme)


def scheme_named(packing: str) -> str:
    """The inverse of `packing_of`. Raises PlanError for a packing that there is not."""
    for name, found in PACKINGS.items():
        if found == packing:
            return name
    raise PlanError(f"packing {packing!r}", hint=f"this program has {', '.join(PACKINGS.values())}")


def shape_of(plan: Plan) -> Shape:
    """The shape of a plan's circuit."""
    return Shape(plan.scheme, plan.parameters.slots, plan.tokens, plan.lanes)


def shapes(packing: str, config: BertConfig, slots: int, tokens: int, inputs: int | None) -> Sequence[Shape]:
    """Shapes to try, the best first. inputs: texts to expect, None if unknown.

    Most lanes with room for all inputs; one lane where none has it. Two lanes halve the columns, and with them the work, but
    also the sequences. Raises ShapeError for sizes that the packing does not admit.
    """
    one = Shape(packing, slots, tokens)
    if packing == ROWS or inputs is None:
        return [one]
    fitting = [lanes for lanes in LANES if config.heads % lanes == 0 and lanes * max(inputs, 1) <= one.texts]
    return [replace(one, lanes=lanes) for lanes in fitting] or [one]
