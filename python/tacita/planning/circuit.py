"""Approximations and a shape -> circuit, and plan + model -> the same circuit again. Both parties go through
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import numpy as np

from tacita.approx.fit import FitError
from tacita.checkpoint import Checkpoint
from tacita.errors import PlanError, ShapeError
from tacita.layouts.registry import Shape
from tacita.models.registry import family_of
from tacita.packings.base import Circuit
from tacita.packings.lowering import build, in_slots
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.temper import tempered
from tacita.planning.check_circuit import require_circuit
from tacita.planning.place.circuit import refreshed_nodes, require_agreement
from tacita.plans.commitment import SALT_FILE, commit
from tacita.plans.json_fields import printable
from tacita.plans.plan import ModelInfo, ParameterInfo, Plan
from tacita.plans.prices.cost import Prices
from tacita.plans.scheme import shape_of
from tacita.resources import trim
from tacita.texts.embedding import FrontConfig


@dataclass(frozen=True)
class Built:
    """A circuit and what it was built from. model: with its scores scaled (`planning.calibrate.temper`)."""

    model: Checkpoint
    specs: CircuitSpecs
    shape: Shape
    circuit: Circuit

    def shrunk(self, texts: int) -> Built:
        """Returns the same circuit with no more sequences than hold so many texts."""
        small = self.shape.shrunk(texts)
        return self if small == self.shape else _built(self.model, self.specs, small)


def build_circuit(
    model: Checkpoint, specs: CircuitSpecs, wanted: Sequence[Shape], ring: ParameterInfo, prices: Prices
) -> Built:
    """Builds the first shape that the model admits, with the functions that are cheaper by a bootstrap
    computed by one. Raises the ShapeError of the last shape, PlanError."""
    built = _first_admitted(model, specs, wanted)
    if not specs.undecided:
        return built
    settled = specs.settled(refreshed_nodes(built.circuit, ring, prices))
    return _built(model, settled, built.shape)


def _first_admitted(model: Checkpoint, specs: CircuitSpecs, wanted: Sequence[Shape]) -> Built:
    for shape in wanted[:-1]:
        try:
            return _built(model, specs, shape)
        except ShapeError:  # lanes that this model does not admit
            continue
    return _built(model, specs, wanted[-1])


def _built(model: Checkpoint, specs: CircuitSpecs, shape: Shape) -> Built:
    return Built(model, specs, shape, build(model, specs, shape))


def circuit_of(plan: Plan, model: Checkpoint, *, texts: int | None = None) -> Circuit:
    """The circuit that the plan was made for; kept for the next call. Raises PlanError for another model or
    another circuit than the plan lists, FileError for a circuit outside the limits of `check_circuit`.

    texts: for interpreters in the clear, the same circuit with no more sequences than hold so many.
    """
    model = in_slots(model)
    require_model(plan, model)
    shape = shape_of(plan) if texts is None else shape_of(plan).shrunk(texts)
    return _circuit(_CircuitSource(plan.hash, shape, plan, model))


def require_model(plan: Plan, model: Checkpoint) -> None:
    """Raises PlanError unless the plan committed to these weights and says of them what is so: sizes, labels,
    their order.

    The salt opens the commitment. The name may differ: it is that of a folder.
    """
    if not plan.salt:
        raise PlanError(
            f"plan of model {plan.model.name}, without the salt that opens its commitment to the weights",
            hint=f"a server keeps {SALT_FILE} beside its plan.json, where `tacita plan` or `publish` wrote "
            "both",
        )
    if commit(plan.salt, model.sha256) != plan.model.commitment:
        raise PlanError(
            f"plan of model {plan.model.name}, which committed to other weights than those of {model.name}",
            hint=f"pass the --model that the plan was made for with its {SALT_FILE}, or make the plan again",
        )
    here = replace(model_info(in_slots(model), plan.model.commitment), name=plan.model.name)
    if wrong := [f.name for f in fields(here) if getattr(here, f.name) != getattr(plan.model, f.name)]:
        raise PlanError(
            f"plan: {wrong[0]} of the model is {getattr(plan.model, wrong[0])!s:.80}, here it is "
            f"{getattr(here, wrong[0])!s:.80}",
            hint="the plan was altered: make it again, and do not use this one",
        )
    shape_of(plan)


def model_info(model: Checkpoint, commitment: str) -> ModelInfo:
    """What a plan says about its checkpoint."""
    c = model.config
    return ModelInfo(
        name=printable(model.name),
        commitment=commitment,
        architecture=family_of(c),
        layers=c.layers,
        hidden=c.hidden,
        heads=c.heads,
        intermediate=c.intermediate,
        activation=c.activation,
        pooling=c.pooling,
        normalise=c.normalise,
        labels=c.labels,
        embeddings=FrontConfig.of(c) if c.embeddings else None,
        task=c.task,
        problem=c.problem,
    )


@dataclass(frozen=True)
class _CircuitSource:
    """What a circuit is built from. Equal where the plan's hash and the shape are: model and plan follow
    from them.
    """

    hash: str
    shape: Shape
    plan: Plan = field(compare=False)
    model: Checkpoint = field(compare=False)


@lru_cache(maxsize=4)
def _circuit(source: _CircuitSource) -> Circuit:
    """Raises FileError for numbers of the circuit outside their limits, and PlanError where they make no
    circuit together or another one than the plan lists."""
    plan, shape = source.plan, source.shape
    require_circuit(plan)
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            specs = CircuitSpecs.from_json(plan.circuit["specs"])
            model = tempered(source.model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
            circuit = build(model, specs, shape)
            if shape == shape_of(plan):  # of a smaller one for interpreters in the clear, nobody makes keys
                require_agreement(plan, circuit)
    except (ShapeError, FitError, ArithmeticError, ValueError) as error:
        raise PlanError(
            f"the plan's circuit cannot be built ({error!s:.200})", hint="make the plan again"
        ) from error
    trim()  # a server measures what is taken next, and keys come after it
    return circuit
