"""One party of the real thing: the operations on this party's shares, by the protocols of the native engine.

Both parties make the same calls in the same order; the client without weights, the server without mask.
Between blocks tensors are residues modulo 2^ring; inside, each operation takes the fewest bits that hold its
values, which is local, and only what enters a linear map is extended to the full ring again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.blocks import sequence, tensors
from tacita.blocks.base import EVERYWHERE, Dense, Norm, Positions, Powers, Reach, Relative, Rotary
from tacita.blocks.sequence import Keeper, Past
from tacita.blocks.weights import Weights
from tacita.two_party.arithmetic.base import (
    CHOICE_FRACTION,
    KINDS,
    MEAN_RING,
    MEAN_VALUE,
    MEAN_WEIGHT,
    POWER,
    TURN,
    Array,
    Bounds,
    Formats,
    Interval,
    Unnormalised,
    choice_ring,
    constant,
    range_bits,
    unknown_kind,
    unknown_option,
    weight_integers,
)
from tacita.two_party.arithmetic.masked import MaskedProduct, PreparedMaps
from tacita.two_party.arithmetic.residues import Share, Words, from_floats, reconstruct, reduced, zeros
from tacita.two_party.arithmetic.rotary import turned_from

Watch = Callable[[str], None]
MOST_SLACK = 15  # bits below which errors of a product by the row's inverse do not matter
# the engine's functions with a bump, and their names for our two forms
ENGINE: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gelu": ("gelu", {"abs4": "abs4", "abs8": "abs8"}),
    "gelu_tanh": ("gelu", {"abs4": "tanh4", "abs8": "tanh8"}),
    "silu": ("silu", {"abs4": "abs8", "abs8": "abs16"}),
}
ANSWER_FRACTION, ANSWER_RING = 12, 32  # of what the client sees: no more bits than the answer is good for


@dataclass(frozen=True)
class Known:
    """What this party knows of a session. weights: at the server alone. mask: (tokens,), at the client
    alone. opens: whether the client learns the answer as it is. room: tokens that there may be in the end,
    where more come."""

    formats: Formats
    bounds: Bounds
    tokens: int
    weights: Weights | None = None
    mask: Array | None = None
    opens: bool = True
    room: int = 0


class SharedTensors:
    """The operations (see `blocks.tensors`) on one party's shares. party: the engine's `TwoParty`. watch:
    called as each node of the model begins. prepared: products with weights that were made before their rows
    were known. past: of a decoder that is to go on (`blocks.sequence`); its tokens are the first of those
    that `known` counts."""

    def __init__(
        self,
        party: Any,
        known: Known,
        watch: Watch = lambda node: None,
        prepared: PreparedMaps | None = None,
        past: Past[Share] | None = None,
    ) -> None:
        self._prepared, self._keeper, self._keeps = prepared, Keeper(past), past is not None
        self._party, self._formats, self._bounds, self._tokens = (
            party,
            known.formats,
            known.bounds,
            known.tokens,
        )
        self._weights, self._mask, self._watch = known.weights, known.mask, watch
        self._opens, self._room = known.opens, known.room or known.tokens
        self._client = bool(party.is_client)

    @property
    def past(self) -> Past[Share]:
        """Keys and values of this walk, which the next step needs."""
        return self._keeper.then(self._tokens)

    def enter(self, name: str, x: Share | None = None) -> None:
        """Tells the watcher."""
        self._watch(name)

    def own(self, x: Array) -> Share:
        """Shares a tensor that this party knows and the other does not."""
        return from_floats(x, self._formats.fraction, self._formats.ring)

    def theirs(self, shape: tuple[int, ...]) -> Share:
        """Returns this party's share, zeros, of a tensor that the other party knows."""
        return zeros(shape, self._formats.fraction, self._formats.ring)

    def give(self, x: Share) -> None:
        """Sends this party's share of an answer, without the bits below what the answer is good for."""
        self._party.reveal(self._answer(x).values)

    def reveal(self, x: Share) -> Array:
        """Returns the value of an answer whose other share the other party sends."""
        mine = self._answer(x)
        total = self._party.receive_revealed(mine.values, mine.ring)
        return reconstruct(mine.like(total), np.zeros_like(total))

    def largest(self, x: Share, bound: float) -> Share:
        """Maps x (1, n), values up to `bound`, to (1,): the number of the largest, of equal ones the
        first."""
        ring = choice_ring(bound)
        low = self._scaled(x, CHOICE_FRACTION).reduced(ring)
        places = max(1, (x.values.shape[-1] - 1).bit_length())
        _, index = self._party.argmax_rows(np.ascontiguousarray(low.values), ring, places)
        return Share(index.reshape(-1), places, 0)

    def words(self, values: Words, ring: int) -> Share:
        """Wraps what a look-up in a hidden table left, modulo 2^ring."""
        return Share(values, ring, self._formats.table)

    def add(self, x: Share, y: Share) -> Share:
        """Adds both at `fraction` bits, in a ring that leaves room for weights."""
        f = self._formats
        left, right = (self._factor(t, f.fraction, f.ring - f.weight) for t in (x, y))
        return left.plus(right)

    def scaled(self, x: Share, factor: float) -> Share:
        """Multiplies, locally in the ring of a linear map, by an integer that both parties know."""
        f = self._formats
        wide, whole = self._wide(x), np.array(constant(factor, f.weight)).view(np.uint64)
        return Share(reduced(wide.values * whole, f.ring), f.ring, f.fraction + f.weight)

    def positions(self, x: Share, p: Positions) -> Share:
        """Runs locally: the server adds the positions' rows to its share."""
        if self._weights is None:
            return x
        rows = self._weights.positions(p, x.values.shape[-2], self._keeper.first)
        return x.plus(from_floats(rows, x.fraction, x.ring))

    def linear(
        self, x: Share, maps: tuple[Dense, ...], add: Share | None = None, *, opened: bool = False
    ) -> Share:
        """Takes one product of shares and weights; bias and `add` are local. opened: with the noise hidden
        (see the engine's Options)."""
        f, weights = self._formats, self._weights
        fraction, rows = f.fraction + f.weight, x.values.shape[0]
        integers = None if weights is None else weight_integers(weights, maps, f.weight)
        shape = (rows, maps[0].inputs, sum(d.outputs for d in maps))
        wide, opened = self._wide(x).values, opened and self._opens
        product = self._prepared.product(wide, maps) if self._prepared and not opened else None
        if product is None:
            product = self._party.share_times_weights(wide, integers, shape, f.ring, opened=opened)
        result = Share(product, f.ring, fraction)
        if weights is not None:
            result = result.plus(from_floats(weights.stacked_bias(maps), fraction, f.ring))
        return result if add is None else result.plus(self._at(add, f.fraction, f.ring - f.weight, fraction))

    def columns(self, x: Share, widths: tuple[int, ...]) -> tuple[Share, ...]:
        """Runs locally."""
        return tuple(x.like(part) for part in tensors.columns(x.values, widths))

    def rows(self, x: Share, count: int) -> Share:
        """Runs locally."""
        return x.like(tensors.rows(x.values, count))

    def heads(self, x: Share, count: int) -> Share:
        """Runs locally."""
        return x.like(tensors.heads(x.values, count))

    def merge(self, x: Share) -> Share:
        """Runs locally."""
        return x.like(tensors.merge(x.values))

    def scores(self, queries: Share, keys: Share, name: str) -> Share:
        """Takes one product of shared matrices for all heads, or what was prepared for one more row."""
        f = self._formats
        ring = f.score_ring(self._bounds.attention[name])
        left, right = (self._factor(x, f.product_fraction, ring) for x in (queries, keys))
        stacked = left.like(tensors.regrouped(left.values, right.values.shape[-3]))
        turned = right.like(np.swapaxes(right.values, -1, -2))
        if ahead := self._ahead(name, queries, "scores"):
            values = ahead.times(stacked.values, turned.values[..., -1:])
            scored = Share(values, ring, left.fraction + right.fraction)
        else:
            scored = self._product(stacked, turned)
        return scored.like(tensors.regrouped(scored.values, left.values.shape[-3]))

    def turn(self, x: Share, rotary: Rotary) -> Share:
        """Runs locally: both parties know the angles. `fraction` bits leave the ring room for `TURN` more."""
        low = self._scaled(x, self._formats.fraction)
        table = turned_from(rotary.base, self._keeper.first, x.values.shape[-2:], TURN)
        cos, sin = (c.view(np.uint64) for c in table)
        left, right = np.split(low.values, 2, axis=-1)
        turned = np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)
        return Share(np.ascontiguousarray(reduced(turned, low.ring)), low.ring, low.fraction + TURN)

    def with_past(self, name: str, keys: Share, values: Share) -> tuple[Share, Share]:
        """Appends keys and values to the past, at the fraction bits and in the rings in which they are
        multiplied: what that takes is done once for every row."""
        if not self._keeps:
            return keys, values
        f = self._formats
        bounds = self._bounds.attention[name]
        rings = f.score_ring(bounds), f.mix_ring(bounds, self._room)
        factors = [
            self._factor(x, f.product_fraction, ring) for x, ring in zip((keys, values), rings, strict=True)
        ]
        if before := self._keeper.before(name):
            factors = [old.behind(new) for old, new in zip(before, factors, strict=True)]
        return self._keeper.keep(name, factors[0], factors[1])

    def biased(self, scores: Share, relative: Relative, name: str) -> Share:
        """Runs locally: the server adds its table to its own share."""
        if self._weights is None:
            return scores
        table = self._weights.relative(relative, scores.values.shape[-2:])
        return scores.plus(from_floats(table, scores.fraction, scores.ring))

    def times(self, x: Share, y: Share, name: str) -> Share:
        """Takes one product of numbers, in a ring just large enough; the factor of fewer bits need not fill
        it."""
        f = self._formats
        ring = f.gate_ring(self._bounds.gates[name])
        factors = sorted((self._scaled(t, f.product_fraction) for t in (x, y)), key=lambda t: t.ring)
        short = factors[0].reduced(min(factors[0].ring, ring))
        wide = self._factor(factors[1], f.product_fraction, ring)
        return Share(self._times(short, short.ring, wide, f.gate_slack), ring, 2 * f.product_fraction)

    def softmax(self, scores: Share, name: str, reach: Reach = EVERYWHERE) -> Unnormalised[Share]:
        """Lets the client, which knows the mask, move the scores of padded keys and of those out of reach out
        of the range of exp in its own share."""
        f, bounds = self._formats, self._bounds.attention[name]
        if self._mask is not None:
            visible = sequence.visible(self._mask, scores.values.shape[-2:], reach)
            gap = np.where(visible == 0.0, float(bounds.hiding), 0.0)
            scores = scores.minus(from_floats(gap, scores.fraction, scores.ring))
        ring, columns = f.mix_ring(bounds, self._room), scores.values.shape[-1]
        flat = np.ascontiguousarray(scores.values.reshape(-1, columns))
        powers, inverses = self._party.softmax_parts(
            flat, scores.ring, scores.fraction, bounds.score_range, ring, f.normal_ring, f.inverse
        )
        numerators = Share(powers.reshape(scores.values.shape), ring, POWER)
        return Unnormalised(
            numerators, Share(inverses.reshape(*scores.values.shape[:-1], 1), f.normal_ring, f.inverse)
        )

    def powers(self, scores: Share, variant: Powers, name: str) -> Unnormalised[Share]:
        """Raises PlanError: there is no protocol for them."""
        raise unknown_option(name, "powers in place of softmax")

    def mix(self, weights: Unnormalised[Share], values: Share, name: str) -> Share:
        """Takes one product of shared matrices for all heads, and one of numbers for the rows' inverses."""
        f, bounds = self._formats, self._bounds.attention[name]
        left = weights.numerators
        right = self._factor(values, f.product_fraction, left.ring)
        grouped = left.like(tensors.regrouped(left.values, right.values.shape[-3]))
        if ahead := self._ahead(name, left, "mix"):
            mixed_values = ahead.times(grouped.values, right.values[..., -1:, :])
            stacked = Share(mixed_values, left.ring, left.fraction + right.fraction)
        else:
            stacked = self._product(grouped, right)
        mixed = stacked.like(tensors.regrouped(stacked.values, left.values.shape[-3]))
        low = self._factor(mixed, f.mixed_fraction(bounds.context), f.normal_ring)
        fraction = low.fraction + f.inverse
        slack = max(fraction - f.fraction, 0) + f.product_fraction
        # the largest score of a row is a numerator of 1, so no inverse is larger
        product = self._times(weights.inverse, f.inverse + 3, low, min(slack, MOST_SLACK))
        return Share(product, f.normal_ring, fraction)

    def function(self, x: Share, kind: str, name: str) -> Share:
        """Calls the engine's function; relu takes the sign of what is left of x in the fewest bits."""
        if kind not in KINDS:
            raise unknown_kind(kind)
        f, bits = self._formats, range_bits(*self._bounds.functions[name])
        low = self._scaled(x, f.fraction)
        if kind in ("relu", "relu2"):
            rectified = self._relu(low.reduced(bits + f.fraction + 2))
            return rectified if kind == "relu" else self._square(rectified, self._bounds.functions[name])
        if kind == "tanh":
            values = self._party.tanh(low.values, low.ring, low.fraction, f.ring, f.fraction, range=bits)
        else:
            called, forms = ENGINE[kind]
            run = getattr(self._party, called)
            # the fewest bits: what comes next may need no more
            ring = min(bits + f.fraction + 2, f.ring)
            values = run(low.values, low.ring, low.fraction, ring, form=forms[f.gelu], range=bits)
            return Share(values, ring, f.fraction)
        return Share(values, f.ring, f.fraction)

    def norm(self, x: Share, norm: Norm, name: str) -> Share:
        """Calls the engine on what the linear map before it left; all rows of all heads in one call."""
        if norm.deviation is not None:
            raise unknown_option(name, "a stored deviation")
        f, bounds = self._formats, self._bounds.norms[name]
        gamma, beta = (None, None) if self._weights is None else self._weights.norm(norm)
        x = self._factor(x, x.fraction, max(x.ring, f.ring))
        values = self._party.layer_norm(
            np.ascontiguousarray(x.values).reshape(-1, norm.size),
            gamma,
            beta,
            bits=x.ring,
            frac=x.fraction,
            bound=bounds.centred,
            least=math.sqrt(bounds.variance[0]),
            gamma_bound=bounds.gamma,
            epsilon=norm.epsilon,
            out_bits=f.ring,
            out_frac=f.fraction,
            centred=norm.centred,
        )
        return Share(values.reshape(x.values.shape), f.ring, f.fraction)

    def mean(self, x: Share, name: str, *, opened: bool = False) -> Share:
        """Multiplies the client's weights 1/n of the real rows by the shared rows. opened: with the noise
        hidden."""
        low = self._factor(x, MEAN_VALUE, MEAN_RING)
        if self._mask is None:
            weights = zeros((1, 1, len(x.values)), MEAN_WEIGHT, MEAN_RING)
        else:
            weights = from_floats((self._mask / self._mask.sum())[None, None], MEAN_WEIGHT, MEAN_RING)
        product = self._product(weights, low.like(low.values[None]), opened=opened)
        return product.like(product.values[0])

    def _ahead(self, name: str, x: Share, product: str) -> MaskedProduct | None:
        """Returns what was prepared for one row of this attention's product, if there is anything left of
        it."""
        attended = self._prepared.attention.get(name) if self._prepared and x.values.shape[-2] == 1 else None
        ahead: MaskedProduct | None = getattr(attended, product) if attended else None
        return ahead if ahead and ahead.left else None

    def _relu(self, x: Share) -> Share:
        """Subtracts the negative part of x."""
        negative = self._party.negative(x.values, x.ring)
        return x.minus(x.like(self._party.select(negative, x.values, x.ring)))

    def _square(self, x: Share, interval: Interval) -> Share:
        """Squares a rectified x at `product_fraction` bits, from the fewest bits that hold x."""
        f = self._formats
        least, ring = f.narrow_ring(interval), f.square_ring(interval)
        low = self._scaled(x, f.product_fraction).reduced(least)
        values = self._party.square_narrow(np.ascontiguousarray(low.values), least, ring, f.gate_slack)
        return Share(values, ring, 2 * f.product_fraction)

    def _product(self, left: Share, right: Share, *, opened: bool = False) -> Share:
        """Multiplies (heads, k, m) by (heads, m, n) in their ring; the fractions add up."""
        heads, k, m = left.values.shape
        shape = (heads, k, m, right.values.shape[-1])
        x, y = (np.ascontiguousarray(share.values) for share in (left, right))
        result = self._party.share_times_share(x, y, shape, left.ring, opened=opened)
        return Share(result, left.ring, left.fraction + right.fraction)

    def _times(self, x: Share, short: int, y: Share, slack: int) -> Words:
        """Multiplies in the ring of y by factors x of so few bits, one for every y or for every row of
        them."""
        left, right = (np.ascontiguousarray(t.values) for t in (x, y))
        product: Words = self._party.scaled(
            left, right, held=x.ring, short=min(short, x.ring), bits=y.ring, slack=slack
        )
        return product

    def _scaled(self, x: Share, fraction: int) -> Share:
        return x.scaled(fraction, client=self._client)

    def _factor(self, x: Share, fraction: int, ring: int) -> Share:
        """Converts to a ring and its fraction bits: locally where the ring has shrunk to it, else by an
        extension."""
        low = self._scaled(x, fraction)
        if low.ring >= ring:
            return low.reduced(ring)
        return Share(self._party.extend(np.ascontiguousarray(low.values), low.ring, ring), ring, fraction)

    def _wide(self, x: Share) -> Share:
        """Converts x to the format that a linear map takes."""
        wide = self._factor(x, self._formats.fraction, self._formats.ring)
        return wide.like(wide.values)

    def _at(self, x: Share, fraction: int, ring: int, finer: int) -> Share:
        """Converts x to `fraction` bits in a ring, then shifts it up to `finer` bits, which makes the ring
        grow."""
        return self._factor(x, fraction, ring).scaled(finer, client=self._client)

    def _answer(self, x: Share) -> Share:
        low = self._scaled(x, min(ANSWER_FRACTION, x.fraction))
        return low.reduced(min(ANSWER_RING, low.ring))
