"""Makes a plan of a circuit: its placement, keys, levels of the request and predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.floats import FloatTensors
from tacita.blocks.meaning import Meaning
from tacita.blocks.sequence import Past
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.errors import LevelError
from tacita.layouts.registry import Shape, layout_of
from tacita.models.registry import forward
from tacita.packings.base import Circuit
from tacita.packings.executor import RESPONSE as RESPONSE
from tacita.planning.place.dry_run import dry_run, simulated
from tacita.planning.place.placement import Placement, place
from tacita.planning.place.simulate import StageSimulator
from tacita.plans.answers import CHOICE_DECIMALS, decimals_for
from tacita.plans.error import MOST_DECIMALS, UNKNOWN, Population
from tacita.plans.plan import ModelInfo, ParameterInfo, PlacedStage, Plan, Prediction, TensorInfo
from tacita.plans.prices import predict
from tacita.plans.prices.cost import Counts, Prices
from tacita.plans.prices.formulas import MemorySim
from tacita.texts.embed import embedded

RESPONSE_LEVEL = 0  # the lowest level is the smallest file


@dataclass(frozen=True)
class Placed:
    """A circuit with its placement. fixed_levels: the lowest levels of encrypted masks and kept tensors that
    change no stage.

    stage_bytes: working memory of each stage.
    """

    circuit: Circuit
    parameters: ParameterInfo
    placement: Placement
    stages: tuple[PlacedStage, ...]
    fixed_levels: Mapping[str, int]
    rotations: tuple[tuple[int, int], ...]
    stage_bytes: tuple[int, ...]

    @property
    def levels(self) -> Mapping[str, int]:
        """The level of each incoming tensor. What is encrypted comes at least as high as the highest that is
        kept, so that a server that has kept nothing yet takes zeros from it (`evaluate.kept`)."""
        kept_levels = {one.before: self.fixed_levels[one.before] for one in self.circuit.kept}
        least = max(kept_levels.values(), default=0)
        sent = {name: max(level, least) for name, level in self.placement.request.items()}
        return {**sent, **self.fixed_levels}


def place_circuit(circuit: Circuit, parameters: ParameterInfo, prices: Prices) -> Placed:
    """Searches levels and bootstraps, then runs the placed circuit once on `sim` to list its keys."""
    simulator = StageSimulator(lambda: simulated(parameters), fixed=circuit.unplaced)
    placement = place(circuit.stages, circuit.inputs, simulator, prices)
    stages = tuple(
        PlacedStage(s.stage, s.bootstraps, s.kinds, s.levels, s.out_levels, s.counts) for s in placement.steps
    )
    levels = _fixed_levels(circuit, parameters, placement, stages)
    be = MemorySim(parameters.slots, parameters.max_level, prices)
    dry_run(be, circuit, stages, {**placement.request, **levels})
    rotations = tuple(sorted(be.rotation_levels.items()))
    memory = tuple(be.stage_bytes[stage.name] for stage in stages)
    return Placed(circuit, parameters, placement, stages, levels, rotations, memory)


def refreshed_nodes(circuit: Circuit, parameters: ParameterInfo, prices: Prices) -> frozenset[str]:
    """Nodes whose function the cheapest placement computes by a bootstrap, where it has the choice."""
    simulator = StageSimulator(lambda: simulated(parameters), fixed=circuit.unplaced)
    steps = place(circuit.stages, circuit.inputs, simulator, prices).steps
    return frozenset(step.stage.removesuffix(".activate") for step in steps if step.refreshes)


def to_plan(
    placed: Placed,
    model: ModelInfo,
    tokens: int,
    calibrated: Mapping[str, Any],
    prices: Prices,
    *,
    answer: float,
    noise: float,
    scheme: str,
    shape: Shape,
    population: Population = UNKNOWN,
    gap: float = 0.0,
) -> Plan:
    """The plan with its predictions but that of the error, for which the plan's step is needed.

    calibrated: everything from which the circuit can be built again, as JSON data. answer: bound of the
    answers. noise: of the answers, as `decimals.stated_noise` gives it. Raises PlanError where it leaves no
    decimals to show. gap: see `Plan`.
    """
    levels = placed.levels
    request = tuple(
        TensorInfo(n, count, levels[n], "real") for n, count in sorted(placed.circuit.request.counts.items())
    )
    kept_tensors = tuple(
        TensorInfo(one.before, one.count, levels[one.before], "real") for one in placed.circuit.kept
    )
    response = (TensorInfo(RESPONSE, placed.circuit.response.count, RESPONSE_LEVEL, "real"),)
    return Plan(
        model=model,
        tokens=tokens,
        scheme=scheme,
        batch=shape.texts,
        lanes=shape.lanes,
        parameters=placed.parameters,
        circuit=calibrated,
        layout=layout_of(placed.circuit.request, placed.circuit.response),
        answer=answer,
        stages=placed.stages,
        rotations=placed.rotations,
        request=request,
        response=response,
        kept=kept_tensors,
        noise=noise,
        decimals=decimals_for(noise, CHOICE_DECIMALS if gap else MOST_DECIMALS),
        prediction=_prediction(placed, request, response, tokens, prices),
        population=population,
        gap=gap,
    )


def _prediction(
    placed: Placed,
    request: Sequence[TensorInfo],
    response: Sequence[TensorInfo],
    tokens: int,
    prices: Prices,
) -> Prediction:
    info, working = placed.parameters, max(placed.stage_bytes)
    coefficients = any("coefficient_product" in stage.counts for stage in placed.stages)
    multiplied = tokens if coefficients else None
    sizes = predict.run_bytes(info, placed.rotations, request, response, working, prices, multiplied)
    keys, evaluate = sizes["evaluation_keys"], placed.placement.seconds
    return Prediction(
        machine=prices.named,
        threads=prices.threads,
        stage_seconds=tuple(prices.scale * (s.seconds + s.bootstrap_seconds) for s in placed.placement.steps),
        seconds=predict.run_seconds(keys, evaluate, working, prices),
        bytes=sizes,
        stage_bytes=placed.stage_bytes,
    )


def _fixed_levels(
    circuit: Circuit, parameters: ParameterInfo, placement: Placement, stages: Sequence[PlacedStage]
) -> dict[str, int]:
    """Returns the lowest level of each encrypted mask and kept tensor at which the run counts the same
    operations as at the top."""
    top = dict.fromkeys(circuit.fixed, parameters.max_level)
    wanted = _counts(circuit, parameters, stages, {**placement.request, **top})

    def enough(name: str, level: int) -> bool:
        try:
            levels = {**placement.request, **top, name: level}
            counts = _counts(circuit, parameters, stages, levels)
        except LevelError:
            return False
        return bool(counts == wanted)

    return {name: _lowest(partial(enough, name), parameters.max_level) for name in sorted(top)}


def _counts(
    circuit: Circuit, parameters: ParameterInfo, stages: Sequence[PlacedStage], levels: Mapping[str, int]
) -> Counts:
    be = simulated(parameters)
    dry_run(be, circuit, stages, levels)
    return be.counts


def _lowest(enough: Callable[[int], bool], top: int) -> int:
    """Smallest level for which `enough` holds; it holds at the top and is monotone."""
    low, high = 0, top
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


# What a decoder's public beginning leaves behind, in the clear.


def beginning(model: Checkpoint, ids: Sequence[int]) -> Past[NDArray[np.float64]]:
    """Keys and values of these tokens, with which every text begins, in floats. Cost: a walk over so many
    rows."""
    ops = FloatTensors(Weights(model.tensors), np.ones(len(ids)), past=Past())
    forward(Meaning(ops), model.config, embedded(model, list(ids), [0] * len(ids)))
    return ops.past
