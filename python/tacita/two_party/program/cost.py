"""What a run of a program costs two parties, from its steps: bytes, transfers, products, and the chance of a
wrong answer.

Bits per element are those that the protocols state (`crates/mpc/src/nonlinear`, `products`), correlations
included; a sum of them, so good to a fifth. Small products fill a ciphertext only in part, which is what the
whole ones below are for. Bits of matrix products are the engine's own count.

Only element-wise products can fail by chance: a coefficient of a response whose noise exceeds half a step
spoils its ciphertext (`SlotRing::failure_log2` in `crates/bfv/src/slots/moduli.rs`). `responses` counts the
ciphertexts that carry them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tacita.plans.commitment import LinkSpeed
from tacita.two_party.arithmetic.masked import AT_ONCE
from tacita.two_party.arithmetic.text_steps import count_ring, marks
from tacita.two_party.program.sizes import Pass, Product, Value, passes, product_cost, sizes
from tacita.two_party.program.steps import FORMS, Step

# bits and squares an element, by form; GELU's bits as fitted to whole models, the others' as measured alone
BUMPED = {
    "gelu": {"abs4": (800, 2), "abs8": (1030, 3)},
    "gelu_tanh": {"abs4": (763, 2), "abs8": (988, 3)},
    "silu": {"abs4": (1020, 3), "abs8": (1245, 4)},
}
RELU, SQUARE, PRIME = 420, 95, 185  # the last for each further plaintext prime of the square
EXP, TANH, ELU = 1400, 1571, 1167  # the largest of a row's scores is looked for in the first
NORM, NORM_SLOT = 130, 856  # bits an element, and a slot of the ciphertexts that carry it
NORM_ROWS = 540  # bits a slot of the one ciphertext each way that carries what belongs to rows
QUOTIENT = 630  # bits a slot
ROW = 2 * 8 * 2000  # bits for the deviation of a row of LayerNorm
SOFTMAX_ROW = 5400  # and for the reciprocal of one of softmax
FEW_INVERSES, INVERSE_TRANSFERS = 64, 2900  # so few rows take segments at 100 Mbit/s: transfers of each
HEAD_ROW = 8000  # bits a row, in the norm of heads: many short rows; transfers of few of them and of many
HEAD_FEW, HEAD_TRANSFERS = 1800, (1150, 350)
GATE = (492, 642, 798)  # bits a slot, by plaintext primes, for a product of two shared tensors
REVEALED = 64  # bits a number of an answer
COEFFICIENTS = 8192  # of a ciphertext, and values in it
BYTE = 8
# correlated ones an element, to a third
TRANSFERS = {"gelu": 40, "gelu_tanh": 34, "silu": 40, "score": 40, "norm": 3}
EXPONENTIAL = 4
# bits, transfers and responses of an element, of functions with one form
SINGLE = {"relu": (RELU, 40, 0), "tanh": (TANH, 0, 3), "elu": (ELU, 40, EXPONENTIAL)}
NORM_PRIMES, NORM_MOST = 2, 2048  # of rows at once
PLAIN_WIDTH = 49  # bits of the widest plaintext prime
# of fewer values than this no ciphertext is worth it (`nonlinear/few.rs`)
FEW = 4096
FEW_NORM, FEW_NORM_STEP = 2000, 130  # bits an element, and for each power of two from deviation to bound
FEW_NORM_TRANSFERS = 45
# the second: more than a lattice product's, an element; as many bits
SQUARE_TRANSFERS, FEW_SQUARE_TRANSFERS = 2, 19
# of a search for the k largest, with the making of its transfers: bits a number for each bit of its ring, for
# each of those in which three marks differ, and for a shared bit beside those of the ring that it enters
BELOW, APART, ENTERED = 7.5, 9, 1.3
ROUNDS_OF_MARKS, ROUNDS_BELOW = 7, 5  # of a step of that search, and of what follows it
ROUNDS_A_TILE = 40  # of attention, behind the first
FEWER = 2700  # numbers: so few take up to three times the bits each, for fewer rounds
DROPPED = 5  # fewer than the slack are the bits that are not sent


@dataclass
class Cost:
    """What one text costs, both directions together. nodes: in the order in which they begin.

    bits: sent, but for products. transfers: correlated ones used. multiplications: of weights with values.
    responses: ciphertexts of products, number by number.
    numbers: that the client learns. search: of the bits those of looking for the largest; rounds: of that
    search, and of tiles. products: of matrices.
    """

    bits: float = 0.0
    transfers: int = 0
    multiplications: float = 0.0
    responses: int = 0
    nodes: list[str] = field(default_factory=list)
    numbers: int = 0
    search: float = 0.0
    rounds: int = 0
    products: list[Product] = field(default_factory=list)

    def sent(self, link: LinkSpeed | None = None) -> float:
        """Returns the bits that are sent over a link, for which both choose windows of products."""
        return self.bits + sum(product_cost(each, link)[0] for each in self.products)

    def add(self, each: Pass) -> None:
        """Adds a step on registers of these sizes."""
        if add := COUNTS.get(each.step.op):
            for _ in range(each.count):
                add(self, each.step, each.inputs, each.outputs)

    def wait(self, rounds: int) -> None:
        """Adds rounds beside those of the layers."""
        self.rounds += rounds

    def look_for(self, count: int, ring: int, wide: int) -> None:
        """Adds the search for the largest of so many numbers (see `likeliest_bits`)."""
        bits = likeliest_bits(count, ring, wide)
        self.bits, self.search = self.bits + bits, self.search + bits
        self.rounds += likeliest_rounds(ring)


def cost_of(
    steps: Sequence[Step], entered: Value, answer: int, past: int = 0, *, hides: bool = False
) -> Cost:
    """Counts what a run costs. entered: its input, (rows, columns). past: rows that are read already. hides:
    whether the input is looked up in a hidden table. Takes a millisecond. Raises FileError as `sizes`."""
    cost, values = Cost(), {0: entered}
    for each in passes(steps, entered, past, answer):
        values.update(zip(each.step.outputs, each.outputs, strict=True))
        cost.add(each)
    if hides:
        cost.bits += 2.0 * (entered.ring + 5) * _whole(prod(entered.shape)) + 64 * prod(entered.shape)
    rows, outputs = values[answer].shape
    cost.numbers = rows * outputs
    cost.bits += REVEALED * (rows - 1) * outputs  # a row alone is not worth counting
    return cost


def step_cost(
    steps: Sequence[Step], entered: Value, answer: int, past: int, *, hides: bool = False
) -> tuple[Cost, Cost]:
    """Counts what one more row behind `past` costs, whose products were prepared, and what preparing takes
    for 32 rows. entered: the row."""
    cost, ahead = cost_of(steps, entered, answer, past, hides=hides), Cost()
    values = sizes(steps, entered, past, answer)
    for step in steps:
        if step.op == "linear":
            _prepare_linear(cost, ahead, step, values[step.inputs[0]])
        elif step.op == "product" and step.parameters["store"] is not None:
            _prepare_product(cost, ahead, step, values[step.inputs[0]], values[step.outputs[0]])
    return cost, ahead


def _prepare_linear(cost: Cost, ahead: Cost, step: Step, x: Value) -> None:
    """Puts the row less its mask in place of the product, and the product of 32 rows ahead."""
    product = _with_weights(step, x)
    _, inputs, outputs = product.sizes
    cost.products.remove(product)
    cost.bits += x.ring * inputs
    ahead.products.append(Product((AT_ONCE, inputs, outputs), x.ring))
    ahead.multiplications += float(AT_ONCE * inputs * outputs)


def _prepare_product(cost: Cost, ahead: Cost, step: Step, x: Value, made: Value) -> None:
    """Puts both factors less their masks, of the second one's only its newest slice, in place of the
    product."""
    (groups, rows, inner), columns = x.shape, made.shape[2]
    newest, longer = columns, (inner + AT_ONCE - 1, columns)
    if step.parameters["transposed"]:
        newest, longer = inner, (inner, columns + AT_ONCE - 1)
    cost.products.remove(_of_shares(step, x, made))
    cost.bits += 2 * BYTE * -(-x.ring // BYTE) * groups * (rows * inner + newest)
    ahead.products.append(Product((groups, AT_ONCE * rows, *longer), x.ring, crossed=True))


Values = Sequence[Value]


def _linear(cost: Cost, step: Step, read: Values, made: Values) -> None:
    cost.products.append(product := _with_weights(step, read[0]))
    cost.multiplications += float(prod(product.sizes))


def _with_weights(step: Step, x: Value) -> Product:
    p = step.parameters
    return Product((*x.shape, p["outputs"]), p["ring"], p["opened"])


def _product(cost: Cost, step: Step, read: Values, made: Values) -> None:
    cost.products.append(_of_shares(step, read[0], made[0]))


def _of_shares(step: Step, x: Value, made: Value) -> Product:
    p = step.parameters
    return Product((*x.shape, made.shape[2]), p["ring"], p["opened"], crossed=True)


def _times(cost: Cost, step: Step, read: Values, made: Values) -> None:
    """Counts a product of numbers: a gate, or rows times their inverses."""
    p, (factors, values) = step.parameters, (prod(value.shape) for value in read)
    if values < FEW:
        _short(cost, factors, values, p)
        return
    primes = _primes(2 * p["ring"] - p["slack"])
    each = GATE[primes - 1] if factors == values else QUOTIENT
    cost.bits += each * _whole(values)
    cost.responses += primes * _ciphertexts(values)


def _short(cost: Cost, factors: int, values: int, p: Mapping[str, Any]) -> None:
    """Counts products by oblivious transfer on the bits of short factors (`nonlinear/short.rs`)."""
    bits, ring, dropped = p["short"], p["ring"], max(p["slack"] - DROPPED, 0)
    sent = sum(ring - max(i, dropped) for i in range(min(bits, ring))) + max(ring - bits, 0)
    cost.bits += 2 * sent * values + 2 * (bits + 1) * factors
    cost.transfers += 2 * (bits + 1) * factors


def _softmax(cost: Cost, step: Step, read: Values, made: Values) -> None:
    """Counts exponentials and a reciprocal for each row. What a query may see is public and costs nothing."""
    values, rows = prod(read[0].shape), prod(read[0].shape[:-1])
    cost.bits += EXP * values + SOFTMAX_ROW * rows
    cost.transfers += TRANSFERS["score"] * values + INVERSE_TRANSFERS * rows * (rows <= FEW_INVERSES)
    cost.responses += EXPONENTIAL * _lattice(values)


def _function(cost: Cost, step: Step, read: Values, made: Values) -> None:
    """Counts a function of every element."""
    count, p = prod(read[0].shape), step.parameters
    bits, transfers, squares = _prices(step.op, p)
    few = squares if count < FEW else 0
    cost.bits += bits * count
    cost.transfers += (transfers + FEW_SQUARE_TRANSFERS * few) * count
    cost.responses += squares * _lattice(count)


def _prices(op: str, p: Mapping[str, Any]) -> tuple[int, int, int]:
    """Returns bits, transfers and responses of an element."""
    if op == "square":
        primes = _primes(p["ring"] + p["to"] - p["slack"])
        return SQUARE + PRIME * (primes - 1), SQUARE_TRANSFERS, primes
    if op in SINGLE:
        return SINGLE[op]
    kind, form = FORMS[op, p["form"]]
    bits, squares = BUMPED[kind][form]
    return bits, TRANSFERS[kind], squares


def _norm(cost: Cost, step: Step, read: Values, made: Values) -> None:
    """Counts a norm of the rows of all heads together, so many of them at once as the engine takes."""
    shape, p = read[0].shape, step.parameters
    count, rows, size = prod(shape), prod(shape[:-1]), shape[-1]
    if count < FEW:
        cost.bits += (FEW_NORM + FEW_NORM_STEP * _powers(p["bound"], p["least"], size)) * count
        cost.bits += HEAD_ROW * rows
        cost.transfers += FEW_NORM_TRANSFERS * count + HEAD_TRANSFERS[0] * rows
        return
    for at in range(0, rows, NORM_MOST):
        _norm_at_once(cost, min(NORM_MOST, rows - at), size)
    heads = len(shape) > 2
    cost.bits += (HEAD_ROW if heads else ROW) * rows
    cost.transfers += HEAD_TRANSFERS[rows > HEAD_FEW] * rows if heads else TRANSFERS["norm"] * count


def _norm_at_once(cost: Cost, rows: int, size: int) -> None:
    """Counts sums of squares of all blocks in one response; gamma v / deviation, three products a block; a
    row's value."""
    values = rows * size
    cost.bits += NORM * values + NORM_SLOT * _whole(values) + NORM_ROWS * _whole(rows)
    cost.responses += NORM_PRIMES * (1 + -(-size // min(COEFFICIENTS // rows, size)))


COUNTS: Mapping[str, Callable[[Cost, Step, Values, Values], None]] = {
    "enter": lambda cost, step, read, made: cost.nodes.append(str(step.parameters["name"])),
    "tiles": lambda cost, step, read, made: cost.wait(ROUNDS_A_TILE),
    "join": lambda cost, step, read, made: cost.wait(-ROUNDS_A_TILE),  # the first is of its layer
    "linear": _linear,
    "product": _product,
    "times": _times,
    "softmax": _softmax,
    **dict.fromkeys(("relu", "square", "tanh", "elu", "gelu", "silu"), _function),
    "norm": _norm,
    "nearest": lambda cost, step, read, made: cost.look_for(made[0].shape[1], *2 * [made[0].ring]),
}


def likeliest_bits(count: int, ring: int, wide: int) -> float:
    """Returns the bits of looking for the k-th largest of so many numbers in this ring, whatever k is, and of
    moving those below it in a wider one, both directions together (`text_steps.keep_likeliest`)."""
    bits = BELOW * ring + wide + ENTERED
    for weight, above in marks(ring):
        apart = ring - weight.bit_length() if len(above) > 1 else 0
        bits += BELOW * ring + APART * apart + len(above) * (count_ring(count) + ENTERED)
    return max(count, min(3 * count, FEWER)) * bits


def likeliest_rounds(ring: int) -> int:
    """Returns the rounds of that search, whatever the numbers are and how many."""
    return ROUNDS_OF_MARKS * len(list(marks(ring))) + ROUNDS_BELOW


def _powers(bound: float, least: float, size: int) -> int:
    """Counts the powers of two from the least deviation to the bound, as the engine rounds them."""
    scale = 2.0 ** math.ceil(math.log2(bound * size)) / size
    return max(1, math.ceil(math.log2(scale / least)))


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


# What a run takes, by what is counted of it.

# On a 2-core Xeon with AVX-512, a core a party: fitted to six models from 0.2 to 61 s, which it meets within
# 11 %; three others were told within 5 %. Products take 0.68 of the 2.7 s they took (decision 87, a Zen 4).
SECONDS_A_MB, SECONDS_A_BILLION, SECONDS_A_LAYER = 0.0179, 1.85, 0.07
NTT_MS = 0.1114  # of 2^16 points there, one 50-bit limb: `native.ntt_ms`
ROUNDS_A_LAYER = 80
MORE_SECONDS_A_MB = 0.05  # of a search for the largest, which is many small transfers
SET_UP = 4_200_000  # bytes, once a session


def seconds(cost: Cost, layers: int, link: LinkSpeed | None = None, pace: float = 1.0) -> float:
    """Estimates the seconds of one text, a core a party; link None: both on one machine. pace: seconds here
    for one second of the measured machine.

    Processor time goes with what is sent, with the weights' products and, in small models, with the layers,
    whose rounds wait for one another. A link adds its bytes and rounds, though part of them overlaps with
    work, and windows that are chosen for it have more or less of them.
    """
    return pace * (working(cost, link) + SECONDS_A_LAYER * layers) + over(cost, layers, link)


def working(cost: Cost, link: LinkSpeed | None) -> float:
    """Estimates the seconds of work alone."""
    sent = SECONDS_A_MB * cost.sent() + MORE_SECONDS_A_MB * cost.search
    windows = sum(product_cost(each, link)[1] - product_cost(each)[1] for each in cost.products if link)
    return sent / 8e6 + SECONDS_A_BILLION * cost.multiplications / 1e9 + windows


def over(cost: Cost, layers: int, link: LinkSpeed | None) -> float:
    """Estimates the seconds on a link."""
    return link.seconds(cost.sent(link) / 8, ROUNDS_A_LAYER * layers + cost.rounds) if link else 0.0


# How likely a two-party plan makes a wrong answer by chance, whatever the text.
#
# Counts the coefficients of all responses of one text (`cost_of`), each at the engine's bound, so the figure
# is an upper bound. The engine sums the exact ones as it goes; a test compares the two.

# log2 for one coefficient of a response; a test holds it to the engine's
COEFFICIENT = -77.9
MOST_FAILURE = -32.0  # log2 for one text, above which a plan is refused


def failure_log2(responses: int) -> float:
    """Returns log2 of a bound for the probability that chance alone spoils the answer to one text; -inf where
    nothing can fail."""
    return math.log2(responses * COEFFICIENTS) + COEFFICIENT if responses else -math.inf
