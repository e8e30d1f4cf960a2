"""Real slot-linear maps at half the cost: two real operands share the two parts of one complex ciphertext.

Re((v - iw)(x + iy)) = vx + wy, so ciphertexts are multiplied in pairs: half the rotations of inputs and half
the plaintext products, for one conjugation an output. A single ciphertext is paired with itself, rotated.
THOR uses the same identity for its products (section 4.4); here it serves any map between real layouts,
whenever that is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tacita.packings.arrays import Array, Diagonal
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan


@dataclass(frozen=True, eq=False)
class RealMap:
    """A map with real diagonals on real ciphertexts. One level.

    pairs: inputs (a, b) that become a + ib; the others stay real. shift: the single input x becomes x + i
    rotate(x, shift). Neither: the plan is real and outputs are not conjugated.
    """

    plan: LinearPlan
    pairs: int = 0
    shift: int = 0

    @staticmethod
    def build(diagonals: Diagonal, *, n_inputs: int, n_outputs: int) -> RealMap:
        """The cheapest form. diagonals: as for LinearPlan.from_diagonals, real."""
        forms = list(_forms(diagonals, n_inputs, n_outputs))
        return min(forms, key=lambda form: form.cost)

    @property
    def cost(self) -> float:
        """In rotations, conjugations included."""
        extra = self.plan.n_outputs if self.pairs or self.shift else 0
        return self.plan.cost + extra + (1 if self.shift else 0)

    def apply(self, be: Backend, xs: Sequence[Ct]) -> list[Ct]:
        """Real ciphertexts -> real ciphertexts."""
        if self.shift:
            xs = [be.add(xs[0], be.mul_i(be.rotate(xs[0], self.shift)))]
        elif self.pairs:
            joined = [
                be.add(a, be.mul_i(b)) for a, b in zip(xs[: self.pairs], xs[self.pairs :], strict=False)
            ]
            xs = [*joined, *xs[2 * self.pairs :]]
        else:
            return be.linear(xs, self.plan)
        return [be.add(y, be.conjugate(y)) for y in be.linear(xs, self.plan)]


def _forms(diagonals: Diagonal, n_inputs: int, n_outputs: int) -> Iterator[RealMap]:
    yield RealMap(LinearPlan.from_diagonals(diagonals, n_inputs=n_inputs, n_outputs=n_outputs))
    if n_inputs > 1:
        half = n_inputs // 2
        yield RealMap(_plan(_paired(diagonals, half), n_inputs - half, n_outputs), pairs=half)
        return
    rotations = [k for _, _, k in diagonals]
    reach = max(rotations) - min(rotations) + 1
    for shift in {1 << (reach.bit_length() - 1), 1 << max(0, reach.bit_length() - 2)}:
        yield RealMap(_plan(_shifted(diagonals, shift, min(rotations)), 1, n_outputs), shift=shift)


def _plan(diagonals: Diagonal, n_inputs: int, n_outputs: int) -> LinearPlan:
    return LinearPlan.from_diagonals(diagonals, n_inputs=n_inputs, n_outputs=n_outputs)


def _paired(diagonals: Diagonal, half: int) -> Diagonal:
    """Input i < half joins input i + half; the last input of an odd number keeps its own ciphertext."""
    joined: Diagonal = {}
    for (j, i, k), v in diagonals.items():
        imaginary = half <= i < 2 * half
        key = (j, i - half if i >= half else i, k)
        _add(joined, key, v * (-0.5j if imaginary else 0.5))
    return joined


def _shifted(diagonals: Diagonal, shift: int, low: int) -> Diagonal:
    """Rotation k + shift joins rotation k, for k in every other interval of length shift from `low` up."""
    joined: Diagonal = {}
    for (j, i, k), v in diagonals.items():
        imaginary = (k - low) // shift % 2 == 1
        _add(joined, (j, i, k - shift if imaginary else k), v * (-0.5j if imaginary else 0.5))
    return joined


def _add(diagonals: Diagonal, key: tuple[int, int, int], v: Array) -> None:
    diagonals[key] = diagonals[key] + v if key in diagonals else v
