"""Prepared rows give the product that is made at once, one row after the other, for a row's own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_two_party_shares import Session, both, prepared

from tacita.blocks.base import Dense
from tacita.blocks.weights import Weights
from tacita.two_party.arithmetic.base import Bounds, Formats
from tacita.two_party.arithmetic.residues import Share, reconstruct, reduced
from tacita.two_party.model import ServerModel
from tacita.two_party.program.recorder import RecordTensors
from tacita.two_party.program.run import Past, Prepared, Run
from tacita.two_party.protocol.party import Party

FORMATS, ROWS = Formats(), 3
RNG = np.random.default_rng(5)
MAP, OTHER = Dense("d", 24, 10), Dense("e", 24, 5)
WEIGHTS = Weights(
    {
        f"{name}.{part}": RNG.normal(size=size)
        for name, count in (("d", 10), ("e", 5))
        for part, size in (("weight", (count, 24)), ("bias", count))
    }
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with prepared() as parties:
        yield parties


def shared(x: np.ndarray) -> tuple[Share, Share]:
    whole = np.rint(np.ldexp(x, FORMATS.fraction)).astype(np.int64).view(np.uint64)
    mask = reduced(RNG.integers(0, 1 << 64, x.shape, np.uint64), FORMATS.ring)
    return tuple(
        Share(part, FORMATS.ring, FORMATS.fraction) for part in (reduced(whole - mask, FORMATS.ring), mask)
    )


def recorded(*each: tuple[Dense, ...]) -> tuple[Any, RecordTensors]:
    """A program of linear maps of one row alone, and what the server holds for it."""
    ops = RecordTensors(FORMATS, Bounds({}, {}, {}), 1)
    x = ops.input((1, 24))
    results = [ops.linear(x, maps) for maps in each]
    sizes = lambda rows, past: ops.tape.registers  # noqa: E731
    return SimpleNamespace(steps=tuple(ops.tape.steps), sizes=sizes, result=results[-1].number), ops


def test_rows_one_after_the_other_and_then_at_once(session: Session) -> None:
    """After the third row of the map, products are made as they were without any prepared."""
    x = RNG.normal(size=(ROWS + 1, 1, 24))
    inputs = [shared(row) for row in x]
    program, ops = recorded((MAP, OTHER))

    def work(party: Party) -> Any:
        client, prepared = party is session[0], Prepared()
        model = None if client else ServerModel(FORMATS, WEIGHTS, ops.held)
        assert prepared.left == 0
        prepared.prepare(party.native, program, model, Past(), ROWS)
        run = Run(party.native, program, model=model, prepared=prepared)
        found, sent, left = [], [], []
        for pair_of in inputs:
            before = party.native.bytes_sent
            found.append(run.answer(pair_of[0 if client else 1].values))
            sent.append(party.native.bytes_sent - before)
            left.append(prepared.left)
        return found, sent, left

    ours, theirs = both(session, work)
    form = ops.held[0][1]
    for row, mine, other in zip(x, ours[0], theirs[0], strict=True):
        expected = np.concatenate(
            [row @ WEIGHTS.dense(d)[0].T + WEIGHTS.stacked_bias((d,)) for d in (MAP, OTHER)], 1
        )
        assert np.abs(reconstruct(Share(mine, form.ring, form.fraction), other) - expected).max() < 1e-3
    assert max(ours[1][:ROWS]) < 24 * 8 + 64 and max(theirs[1][:ROWS]) == 0
    assert min(ours[1][ROWS], theirs[1][ROWS]) > 10_000
    assert ours[2] == theirs[2] == [2, 1, 0, 0]
