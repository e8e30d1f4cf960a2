"""What the server of a two-party session knows of its model, step by step of the program."""

from __future__ import annotations

from collections.abc import Mapping

from tacita.blocks.base import Norm, Positions, Relative
from tacita.blocks.weights import Weights
from tacita.two_party.arithmetic.base import Array, Format, Formats, Integers
from tacita.two_party.arithmetic.fixed import weight_integers
from tacita.two_party.arithmetic.residues import Words, from_floats
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.recorder import Held
from tacita.two_party.program.run import Past


class ServerModel:
    """A `run.Model`. held: see `RecordTensors`."""

    def __init__(self, formats: Formats, weights: Weights, held: Mapping[int, tuple[Held, Format]]) -> None:
        self._formats, self._weights, self._held = formats, weights, held

    def matrix(self, step: int) -> Integers:
        """Converts the weights at the first call, then keeps the integers."""
        maps, _ = self._held[step]
        assert isinstance(maps, tuple)  # or the step would be no linear map
        return weight_integers(self._weights, maps, self._formats.weight)

    def bias(self, step: int, shape: tuple[int, ...], first: int) -> Words:
        """Encodes a bias, rows of positions or of distances in the format of the step's result."""
        what, form = self._held[step]
        return from_floats(self._floats(what, shape, first), form.fraction, form.ring).values

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


def share_prefix(plan: TwoPartyPlan, nodes: Mapping[str, tuple[Array, Array]]) -> Past:
    """Returns the server's share of a public beginning's keys and values, by node: all of them, where the
    client's is `run.empty_past`. In the order and the formats of the program's stores."""
    f, bounds = plan.formats, plan.bounds.attention
    stores = [
        from_floats(values, f.product_fraction, ring).values
        for name, node in nodes.items()
        for values, ring in zip(
            node, (f.score_ring(bounds[name]), f.mix_ring(bounds[name], plan.room)), strict=True
        )
    ]
    return Past(next(iter(nodes.values()))[0].shape[-2], tuple(stores))
