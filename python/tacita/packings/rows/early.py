"""A division whose first iterations run before the row sums are bootstrapped.

Row means may span fourteen nats. A bootstrap adds 2^-22 of the largest to each, and that is a quarter of the
smallest. The first iterations of Goldschmidt's 1/x lift what is small: each multiplies a small x by four and
leaves a large one where it is. After three of them the same noise is 0.6 % of the smallest. They take levels
that exponentials and mixing leave, and the division after the bootstrap takes as many fewer.

An example: x in [6e-7, 1], three iterations, a in [4e-5, 1]. What is stored is context * a / x and a, beside
each other in one ciphertext; their quotient is context / x as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacita.approx.iterative import GoldschmidtSpec
from tacita.approx.spec import free_depth
from tacita.packings.one_text.attention import AttentionSpecs
from tacita.packings.rows.heads.windows import HeadWindow
from tacita.slots.base import Backend, Ct

REFRESHED = 2.0**-22  # standard deviation that a bootstrap adds (`slots.noise`)
NOISY = 0.01  # of the smallest row mean: noise that asks for no iterations before the bootstrap
BETWEEN, MIXED = 13, 3  # levels after a bootstrap; those from exponentials to sums


@dataclass(frozen=True)
class Early:
    """So many of the steps of `whole`."""

    steps: int
    whole: GoldschmidtSpec

    @staticmethod
    def of(specs: AttentionSpecs, windows: Sequence[HeadWindow]) -> Early | None:
        """As many as it takes, or as fit between the scores' bootstrap and the sums'; None for none.

        Only where all windows have context and sums in one ciphertext, so that one iteration serves both.
        """
        spec = specs.inverse
        if not isinstance(spec, GoldschmidtSpec) or not all(window.shared for window in windows):
            return None
        room = min(BETWEEN - MIXED - free_depth(specs.exp), len(spec.relaxation) - 1)
        steps = next((n for n in range(room) if spec.after(n).domain[0] * NOISY >= REFRESHED), room)
        return Early(steps, spec) if steps > 0 else None

    def specs(self, specs: AttentionSpecs) -> AttentionSpecs:
        """For what follows: the divisor is a, the context is that times a / x."""
        return replace(specs, inverse=self.whole.after(self.steps), context=specs.attended)

    @property
    def sums(self) -> float:
        """Factor of the row means before `begin`, to be a after it."""
        return self.context * self.scale * self.whole.domain[1]

    @property
    def context(self) -> float:
        """Factor of the context before `begin`, to be context * a / x after it."""
        return self.whole.begin_factor(self.steps, self.scale) / self.whole.domain[1]

    @property
    def scale(self) -> float:
        """Factor of the row means that `begin` multiplies by."""
        return self.whole.free_scale()

    def begin(self, be: Backend, both: Ct, sums: Ct) -> Ct:
        """[context | row means] and the means at both places -> the two after the first iterations."""
        return self.whole.begin(be, both, sums, self.steps, self.scale)
