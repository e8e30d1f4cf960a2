"""Writes the program of a model: its operations on tensors (see `blocks.tensors`), recorded as steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tacita.blocks.base import EVERYWHERE, Dense, Norm, Positions, Powers, Reach, Relative, Rotary
from tacita.errors import PlanError
from tacita.two_party.arithmetic.base import (
    KINDS,
    MEAN_RING,
    MEAN_VALUE,
    MEAN_WEIGHT,
    POWER,
    TURN,
    Bounds,
    Format,
    Formats,
    Interval,
    choice_ring,
    constant,
    range_bits,
)
from tacita.two_party.arithmetic.residues import WORD
from tacita.two_party.program.sizes import Value, Walk
from tacita.two_party.program.steps import ENGINE, OPERATIONS, Parameter, Step
from tacita.two_party.program.tiles import tiles_for

MOST_SLACK = 15  # bits below which errors of a product by the row's inverse do not matter
ANSWER_FRACTION, ANSWER_RING = 12, 32  # of what the client sees: no more bits than the answer is good for


@dataclass(frozen=True)
class Register(Value):
    """A value of a program. number: in the program. fraction: fraction bits of what it holds."""

    number: int
    fraction: int

    @property
    def format(self) -> Format:
        """Bits of the ring, and fraction bits."""
        return Format(self.ring, self.fraction)


class Tape:
    """The steps that a recorder writes. steps: those written so far; registers: the inputs, and what the
    steps write, by their numbers, with shapes and rings by the rules of `sizes`."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.registers: list[Register] = []
        self._walk = Walk(0, 0)

    def first(self, shape: tuple[int, ...], form: Format) -> Register:
        """Returns a register that no step writes: the input."""
        self._walk.all_rows = max(self._walk.all_rows, shape[-2])
        return self._add(Value(shape, form.ring), form.fraction)

    def enter(self, name: str) -> None:
        """Writes that a node begins."""
        self.steps.append(Step("enter", (), (), {"name": name}))

    def write(
        self, op: str, inputs: Sequence[Register], fraction: int, /, **parameters: Parameter
    ) -> Register:
        """Writes a step with one result of so many fraction bits."""
        return self.write_many(op, inputs, [fraction], **parameters)[0]

    def write_many(
        self, op: str, inputs: Sequence[Register], fractions: Sequence[int], /, **parameters: Parameter
    ) -> tuple[Register, ...]:
        """Writes a step with several results. Its parameter `ring`, where it has one, is by default that of
        what it reads. Raises FileError for a step that does not fit what it reads."""
        if "ring" in OPERATIONS[op].parameters:
            parameters = {"ring": inputs[0].ring if inputs else 0, **parameters}
        first = len(self.registers)
        outputs = tuple(range(first, first + len(fractions)))
        step = Step(op, tuple(r.number for r in inputs), outputs, parameters)
        values = self._walk.infer(step, inputs)
        self.steps.append(step)
        return tuple(map(self._add, values, fractions))

    def _add(self, value: Value, fraction: int) -> Register:
        self.registers.append(Register(value.shape, value.ring, len(self.registers), fraction))
        return self.registers[-1]

    def scaled(self, x: Register, fraction: int) -> Register:
        """Converts to so many fraction bits; the ring moves along, up to 64 bits."""
        gained = fraction - x.fraction
        if gained == 0:
            return x
        op, ring = ("shift_down", x.ring + gained) if gained < 0 else ("shift_up", min(x.ring + gained, WORD))
        return self.write(op, (x,), fraction, bits=abs(gained), ring=ring)

    def reduced(self, x: Register, ring: int) -> Register:
        """Modulo 2^ring, a smaller ring or the same. Raises ValueError for a larger one."""
        if ring > x.ring:
            raise ValueError(f"a share modulo 2^{x.ring} does not say its value modulo 2^{ring}")
        return x if ring == x.ring else self.write("reduce", (x,), x.fraction, ring=ring)

    def factor(self, x: Register, fraction: int, ring: int) -> Register:
        """Converts to so many fraction bits in a ring: locally where the ring has shrunk to it or less, else
        by one extension."""
        low = self.scaled(x, fraction)
        return (
            self.reduced(low, ring) if low.ring >= ring else self.write("extend", (low,), fraction, to=ring)
        )

    def plus(self, x: Register, y: Register) -> Register:
        """Adds two registers in the first one's format."""
        return self.write("add", (x, y), x.fraction)

    def grouped(self, x: Register, heads: int) -> Register:
        """Regroups heads as `blocks.tensors.regrouped` does."""
        return x if heads == x.shape[0] else self.write("group", (x,), x.fraction, heads=heads)

    def product(
        self,
        x: Register,
        y: Register,
        *,
        transposed: bool = False,
        opened: bool = False,
        store: int | None = None,
    ) -> Register:
        """Multiplies (heads, k, m) by (heads, m, n), or by one that is to be transposed, in x's ring."""
        options = {"opened": opened, "transposed": transposed, "store": store}
        return self.write("product", (x, y), x.fraction + y.fraction, **options)

    def times(self, x: Register, short: int, y: Register, slack: int, fraction: int) -> Register:
        """Multiplies number by number in y's ring; factors x of so few bits, one for every y or every row."""
        bits = {"held": x.ring, "short": min(short, x.ring), "ring": y.ring, "slack": slack}
        return self.write("times", (x, y), fraction, **bits)


# Attention weights: numerators exp(score - largest), 0 for padding, and the inverse of each row's sum.
Weights = tuple[Register, Register]
# What the server adds at a step, or multiplies by: several maps side by side, a norm's, rows by position.
Held = tuple[Dense, ...] | Norm | Positions | Relative


class RecordTensors:
    """Operations on registers. `tape` holds the steps so far; `held` what belongs to the server, by the
    number of its step, with the format of the result. tokens: of a text at most, padding included. writes:
    whether the model goes on behind rows that it has read, whose keys and values are kept then; its logits
    are for neither party, so that no product's result is opened. nearest: how many of the answer's numbers,
    the largest, the client learns; 0 for all."""

    def __init__(
        self, formats: Formats, bounds: Bounds, tokens: int, *, writes: bool = False, nearest: int = 0
    ) -> None:
        self._formats, self._bounds, self._tokens, self._writes = formats, bounds, tokens, writes
        self._nearest = nearest
        self._stores: dict[int, int] = {}  # register -> the store whose rows it holds
        self.tape = Tape()
        self.held: dict[int, tuple[Held, Format]] = {}

    def input(self, shape: tuple[int, ...], form: Format | None = None) -> Register:
        """Returns a register that no step writes; default: in the format between blocks."""
        return self.tape.first(shape, form or Format(self._formats.ring, self._formats.fraction))

    def answer(self, x: Register, bound: float) -> Register:
        """Returns what the client learns, without the bits below what it is good for; of logits that choose
        a token all of them. bound: of its numbers."""
        if self._writes:
            return x
        low = self.tape.scaled(x, min(ANSWER_FRACTION, x.fraction))
        if self._nearest:
            narrow = self.tape.reduced(low, choice_ring(bound, low.fraction))
            return self.tape.write("nearest", (narrow,), low.fraction, count=self._nearest)
        return self.tape.reduced(low, min(ANSWER_RING, low.ring))

    def enter(self, name: str, x: Register | None = None) -> None:
        """Writes a step without registers, for whoever watches."""
        self.tape.enter(name)

    def linear(
        self, x: Register, maps: tuple[Dense, ...], add: Register | None = None, *, opened: bool = False
    ) -> Register:
        """Writes one product, to which the server adds the bias. opened: with the noise hidden (see the
        engine's Options)."""
        f, t = self._formats, self.tape
        fraction, outputs = f.fraction + f.weight, sum(d.outputs for d in maps)
        hides = opened and not (self._writes or self._nearest)
        product = t.write("linear", (self._wide(x),), fraction, outputs=outputs, opened=hides)
        self._hold(maps, product)
        if add is None:
            return product
        return t.plus(product, t.scaled(t.factor(add, f.fraction, f.ring - f.weight), fraction))

    def add(self, x: Register, y: Register) -> Register:
        """Writes a sum, after extensions where they are needed."""
        f, t = self._formats, self.tape
        return t.plus(*(t.factor(each, f.fraction, f.ring - f.weight) for each in (x, y)))

    def scaled(self, x: Register, factor: float) -> Register:
        """Multiplies by a public number, as an integer."""
        f = self._formats
        return self.tape.write(
            "scale", (self._wide(x),), f.fraction + f.weight, factor=constant(factor, f.weight)
        )

    def positions(self, x: Register, p: Positions) -> Register:
        """Writes a step at which the server adds them."""
        return self._biased(x, p)

    def columns(self, x: Register, widths: tuple[int, ...]) -> tuple[Register, ...]:
        return self.tape.write_many("columns", (x,), [x.fraction] * len(widths), widths=widths)

    def rows(self, x: Register, count: int) -> Register:
        return self.tape.write("rows", (x,), x.fraction, count=count)

    def heads(self, x: Register, count: int) -> Register:
        return self.tape.write("heads", (x,), x.fraction, count=count)

    def merge(self, x: Register) -> Register:
        return self.tape.write("merge", (x,), x.fraction)

    def turn(self, x: Register, rotary: Rotary) -> Register:
        """Writes a local step: both parties know the angles. `fraction` bits leave the ring room for `TURN`
        more."""
        low = self.tape.scaled(x, self._formats.fraction)
        scales = {"scales": tuple(map(float, rotary.scales))} if rotary.scales else {}
        return self.tape.write(
            "turn", (low,), low.fraction + TURN, bits=TURN, base=float(rotary.base), **scales
        )

    def with_past(self, name: str, keys: Register, values: Register) -> tuple[Register, Register]:
        """Appends keys and values to stores, at the fraction bits and in the rings in which they are
        multiplied: what that takes is done once for every row."""
        if not self._writes:
            return keys, values
        f, bounds = self._formats, self._bounds.attention[name]
        rings = f.score_ring(bounds), f.mix_ring(bounds, self._tokens)
        first, second = (
            self.tape.factor(x, f.product_fraction, ring)
            for x, ring in zip((keys, values), rings, strict=True)
        )
        return self._append(first), self._append(second)

    def attend(
        self,
        run: Callable[..., Register],
        parts: tuple[Register, Register, Register],
        name: str,
        reach: Reach,
    ) -> Register:
        """Records tiles where the scores of all queries are too many. What they take of keys and values they
        take in the formats in which these are multiplied."""
        f, t, bounds = self._formats, self.tape, self._bounds.attention[name]
        (heads, queries, _), (groups, keys, _), _ = (part.shape for part in parts)
        if not (tile := tiles_for((heads, heads // groups), (queries, keys), reach)):
            return run(*parts)
        rings = f.score_ring(bounds), f.score_ring(bounds), f.mix_ring(bounds, self._tokens)
        whole = [t.factor(x, f.product_fraction, ring) for x, ring in zip(parts, rings, strict=True)]
        fractions = [f.product_fraction] * 3
        options = {"heads": tile[0], "rows": tile[1], "back": reach[0], "on": reach[1]}
        inner = t.write_many("tiles", whole, fractions, **options)
        for x, each in zip(whole, inner, strict=True):
            if x.number in self._stores:
                self._stores[each.number] = self._stores[x.number]
        mixed = run(*inner)
        return t.write("join", (mixed,), mixed.fraction)

    def scores(self, queries: Register, keys: Register, name: str) -> Register:
        """Writes one product of shared matrices for all heads."""
        f, t = self._formats, self.tape
        ring = f.score_ring(self._bounds.attention[name])
        left, right = (t.factor(x, f.product_fraction, ring) for x in (queries, keys))
        store = self._stores.get(right.number)
        product = t.product(t.grouped(left, right.shape[0]), right, transposed=True, store=store)
        return t.grouped(product, left.shape[0])

    def biased(self, scores: Register, relative: Relative, name: str) -> Register:
        """Writes a step at which the server adds its table."""
        return self._biased(scores, relative)

    def softmax(self, scores: Register, name: str, reach: Reach = EVERYWHERE) -> Weights:
        """Writes the softmax, before which the client hides the scores of padding from the exponentials."""
        f, t, bounds = self._formats, self.tape, self._bounds.attention[name]
        gap, (back, on) = int(bounds.hiding), reach
        fraction = scores.fraction
        scores = t.write("hide", (scores,), fraction, gap=gap, back=back, on=on, fraction=fraction)
        numerators, inverse = t.write_many(
            "softmax",
            (scores,),
            [POWER, f.inverse],
            fraction=fraction,
            range=bounds.score_range,
            power=f.mix_ring(bounds, self._tokens),
            to=f.normal_ring,
            inverse=f.inverse,
        )
        return numerators, inverse

    def powers(self, scores: Register, variant: Powers, name: str) -> Weights:
        """Raises PlanError: there is no protocol for them."""
        raise _unknown_option(name, "powers in place of softmax")

    def mix(self, weights: Weights, values: Register, name: str) -> Register:
        """Writes one product of shared matrices, and one of numbers for the rows' inverses."""
        f, t, bounds = self._formats, self.tape, self._bounds.attention[name]
        left, inverse = weights
        right = t.factor(values, f.product_fraction, left.ring)
        stacked = t.product(t.grouped(left, right.shape[0]), right, store=self._stores.get(right.number))
        mixed = t.grouped(stacked, left.shape[0])
        low = t.factor(mixed, f.mixed_fraction(bounds.context), f.normal_ring)
        fraction = low.fraction + f.inverse
        slack = max(fraction - f.fraction, 0) + f.product_fraction
        # the largest score of a row is a numerator of 1, so no inverse is larger
        return t.times(inverse, f.inverse + 3, low, min(slack, MOST_SLACK), fraction)

    def times(self, x: Register, y: Register, name: str) -> Register:
        """Writes one product of numbers."""
        f, t = self._formats, self.tape
        ring = f.gate_ring(self._bounds.gates[name])
        short, wide = sorted((t.scaled(each, f.product_fraction) for each in (x, y)), key=lambda r: r.ring)
        short = t.reduced(short, min(short.ring, ring))
        wide = t.factor(wide, f.product_fraction, ring)
        return t.times(short, short.ring, wide, f.gate_slack, 2 * f.product_fraction)

    def function(self, x: Register, kind: str, name: str) -> Register:
        """Writes the function; relu takes the sign of what is left of x in the fewest bits. Raises PlanError
        for one without protocol."""
        if kind not in KINDS:
            raise PlanError(f"two-party mode: function {kind!r}", hint=f"supported: {', '.join(KINDS)}")
        f, bits = self._formats, range_bits(*self._bounds.functions[name])
        low = self.tape.scaled(x, f.fraction)
        if kind in ("relu", "relu2"):
            rectified = self.tape.write("relu", (self.tape.reduced(low, bits + f.fraction + 2),), f.fraction)
            return rectified if kind == "relu" else self._square(rectified, self._bounds.functions[name])
        write, to = partial(self.tape.write, fraction=f.fraction, range=bits), bits + f.fraction + 2
        if kind in ("tanh", "elu"):
            to = f.ring if kind == "tanh" else min(to, f.ring)
            return write(kind, (low,), f.fraction, to=to, finer=f.fraction)
        called, forms = ENGINE[kind]
        return write(called, (low,), f.fraction, to=min(to, f.ring), form=forms[f.gelu])

    def norm(self, x: Register, norm: Norm, name: str) -> Register:
        """Writes one call for all rows, those of heads too; gamma and beta are the server's."""
        if norm.deviation is not None:
            raise _unknown_option(name, "a stored deviation")
        f, t, bounds = self._formats, self.tape, self._bounds.norms[name]
        x = t.factor(x, x.fraction, max(x.ring, f.ring))
        normalised = t.write(
            "norm",
            (x,),
            f.fraction,
            **{"fraction": x.fraction, "to": f.ring, "finer": f.fraction},
            centred=norm.centred,
            bound=float(bounds.centred),
            least=math.sqrt(bounds.variance[0]),
            gamma=float(bounds.gamma),
            epsilon=float(norm.epsilon),
        )
        self._hold(norm, normalised)
        return normalised

    def mean(self, x: Register, name: str, *, opened: bool = False) -> Register:
        """Multiplies the client's weights of the real rows by the shared rows. opened: with the noise
        hidden."""
        t, low = self.tape, self.tape.factor(x, MEAN_VALUE, MEAN_RING)
        weights = t.write("average", (), MEAN_WEIGHT, fraction=MEAN_WEIGHT, ring=MEAN_RING)
        return self.merge(t.product(weights, self.heads(low, 1), opened=opened))

    def _hold(self, what: Held, result: Register) -> None:
        self.held[len(self.tape.steps) - 1] = what, result.format

    def _biased(self, x: Register, what: Held) -> Register:
        result = self.tape.write("bias", (x,), x.fraction)
        self._hold(what, result)
        return result

    def _append(self, x: Register) -> Register:
        store = len({*self._stores.values()})  # a tile is a part of one
        rows = self.tape.write("append", (x,), x.fraction, store=store)
        self._stores[rows.number] = store
        return rows

    def _square(self, x: Register, interval: Interval) -> Register:
        f, t = self._formats, self.tape
        low = t.reduced(t.scaled(x, f.product_fraction), f.narrow_ring(interval))
        to = f.square_ring(interval)
        return t.write("square", (low,), 2 * f.product_fraction, to=to, slack=f.gate_slack)

    def _wide(self, x: Register) -> Register:
        return self.tape.factor(x, self._formats.fraction, self._formats.ring)


def _unknown_option(name: str, what: str) -> PlanError:
    """Makes the error for an option of a block that this mode has no protocol for."""
    return PlanError(f"two-party mode: {name} has {what}", hint="use a CKKS scheme for this model")
