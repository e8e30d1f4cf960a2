"""Programs as bytes: canonical JSON, and back with every field checked."""

from __future__ import annotations

import json
from typing import Any

from tacita.errors import FileError
from tacita.front.front import FrontConfig
from tacita.two_party.program.steps import HINT, Format, Program, Reading, Step, fields_of

FORMAT, VERSION = "tacita-two-party-program", 1
MAX_BYTES = 8 << 20


def encode(program: Program) -> bytes:
    """One spelling: keys sorted, no spaces."""
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
    """The inverse, of bytes that somebody else wrote. Raises FileError."""
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
    """What differs from the one spelling shows when it is spelled again."""
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
    """All but the image, which programs leave to their host."""
    return {name: value for name, value in vars(front).items() if name != "image"}


def _step(data: dict[str, Any]) -> Step:
    ((op, fields),) = data["do"].items()
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    return Step(op, tuple(data["in"]), tuple(data["out"]), parameters)
