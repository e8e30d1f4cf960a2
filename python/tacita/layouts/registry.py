"""What may be asked of each packing, by name, and the shape of a request. The packings that compute on
ciphertexts are listed in `packings.registry`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from tacita.errors import PlanError, ShapeError
from tacita.layouts.arrays import refuse
from tacita.layouts.coefficients import Transposition
from tacita.layouts.columns import ROTATIONS, BatchShape
from tacita.layouts.multidiagonal import MultiDiagonal
from tacita.layouts.rows import RowsShape
from tacita.limits import try_make

Estimates = Literal["none", "linear", "quadratic"]  # of rows (`approx.softmax`)
NONE: Estimates = "none"
LINEAR: Estimates = "linear"
QUADRATIC: Estimates = "quadratic"


@dataclass(frozen=True)
class Rules:
    """What may be asked of a packing, by default of one for a single text.

    check(slots, tokens, lanes) raises ShapeError; texts(slots, tokens, lanes) is the size of a request.
    rotations: ways to rotate in attention. lanes: to choose from, the most first. row_estimates: what
    attention may take from the scores of each row. refreshes: whether a function may be computed by a
    bootstrap (`approx.fourier`). steps: whether a text may be asked row by row (`rows.lowering`). inside:
    whether an attention of all tokens is one stage, which refreshes row sums by itself and no exponential.
    """

    check: Callable[[int, int, int], object]
    texts: Callable[[int, int, int], int] = lambda slots, tokens, lanes: 1
    rotations: tuple[str, ...] = ("hoisted",)
    lanes: tuple[int, ...] = (1,)
    row_estimates: Estimates = LINEAR
    refreshes: bool = True
    steps: bool = False
    inside: bool = False

    def takes(self, *, linear: bool) -> bool:
        """Whether attention may take an estimate with a linear part alone, or with a quadratic one."""
        return self.row_estimates == QUADRATIC or (self.row_estimates == LINEAR and linear)


RULES: Mapping[str, Rules] = {
    "rows": Rules(lambda slots, tokens, lanes: RowsShape(slots, tokens), steps=True),
    "coefficients": Rules(lambda slots, tokens, lanes: Transposition(RowsShape(slots, tokens))),
    "multidiagonal": Rules(
        lambda slots, tokens, lanes: MultiDiagonal(slots, 1, tokens, 1),  # heads are not known here
    ),
    "columns": Rules(
        BatchShape,
        lambda slots, tokens, lanes: slots // (tokens * lanes),
        ROTATIONS,
        lanes=(4, 2, 1),
        row_estimates=QUADRATIC,
        refreshes=False,
        inside=True,
    ),
}


# The shape of a request: which packing, how many slots and tokens, how many texts.


@dataclass(frozen=True)
class Shape:
    """The sizes of a circuit: slots of a ciphertext, tokens of a text, lanes: features side by side in a
    ciphertext, 1 for rows.

    rotations: a way to rotate in attention, of those that the packing has. step: of one new row behind rows
    that the server kept (`rows.lowering`), in place of the whole text. beside: texts that lie side by side,
    each as the packing has it in slots of its own, one in so many. Raises ShapeError for sizes that the
    packing does not admit, PlanError for a packing, rotations or steps that there are not.
    """

    packing: str
    rotations: str
    slots: int
    tokens: int
    lanes: int = 1
    step: bool = False
    beside: int = 1

    def __post_init__(self) -> None:
        if self.rotations not in self.rules.rotations:
            hint = f"it has {', '.join(self.rules.rotations)}"
            raise PlanError(f"packing {self.packing} with rotations {self.rotations!r}", hint=hint)
        if self.step and not self.rules.steps:
            able = ", ".join(name for name, rules in RULES.items() if rules.steps)
            raise PlanError(f"packing {self.packing} keeps no rows of earlier tokens", hint=f"{able} does")
        if self.beside & (self.beside - 1) or not 1 <= self.beside <= self.slots:
            raise refuse(self.packing, f"{self.beside} texts side by side", "use a power of two")
        self.rules.check(self.slots // self.beside, self.tokens, self.lanes)

    @property
    def rules(self) -> Rules:
        """What the packing admits."""
        return rules_of(self.packing)

    @property
    def texts(self) -> int:
        """Texts in a request."""
        return self.beside * self.rules.texts(self.alone.slots, self.tokens, self.lanes)

    @property
    def alone(self) -> Shape:
        """The shape of one of the texts that lie side by side."""
        return replace(self, slots=self.slots // self.beside, beside=1)

    def shrunk(self, texts: int) -> Shape:
        """The same circuit with no more sequences than hold `texts`: same stages, levels and numbers, fewer
        slots.

        Interpreters in the clear run it in a fraction of the time. A packing of one text stays as it is.
        """
        if self.texts == 1:
            return self
        places = 1 << max(1, texts - 1).bit_length()
        if self.beside > 1:
            beside = min(self.beside, places)
            return replace(self, slots=self.alone.slots * beside, beside=beside)
        return replace(self, slots=min(self.slots, places * self.tokens * self.lanes))


def rules_of(name: str) -> Rules:
    """Raises PlanError for a packing that there is not."""
    if name not in RULES:
        raise PlanError(f"packing {name!r}", hint=f"this program has {', '.join(RULES)}")
    return RULES[name]


def shapes(one: Shape, heads: int, inputs: int | None, *, beside: bool = False) -> Sequence[Shape]:
    """Shapes to try, the best first. one: with a single lane. inputs: texts to expect, None if unknown.
    beside: whether texts may lie side by side, as many as there are, or as the slots have room for.

    Most lanes with room for all inputs; one lane where none has it. Two lanes halve the columns, and with
    them the work, but also the sequences.
    """
    if inputs is None:
        return [one]
    wanted = max(inputs, 1)
    if beside:
        counts = [1 << power for power in range((wanted - 1).bit_length(), -1, -1)]
        tries = [try_make(partial(replace, one, beside=count), ShapeError) for count in counts]
        return [shape for shape in tries if shape]
    fitting = [lanes for lanes in one.rules.lanes if heads % lanes == 0 and lanes * wanted <= one.texts]
    return [replace(one, lanes=lanes) for lanes in fitting] or [one]
