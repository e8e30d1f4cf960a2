"""The rings of registers: each as narrow as what is read of it allows (decision 102)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from tacita.two_party.arithmetic.residues import WORD
from tacita.two_party.program.sizes import Value
from tacita.two_party.program.steps import Step

# What keeps the ring of what it reads, or needs no more of it than is needed of its result.
LOCAL = ("reduce", "add", "scale", "columns", "rows", "heads", "merge", "group", "turn", "bias")
GROWN = ("extend", "norm", "gelu", "silu", "tanh")  # whose results have a ring of their own
NARROWED = (*LOCAL, *GROWN, "linear", "shift_down", "shift_up")  # others, as they stand
SPARE = 2  # bits above a norm's bound


def narrow(
    steps: Sequence[Step], registers: Sequence[Value], whole: Collection[int]
) -> tuple[tuple[Step, ...], list[int]]:
    """Returns the same steps in the narrowest rings, and the rings of all registers: a product's ring is that
    of what is read of it, and what grows before it grows no further. whole: registers that keep theirs."""
    constant = {i for step in steps if step.op not in NARROWED for i in step.outputs} | set(whole)
    rings, before = [x.ring if i in constant else 1 for i, x in enumerate(registers)], [0]
    while rings != before:
        before = list(rings)
        for step in reversed(steps):
            made = max((rings[i] for i in step.outputs), default=0)
            for i in step.inputs:  # the first term of a sum has the sum's ring
                least = rings[step.inputs[0]] if step.op == "add" else 1
                rings[i] = max(rings[i], least, _demand(step, registers[i], made))
    new: list[Step] = []
    for step in steps:
        p, to = dict(step.parameters), max((rings[i] for i in step.outputs), default=0)
        if step.inputs and step.op in NARROWED:
            read, bits = rings[step.inputs[0]], p.get("bits", 0)
            other = {"shift_down": read - bits, "shift_up": min(read + bits, WORD), "reduce": to}
            ring = other.get(step.op, read)
            numbers = {"ring": ring, "to": max(to, read) if step.op == "extend" else to}
            p |= {name: numbers[name] for name in numbers if name in p}
            for i in step.outputs:
                rings[i] = p.get("to", ring)
        new.append(replace(step, parameters=p))
    return tuple(new), rings


def _demand(step: Step, x: Value, made: int) -> int:
    """Returns the bits of a register that a step needs for `made` bits of its result."""
    p, bits = step.parameters, x.ring
    match step.op:
        case "shift_down":
            bits = made + p["bits"]
        case "shift_up":
            bits = max(made - p["bits"], 1)
        case "extend" | "linear":
            bits = made
        case "norm":
            bits = math.ceil(math.log2(p["bound"] * x.shape[-1])) + p["fraction"] + 2 + SPARE
        case op if op in LOCAL:
            bits = made
    return min(bits, x.ring)
