"""Approximations and bounds of a circuit, by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from tacita.approx.spec import Spec
from tacita.errors import PlanError
from tacita.packings.columns.row_estimate import RowEstimate

S = TypeVar("S")


@dataclass(frozen=True)
class AttentionSpecs:
    exp: Spec
    inverse: Spec
    context: float
    attended: float
    rows: RowEstimate | None = None


@dataclass(frozen=True)
class NormSpecs:
    rsqrt: Spec
    centred: float
    result: float


@dataclass(frozen=True)
class FunctionSpecs:
    function: Spec


NodeSpecs = AttentionSpecs | NormSpecs | FunctionSpecs


@dataclass(frozen=True)
class CircuitSpecs:
    nodes: Mapping[str, NodeSpecs]
    entry: float
    answer: float

    def attention(self, name: str) -> AttentionSpecs:
        return self._of(name, AttentionSpecs)

    def norm(self, name: str) -> NormSpecs:
        return self._of(name, NormSpecs)

    def function(self, name: str) -> FunctionSpecs:
        return self._of(name, FunctionSpecs)

    def _of(self, name: str, kind: type[S]) -> S:
        found = self.nodes.get(name)
        if not isinstance(found, kind):
            raise PlanError(f"specs of {name}", hint="calibrate this model")
        return found
