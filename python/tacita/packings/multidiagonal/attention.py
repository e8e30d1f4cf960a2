"""Multi-head attention on diagonals: scores, exponentials, mixing, normalisation, output projection.

x -> Q^T, K^T -> S^T = K Q^T -> exp -> C^T = V^T exp(S)^T -> C / row sums -> projection plus residual (THOR,
section 6.2.2). The columns of all matrices are query tokens, so a row of softmax is summed over diagonals,
which are places and ciphertexts. Softmax is normalised after the product with V. The padding mask is
encrypted: by key token it multiplies V, and in the layout of the scores the exponentials that are summed.
Where softmax has two phases, squares that are already masked stand in place of exponentials (`row_sums`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.multidiagonal.layout import Features, MultiDiagonal
from tacita.packings.multidiagonal.linear import Affine, linear_of
from tacita.packings.multidiagonal.products.product import Product
from tacita.packings.multidiagonal.products.transpose import transpose
from tacita.packings.multidiagonal.row_sums import RowSums, real_heads
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.rotations import rotate_sum
from tacita.packings.stored import Stored, output_bound
from tacita.packings.weights import AttentionWeights, summed
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


def scores_layout(layout: Features) -> MultiDiagonal:
    """Of S^T: as many rows as columns."""
    return layout.shape.with_rows(layout.shape.columns)


def query_key(weights: AttentionWeights, layout: Features, specs: AttentionSpecs) -> Affine:
    """Q and K, one after the other, scaled so that their products are scores in stored form."""
    factor = float(np.sqrt(specs.score_scale / np.sqrt(layout.width)))
    weight = np.concatenate([weights.query, weights.key]) * (factor * specs.entry)
    bias = np.concatenate([weights.query_bias, weights.key_bias]) * factor
    return Affine(weight, bias, layout, layout.stacked(2))


@dataclass(frozen=True, eq=False)
class Attention:
    """All maps of one attention of every token. Build with `Attention.build`; then run the methods in
    order."""

    layout: Features
    specs: AttentionSpecs
    query_key: Affine
    value: Affine
    projection: Affine

    @staticmethod
    def build(weights: AttentionWeights, specs: AttentionSpecs, layout: Features) -> Attention:
        """layout: of x."""
        scale, back = 1.0 / specs.context, specs.context * output_bound(specs.inverse) / specs.exit
        output = weights.output * back, weights.output_bias / specs.exit
        return Attention(
            layout=layout,
            specs=specs,
            query_key=query_key(weights, layout, specs),
            value=Affine(weights.value * (scale * specs.entry), weights.value_bias * scale, layout, layout),
            projection=Affine(*summed(*output, centred=specs.centred), layout, layout),
        )

    @cached_property
    def _scores(self) -> MultiDiagonal:
        return scores_layout(self.layout)

    def scores(self, be: Backend, x: Cts) -> Cts:
        """x (layout, / entry) -> scores stored for exp. 4 levels."""
        both, shape = self.query_key.apply(be, x), self.layout.shape
        keys = transpose(be, both[shape.count :], shape)
        found = Product(self._scores, shape).apply(be, keys, both[: shape.count])
        offset = real_heads(self.layout, Stored.input_of(self.specs.exp).offset)
        return tuple(be.add_vector(ct, offset) for ct in found)

    def mix(self, be: Backend, x: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse). 3 levels below exps, 1 for the sums; x is
        needed at the exponentials' level at most.

        masks: keep[token], then keep[key] in the layout of the scores. They are not read in two phases,
        where exps are squares.
        """
        masked, level = self.specs.first is None, min(be.level(ct) for ct in exps)
        needed = level if masked else max(0, level - 1)  # the mask takes a level from the values
        lowered = [be.drop_to(ct, min(be.level(ct), needed)) for ct in x]
        values = self.value.apply(be, lowered)
        kept = [be.mul(v, masks[0]) for v in values] if masked else values
        context = Product(self.layout.shape, self._scores).apply(be, kept, exps)
        sums = self.sums(self.specs.inverse)
        return context, (sums.masked(be, exps, masks[1:]) if masked else sums.plain(be, exps),)

    def sums(self, inverse: Spec) -> RowSums:
        """Over the diagonals of a ciphertext: log2(places) rotations."""
        shape = self._scores
        total = partial(rotate_sum, width=shape.places, step=shape.diagonal)
        return RowSums(self.layout, inverse, total)

    def project(self, be: Backend, x: Cts, context: Cts, inverse: Cts) -> Cts:
        """(Attention output + x) / exit, centred or not. 2 levels below context and inverse, 1 below x, the
        residual."""
        out = self.projection.apply(be, [be.mul(ct, inverse[0]) for ct in context])
        return linear_of(self.layout).add(be, out, x, self.specs.back, centred=self.specs.centred)


def sum_tokens(be: Backend, ct: Ct, layout: Features) -> Ct:
    """The sum over tokens, everywhere, of what is the same in every diagonal. log2(tokens) rotations, no
    level."""
    return rotate_sum(be, ct, layout.shape.columns, layout.shape.batch)
