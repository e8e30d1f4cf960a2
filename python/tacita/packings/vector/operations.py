"""Blocks as operations, whatever layout they compute in: what every packing of one text writes the same
way."""

from __future__ import annotations

from typing import Protocol

from tacita.approx.spec import Spec
from tacita.packings.base import Operation
from tacita.packings.vector.answer import Answering, norm_check
from tacita.packings.vector.pooler import Pooler
from tacita.slots.base import Backend, Ct
from tacita.slots.stage import Live

CHECK, ANSWER = "check", "answer"
Cts = tuple[Ct, ...]


class AnyNorm(Protocol):
    """A norm in some layout; `vector.norm.VectorNorm` says what its methods mean."""

    @property
    def rsqrt(self) -> Spec: ...
    def variance(self, be: Backend, x: Cts) -> Ct: ...
    def root(self, be: Backend, variance: Ct) -> Ct: ...
    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts: ...


class AnyForward(Protocol):
    """A feed-forward block in some layout; `vector.feed_forward.VectorForward` says what its methods mean."""

    def expand(self, be: Backend, y: Cts) -> Cts: ...
    def activate(self, be: Backend, inner: Cts) -> Cts: ...
    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts: ...


def norm_operations(norm: AnyNorm, name: str, *, check: bool) -> list[Operation]:
    """`NAME.centred` -> the result. check: also give the norm check of the response."""
    centred, spread = f"{name}.centred", f"{name}.variance"

    def variance(be: Backend, live: Live) -> Live:
        return {spread: (norm.variance(be, live[centred]),)}

    def normalise(be: Backend, live: Live) -> Live:
        root = norm.root(be, live[spread][0])
        result: Live = {name: norm.normalise(be, live[centred], root)}
        return result | ({CHECK: (norm_check(be, live[spread][0], root, norm.rsqrt),)} if check else {})

    return [Operation(spread, (centred,), variance), Operation(name, (centred, spread), normalise)]


def forward_operations(forward: AnyForward, name: str, y: str, residual: str, target: str) -> list[Operation]:
    """y, residual, target: live tensors; the sum goes into the target."""
    inner, active = f"{name}.inner", f"{name}.active"

    def expand(be: Backend, live: Live) -> Live:
        return {inner: forward.expand(be, live[y])}

    def activate(be: Backend, live: Live) -> Live:
        return {active: forward.activate(be, live[inner])}

    def contract(be: Backend, live: Live) -> Live:
        return {target: forward.contract(be, live[residual], live[active])}

    return [
        Operation(f"{name}.expand", (y,), expand),
        Operation(f"{name}.activate", (inner,), activate),
        Operation(f"{name}.contract", (residual, active), contract),
    ]


def function_operations(pooler: Pooler, name: str, x: str) -> list[Operation]:
    """A function of a dense map of a vector."""
    argument = f"{name}.argument"

    def apply(be: Backend, live: Live) -> Live:
        return {argument: (pooler.pre_activation(be, live[x][0]),)}

    def activate(be: Backend, live: Live) -> Live:
        return {name: (pooler.activate(be, live[argument][0]),)}

    return [Operation(argument, (x,), apply), Operation(name, (argument,), activate)]


def answer_operation(answering: Answering, pooled: str) -> Operation:
    """The response of a pooled tensor."""

    def answer(be: Backend, live: Live) -> Live:
        return {ANSWER: answering.apply(be, live[pooled], live[CHECK][0])}

    return Operation(ANSWER, (pooled, CHECK), answer)
