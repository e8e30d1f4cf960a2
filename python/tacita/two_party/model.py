"""What the server of a two-party session knows of its model, step by step of the program."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacita.blocks.base import Norm, Positions, Relative
from tacita.blocks.weights import Weights
from tacita.two_party.arithmetic.base import Array, Format, Formats, Integers, encode
from tacita.two_party.arithmetic.residues import WORD, from_floats
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.recorder import Held
from tacita.two_party.program.run import Past
from tacita.two_party.program.simulation import Simulation


class ServerModel:
    """A `run.Model`. held: see `RecordTensors`."""

    def __init__(self, formats: Formats, weights: Weights, held: Mapping[int, tuple[Held, Format]]) -> None:
        self._formats, self._weights, self._held = formats, weights, held

    def matrix(self, step: int) -> Integers:
        """Converts the weights at the first call, then keeps the integers: for BERT-base that is seconds a
        text, and as much memory as the weights take."""
        maps, _ = self._held[step]
        assert isinstance(maps, tuple)  # or the step would be no linear map
        fraction = self._formats.weight

        def make() -> Integers:
            return np.ascontiguousarray(encode(self._weights.stacked(maps)[0].T, fraction))

        matrix: Integers = self._weights.cache((maps, fraction), make)
        return matrix

    def bias(self, step: int, shape: tuple[int, ...], first: int) -> Integers:
        """Encodes a bias, rows of positions or of distances in the format of the step's result."""
        what, form = self._held[step]
        return encode(self._floats(what, shape, first), form.fraction)

    def norm(self, step: int) -> tuple[Array, Array]:
        """Returns factors and offsets in floats, which the engine encodes."""
        norm, _ = self._held[step]
        assert isinstance(norm, Norm)  # as above
        return self._weights.norm(norm)

    def _floats(self, what: Held, shape: tuple[int, ...], first: int) -> Array:
        match what:
            case Positions():
                return self._weights.positions(what, shape[-2], first)
            case Relative():
                return self._weights.relative(what, (shape[-2], shape[-1]))
            case tuple():
                return self._weights.stacked_bias(what)
        raise AssertionError(f"nothing is added by {type(what).__name__}")


def share_prefix(
    plan: TwoPartyPlan, nodes: Mapping[str, tuple[Array, Array]], *, whole: bool = False
) -> Past:
    """Returns the server's share of a public beginning's keys and values, by node: all of them, where the
    client's is `run.empty_past`. In the order and the formats of the program's stores. whole: as a simulation
    has them."""
    tensors = [tensor for node in nodes.values() for tensor in node]
    rings = [step.parameters["ring"] for step in plan.program.steps if step.op == "append"]
    stores = (
        from_floats(tensor, plan.formats.product_fraction, WORD if whole else ring).values
        for tensor, ring in zip(tensors, rings, strict=True)
    )
    return Past(tensors[0].shape[-2], tuple(stores))


def simulation(plan: TwoPartyPlan, weights: Weights, mask: Array, past: Past | None = None) -> Simulation:
    """Returns a simulation of both parties on one text, whose answer is not rounded to what a client is sent.
    mask: see `Simulation`."""
    return Simulation(plan.recorded.exact, mask, ServerModel(plan.formats, weights, plan.recorded.held), past)
