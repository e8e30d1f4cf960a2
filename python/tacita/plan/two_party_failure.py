"""How likely a two-party plan makes a wrong answer by chance, whatever the text.

Only element-wise products can fail: a coefficient of a response whose noise meets the mask's edge spoils its
ciphertext (`SlotRing::failure_log2` in `crates/bfv/src/slots/moduli.rs`). This counts the coefficients of all responses
of one text, each at the engine's bound, so the figure is an upper bound. The engine sums the exact ones as it goes; a
test compares the two.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator

from tacita.two_party.base import Formats, mixed_fraction

if typing.TYPE_CHECKING:
    from tacita.models.two_party import LayerBounds
    from tacita.plan.two_party import TwoPartyPlan

# log2 for one coefficient of a response to a sum of TERMS products; a test holds it to the engine's
COEFFICIENT = -65.0
TERMS = 8
SLOTS = 8192  # coefficients of a ciphertext, and values in it
MOST_FAILURE = -32.0  # log2 for one text, above which a plan is refused
SQUARES = {"relu": 0, "abs4": 2, "abs8": 3}  # responses for an activation: the squares of its polynomial
EXP, TANH = 4, 3
# responses for one value a row (reciprocal, 1/sqrt): three squares, two products of two primes, one to spare
ROW_VALUE = 8
NORM_PRIMES = 2
PLAIN_WIDTH = 49  # bits of the widest plaintext prime
QUOTIENT_SLACK = 15


def failure_log2(plan: TwoPartyPlan) -> float:
    """log2 of a bound for the probability that chance alone spoils the answer to one text.

    -inf where nothing can fail.
    """
    weighted = sum(count * math.sqrt(max(1.0, terms / TERMS)) for count, terms in _responses(plan))
    return math.log2(weighted * SLOTS) + COEFFICIENT if weighted else -math.inf


def _responses(plan: TwoPartyPlan) -> Iterator[tuple[int, int]]:
    """(ciphertexts, products summed in each) of all responses."""
    config = plan.config
    if plan.embedding and plan.embedding.norm:
        yield from _norm(plan.tokens, config.hidden)
    for index, bounds in enumerate(plan.layers):
        alone = config.first_token and index == config.layers - 1
        yield from _layer(plan, bounds, 1 if alone else plan.tokens)
    if plan.pooler is not None:
        yield TANH * _whole(config.hidden), 1


def _layer(plan: TwoPartyPlan, bounds: LayerBounds, rows: int) -> Iterator[tuple[int, int]]:
    config, formats = plan.config, plan.formats
    yield EXP * _whole(config.heads * rows * plan.tokens), 1
    yield ROW_VALUE * _whole(config.heads * rows), 2
    yield _quotient_primes(formats, bounds.attention.context) * _whole(rows * config.hidden), 2
    yield from _norm(rows, config.hidden)
    form = "relu" if config.activation == "relu" else formats.gelu
    yield SQUARES[form] * _whole(rows * config.intermediate), 1
    yield from _norm(rows, config.hidden)


def _norm(rows: int, hidden: int) -> Iterator[tuple[int, int]]:
    """Sums of squares of all blocks in one response; gamma v / deviation, three products a block; a row's value."""
    blocks = -(-hidden // min(SLOTS // rows, hidden))
    yield NORM_PRIMES, blocks
    yield NORM_PRIMES * blocks, 3
    yield ROW_VALUE * _whole(rows), 2


def _quotient_primes(formats: Formats, context: float) -> int:
    """Plaintext primes of mixed values times their rows' inverses, with the slack that `SharedTensors.mix` takes."""
    fraction = mixed_fraction(formats, context) + formats.inverse
    slack = min(max(fraction - formats.fraction, 0) + formats.product_fraction, QUOTIENT_SLACK)
    return -(-(2 * formats.normal_ring - slack) // PLAIN_WIDTH)


def _whole(count: int) -> int:
    """Ciphertexts that hold so many values."""
    return -(-count // SLOTS)
