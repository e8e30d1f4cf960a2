"""An interpreter of programs on the native engine, written from the description of the steps alone: beside
it, clients in other languages are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tacita.blocks import tensors
from tacita.blocks.sequence import visible
from tacita.two_party.arithmetic.residues import Words, from_floats, reconstruct, reduced, zeros
from tacita.two_party.program.steps import Program

Numbers = Mapping[str, Any]
Run = Callable[[Any, np.ndarray, Numbers, list[Words]], Any]


def run_program(program: Program, party: Any, hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The answer to hidden states (tokens, hidden) of a text with this mask (tokens,)."""
    registers = [from_floats(hidden, program.entered.fraction, program.entered.ring).values]
    for step in program.steps:
        if step.op == "enter":
            continue
        found = RUN[step.op](party, mask, step.parameters, [registers[i] for i in step.inputs])
        results = found if isinstance(found, tuple) else (found,)
        registers += [np.ascontiguousarray(result) for result in results]
    mine = registers[program.answer]
    total = party.receive_revealed(mine, program.answered.ring)
    share = zeros(program.shape, program.answered.fraction, program.answered.ring)
    return reconstruct(share, total)


def _hide(party: Any, mask: np.ndarray, n: Numbers, x: Words) -> Words:
    seen = visible(mask, x.shape[-2:], (n["back"], n["on"]))
    gap = from_floats(np.where(seen == 0.0, float(n["gap"]), 0.0), n["fraction"], n["ring"])
    return reduced(x - gap.values, n["ring"])


def _average(party: Any, mask: np.ndarray, n: Numbers) -> Words:
    return from_floats((mask / mask.sum())[None, None], n["fraction"], n["ring"]).values


def _softmax(party: Any, mask: np.ndarray, n: Numbers, x: Words) -> tuple[Words, Words]:
    numbers = (n[k] for k in ("ring", "fraction", "range", "power", "to", "inverse"))
    powers, inverses = party.softmax_parts(x.reshape(-1, x.shape[-1]), *numbers)
    return powers.reshape(x.shape), inverses.reshape(*x.shape[:-1], 1)


def _relu(party: Any, mask: np.ndarray, n: Numbers, x: Words) -> Words:
    return reduced(x - party.select(party.negative(x, n["ring"]), x, n["ring"]), n["ring"])


def _norm(party: Any, mask: np.ndarray, n: Numbers, x: Words) -> Words:
    named = {k: n[k] for k in ("bound", "least", "epsilon", "centred")}
    form = {"bits": n["ring"], "frac": n["fraction"], "out_bits": n["to"], "out_frac": n["finer"]}
    found: Words = party.layer_norm(x, None, None, **form, **named, gamma_bound=n["gamma"])
    return found


def _bump(called: str) -> Run:
    def run(party: Any, mask: np.ndarray, n: Numbers, x: Words) -> Words:
        numbers = (n["ring"], n["fraction"], n["to"])
        found: Words = getattr(party, called)(x, *numbers, form=n["form"], range=n["range"])
        return found

    return lambda party, mask, n, given: run(party, mask, n, *given)


def _local(run: Callable[..., Any]) -> Run:
    return lambda party, mask, n, given: run(*given, **n)


def _engine(run: Callable[..., Any]) -> Run:
    return lambda party, mask, n, given: run(party, mask, n, *given)


RUN: dict[str, Run] = {
    "shift_down": _local(lambda x, bits, ring: reduced((x >> np.uint64(bits)) + np.uint64(1), ring)),
    "shift_up": _local(lambda x, bits, ring: reduced(x << np.uint64(bits), ring)),
    "reduce": _local(reduced),
    "add": _local(lambda x, y, ring: reduced(x + y, ring)),
    "scale": _local(lambda x, factor, ring: reduced(x * np.array(factor).view(np.uint64), ring)),
    "columns": _local(tensors.columns),
    "rows": _local(tensors.rows),
    "heads": _local(tensors.heads),
    "merge": _local(tensors.merge),
    "transpose": _local(lambda x: np.swapaxes(x, -1, -2)),
    "reshape": _local(lambda x, shape: x.reshape(shape)),
    "hide": _engine(_hide),
    "average": _engine(_average),
    "extend": _engine(lambda party, mask, n, x: party.extend(x, n["ring"], n["to"])),
    "linear": _engine(
        lambda party, mask, n, x: party.share_times_weights(
            x, None, (n["rows"], n["inputs"], n["outputs"]), n["ring"], opened=n["opened"]
        )
    ),
    "product": _engine(
        lambda party, mask, n, x, y: party.share_times_share(
            x, y, (n["heads"], n["rows"], n["inner"], n["columns"]), n["ring"], opened=n["opened"]
        )
    ),
    "times": _engine(
        lambda party, mask, n, x, y: party.scaled(
            x, y, held=n["held"], short=n["short"], bits=n["ring"], slack=n["slack"]
        )
    ),
    "softmax": _engine(_softmax),
    "relu": _engine(_relu),
    "square": _engine(lambda party, mask, n, x: party.square_narrow(x, n["ring"], n["to"], n["slack"])),
    "tanh": _engine(
        lambda party, mask, n, x: party.tanh(
            x, n["ring"], n["fraction"], n["to"], n["finer"], range=n["range"]
        )
    ),
    "gelu": _bump("gelu"),
    "silu": _bump("silu"),
    "norm": _engine(_norm),
}
