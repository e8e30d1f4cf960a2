"""A program on whole integers in one process: what the shares of both parties add up to.

Formats, roundings, polynomials and clipping are those of the protocols. What is left out is the sharing
itself, whose local truncations round up or down at random where this rounds to the nearest. So this is the
accuracy oracle: it runs hundreds of texts in the time in which the protocols run one. Values that a ring
could not hold are not wrapped but counted, by node, in `overflows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from tacita.blocks.floats import FUNCTIONS
from tacita.two_party.arithmetic import functions
from tacita.two_party.arithmetic.base import POWER, Array, Fixed, Integers, encode, matmul, rounded
from tacita.two_party.arithmetic.residues import WORD, Words, from_floats
from tacita.two_party.arithmetic.text_steps import none_of
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import Model, Past, Run
from tacita.two_party.program.sizes import Value
from tacita.two_party.program.steps import FORMS, Step

SUMS = ("add", "linear", "scale", "turn", "product", "times", "square")  # whose results may leave their ring


class Simulation(Run):
    """A run of both parties at once. mask: of all rows so far, those of the past first. exact: see `Whole`.
    Words hold integers of 64 bits with a sign, whatever the ring is."""

    party: Whole

    def __init__(
        self,
        program: Program,
        mask: Array,
        model: Model,
        past: Past | None = None,
        exact: frozenset[str] = frozenset(),
    ) -> None:
        whole = Whole(exact)
        super().__init__(whole, program, np.asarray(mask), model, whole.enter, past=past or Past())

    @property
    def overflows(self) -> Counter[str]:
        """Values that left their ring, by node."""
        return self.party.overflows

    def floats(self, rows: Array) -> Array:
        """Returns the answer to hidden states, or rows of a hidden word table, (rows, hidden). Raises
        OverflowError for sums that 64 bits do not hold."""
        answer = self.answer(from_floats(rows, self.program.entered.fraction, WORD).values)
        return Fixed(_signed(answer), self.program.answered.fraction).floats

    def step(self, number: int, step: Step, registers: dict[int, Words], values: Sequence[Value]) -> None:
        """Runs one step, and counts what its ring, less one bit for its bound, could not hold."""
        super().step(number, step, registers, values)
        if step.op in SUMS:
            (output,) = step.outputs
            self.party.check(_signed(registers[output]), values[output].ring - 2)

    def reduced(self, values: Words, ring: int) -> Words:
        """Returns the values: none is wrapped."""
        return values

    def shifted_down(self, values: Words, bits: int, ring: int) -> Words:
        """Returns the nearest integers without so many low bits."""
        return _words(rounded(_signed(values), bits))

    def nearest(self, x: Words, count: int, ring: int) -> Words:
        """Keeps the `count` largest of a row, and all that equal the last of them."""
        values = _signed(x)
        self.party.check(values, ring - 2)
        return _words(np.where(values >= np.sort(values)[0, -count], values, none_of(ring)))


class Whole:
    """The engine's operations (`TwoParty` of `tacita._native`) on whole integers in place of shares. exact:
    softmax, norm and functions by name whose values are the exact ones, rounded to the same formats."""

    is_client = False

    def __init__(self, exact: frozenset[str] = frozenset()) -> None:
        self.overflows: Counter[str] = Counter()
        self._exact = exact
        self._node = ""
        self.gelu, self.silu = partial(self._bumped, "gelu"), partial(self._bumped, "silu")
        self.tanh, self.elu = partial(self._function, "tanh"), partial(self._function, "elu")

    def enter(self, node: str) -> None:
        """Sets the name under which overflows are counted from here on."""
        self._node = node

    def check(self, x: Integers, bits: int) -> None:
        """Counts what leaves [-2^bits, 2^bits]."""
        if count := int(np.count_nonzero(np.abs(x) >= 1 << bits)):
            self.overflows[self._node] += count

    def share_times_weights(
        self, x: Words, weights: Integers, shape: object, bits: int, *, opened: bool
    ) -> Words:
        return _words(matmul(_signed(x), weights))

    def share_times_share(self, x: Words, y: Words, shape: object, bits: int, *, opened: bool) -> Words:
        return _words(matmul(_signed(x), _signed(y)))

    def extend(self, x: Words, bits: int, to: int) -> Words:
        return x

    def scaled(self, x: Words, y: Words, *, held: int, short: int, bits: int, slack: int) -> Words:
        return x * y

    def square_narrow(self, x: Words, bits: int, to: int, slack: int) -> Words:
        return x * x

    def negative(self, x: Words, bits: int) -> np.ndarray:
        self.check(_signed(x), bits - 2)
        return _signed(x) < 0

    def select(self, bit: np.ndarray, x: Words, bits: int) -> Words:
        chosen: Words = np.where(bit, x, np.uint64(0))
        return chosen

    def softmax_parts(
        self, x: Words, bits: int, frac: int, range: int, power: int, to: int, inverse: int
    ) -> tuple[Words, Words]:
        scores = self._bounded(x, frac, range)
        if "softmax" in self._exact:
            powers = np.exp(scores.floats - scores.floats.max(axis=-1, keepdims=True))
            totals = powers.sum(axis=-1, keepdims=True)
            return _words(encode(powers, POWER)), _words(encode(1.0 / totals, inverse))
        parts = functions.softmax_parts(scores, bits, range, inverse)
        return _words(parts[0].values), _words(parts[1].values)

    def _function(self, kind: str, x: Words, *formats: int, out_frac: int, range: int) -> Words:
        ring, frac, _ = formats
        bounded, function = self._bounded(x, frac, range), getattr(functions, kind)
        if kind in self._exact:
            return _words(encode(FUNCTIONS[kind](bounded.floats), out_frac))
        return _words(function(bounded, ring, range).at(out_frac).values)

    def layer_norm(
        self,
        x: Words,
        gamma: Array,
        beta: Array,
        *,
        frac: int,
        out_frac: int,
        bound: float,
        least: float,
        gamma_bound: float,
        epsilon: float,
        centred: bool,
        bits: int,
        out_bits: int,
    ) -> Words:
        if "norm" in self._exact:
            rows = Fixed(_signed(x), frac).floats
            rows = rows - rows.mean(axis=-1, keepdims=True) if centred else rows
            deviations = np.sqrt((rows**2).mean(axis=-1, keepdims=True) + epsilon)
            return _words(encode(gamma * rows / deviations + beta, out_frac))
        layout = functions.norm_layout(x.shape[-1], bound, least, gamma_bound)
        values = functions.layer_norm(
            Fixed(_signed(x), frac), (gamma, beta), layout, out_frac, epsilon=epsilon, centred=centred
        )
        return _words(values.values)

    def _bumped(
        self, called: str, x: Words, bits: int, frac: int, to: int, *, form: str, range: int
    ) -> Words:
        kind, ours = FORMS[called, form]
        bounded, bump = self._bounded(x, frac, range), functions.BUMPS[kind][ours]
        if kind in self._exact:
            return _words(encode(FUNCTIONS[kind](bounded.floats), frac))
        return _words(functions.bumped(bounded, bits, range, bump).at(frac).values)

    def _bounded(self, x: Words, fraction: int, range_bits: int) -> Fixed:
        """Counts what leaves the range that a function was given."""
        self.check(_signed(x), fraction + range_bits)
        return Fixed(_signed(x), fraction)


def _signed(x: Words) -> Integers:
    return x.view(np.int64)


def _words(x: Integers) -> Words:
    return x.view(np.uint64)
