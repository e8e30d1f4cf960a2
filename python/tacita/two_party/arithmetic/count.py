"""What one text costs two parties, by the walk that they will make: bytes, transfers, products, and the
chance of a wrong answer.

Bits per element are those that the protocols state (`crates/mpc/src/nonlinear`, `linear`, `products`),
correlations included; a sum of them, so good to a fifth. Small products fill a ciphertext only in part, which
is what the whole ones below are for.

Only element-wise products can fail by chance: a coefficient of a response whose noise meets the mask's edge
spoils its ciphertext (`SlotRing::failure_log2` in `crates/bfv/src/slots/moduli.rs`). `responses` lists the
ciphertexts that carry them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import prod

from tacita.blocks.base import EVERYWHERE, Dense, Norm, Positions, Powers, Reach, Relative, Rotary
from tacita.two_party.arithmetic.base import (
    KINDS,
    Bounds,
    Formats,
    NormBounds,
    Unnormalised,
    unknown_kind,
    unknown_option,
)

Shape = tuple[int, ...]  # (rows, columns) or (heads, rows, columns)

# bits an element, with one square less and more; GELU's as fitted to whole models, the others measured alone
BUMPED = {
    "gelu": {"abs4": 1380, "abs8": 1780},
    "gelu_tanh": {"abs4": 1200, "abs8": 1620},
    "silu": {"abs4": 1700, "abs8": 2080},
}
RELU, RELU_SQUARED, PRIME = 420, 680, 320  # the last for each further plaintext prime of the square
EXP, TANH = 1880, 2000  # the largest of a row's scores is looked for in the first
NORM, NORM_SLOT = 130, 1144  # bits an element, and a slot of the ciphertexts that carry it
NORM_ROWS = 810  # bits a slot of the one ciphertext each way that carries what belongs to rows
QUOTIENT = 900  # bits a slot
ROW = 2 * 8 * 2000  # bits for the deviation of a row of LayerNorm
SOFTMAX_ROW = 5400  # and for the reciprocal of one of softmax
HEAD_ROW, HEAD_TRANSFERS = 8000, 620  # bits and transfers a row, in the norm of heads: many short rows
REQUEST, RESPONSE = 85, 65  # bits a coefficient, with weights on the other side
SHARED_REQUEST, SHARED_RESPONSE = 62, 32  # with shares on the other side
GATE = (630, 930, 1230)  # bits a slot, by plaintext primes, for a product of two shared tensors
REVEALED = 64  # bits a number of an answer
COEFFICIENTS = 8192  # of a ciphertext, and values in it
TRANSFERS = {
    "gelu": 40,
    "gelu_tanh": 34,
    "silu": 40,
    "relu": 40,
    "relu2": 42,
    "tanh": 0,
    "score": 40,
    "norm": 3,
}  # correlated ones an element, to a third

# responses for an activation: the squares of its polynomial
SQUARES = {
    "gelu": {"abs4": 2, "abs8": 3},
    "gelu_tanh": {"abs4": 2, "abs8": 3},
    "silu": {"abs4": 3, "abs8": 4},
}
EXPONENTIAL, TANH_RESPONSES = 4, 3
# responses for one value a row (reciprocal, 1/sqrt): three squares, two products of two primes, one to spare
ROW_VALUE = 8
NORM_PRIMES, NORM_MOST = 2, 2048  # of rows at once
PLAIN_WIDTH = 49  # bits of the widest plaintext prime
QUOTIENT_SLACK = 15
# of fewer values than this no ciphertext is worth it (`nonlinear/few.rs`)
FEW = 4096
FEW_NORM, FEW_NORM_STEP = 1800, 130  # bits an element, and for each power of two from deviation to bound
FEW_NORM_TRANSFERS = 45
FEW_SQUARE_TRANSFERS = 19  # more than a lattice product's, an element; as many bits
FEW_FACTOR = 7  # bits above its fraction of the shorter factor of a gate
DROPPED = 5  # fewer than the slack are the bits that are not sent


@dataclass(frozen=True)
class Response:
    """So many ciphertexts, each the sum of so many products."""

    count: int
    terms: int


@dataclass
class Cost:
    """What one text costs, both directions together. nodes: in the order in which they begin.

    maps: products with weights, in the order in which they come. bits: sent. transfers: correlated ones used.
    multiplications: of weights with values. numbers: that the client learns.
    """

    bits: float = 0.0
    transfers: int = 0
    multiplications: float = 0.0
    responses: list[Response] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    maps: list[tuple[Dense, ...]] = field(default_factory=list)
    numbers: int = 0


class CountTensors:
    """The operations (see `blocks.tensors`) on shapes; what they cost adds up in `cost`. past: tokens before
    those of the walk, whose keys and values are there."""

    def __init__(self, formats: Formats, bounds: Bounds, tokens: int, past: int = 0) -> None:
        self._formats, self._bounds, self._tokens, self._past = formats, bounds, tokens, past
        self.cost = Cost()

    def enter(self, name: str, x: Shape | None = None) -> None:
        """Records the node's name, in the order in which a watcher will be told."""
        self.cost.nodes.append(name)

    def words(self, rows: int, size: int, ring: int) -> Shape:
        """Counts rows of a hidden table, shared modulo 2^ring, and their extension."""
        values = rows * size
        self.cost.bits += 2.0 * (ring + 5) * _whole(values) + self._formats.ring * values
        return rows, size

    def linear(
        self, x: Shape, maps: tuple[Dense, ...], add: Shape | None = None, *, opened: bool = False
    ) -> Shape:
        """Counts one product with the weights of all maps."""
        rows, outputs = x[0], sum(d.outputs for d in maps)
        self.cost.maps.append(maps)
        self.cost.bits += product_bits(rows, x[1], outputs)
        self.cost.multiplications += float(prod(x) * outputs)
        return rows, outputs

    def add(self, x: Shape, y: Shape) -> Shape:
        """Counts nothing: two extensions at most, far below a product."""
        return x

    def scaled(self, x: Shape, factor: float) -> Shape:
        """Counts nothing: an extension at most."""
        return x

    def positions(self, x: Shape, p: Positions) -> Shape:
        """Costs nothing: it is local."""
        return x

    def columns(self, x: Shape, widths: tuple[int, ...]) -> tuple[Shape, ...]:
        """Costs nothing: it is local."""
        return tuple((*x[:-1], width) for width in widths)

    def rows(self, x: Shape, count: int) -> Shape:
        """Costs nothing: it is local."""
        return (*x[:-2], min(abs(count), x[-2]), x[-1])

    def heads(self, x: Shape, count: int) -> Shape:
        """Costs nothing: it is local."""
        return count, x[0], x[1] // count

    def merge(self, x: Shape) -> Shape:
        """Costs nothing: it is local."""
        return x[1], x[0] * x[2]

    def scores(self, queries: Shape, keys: Shape, name: str) -> Shape:
        """Counts one product of shared matrices for each head of keys."""
        scores = (queries[0], queries[1], keys[1])
        self._shared(keys[0], *(prod(x) // keys[0] for x in (queries, keys, scores)))
        return scores

    def with_past(self, name: str, keys: Shape, values: Shape) -> tuple[Shape, Shape]:
        """Costs nothing: it is local."""
        longer = keys[1] + self._past
        return (keys[0], longer, keys[2]), (values[0], longer, values[2])

    def turn(self, x: Shape, rotary: Rotary) -> Shape:
        """Costs nothing: it is local."""
        return x

    def biased(self, scores: Shape, relative: Relative, name: str) -> Shape:
        """Costs nothing: it is local."""
        return scores

    def times(self, x: Shape, y: Shape, name: str) -> Shape:
        """Counts one product of numbers."""
        f = self._formats
        ring = f.gate_ring(self._bounds.gates[name])
        if prod(x) < FEW:
            self._short(prod(x), prod(x), f.product_fraction + FEW_FACTOR, ring, f.gate_slack)
            return x
        primes = _primes(2 * ring - f.gate_slack)
        self.cost.bits += GATE[primes - 1] * _whole(prod(x))
        self._respond(primes * _ciphertexts(prod(x)), 2)
        return x

    def softmax(self, scores: Shape, name: str, reach: Reach = EVERYWHERE) -> Unnormalised[Shape]:
        """Counts exponentials and a reciprocal for each row. What a query may see is public and costs
        nothing."""
        values, rows = prod(scores), scores[0] * scores[1]
        self.cost.bits += EXP * values + SOFTMAX_ROW * rows
        self.cost.transfers += TRANSFERS["score"] * values
        self._respond(EXPONENTIAL * _lattice(values), 1)
        self._respond(ROW_VALUE * _lattice(rows), 2)
        return Unnormalised(scores, (*scores[:-1], 1))

    def powers(self, scores: Shape, variant: Powers, name: str) -> Unnormalised[Shape]:
        """Raises PlanError: there is no protocol for them."""
        raise unknown_option(name, "powers in place of softmax")

    def mix(self, weights: Unnormalised[Shape], values: Shape, name: str) -> Shape:
        """Counts one product of shared matrices for each head of values, and one of numbers for the rows'
        inverses."""
        numerators = weights.numerators
        mixed = (numerators[0], numerators[1], values[2])
        self._shared(values[0], *(prod(x) // values[0] for x in (numerators, values, mixed)))
        self._quotient(mixed, name)
        return mixed

    def function(self, x: Shape, kind: str, name: str) -> Shape:
        """Counts a function of every element. Raises PlanError for one that has no protocol."""
        if kind not in KINDS:
            raise unknown_kind(kind)
        form, primes = self._formats.gelu, self._square_primes(name) if kind == "relu2" else 0
        bits = {"relu": RELU, "relu2": RELU_SQUARED + PRIME * (primes - 1), "tanh": TANH}
        responses = {"relu": 0, "relu2": primes, "tanh": TANH_RESPONSES}
        element_bits = BUMPED[kind][form] if kind in BUMPED else bits[kind]
        count = SQUARES[kind][form] if kind in SQUARES else responses[kind]
        few = count if prod(x) < FEW else 0
        self.cost.bits += element_bits * prod(x)
        self.cost.transfers += (TRANSFERS[kind] + FEW_SQUARE_TRANSFERS * few) * prod(x)
        self._respond(count * _lattice(prod(x)), 1)
        return x

    def norm(self, x: Shape, norm: Norm, name: str) -> Shape:
        """Counts a norm of the rows of all heads together, so many of them at once as the engine takes."""
        if norm.deviation is not None:
            raise unknown_option(name, "a stored deviation")
        rows, size = prod(x[:-1]), x[-1]
        if prod(x) < FEW:
            steps = _powers(self._bounds.norms[name], size)
            self.cost.bits += (FEW_NORM + FEW_NORM_STEP * steps) * prod(x) + HEAD_ROW * rows
            self.cost.transfers += FEW_NORM_TRANSFERS * prod(x) + HEAD_TRANSFERS * rows
            return x
        for at in range(0, rows, NORM_MOST):
            self._norm(min(NORM_MOST, rows - at), size)
        heads = len(x) > 2
        self.cost.bits += (HEAD_ROW if heads else ROW) * rows
        self.cost.transfers += HEAD_TRANSFERS * rows if heads else TRANSFERS["norm"] * rows * size
        return x

    def mean(self, x: Shape, name: str, *, opened: bool = False) -> Shape:
        """Counts one product of the client's weights with the shared rows."""
        self._shared(1, x[0], prod(x), x[1])
        return 1, x[1]

    def _square_primes(self, name: str) -> int:
        """Returns the plaintext primes of a square from the narrowest ring (see `SharedTensors`)."""
        f, interval = self._formats, self._bounds.functions[name]
        return _primes(f.narrow_ring(interval) + f.square_ring(interval) - f.gate_slack)

    def answer(self, rows: int, outputs: int) -> None:
        """Counts what the client learns. A row alone is not worth counting."""
        self.cost.numbers = rows * outputs
        self.cost.bits += REVEALED * (rows - 1) * outputs

    def _short(self, factors: int, values: int, bits: int, ring: int, slack: int) -> None:
        """Counts products by oblivious transfer on the bits of short factors (`nonlinear/short.rs`)."""
        dropped = max(slack - DROPPED, 0)
        sent = sum(ring - max(i, dropped) for i in range(min(bits, ring))) + max(ring - bits, 0)
        self.cost.bits += 2 * sent * values + 2 * (bits + 1) * factors
        self.cost.transfers += 2 * (bits + 1) * factors

    def _norm(self, rows: int, size: int) -> None:
        """Counts sums of squares of all blocks in one response; gamma v / deviation, three products a block;
        a row's value."""
        values = rows * size
        self.cost.bits += NORM * values + NORM_SLOT * _whole(values) + NORM_ROWS * _whole(rows)
        blocks = -(-size // min(COEFFICIENTS // rows, size))
        self._respond(NORM_PRIMES, blocks)
        self._respond(NORM_PRIMES * blocks, 3)
        self._respond(ROW_VALUE * _ciphertexts(rows), 2)

    def _quotient(self, mixed: Shape, name: str) -> None:
        """Counts mixed values times their rows' inverses."""
        f = self._formats
        slack = _quotient_slack(f, self._bounds.attention[name].context)
        if prod(mixed) < FEW:
            self._short(prod(mixed[:-1]), prod(mixed), f.inverse + 3, f.normal_ring, slack)
            return
        self.cost.bits += QUOTIENT * _whole(prod(mixed))
        self._respond(_primes(2 * f.normal_ring - slack) * _ciphertexts(prod(mixed)), 2)

    def _shared(self, count: int, left: int, right: int, result: int) -> None:
        """Counts `count` products of two shared matrices of so many values."""
        self.cost.bits += count * shared_bits(left, right, result)

    def _respond(self, count: int, terms: int) -> None:
        self.cost.responses.append(Response(count, terms))


def product_bits(rows: int, inputs: int, outputs: int) -> float:
    """Returns the bits sent for shares (rows, inputs) times weights (inputs, outputs)."""
    return float(REQUEST * _whole(rows * inputs) + RESPONSE * _whole(rows * outputs))


def shared_bits(left: int, right: int, result: int) -> float:
    """Returns the bits sent for a product of two shared matrices of so many values."""
    return float(SHARED_REQUEST * (_whole(left) + _whole(right)) + SHARED_RESPONSE * _whole(result))


def _quotient_slack(formats: Formats, context: float) -> int:
    """Returns the bits that need not be right of mixed values times their rows' inverses (see
    `SharedTensors.mix`)."""
    fraction = formats.mixed_fraction(context) + formats.inverse
    return min(max(fraction - formats.fraction, 0) + formats.product_fraction, QUOTIENT_SLACK)


def _powers(bounds: NormBounds, size: int) -> int:
    """Counts the powers of two from the least deviation to the bound, as the engine rounds them."""
    scale = 2.0 ** math.ceil(math.log2(bounds.centred * size)) / size
    return max(1, math.ceil(math.log2(scale / math.sqrt(bounds.variance[0]))))


def _primes(bits: int) -> int:
    """Returns how many plaintext primes hold so many bits."""
    return math.ceil(bits / PLAIN_WIDTH)


def _ciphertexts(count: int) -> int:
    """Returns how many ciphertexts hold `count` values."""
    return -(-count // COEFFICIENTS)


def _lattice(count: int) -> int:
    """Returns how many ciphertexts `count` values take, 0 where they are too few for any."""
    return 0 if count < FEW else _ciphertexts(count)


def _whole(count: int) -> int:
    """Returns the coefficients of all ciphertexts that hold `count` values."""
    return _ciphertexts(count) * COEFFICIENTS
