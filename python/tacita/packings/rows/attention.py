"""Multi-head attention on rows: scores, exponentials, mixing, normalisation, output projection.

x -> scores (linear, product, pack) -> exp -> mix (unpack, dot with V) -> [context | row sums] -> divide,
project. Softmax is normalised after the product with V: one product per window instead of one per score
ciphertext. The padding mask is encrypted and multiplies V and the sums' ones, not the exponentials, so it
costs no level on the way from scores to context. V is computed from x at the level where it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tacita.layouts.arrays import Array
from tacita.layouts.rotations import doubled_parts, doubled_real
from tacita.layouts.rows import FeatureLayout
from tacita.layouts.windows import HeadWindow, mask_numbers, placed
from tacita.packings.encoding import SUMMED, Argument, divide, divide_factor
from tacita.packings.operations import RowSums
from tacita.packings.rows.division import Early, Gathered
from tacita.packings.rows.linear import (
    Affine,
    context_layout,
    fold_copies,
    folded_layout,
    folded_maps,
    folded_variances,
    folded_vectors,
    head_sums,
    linear_of,
    mask_plan,
    pack_plan,
    pair_scores,
    repeat_copies,
    score_parts,
    turn_parts,
    unfold_plan,
    unpack_anchors,
    unpack_plan,
)
from tacita.packings.specs import AttentionSpecs
from tacita.packings.weights import AttentionPlan, Positional, normalised
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.linear import LinearPlan

DOUBLED = 0.5  # share of scores: their parts come doubled
MIXING = 3  # levels from exponentials to context and sums
LARGEST = 2048.0  # factor of a mask's plaintext, which must have a place in it


@dataclass(frozen=True, eq=False)
class WindowSums(RowSums):
    """Row sums of the heads' windows, a ciphertext each, in all copies of their heads."""

    windows: tuple[HeadWindow, ...]

    def masked(self, be: Backend, exps: Cts, masks: Cts, factor: float) -> Cts:
        """2 levels below exps, 3 below masks."""
        lift = min(SUMMED * factor, LARGEST)
        each = zip(self._parts(exps), self._parts(self.masks(be, masks, lift)), strict=True)
        return self._everywhere(be, [be.dot(*pair) for pair in each], factor / lift)

    def plain(self, be: Backend, squares: Cts, factor: float) -> Cts:
        """Every ciphertext of a window has others of its keys."""
        return self._everywhere(be, [reduce(be.add, part) for part in self._parts(squares)], factor)

    def masks(self, be: Backend, masks: Cts, factor: float, most: int | None = None) -> Sequence[Ct]:
        """The masks lie as exponentials do. most: level that masks are lowered to, None for theirs."""
        numbers = mask_numbers(self.windows)
        plans = [mask_plan(self.windows[numbers.index(number)], factor) for number in sorted(set(numbers))]
        lowered = (be.drop_to(m, min(be.level(m), be.level(m) if most is None else most)) for m in masks)
        padding = [be.linear([mask], plan) for mask, plan in zip(lowered, plans, strict=False)]
        return [ct for number in numbers for ct in padding[number]]

    def centred(self, be: Backend, sums: Cts, offset: float) -> Cts:
        """In the groups of heads."""
        each = zip(sums, self.windows, strict=True)
        return tuple(be.add_vector(ct, np.where(w.groups, offset, 0.0)) for ct, w in each)

    def of_each(self, inverses: Cts, exps: Cts) -> Sequence[Ct]:
        """A window has one for all of its exponentials."""
        return [ct for ct, w in zip(inverses, self.windows, strict=True) for _ in range(w.score_cts)]

    def _parts(self, cts: Sequence[Ct]) -> list[Sequence[Ct]]:
        ends = np.cumsum([w.score_cts for w in self.windows])
        return [cts[end - w.score_cts : end] for w, end in zip(self.windows, ends, strict=True)]

    def _everywhere(self, be: Backend, totals: Sequence[Ct], factor: float) -> Cts:
        each = zip(totals, self.windows, strict=True)
        return tuple(repeat_copies(be, group_sums(be, ct, w, factor), w) for ct, w in each)


def group_sums(be: Backend, ct: Ct, window: HeadWindow, factor: float = 1.0) -> Ct:
    """Sums over all copies and positions of a head, times a factor, in the first copy. One level."""
    inside = np.arange(window.shape.window) < window.half * len(window.heads)
    return head_sums(be, fold_copies(be, ct, window), inside, window.half, 0.0, factor)


class Attention:
    """All plans of one layer's attention. Build, then run the methods in order.

    early: iterations of the division that `mix` does; specs are of what is left to do then. normed: the map
    to variances of normalised queries and keys. betas: what is added to these.
    """

    def __init__(self, plan: AttentionPlan, layout: FeatureLayout, windows: tuple[HeadWindow, ...]) -> None:
        """Builds all plans. layout: of x, with copies. windows: from `head_windows`."""
        positional, has_norms = plan.positional, bool(plan.normed)
        turning = positional.rotary is not None  # then the halves of a head that turn together are folded
        self.plan, self.layout, self.windows, self.row_sums = plan, layout, windows, WindowSums(windows)
        sides = plan.query(DOUBLED), plan.key(DOUBLED)
        self.query_key = folded_maps(sides, layout, windows, halves=turning)
        self.normed = folded_maps(plan.squared(), layout, windows, halves=turning) if has_norms else None
        self.betas = folded_vectors(plan.betas(DOUBLED), windows, halves=turning) if has_norms else ()
        self.early = early = Early.of(plan.specs, MIXING, limited=positional.visible is not None)
        self.specs = specs = early.specs(plan.specs) if early else plan.specs
        self.phases = _phases(positional, windows)
        self.added = [_added(plan, window) for window in windows]
        scale = context_scale(specs) * (early.context if early else 1.0)
        self.value = folded_maps([plan.value(scale)], layout, windows, halves=False)
        self.gathered = None if early else Gathered.of([window for window in windows if not window.shared])
        self.packs, self.unpacks = [pack_plan(w) for w in windows], [unpack_plan(w) for w in windows]
        factor = early.scale if early else Argument.of(specs.inverse).scale
        self.lift = min(SUMMED * factor, LARGEST)  # of row sums: by the masks, until the last map
        self.unfolds = _unfolds(windows, self.gathered, factor / self.lift, early)
        back = plan.projection(1.0 / (divide_factor(specs.inverse) * context_scale(specs)))
        self.projection = Affine.build(*back, context_layout(windows, plan.head_size), layout)
        self.add = linear_of(layout).adder(plan.output)

    def squares(self, be: Backend, x: Cts) -> tuple[Cts, Cts]:
        """Variances of normalised queries and keys. 3 levels."""
        assert self.normed is not None
        outputs, half, (queries, keys) = self.normed.apply(be, x), len(self.windows), self.plan.normed
        first = folded_variances(be, queries, outputs[:half], self.windows)
        return first, folded_variances(be, keys, outputs[half:], self.windows)

    def scores(self, be: Backend, x: Cts, *roots: Cts) -> Cts:
        """Maps x (layout, / entry) to the scores stored for exp; real, all windows' ciphertexts in order. 3
        levels; 1 more with roots of normalised queries and keys, and one with rotary positions, as queries
        and keys are folded so that those turn by one plaintext product."""
        parts: Sequence[Ct] = self.query_key.apply(be, x)
        if roots:
            parts = normalised(be, parts, [*roots[0], *roots[1]], self.betas)
        if self.phases:
            parts = [be.mul_vector(ct, v) for ct, v in zip(parts, self.phases, strict=True)]
        n = len(self.windows)
        return tuple(score for i in range(n) for score in self._window_scores(be, i, parts[i], parts[n + i]))

    def _window_scores(self, be: Backend, number: int, q: Ct, k: Ct) -> list[Ct]:
        window = self.windows[number]
        queries = [(part,) for part in doubled_parts(be, repeat_copies(be, q, window))]
        products: list[Ct] = []
        for keys in turn_parts(be, repeat_copies(be, k, window, window.shifts), window):
            products += be.relinearise(be.products(queries, keys))[0]
        scores = score_parts(be, be.linear(products, self.packs[number]), window)
        return [be.add_vector(s, v) for s, v in zip(scores, self.added[number], strict=True)]

    @property
    def visible(self) -> list[Array] | None:
        """A mask in the layout of the scores, 1 where a query sees the key; None without a limited reach."""
        visible = self.plan.positional.visible
        if visible is None:
            return None
        table = np.broadcast_to(visible, (self.plan.heads, *visible.shape))
        return [v for window in self.windows for v in placed(window, table)]

    def mix(self, be: Backend, x: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context, sums): context / bound and row sums stored for the inverse; sums only for windows that do
        not share one ciphertext, all in one where there are several. 3 levels below exps; x is needed one
        level above exps at most. masks are not read after rounds, where exps are squares."""
        entry, rounds = min(be.level(e) for e in exps), bool(self.specs.rounds)
        values = self._values(be, x, () if rounds else masks, entry + (not rounds))
        padding = () if rounds else self.row_sums.masks(be, masks, self.lift, entry + 1)
        context, sums, first = [], [], 0
        for i, window in enumerate(self.windows):
            mine = slice(first, first + window.score_cts)
            first += window.score_cts
            outs = self._mix_window(be, i, exps[mine], values[i], padding[mine])
            context.append(outs[0])
            sums += outs[1:]
        return tuple(context), self._centred_sums(be, sums)

    def _centred_sums(self, be: Backend, sums: list[Ct]) -> Cts:
        """The row sums of windows that keep them apart, stored for the inverse; added up into one ciphertext
        where sums are gathered."""
        offset = Argument.of(self.specs.inverse).offset
        if self.gathered is None:
            apart = [window for window in self.windows if not window.shared]
            return tuple(be.add_vector(s, _sum_offset(w, offset)) for s, w in zip(sums, apart, strict=True))
        total = reduce(be.add, sums)
        return (be.add_vector(total, np.where(self.gathered.filled, offset, 0.0)),)

    def _values(self, be: Backend, x: Cts, masks: Cts, level: int) -> list[Ct]:
        """V with shifted copies, one level below `level` (or below x, if that is lower); masked, one more,
        where there are masks."""
        lowered = [be.drop_to(ct, min(be.level(ct), level)) for ct in x]
        out = []
        for i, v in enumerate(self.value.map.apply(be, lowered)):
            window = self.windows[i]
            v = repeat_copies(be, be.add_vector(v, self.value.bias[i]), window, window.shifts)
            if masks:
                mask = masks[mask_numbers(self.windows)[i]]
                v = be.mul(v, be.drop_to(mask, min(be.level(mask), be.level(v))))
            out.append(v)
        return out

    def _mix_window(self, be: Backend, i: int, exps: Cts, value: Ct, padding: Sequence[Ct]) -> list[Ct]:
        window = self.windows[i]
        anchors = [a for e in pair_scores(be, exps, window) for a in unpack_anchors(be, e, window)]
        spread_exps = be.linear(anchors, self.unpacks[i])
        del anchors
        acc, first = None, 0
        for turned in turn_parts(be, value, window, -1):
            exps_of = spread_exps[first : first + len(turned[0])]
            acc = be.products(list(zip(*turned, strict=True)), [(e,) for e in exps_of], acc)
            first += len(exps_of)
        parts = [doubled_real(be, fold_copies(be, row[0], window)) for row in be.relinearise(acc)]
        total, factor = (be.dot(exps, padding), 1.0) if padding else (reduce(be.add, exps), self.lift)
        return self._unfold(be, i, parts, group_sums(be, total, window, factor))

    def _unfold(self, be: Backend, i: int, parts: list[Ct], sums: Ct) -> list[Ct]:
        window = self.windows[i]
        rotated = be.rotate(sums, -window.sum_offset) if window.shared else sums
        more = [sums] if self.early and window.shared else []
        outs = be.linear([*parts, rotated, *more], self.unfolds[i])
        if self.early:
            outs = self.early.begin(be, outs[:-1], outs[-1])
        if window.shared:
            offset = Argument.of(self.specs.inverse).offset
            outs[-1] = be.add_vector(outs[-1], _sum_offset(window, offset))
        return outs

    def project(self, be: Backend, x: Cts, context: Cts, sums: Cts) -> Cts:
        """(Attention output + x) / exit: centred at the first copy, zero elsewhere; or with copies, as it
        is stored. x: the residual.

        One level more than the inverse's below context and sums, two where one ciphertext has the sums of
        several windows; 1 (with copies) to 2 below x. The quotients
        are no boundary tensor: where a window shares context and sums they exceed 1 at the sums' positions.
        """
        mixed = self._quotients(be, context, sums)
        out = self.projection.apply(be, mixed)
        return self.add(be, out, x)

    def _quotients(self, be: Backend, context: Cts, sums: Cts) -> list[Ct]:
        numbers = [number for number, window in enumerate(self.windows) if not window.shared]
        spec, apart = self.specs.inverse, [context[number] for number in numbers]
        if self.gathered:
            divided = self.gathered.divide(be, apart, sums[0], spec)
        else:
            divided = [divide(be, ct, s, spec) for ct, s in zip(apart, sums, strict=True)]
        quotients = dict(zip(numbers, divided, strict=True))
        for number, window in enumerate(self.windows):
            if window.shared:
                ct = context[number]
                quotients[number] = divide(be, ct, be.rotate(ct, window.sum_offset), spec)
        return [quotients[number] for number in range(len(self.windows))]


def _phases(positional: Positional, windows: tuple[HeadWindow, ...]) -> tuple[Array, ...]:
    """What folded Q and then folded K are multiplied by; none without rotary positions."""
    if positional.rotary is None:
        return ()
    half = windows[0].half
    angles = np.zeros((windows[0].shape.tokens, half), np.complex128)
    angles[:, : positional.rotary.cos.shape[1]] = positional.rotary.phases
    factors = [np.where(row >= 0, angles[:, row % half], 0.0).ravel() for row in folded_layout(windows).home]
    return (*factors, *factors)


def _added(plan: AttentionPlan, window: HeadWindow) -> list[Array]:
    """What is added to the scores of each ciphertext: their centre, and the bias of relative positions."""
    offsets, added = plan.specs.score_offsets(plan.heads), plan.positional.added
    if added is None:
        return [window.of_heads(offsets)] * window.score_cts
    return placed(window, added * plan.specs.score_scale + offsets[:, None, None])


def _unfolds(
    windows: tuple[HeadWindow, ...], gathered: Gathered | None, scale: float, early: Early | None
) -> tuple[LinearPlan, ...]:
    """The unfolding plan of each window. scale: factor of the sums that come to it; of those an iteration
    before their bootstrap multiplies by, where there is one."""
    if early:
        sums = scale * early.sums / early.scale
        return tuple(unfold_plan(w, 0.25, sums, twice=scale) for w in windows)
    places = {w: gathered.places(number) for number, w in enumerate(gathered.windows)} if gathered else {}
    return tuple(unfold_plan(w, 0.25, scale, places.get(w)) for w in windows)


def context_scale(specs: AttentionSpecs) -> float:
    """stored context = context * this: within the reach of the divisor, beside which it may be stored, and at
    most 1 once divided."""
    low, high = specs.inverse.domain
    before = min(1.0, 0.5 * (high - low) * specs.inverse.free_scale()) / specs.context
    return min(before, 1.0 / (divide_factor(specs.inverse) * specs.attended))


def _sum_offset(window: HeadWindow, offset: float) -> Array:
    """The centre of the sums' stored form, added where sums are."""
    start = window.sum_offset if window.shared else 0
    p = np.arange(window.shape.window)
    return np.where((p >= start) & (p < start + window.width * len(window.heads)), offset, 0.0)
