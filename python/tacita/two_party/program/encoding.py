"""Programs as bytes: canonical JSON, and back with every field checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tacita.errors import FileError
from tacita.texts.embedding import FrontConfig
from tacita.two_party.arithmetic.residues import WORD
from tacita.two_party.program.steps import HINT, Format, Program, Reading, Step, Value, fields_of

FORMAT, VERSION = "tacita-two-party-program", 1
MAX_BYTES = 8 << 20


def encode(program: Program) -> bytes:
    """Encodes a program in its one spelling: keys sorted, no spaces."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "plan": program.plan,
        "tokens": program.tokens,
        "hidden": program.hidden,
        "entered": vars(program.entered),
        "steps": [fields_of(step) for step in program.steps],
        "answer": program.answer,
        "answered": vars(program.answered),
        "shape": list(program.shape),
        "correlations": program.correlations,
        "front": None if program.front is None else _named(program.front),
        "reading": vars(program.reading),
    }
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes) -> Program:
    """Decodes a program that somebody else wrote. Raises FileError."""
    if len(data) > MAX_BYTES:
        raise FileError(f"program: {len(data)} bytes, at most {MAX_BYTES}", hint=HINT)
    try:
        program = _program(json.loads(data))
        program.check()
        spelled = encode(program)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise FileError(f"program: damaged ({type(error).__name__})", hint=HINT) from None
    if spelled != data:
        raise FileError("program: not in its one spelling, or of another version", hint=HINT)
    return program


def _program(data: dict[str, Any]) -> Program:
    """Builds a program without checks: what differs from the one spelling shows when it is spelled again."""
    return Program(
        plan=str(data["plan"]),
        tokens=int(data["tokens"]),
        hidden=int(data["hidden"]),
        entered=Format(**data["entered"]),
        steps=tuple(_step(step) for step in data["steps"]),
        answer=int(data["answer"]),
        answered=Format(**data["answered"]),
        shape=tuple(data["shape"]),
        correlations=str(data["correlations"]),
        front=None if data["front"] is None else FrontConfig(**data["front"]),
        reading=Reading(**{**data["reading"], "labels": tuple(data["reading"]["labels"])}),
    )


def _named(front: FrontConfig) -> dict[str, Any]:
    """Returns all fields but the image, which programs leave to their host."""
    return {name: value for name, value in vars(front).items() if name != "image"}


def _step(data: dict[str, Any]) -> Step:
    ((op, fields),) = data["do"].items()
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    return Step(op, tuple(data["in"]), tuple(data["out"]), parameters)


# Registers and the tape that steps are written on: what `residues.Share` does to a share, as steps.

Made = tuple[tuple[int, ...], Format]  # shape and format of what a step writes


@dataclass(frozen=True)
class Register:
    """A value of a program. number: in the program. shape, format: of what it holds."""

    number: int
    shape: tuple[int, ...]
    format: Format

    @property
    def ring(self) -> int:
        """Bits of the format's ring."""
        return self.format.ring

    @property
    def fraction(self) -> int:
        """Fraction bits of the format."""
        return self.format.fraction


class Tape:
    """The steps that a recorder writes. steps: those written so far."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._written = 0

    def first(self, shape: tuple[int, ...], form: Format) -> Register:
        """Returns a register that no step writes: the input."""
        self._written += 1
        return Register(self._written - 1, shape, form)

    def enter(self, name: str) -> None:
        """Writes that a node begins."""
        self.steps.append(Step("enter", (), (), {"name": name}))

    def write(self, op: str, inputs: Sequence[Register], made: Made, /, **parameters: Value) -> Register:
        """Writes a step with one result."""
        return self.write_many(op, inputs, [made], **parameters)[0]

    def write_many(
        self, op: str, inputs: Sequence[Register], made: Sequence[Made], /, **parameters: Value
    ) -> tuple[Register, ...]:
        """Writes a step with several results."""
        registers = tuple(self.first(*each) for each in made)
        numbers = tuple(r.number for r in inputs), tuple(r.number for r in registers)
        self.steps.append(Step(op, *numbers, parameters))
        return registers

    def scaled(self, x: Register, fraction: int) -> Register:
        """Converts to so many fraction bits; the ring moves along, up to 64 bits."""
        gained = fraction - x.fraction
        if gained == 0:
            return x
        op, ring = ("shift_down", x.ring + gained) if gained < 0 else ("shift_up", min(x.ring + gained, WORD))
        return self.write(op, (x,), (x.shape, Format(ring, fraction)), bits=abs(gained), ring=ring)

    def reduced(self, x: Register, ring: int) -> Register:
        """Modulo 2^ring, a smaller ring or the same. Raises ValueError for a larger one."""
        if ring > x.ring:
            raise ValueError(f"a share modulo 2^{x.ring} does not say its value modulo 2^{ring}")
        if ring == x.ring:
            return x
        return self.write("reduce", (x,), (x.shape, Format(ring, x.fraction)), ring=ring)

    def factor(self, x: Register, fraction: int, ring: int) -> Register:
        """Converts to so many fraction bits in a ring: locally where the ring has shrunk to it or less, else
        by one extension."""
        low = self.scaled(x, fraction)
        if low.ring >= ring:
            return self.reduced(low, ring)
        return self.write("extend", (low,), (x.shape, Format(ring, fraction)), ring=low.ring, to=ring)

    def plus(self, x: Register, y: Register) -> Register:
        """Adds two registers in the first one's format."""
        return self.write("add", (x, y), (x.shape, x.format), ring=x.ring)

    def reshaped(self, x: Register, shape: tuple[int, ...]) -> Register:
        """Keeps the values in their order under another shape."""
        return x if shape == x.shape else self.write("reshape", (x,), (shape, x.format), shape=shape)

    def transposed(self, x: Register) -> Register:
        """Swaps the last two axes."""
        shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
        return self.write("transpose", (x,), (shape, x.format))

    def product(self, x: Register, y: Register, *, opened: bool = False) -> Register:
        """Multiplies (heads, k, m) by (heads, m, n) in x's ring."""
        (heads, rows, inner), columns = x.shape, y.shape[-1]
        result = (heads, rows, columns), Format(x.ring, x.fraction + y.fraction)
        sizes = {"heads": heads, "rows": rows, "inner": inner, "columns": columns}
        return self.write("product", (x, y), result, **sizes, ring=x.ring, opened=opened)

    def times(self, x: Register, short: int, y: Register, slack: int, fraction: int) -> Register:
        """Multiplies number by number in y's ring; factors x of so few bits, one for every y or for every
        row."""
        bits = {"held": x.ring, "short": min(short, x.ring), "ring": y.ring, "slack": slack}
        return self.write("times", (x, y), (y.shape, Format(y.ring, fraction)), **bits)


def regrouped(tape: Tape, x: Register, heads: int) -> Register:
    """Regroups heads as `blocks.tensors.regrouped` does."""
    columns = x.shape[-1]
    return tape.reshaped(x, (heads, prod(x.shape) // (heads * columns), columns))
