"""A program: what the parties of a two-party session do, step by step, without the model's definition.

The walk is the same for every text: operations of the engine and local ones on shares, whose rings and public
numbers follow from the plan alone. A program lists them; whoever can interpret these few operations is a
client (`run` in Python, `crates/wasm` in a browser). The server runs the same steps and adds at some of them
what it knows of the model. A program is as public as the plan.

Registers are numbered in the order in which they are written; register 0 is the input. No step names a number
of rows: `sizes` infers every shape from the input's, so that one program reads a prompt and each token behind
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacita.errors import FileError

Parameter = int | float | bool | str | None | tuple[int, ...] | tuple[float, ...]
HINT = "it was made by another release, or the copy is damaged"
MANY = -1  # results, as many as the parameters say


@dataclass(frozen=True)
class Operation:
    """What a step may be. inputs, outputs: how many registers. parameters: name -> the types that it may
    have. further: the same of those that may be absent."""

    inputs: int
    outputs: int
    parameters: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    further: Mapping[str, tuple[type, ...]] = field(default_factory=dict)


def _takes(inputs: int, *integers: str, outputs: int = 1, **others: type | tuple[type, ...]) -> Operation:
    kinds = {name: kind if isinstance(kind, tuple) else (kind,) for name, kind in others.items()}
    return Operation(inputs, outputs, dict.fromkeys(integers, (int,)) | kinds)


# the engine's functions with a bump, and their names for our two forms
ENGINE: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gelu": ("gelu", {"abs4": "abs4", "abs8": "abs8"}),
    "gelu_tanh": ("gelu", {"abs4": "tanh4", "abs8": "tanh8"}),
    "silu": ("silu", {"abs4": "abs8", "abs8": "abs16"}),
}
FORMS = {  # the engine's name and form -> ours
    (called, theirs): (kind, ours)
    for kind, (called, forms) in ENGINE.items()
    for ours, theirs in forms.items()
}
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
    "group": _takes(1, "heads"),  # (more heads, rows, d) -> (heads, rows of neighbours, d), or back
    # by cosines and sines of the rows' positions, with so many fraction bits
    "turn": replace(_takes(1, "bits", "ring", base=float), further={"scales": (tuple,)}),
    # some heads and rows of queries at a time, with the keys and values within their reach: the steps from
    # here to the next `join`, which puts their results together, run for each such tile
    "tiles": _takes(3, "heads", "rows", outputs=3, back=OPTIONAL, on=OPTIONAL),
    "join": _takes(1),
    "append": _takes(1, "store", "ring"),  # behind the rows of a store, which keeps all of them
    # less `gap` where a query does not see a key: for want of reach, or because it is padding
    "hide": _takes(1, "gap", "fraction", "ring", back=OPTIONAL, on=OPTIONAL),
    "average": _takes(0, "fraction", "ring"),  # (1, 1, rows): 1/n for each of n real ones
    "bias": _takes(1, "ring"),  # plus what the server knows of positions or distances
    # with the other party
    "extend": _takes(1, "ring", "to"),
    "linear": _takes(1, "outputs", "ring", opened=bool),  # by the server's weights, plus their bias
    # of matrices by head, or with the second one's transposed; store: whose rows the second one is
    "product": _takes(2, "ring", opened=bool, transposed=bool, store=OPTIONAL),
    "times": _takes(2, "held", "short", "ring", "slack"),
    "softmax": _takes(1, "ring", "fraction", "range", "power", "to", "inverse", outputs=2),
    "relu": _takes(1, "ring"),
    "square": _takes(1, "ring", "to", "slack"),
    **dict.fromkeys(("tanh", "elu"), _takes(1, *BUMP, "finer")),
    **dict.fromkeys(("gelu", "silu"), _takes(1, *BUMP, form=str)),
    # the `count` largest of a row, and in place of each other one the ring's least integer
    "nearest": _takes(1, "count", "ring"),
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
    parameters: Mapping[str, Any]

    def check(self, written: int) -> None:
        """Raises FileError unless it is a known operation on registers below `written` that writes the next
        ones."""
        operation = OPERATIONS.get(self.op)
        if operation is None:
            raise FileError(f"program: operation {self.op!r:.40}", hint=HINT)
        kinds = {**operation.parameters, **operation.further}
        typed = set(operation.parameters) <= set(self.parameters) <= set(kinds) and all(
            type(value) in kinds[name] for name, value in self.parameters.items()
        )
        count = len(self.outputs) if operation.outputs == MANY else operation.outputs
        reads = len(self.inputs) == operation.inputs and all(
            type(x) is int and 0 <= x < written for x in self.inputs
        )
        if not (typed and reads and self.outputs == tuple(range(written, written + count))):
            raise FileError(f"program: a step {self.op} with other registers or numbers", hint=HINT)


def fields_of(step: Step) -> dict[str, Any]:
    """Returns the step as it stands in JSON: {"do": {"extend": {"ring": 30, "to": 64}}, "in": [3], "out":
    [4]}."""
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in step.parameters.items()}
    return {"do": {step.op: plain}, "in": list(step.inputs), "out": list(step.outputs)}


def step_of(data: dict[str, Any]) -> Step:
    """Returns the step of such fields, not yet checked. Raises what other fields raise."""
    ((op, fields),) = data["do"].items()
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    return Step(op, tuple(data["in"]), tuple(data["out"]), parameters)


# what may be done with a tile: each row of queries alone
OF_TILES = frozenset(
    ("shift_down", "shift_up", "reduce", "group", "bias", "hide", "extend", "product", "times", "softmax")
)


def joins(steps: Sequence[Step], answer: int) -> dict[int, int]:
    """Returns the number of its `join` for each step `tiles`. Raises FileError where one is missing, tiles
    are within tiles, a step is none of `OF_TILES`, or a tile's registers are read by others or the answer."""
    ends, inner = dict[int, int](), set[int]()
    begin: int | None = None
    for number, step in enumerate(steps):
        if begin is None:
            fits = step.op != "join" and inner.isdisjoint(step.inputs)
            begin = number if step.op == "tiles" else None
        else:
            own = range(steps[begin].outputs[0], min(step.outputs, default=0))
            fits = step.op in (*OF_TILES, "join") and all(x in own for x in step.inputs)
            if step.op == "join":
                inner.update(own)
                ends[begin], begin = number, None
        if not fits:
            raise FileError(f"program: a step {step.op} within tiles or behind them", hint=HINT)
    if begin is not None or answer in inner:
        raise FileError("program: tiles without a join, or one as the answer", hint=HINT)
    return ends


def last_reads(steps: Sequence[Step], answer: int) -> list[list[int]]:
    """Returns, for each step, the registers of its own that neither a later one nor the answer reads; what
    tiles are taken from is read until their join."""
    last, ends = {answer: len(steps)}, joins(steps, answer)
    for number in range(len(steps) - 1, -1, -1):
        for register in steps[number].inputs:
            last.setdefault(register, ends.get(number, number))
        for register in steps[number].outputs:
            last.setdefault(register, number)
    free: list[list[int]] = [[] for _ in (*steps, None)]
    for register, number in last.items():
        free[number].append(register)
    return free[:-1]
