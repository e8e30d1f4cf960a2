"""Options of blocks that not every interpreter has, by name: what one lacks is refused before anything runs.

>>> from tacita.blocks.base import Norm
>>> sorted(options(Norm("ln", 8, 1e-5))), sorted(options(Norm("rms", 8, 1e-5, centred=False)))
([], ['no mean'])
"""

from __future__ import annotations

from tacita.blocks.base import EVERYWHERE, Attention, FeedForward, Norm
from tacita.blocks.shapes import Node

GATE = "a gate"
UNCENTRED = "no mean"  # RMSNorm
NORMED = "normalised queries and keys"
ROTARY = "rotary positions"
RELATIVE = "relative positions"
REACH = "a limited reach"
CAUSAL = "a causal reach"  # tokens ahead are not seen; asked by the last tokens, and with a past
GROUPED = "grouped heads"


def options(node: Node | None) -> frozenset[str]:
    """Those that a node has."""
    match node:
        case Norm():
            return _named({UNCENTRED: not node.centred})
        case FeedForward():
            return _named({GATE: node.gate is not None})
        case Attention():
            found = {NORMED: node.normed, ROTARY: node.rotary, RELATIVE: node.relative}
            causal = node.reach[1] == 0
            heads = {CAUSAL: causal, REACH: node.reach != EVERYWHERE and not causal, GROUPED: node.shared > 1}
            return _named({name: value is not None for name, value in found.items()}) | _named(heads)
        case _:
            return frozenset()


def _named(found: dict[str, bool]) -> frozenset[str]:
    return frozenset(name for name, there in found.items() if there)
