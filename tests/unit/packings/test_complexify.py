"""Real maps through complex ciphertexts: the same values, fewer products, and never dearer than the plain
form."""

import numpy as np
import pytest

from tacita.layouts.rotations import RealMap, _form, _kinds
from tacita.slots.diagonals import Diagonals
from tacita.slots.plain import PlainBackend

BE = PlainBackend(64)


def diagonals(inputs, outputs, rotations, seed=0):
    rng = np.random.default_rng(seed)
    return {(j, i, k): rng.normal(size=16) for j in range(outputs) for i in range(inputs) for k in rotations}


def exact(table, xs, outputs):
    out = np.zeros((outputs, 64))
    for (j, i, k), v in table.items():
        out[j] += np.tile(v, 4) * np.roll(xs[i], -k)
    return out


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 3), (2, 1), (3, 2), (4, 4)])
@pytest.mark.parametrize("rotations", [range(8), range(-7, 8), (-8, 0, 8), (3,)])
def test_every_form_gives_the_same_map(inputs, outputs, rotations):
    table = diagonals(inputs, outputs, rotations)
    xs = np.random.default_rng(1).normal(size=(inputs, 64))
    rows = Diagonals.of(table)
    for form in (_form(rows, kind, inputs, outputs) for kind in _kinds(rows, inputs)):
        got = [BE.decrypt(ct) for ct in form.apply(BE, [BE.encrypt(x) for x in xs])]
        assert np.allclose(got, exact(table, xs, outputs))


def test_a_dense_map_takes_half_the_products():
    plain = _form(Diagonals.of(diagonals(2, 1, range(16))), (0, 0), 2, 1)
    best = RealMap.build(diagonals(2, 1, range(16)), n_inputs=2, n_outputs=1)
    assert len(best.plan.terms) * 2 == len(plain.plan.terms)


def test_a_small_map_stays_real():
    best = RealMap.build(diagonals(1, 4, (0,)), n_inputs=1, n_outputs=4)
    assert not best.pairs
    assert not best.shift
