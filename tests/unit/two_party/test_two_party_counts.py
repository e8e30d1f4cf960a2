"""What `two_party.program.cost` says of an operation beside what a session sends for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from eager import cost, counting

from tacita.blocks.base import Norm, Reach, Relative, Rotary
from tacita.two_party.arithmetic.base import AttentionBounds, Bounds, Formats, NormBounds
from tacita.two_party.program.cost import failure_log2
from tacita.two_party.protocol.party import Party

pytestmark = pytest.mark.native
shared = pytest.importorskip("test_two_party_shares")
Step = Callable[[Any, Any], Any]
NAME, SHAPE = "n", (64, 256)  # two ciphertexts
HEADS = (4, 64, 32)
NORM = Norm(NAME, 32, 1e-6, centred=False, gamma=False, beta=False)


@dataclass(frozen=True)
class Case:
    """An operation on a shared tensor, with the bounds that it asks for."""

    step: Step
    bounds: Bounds
    shape: tuple[int, ...] = SHAPE
    formats: Formats = field(default_factory=Formats)


def function(kind: str, most: float, form: str = "abs4") -> Case:
    bounds = Bounds({}, {NAME: (-most, most)}, {})
    return Case(lambda ops, x: ops.function(x, kind, NAME), bounds, formats=Formats(gelu=form))


def gate(bound: float) -> Case:
    return Case(lambda ops, x: ops.times(x, x, NAME), Bounds({}, {}, {}, {NAME: bound}))


CASES = {
    **{
        f"{kind}, {form}, {most}": function(kind, most, form)
        for kind in ("gelu_tanh", "silu")
        for form in ("abs4", "abs8")
        for most in (15.0, 31.0)
    },
    **{f"elu, {most}": function("elu", most) for most in (15.0, 31.0)},
    **{f"relu2, {most}": function("relu2", most) for most in (7.9, 31.0, 400.0)},
    **{f"a gate up to {bound}": gate(bound) for bound in (8.0, 30.0, 60.0, 900.0)},
    "a norm of a row": Case(
        lambda ops, x: ops.norm(x, replace(NORM, size=576), NAME),
        Bounds({}, {}, {NAME: NormBounds(90.0, (0.05, 9.0), 8.0)}),
        (1, 576),
    ),
    "a gate of a row": Case(
        lambda ops, x: ops.times(ops.function(x, "silu", NAME), x, NAME),
        Bounds({}, {NAME: (-15.0, 15.0)}, {}, {NAME: 200.0}),
        (1, 1536),
    ),
    **{
        f"a norm of heads {shape}": Case(
            lambda ops, x: ops.norm(x, replace(NORM, size=x_size(x)), NAME),
            Bounds({}, {}, {NAME: NormBounds(8.0, (0.05, 9.0), 2.0)}),
            shape,
        )
        for shape in ((4, 64, 64), (8, 128, 32), (3, 40, 32), (7, 300, 16))
    },
}


def x_size(x: Any) -> int:
    return int(x.shape[-1])


@pytest.fixture(scope="module")
def session() -> Iterator[tuple[Party, Party]]:
    """Yields two parties whose keys, which are sent once, are there."""
    with shared.prepared(5_000_000) as parties:
        measured(parties, CASES["a gate of a row"])
        yield parties


def measured(session: tuple[Party, Party], case: Case) -> tuple[int, int, float]:
    """(bytes both ways, transfers used, chance of a wrong result)."""
    known = shared.Known(case.formats, case.bounds, case.shape[-2])
    x = shared.shared(np.full(case.shape, 0.5), 64, 30)

    def look() -> tuple[int, int, float]:
        party = session[0]
        cots = party.native.cots()
        return (
            party.cost["bytes_sent"] + party.cost["bytes_received"],
            cots["used_as_sender"] + cots["used_as_receiver"],
            2.0**party.native.failure_log2,
        )

    def run() -> None:
        def work(party: Party) -> None:
            client = party is session[0]
            weights = None if client else shared.Weights({})
            ops = shared.SharedTensors(party.native, replace(known, weights=weights))
            ops.share(case.step(ops, ops.enters(x[0 if client else 1])))

        shared.both(session, work)

    before = look()
    run()
    bytes_, transfers, chance = (after - start for after, start in zip(look(), before, strict=True))
    return int(bytes_), int(transfers), chance


@pytest.mark.parametrize("name", CASES)
def test_an_operation_costs_what_is_counted(session: tuple[Party, Party], name: str) -> None:
    """Bytes to a fifth, transfers to a half; the chance of a failure is an upper bound."""
    case = CASES[name]
    ops, x = counting(case.formats, case.bounds, case.shape)
    assert case.step(ops, x).shape == case.shape
    told = cost(ops)
    sent, used, chance = measured(session, case)
    assert told.sent() / 8 == pytest.approx(sent, rel=0.2)
    assert told.transfers == pytest.approx(used, rel=0.5)
    assert chance <= 2.0 ** failure_log2(told.responses) <= 40 * chance


def test_positions_inside_an_attention_cost_nothing() -> None:
    def bits(*, rotary: bool, relative: bool, reach: Reach) -> float:
        ops, x = counting(Formats(), Bounds({NAME: AttentionBounds((-9.0, 9.0), 4.0)}, {}, {}), HEADS)
        x = ops.turn(x, Rotary(1e4)) if rotary else x
        scores = ops.scores(x, x, NAME)
        scores = ops.biased(scores, Relative("t", 8, 4), NAME) if relative else scores
        ops.mix(ops.softmax(scores, NAME, reach), x, NAME)
        return cost(ops).sent()

    plain = bits(rotary=False, relative=False, reach=(None, None))
    assert bits(rotary=True, relative=True, reach=(8, 8)) == plain
