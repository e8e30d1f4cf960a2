"""A program: what the client of a two-party session does, step by step, without the model's definition.

The client has no weights, so its walk is the same for every text: operations of the engine and local ones on
shares, whose shapes, rings and public numbers follow from the plan alone. A program lists them; whoever can
interpret these few operations is a client (`crates/wasm` does, in a browser). A program is as public as the
plan. Registers are numbered in the order in which they are written; register 0 is the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tacita.errors import FileError
from tacita.texts.embedding import FrontConfig

Value = int | float | bool | str | None | tuple[int, ...]
HINT = "it was made by another release, or the copy is damaged"
MOST_REGISTERS, MOST_STEPS = 1 << 16, 1 << 16
MANY = -1  # results, as many as the parameters say


@dataclass(frozen=True)
class Operation:
    """What a step may be. inputs, outputs: how many registers. parameters: name -> the types that it may
    have."""

    inputs: int
    outputs: int
    parameters: Mapping[str, tuple[type, ...]] = field(default_factory=dict)


def _takes(inputs: int, *integers: str, outputs: int = 1, **others: type | tuple[type, ...]) -> Operation:
    kinds = {name: kind if isinstance(kind, tuple) else (kind,) for name, kind in others.items()}
    return Operation(inputs, outputs, dict.fromkeys(integers, (int,)) | kinds)


OPTIONAL = (int, type(None))
BUMP = ("ring", "fraction", "to", "range")
# `ring` are bits of what is there, `to` of what becomes of it, where both differ
OPERATIONS: Mapping[str, Operation] = {
    "enter": _takes(0, outputs=0, name=str),  # the node of this name begins
    # local, on this party's share alone
    "shift_down": _takes(1, "bits", "ring"),  # without so many low bits, plus a unit
    "shift_up": _takes(1, "bits", "ring"),
    "reduce": _takes(1, "ring"),
    "add": _takes(2, "ring"),
    "scale": _takes(1, "factor", "ring"),  # by a whole number
    "columns": _takes(1, outputs=MANY, widths=tuple),
    "rows": _takes(1, "count"),  # the first, or for a negative number the last
    "heads": _takes(1, "count"),
    "merge": _takes(1),
    "transpose": _takes(1),
    "reshape": _takes(1, shape=tuple),
    # less `gap` where a query does not see a key: for want of reach, or because it is padding
    "hide": _takes(1, "gap", "fraction", "ring", back=OPTIONAL, on=OPTIONAL),
    "average": _takes(0, "tokens", "fraction", "ring"),  # (1, 1, tokens): 1/n for each of n real tokens
    # with the other party
    "extend": _takes(1, "ring", "to"),
    "linear": _takes(1, "rows", "inputs", "outputs", "ring", opened=bool),
    "product": _takes(2, "heads", "rows", "inner", "columns", "ring", opened=bool),
    "times": _takes(2, "held", "short", "ring", "slack"),
    "softmax": _takes(1, "ring", "fraction", "range", "power", "to", "inverse", outputs=2),
    "relu": _takes(1, "ring"),
    "square": _takes(1, "ring", "to", "slack"),
    "tanh": _takes(1, *BUMP, "finer"),
    "gelu": _takes(1, *BUMP, form=str),
    "silu": _takes(1, *BUMP, form=str),
    "norm": _takes(
        1,
        *("ring", "fraction", "to", "finer"),
        centred=bool,
        bound=float,
        least=float,
        gamma=float,
        epsilon=float,
    ),
}


@dataclass(frozen=True)
class Step:
    """One operation: a name in `OPERATIONS`, the registers that it reads and writes, its numbers."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parameters: Mapping[str, Value]

    def check(self, written: int) -> None:
        """Raises FileError unless it is a known operation on registers below `written` that writes the next
        ones."""
        operation = OPERATIONS.get(self.op)
        if operation is None:
            raise FileError(f"program: operation {self.op!r:.40}", hint=HINT)
        kinds = operation.parameters
        typed = set(kinds) == set(self.parameters) and all(
            type(value) in kinds[name] for name, value in self.parameters.items()
        )
        count = len(self.outputs) if operation.outputs == MANY else operation.outputs
        reads = len(self.inputs) == operation.inputs and all(0 <= x < written for x in self.inputs)
        if not (typed and reads and self.outputs == tuple(range(written, written + count))):
            raise FileError(f"program: a step {self.op} with other registers or numbers", hint=HINT)


@dataclass(frozen=True)
class Format:
    """Bits of a ring and the fraction bits in it."""

    ring: int
    fraction: int


@dataclass(frozen=True)
class Reading:
    """How an answer is read: see the plan's fields of these names. bound: magnitude that no number passes."""

    name: str
    task: str
    problem: str
    labels: tuple[str, ...]
    decimals: int
    bound: float
    normalise: bool


@dataclass(frozen=True)
class Program:
    """A checked list of steps. plan: hash of the plan that it follows, 64 hex digits. tokens, hidden: shape
    of the input, register 0.

    entered, answered: formats of the input and of the answer, whose register is `answer` and whose shape is
    `shape`. correlations: kind of the correlated transfers. front: how a text becomes the input, None where
    it is an image that does. reading: what the numbers mean.
    """

    plan: str
    tokens: int
    hidden: int
    entered: Format
    steps: tuple[Step, ...]
    answer: int
    answered: Format
    shape: tuple[int, ...]
    correlations: str
    front: FrontConfig | None
    reading: Reading

    def check(self) -> None:
        """Raises FileError unless every step reads what an earlier one wrote."""
        if len(self.steps) > MOST_STEPS:
            raise FileError(f"program: {len(self.steps)} steps, at most {MOST_STEPS}", hint=HINT)
        written = 1
        for step in self.steps:
            step.check(written)
            written += len(step.outputs)
        if not 0 <= self.answer < written <= MOST_REGISTERS:
            raise FileError(f"program: {written} registers, the answer in {self.answer}", hint=HINT)


def fields_of(step: Step) -> dict[str, Any]:
    """Returns the step as it stands in JSON: {"do": {"extend": {"ring": 30, "to": 64}}, "in": [3], "out":
    [4]}."""
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in step.parameters.items()}
    return {"do": {step.op: plain}, "in": list(step.inputs), "out": list(step.outputs)}
