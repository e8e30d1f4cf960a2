"""Circuits of checkpoints in each packing, for tests."""

from __future__ import annotations

from tacita.checkpoint import Checkpoint
from tacita.layouts.columns import BatchShape
from tacita.layouts.registry import Shape
from tacita.packings.base import Circuit
from tacita.packings.lowering import build
from tacita.packings.specs import CircuitSpecs
from tacita.plans.scheme import scheme_named


def build_circuit(model: Checkpoint, specs: CircuitSpecs, slots: int, tokens: int) -> Circuit:
    """One text, in rows."""
    return build(model, specs, Shape("rows", "hoisted", slots, tokens))


def build_batch_circuit(
    model: Checkpoint, specs: CircuitSpecs, shape: BatchShape, scheme: str = "arion"
) -> Circuit:
    """A batch, in columns."""
    rotations = scheme_named(scheme).rotations
    return build(model, specs, Shape("columns", rotations, shape.slots, shape.tokens, shape.lanes))
