"""The operations on tensors (see `blocks.tensors`) as steps of a program: the client's side of
`two_party.arithmetic.shares`, which writes down what that would do."""

from __future__ import annotations

import math
from math import prod

from tacita.blocks.base import EVERYWHERE, Dense, Norm, Positions, Powers, Reach, Relative, Rotary
from tacita.two_party.arithmetic.base import (
    KINDS,
    MEAN_RING,
    MEAN_VALUE,
    MEAN_WEIGHT,
    POWER,
    Bounds,
    Formats,
    Interval,
    Unnormalised,
    constant,
    range_bits,
    unknown_kind,
    unknown_option,
)
from tacita.two_party.arithmetic.shares import ANSWER_FRACTION, ANSWER_RING, ENGINE, MOST_SLACK
from tacita.two_party.program.encoding import Register, Tape, regrouped
from tacita.two_party.program.steps import Format


class RecordTensors:
    """Operations on registers. `tape` holds the steps so far. tokens: of the input, padding included."""

    def __init__(self, formats: Formats, bounds: Bounds, tokens: int) -> None:
        self._formats, self._bounds, self._tokens = formats, bounds, tokens
        self.tape = Tape()

    def own(self, shape: tuple[int, int]) -> Register:
        """Returns register 0, the input."""
        return self.tape.first(shape, Format(self._formats.ring, self._formats.fraction))

    def answer(self, x: Register) -> Register:
        """Returns what the client learns, without the bits below what it is good for."""
        low = self.tape.scaled(x, min(ANSWER_FRACTION, x.fraction))
        return self.tape.reduced(low, min(ANSWER_RING, low.ring))

    def enter(self, name: str, x: Register | None = None) -> None:
        """Writes a step without registers, for whoever watches."""
        self.tape.enter(name)

    def linear(
        self, x: Register, maps: tuple[Dense, ...], add: Register | None = None, *, opened: bool = False
    ) -> Register:
        """Writes one product; the bias is the server's."""
        f, t = self._formats, self.tape
        fraction, outputs = f.fraction + f.weight, sum(d.outputs for d in maps)
        rows, inputs = x.shape
        sizes = {"rows": rows, "inputs": inputs, "outputs": outputs}
        product = t.write(
            "linear",
            (t.factor(x, f.fraction, f.ring),),
            ((rows, outputs), Format(f.ring, fraction)),
            **sizes,
            ring=f.ring,
            opened=opened,
        )
        if add is None:
            return product
        return t.plus(product, t.scaled(t.factor(add, f.fraction, f.ring - f.weight), fraction))

    def add(self, x: Register, y: Register) -> Register:
        """Writes a sum, after extensions where they are needed."""
        f, t = self._formats, self.tape
        return t.plus(*(t.factor(each, f.fraction, f.ring - f.weight) for each in (x, y)))

    def scaled(self, x: Register, factor: float) -> Register:
        """Multiplies by a public number, as an integer."""
        f, wide = self._formats, self._wide(x)
        to = Format(f.ring, f.fraction + f.weight)
        return self.tape.write(
            "scale", (wide,), (wide.shape, to), factor=constant(factor, f.weight), ring=f.ring
        )

    def positions(self, x: Register, p: Positions) -> Register:
        """Writes nothing: the server adds them."""
        return x

    def columns(self, x: Register, widths: tuple[int, ...]) -> tuple[Register, ...]:
        """Writes a local step."""
        shapes = [(*x.shape[:-1], width) for width in widths]
        return self.tape.write_many("columns", (x,), [(shape, x.format) for shape in shapes], widths=widths)

    def rows(self, x: Register, count: int) -> Register:
        """Writes a local step."""
        shape = (*x.shape[:-2], min(abs(count), x.shape[-2]), x.shape[-1])
        return self.tape.write("rows", (x,), (shape, x.format), count=count)

    def heads(self, x: Register, count: int) -> Register:
        """Writes a local step."""
        rows, columns = x.shape
        return self.tape.write("heads", (x,), ((count, rows, columns // count), x.format), count=count)

    def merge(self, x: Register) -> Register:
        """Writes a local step."""
        heads, rows, columns = x.shape
        return self.tape.write("merge", (x,), ((rows, heads * columns), x.format))

    def turn(self, x: Register, rotary: Rotary) -> Register:
        """Raises PlanError: there is no step for it."""
        raise unknown_option("a program's attention", "rotary positions")

    def with_past(self, name: str, keys: Register, values: Register) -> tuple[Register, Register]:
        """Keeps nothing: programs read no further rows."""
        return keys, values

    def scores(self, queries: Register, keys: Register, name: str) -> Register:
        """Writes one product of shared matrices for all heads."""
        f, t = self._formats, self.tape
        ring = f.score_ring(self._bounds.attention[name])
        left, right = (t.factor(x, f.product_fraction, ring) for x in (queries, keys))
        product = t.product(regrouped(t, left, right.shape[-3]), t.transposed(right))
        return regrouped(t, product, left.shape[-3])

    def biased(self, scores: Register, relative: Relative, name: str) -> Register:
        """Writes nothing: the server adds its table."""
        return scores

    def softmax(self, scores: Register, name: str, reach: Reach = EVERYWHERE) -> Unnormalised[Register]:
        """Writes the softmax, before which the client hides the scores of padding from the exponentials."""
        f, t, bounds = self._formats, self.tape, self._bounds.attention[name]
        gap, (back, on) = int(bounds.hiding), reach
        form = {"fraction": scores.fraction, "ring": scores.ring}
        scores = t.write("hide", (scores,), (scores.shape, scores.format), gap=gap, back=back, on=on, **form)
        power, rows = f.mix_ring(bounds, self._tokens), scores.shape[:-1]
        inverse = Format(f.normal_ring, f.inverse)
        parts = t.write_many(
            "softmax",
            (scores,),
            [(scores.shape, Format(power, POWER)), ((*rows, 1), inverse)],
            **form,
            range=bounds.score_range,
            power=power,
            to=inverse.ring,
            inverse=inverse.fraction,
        )
        return Unnormalised(*parts)

    def powers(self, scores: Register, variant: Powers, name: str) -> Unnormalised[Register]:
        """Raises PlanError: there is no protocol for them."""
        raise unknown_option(name, "powers in place of softmax")

    def mix(self, weights: Unnormalised[Register], values: Register, name: str) -> Register:
        """Writes one product of shared matrices, and one of numbers for the rows' inverses."""
        f, t, bounds = self._formats, self.tape, self._bounds.attention[name]
        left = weights.numerators
        right = t.factor(values, f.product_fraction, left.ring)
        stacked = t.product(regrouped(t, left, right.shape[-3]), right)
        mixed = regrouped(t, stacked, left.shape[-3])
        low = t.factor(mixed, f.mixed_fraction(bounds.context), f.normal_ring)
        fraction = low.fraction + f.inverse
        slack = max(fraction - f.fraction, 0) + f.product_fraction
        return t.times(weights.inverse, f.inverse + 3, low, min(slack, MOST_SLACK), fraction)

    def times(self, x: Register, y: Register, name: str) -> Register:
        """Writes one product of numbers."""
        f, t = self._formats, self.tape
        ring = f.gate_ring(self._bounds.gates[name])
        short, wide = sorted((t.scaled(each, f.product_fraction) for each in (x, y)), key=lambda r: r.ring)
        short = t.reduced(short, min(short.ring, ring))
        wide = t.factor(wide, f.product_fraction, ring)
        return t.times(short, short.ring, wide, f.gate_slack, 2 * f.product_fraction)

    def function(self, x: Register, kind: str, name: str) -> Register:
        """Writes the function as `SharedTensors.function` would call it. Raises PlanError for one without
        protocol."""
        if kind not in KINDS:
            raise unknown_kind(kind)
        f, bits = self._formats, range_bits(*self._bounds.functions[name])
        low = self.tape.scaled(x, f.fraction)
        if kind in ("relu", "relu2"):
            rectified = self._relu(self.tape.reduced(low, bits + f.fraction + 2))
            return rectified if kind == "relu" else self._square(rectified, self._bounds.functions[name])
        named = {"ring": low.ring, "fraction": low.fraction, "range": bits}
        if kind == "tanh":
            to = Format(f.ring, f.fraction)
            return self.tape.write("tanh", (low,), (x.shape, to), **named, to=to.ring, finer=to.fraction)
        called, forms = ENGINE[kind]
        to = Format(min(bits + f.fraction + 2, f.ring), f.fraction)
        return self.tape.write(called, (low,), (x.shape, to), **named, to=to.ring, form=forms[f.gelu])

    def norm(self, x: Register, norm: Norm, name: str) -> Register:
        """Writes one call for all rows, those of heads too; gamma and beta are the server's."""
        if norm.deviation is not None:
            raise unknown_option(name, "a stored deviation")
        f, t, bounds = self._formats, self.tape, self._bounds.norms[name]
        x = t.factor(x, x.fraction, max(x.ring, f.ring))
        to, flat = Format(f.ring, f.fraction), (prod(x.shape) // norm.size, norm.size)
        normalised = t.write(
            "norm",
            (t.reshaped(x, flat),),
            (flat, to),
            **{"ring": x.ring, "fraction": x.fraction, "to": to.ring, "finer": to.fraction},
            centred=norm.centred,
            bound=float(bounds.centred),
            least=math.sqrt(bounds.variance[0]),
            gamma=float(bounds.gamma),
            epsilon=float(norm.epsilon),
        )
        return t.reshaped(normalised, x.shape)

    def mean(self, x: Register, name: str, *, opened: bool = False) -> Register:
        """Multiplies the client's weights of the real rows by the shared rows."""
        t, low = self.tape, self.tape.factor(x, MEAN_VALUE, MEAN_RING)
        rows, to = low.shape[0], Format(MEAN_RING, MEAN_WEIGHT)
        named = {"tokens": rows, "fraction": to.fraction, "ring": to.ring}
        weights = t.write("average", (), ((1, 1, rows), to), **named)
        product = t.product(weights, t.reshaped(low, (1, *low.shape)), opened=opened)
        return t.reshaped(product, product.shape[1:])

    def _relu(self, x: Register) -> Register:
        return self.tape.write("relu", (x,), (x.shape, x.format), ring=x.ring)

    def _square(self, x: Register, interval: Interval) -> Register:
        f, t = self._formats, self.tape
        least, ring = f.narrow_ring(interval), f.square_ring(interval)
        low = t.reduced(t.scaled(x, f.product_fraction), least)
        to = Format(ring, 2 * f.product_fraction)
        return t.write("square", (low,), (x.shape, to), ring=least, to=ring, slack=f.gate_slack)

    def _wide(self, x: Register) -> Register:
        return self.tape.factor(x, self._formats.fraction, self._formats.ring)
