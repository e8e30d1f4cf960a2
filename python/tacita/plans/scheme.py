"""Schemes by name, and the packing and rotations that each one means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacita.errors import InputError, PlanError
from tacita.packings.shape import Shape
from tacita.plans.plan import Plan


@dataclass(frozen=True)
class Scheme:
    """packing: a name in `packings.layouts`. rotations: one of that packing's. several: many texts in a
    request."""

    packing: str
    rotations: str
    several: bool


SCHEMES: Mapping[str, Scheme] = {
    "thor": Scheme("rows", "hoisted", several=False),
    "arion": Scheme("columns", "double", several=True),
    "moai": Scheme("columns", "single", several=True),
}


def scheme_named(name: str) -> Scheme:
    """Raises InputError for an unknown name."""
    if name not in SCHEMES:
        raise InputError(f"no scheme {name!r}", hint=f"one of {', '.join(SCHEMES)}")
    return SCHEMES[name]


def first_shape(name: str, slots: int, tokens: int) -> Shape:
    """Of a scheme, with one lane. Raises InputError for an unknown name, ShapeError for sizes that it does
    not admit."""
    scheme = scheme_named(name)
    return Shape(scheme.packing, scheme.rotations, slots, tokens)


def shape_of(plan: Plan) -> Shape:
    """The shape of a plan's circuit. Raises PlanError for a scheme or packing that there is not."""
    if plan.scheme not in SCHEMES:
        raise PlanError(f"scheme {plan.scheme!r}", hint=f"this program has {', '.join(SCHEMES)}")
    scheme = SCHEMES[plan.scheme]
    return Shape(scheme.packing, scheme.rotations, plan.parameters.slots, plan.tokens, plan.lanes)
