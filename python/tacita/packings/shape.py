"""The shape of a request: which packing, how many slots and tokens, how many texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacita.errors import PlanError
from tacita.packings.layouts import RULES, Rules


@dataclass(frozen=True)
class Shape:
    """slots of a ciphertext, tokens of a text, lanes: features side by side in a ciphertext, 1 for rows.

    rotations: a way to rotate in attention, of those that the packing has. step: of one new row behind rows
    that the server kept (`rows.steps`), in place of the whole text. Raises ShapeError for sizes that
    the packing does not admit, PlanError for a packing, rotations or steps that there are not.
    """

    packing: str
    rotations: str
    slots: int
    tokens: int
    lanes: int = 1
    step: bool = False

    def __post_init__(self) -> None:
        if self.rotations not in self.rules.rotations:
            hint = f"it has {', '.join(self.rules.rotations)}"
            raise PlanError(f"packing {self.packing} with rotations {self.rotations!r}", hint=hint)
        if self.step and not self.rules.steps:
            able = ", ".join(name for name, rules in RULES.items() if rules.steps)
            raise PlanError(f"packing {self.packing} keeps no rows of earlier tokens", hint=f"{able} does")
        self.rules.check(self.slots, self.tokens, self.lanes)

    @property
    def rules(self) -> Rules:
        """What the packing admits."""
        return rules_of(self.packing)

    @property
    def texts(self) -> int:
        """Texts in a request."""
        return self.rules.texts(self.slots, self.tokens, self.lanes)

    def shrunk(self, texts: int) -> Shape:
        """The same circuit with no more sequences than hold `texts`: same stages, levels and numbers, fewer
        slots.

        Interpreters in the clear run it in a fraction of the time. A packing of one text stays as it is.
        """
        if self.texts == 1:
            return self
        places = 1 << max(1, texts - 1).bit_length()
        return replace(self, slots=min(self.slots, places * self.tokens * self.lanes))


def rules_of(name: str) -> Rules:
    """Raises PlanError for a packing that there is not."""
    if name not in RULES:
        raise PlanError(f"packing {name!r}", hint=f"this program has {', '.join(RULES)}")
    return RULES[name]


def shapes(one: Shape, heads: int, inputs: int | None) -> Sequence[Shape]:
    """Shapes to try, the best first. one: with a single lane. inputs: texts to expect, None if unknown.

    Most lanes with room for all inputs; one lane where none has it. Two lanes halve the columns, and with
    them the work, but also the sequences.
    """
    if inputs is None:
        return [one]
    wanted = max(inputs, 1)
    fitting = [lanes for lanes in one.rules.lanes if heads % lanes == 0 and lanes * wanted <= one.texts]
    return [replace(one, lanes=lanes) for lanes in fitting] or [one]
