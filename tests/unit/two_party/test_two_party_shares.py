"""One party of the real thing beside the simulation: every operation, then whole models, both
parties in two threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import bert_by_hand
import numpy as np
import pytest
from eager import SIMULATED, Known, SharedTensors, run_plan
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.blocks.base import Dense, Norm, Relative, Rotary
from tacita.blocks.floats import FUNCTIONS, FloatTensors
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.planning.request import PlanRequest
from tacita.texts.embed import tokenize
from tacita.two_party.arithmetic.base import BUMPED, AttentionBounds, Bounds, Formats, NormBounds
from tacita.two_party.arithmetic.residues import Share, from_floats, reconstruct, reduced
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.model import simulation
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.cost import failure_log2
from tacita.two_party.protocol.party import Party, pair
from tacita.two_party.server import TwoPartyServer

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(getattr(native, "TwoParty", None), "softmax_parts"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

FORMATS = Formats()
TOKENS, REAL = 8, 5
MASK = (np.arange(TOKENS) < REAL).astype(np.float64)
RNG = np.random.default_rng(5)
UNIT = 2.0**-FORMATS.fraction

Session = tuple[Party, Party]
Step = Callable[[Any, Any], Any]  # (operations, inputs of this interpreter) -> a tensor


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One session, set up once: its messages keep their order as long as every test finishes."""
    with prepared() as parties:
        yield parties


@contextmanager
def prepared(reserve: int = 0) -> Iterator[Session]:
    """Two parties that have set up, with so many transfers each way in reserve."""
    with pair(timeout=180.0) as parties:
        both(parties, lambda party: party.set_up())
        if reserve:
            both(parties, lambda party: party.native.reserve_cots(reserve, reserve))
        yield parties


def both(parties: Session, work: Callable[[Party], Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(work, party) for party in parties]
        for future in as_completed(running):  # the first failure, not the wait of the other for it
            future.result()
        return [future.result() for future in running]


def shared(x: np.ndarray, ring: int, fraction: int) -> tuple[Share, Share]:
    whole = np.rint(np.ldexp(x, fraction)).astype(np.int64).view(np.uint64)
    mask = reduced(RNG.integers(0, 1 << 64, x.shape, np.uint64), ring)
    return Share(reduced(whole - mask, ring), ring, fraction), Share(mask, ring, fraction)


def bounds(attention: Any = None, function: Any = None, norm: Any = None) -> Bounds:
    """Of a single node, n."""
    return Bounds({"n": attention}, {"n": function}, {"n": norm})


NOTHING = Known(FORMATS, bounds(), TOKENS)


def run(
    session: Session,
    step: Callable[[SharedTensors, list[Any]], Any],
    *inputs: tuple[Share, Share],
    known: Known = NOTHING,
) -> np.ndarray:
    """The opened result of one operation. known: of the server; the client has the mask in place of the
    weights."""

    def work(party: Party) -> Share:
        client = party is session[0]
        ops = SharedTensors(party.native, replace(known, weights=None, mask=MASK) if client else known)
        return ops.share(step(ops, [ops.enters(given[0 if client else 1]) for given in inputs]))

    ours, theirs = both(session, work)
    assert (ours.ring, ours.fraction) == (theirs.ring, theirs.fraction)
    return reconstruct(ours, theirs.values)


def fixed(
    step: Callable[[SharedTensors, list[Any]], Any],
    *inputs: np.ndarray,
    fraction: int,
    known: Known = NOTHING,
) -> np.ndarray:
    """The same by a simulation."""
    ops = SharedTensors(SIMULATED, replace(known, mask=MASK))
    return ops.floats(step(ops, [ops.enters(from_floats(x, fraction, 64)) for x in inputs]))


MAP = Dense("d", 24, 10)


def mapped() -> Known:
    tensors = {"d.weight": RNG.normal(size=(10, 24)), "d.bias": RNG.normal(size=10)}
    return Known(FORMATS, bounds(), TOKENS, Weights(tensors))


def test_a_sum(session: Session) -> None:
    """Of what products left: more fraction bits than tensors between blocks have."""
    x, y = RNG.normal(size=(2, TOKENS, 24))
    found = run(session, lambda ops, t: ops.add(*t), shared(x, 64, 30), shared(y, 64, 18))
    assert np.abs(found - (x + y)).max() < 4 * UNIT


def test_linear_with_a_sum(session: Session) -> None:
    known, step = mapped(), lambda ops, t: ops.linear(t[0], (MAP,), add=t[1])
    x, y = RNG.normal(size=(TOKENS, 24)), RNG.normal(size=(TOKENS, 10))
    found = run(session, step, shared(x, 64, 18), shared(y, 64, 18), known=known)
    expected = fixed(step, x, y, fraction=18, known=known)
    assert np.abs(found - expected).max() < 2 * UNIT


def test_a_tensor_from_a_small_ring_is_extended_first(session: Session) -> None:
    known, step = mapped(), lambda ops, t: ops.linear(t[0], (MAP,))
    x = RNG.normal(size=(3, 24))
    found = run(session, step, shared(x, 32, 26), known=known)
    expected = fixed(step, x, fraction=26, known=known)
    assert np.abs(found - expected).max() < 64 * UNIT  # a unit of x, 24 times


@pytest.mark.parametrize("rows", [1, TOKENS])
def test_attention(session: Session, rows: int) -> None:
    q, k, v = (RNG.normal(size=(n, 12)) for n in (rows, TOKENS, TOKENS))

    known = Known(FORMATS, bounds(AttentionBounds((-12.0, 12.0), 4.0)), TOKENS)

    def step(ops: Any, t: list[Any]) -> Any:
        q, k, v = (ops.heads(x, 2) for x in t)
        return ops.merge(ops.mix(ops.softmax(ops.scores(q, k, "n"), "n"), v, "n"))

    found = run(session, step, *(shared(x, 64, 30) for x in (q, k, v)), known=known)
    expected = fixed(step, q, k, v, fraction=30, known=known)
    assert found.shape == (rows, 12)
    assert np.abs(found - expected).max() < 2e-3


@pytest.mark.parametrize("form", ["abs4", "abs8"])
@pytest.mark.parametrize("kind", BUMPED)
def test_activations_with_a_bump(session: Session, kind: str, form: str) -> None:
    """Over all of a range of 16: as fixed up to the rounding, and within the stated error of floats."""
    x = np.concatenate([RNG.uniform(-15.9, 15.9, (3, 64)), [np.linspace(-11.0, 11.0, 64)]])
    known = Known(replace(FORMATS, gelu=form), bounds(function=(-15.9, 15.9)), TOKENS)
    step = lambda ops, t: ops.function(t[0], kind, "n")  # noqa: E731
    found = run(session, step, shared(x, 64, 30), known=known)
    expected = fixed(step, x, fraction=30, known=known)
    assert np.abs(found - expected).max() < (3e-3 if form == "abs4" else 1e-3)  # at the thresholds
    assert np.abs(found - FUNCTIONS[kind](x)).max() < (3e-3 if form == "abs4" else 1e-3)


def test_elu(session: Session) -> None:
    """The values go from below the bound where the exponential is 0 to above zero, and around thresholds."""
    x = np.concatenate([np.linspace(*ends, 128) for ends in ((-15.9, 15.9), (-10.6, -10.4), (-0.1, 0.1))])
    known = Known(FORMATS, bounds(function=(-15.9, 15.9)), TOKENS)
    step = lambda ops, t: ops.function(t[0], "elu", "n")  # noqa: E731
    found = run(session, step, shared(x[None], 64, 30), known=known)
    assert np.abs(found - fixed(step, x[None], fraction=30, known=known)).max() < 1e-3
    assert np.abs(found - FUNCTIONS["elu"](x[None])).max() < 1.5e-3


def test_squares(session: Session) -> None:
    x = np.linspace(-15.9, 11.9, 200)[None]
    known = Known(FORMATS, bounds(function=(-15.9, 11.9)), TOKENS)
    step = lambda ops, t: ops.function(t[0], "relu2", "n")  # noqa: E731
    found = run(session, step, shared(x, 64, 30), known=known)
    expected = fixed(step, x, fraction=30, known=known)
    assert (np.abs(found - expected) < 2.0**-11 * np.maximum(x, 1.0) + 2.0**-10).all()


@pytest.mark.parametrize("bound", [30.0, 900.0])
def test_a_gate(session: Session, bound: float) -> None:
    """One plaintext prime, and two."""
    x, y = (RNG.uniform(-1.0, 1.0, (TOKENS, 24)) * np.sqrt(bound) for _ in range(2))
    known = Known(FORMATS, replace(bounds(), gates={"n": bound}), TOKENS)
    step = lambda ops, t: ops.times(*t, "n")  # noqa: E731
    found = run(session, step, shared(x, 64, 18), shared(y, 64, 30), known=known)
    expected = fixed(step, x, y, fraction=30, known=known)
    assert np.abs(found - expected).max() < 2.0**-12 * 2 * np.sqrt(bound) + 2.0**-11
    assert np.abs(found - x * y).max() < 2.0**-11 * 2 * np.sqrt(bound)


@pytest.mark.parametrize("fraction", [18, 30])
def test_turns_are_local(session: Session, fraction: int) -> None:
    """What a linear map left, and what a norm did: no byte, and no extension before the scores' ring."""
    x, rotary = RNG.normal(size=(3, TOKENS, 8)) * 50.0, Rotary(10_000.0)
    before = session[0].cost["bytes_sent"]
    found = run(session, lambda ops, t: ops.turn(t[0], rotary), shared(x, 64, fraction))
    assert session[0].cost["bytes_sent"] == before
    expected = fixed(lambda ops, t: ops.turn(t[0], rotary), x, fraction=fraction)
    wanted = FloatTensors(Weights({}), MASK).turn(x, rotary)
    assert np.abs(found - expected).max() < 4 * UNIT
    assert np.abs(found - wanted).max() < 400.0 * 2.0**-13


def test_attention_with_positions_inside(session: Session) -> None:
    """Turned, moved by a table that the server knows, and within a window: queries of padding among them."""
    q, k, v = (RNG.normal(size=(TOKENS, 12)) for _ in range(3))
    tensors = {"t": RNG.normal(size=(8, 3))}
    known = Known(FORMATS, bounds(AttentionBounds((-12.0, 12.0), 4.0)), TOKENS, Weights(tensors))

    def step(ops: Any, t: list[Any]) -> Any:
        q, k, v = (ops.heads(x, 3) for x in t)
        q, k = (ops.turn(x, Rotary(100.0)) for x in (q, k))
        scores = ops.biased(ops.scores(q, k, "n"), Relative("t", 8, 4), "n")
        return ops.merge(ops.mix(ops.softmax(scores, "n", (1, 0)), v, "n"))

    found = run(session, step, *(shared(x, 64, 30) for x in (q, k, v)), known=known)
    expected = fixed(step, q, k, v, fraction=30, known=known)
    assert np.abs(found - expected).max() < 2e-3
    floats = FloatTensors(Weights(tensors), MASK)
    assert np.abs((found - step(floats, [q, k, v]))[:REAL]).max() < 6e-3


def test_a_norm_of_heads_without_mean(session: Session) -> None:
    x = (RNG.normal(size=(3, TOKENS, 8)) + 1.0) * RNG.uniform(0.5, 2.0, (3, TOKENS, 1))
    known = Known(
        FORMATS,
        bounds(norm=NormBounds(12.0, (0.05, 16.0), 2.0)),
        TOKENS,
        Weights({"n.weight": RNG.normal(1.0, 0.1, 8)}),
    )
    norm = Norm("n", 8, 1e-6, centred=False, beta=False)
    step = lambda ops, t: ops.norm(t[0], norm, "n")  # noqa: E731
    found = run(session, step, shared(x, 64, 30), known=known)
    assert found.shape == x.shape
    assert np.abs(found - fixed(step, x, fraction=30, known=known)).max() < 5e-4
    assert np.abs(found - FloatTensors(known.weights, MASK).norm(x, norm, "n")).max() < 5e-4


@pytest.mark.parametrize("kind", ["gelu", "relu"])
def test_activations(session: Session, kind: str) -> None:
    x = np.concatenate([RNG.uniform(-7.9, 7.9, (3, 64)), [np.linspace(-4.0, 4.0, 64)]])
    known = Known(FORMATS, bounds(function=(-7.9, 7.9)), TOKENS)
    found = run(session, lambda ops, t: ops.function(t[0], kind, "n"), shared(x, 64, 30), known=known)
    expected = fixed(lambda ops, t: ops.function(t[0], kind, "n"), x, fraction=30, known=known)
    assert np.abs(found - expected).max() < (3e-3 if kind == "gelu" else 3 * UNIT)  # at the thresholds


def test_tanh(session: Session) -> None:
    x = np.linspace(-7.9, 7.9, 33)[None]
    known = Known(FORMATS, bounds(function=(-7.9, 7.9)), TOKENS)
    found = run(session, lambda ops, t: ops.function(t[0], "tanh", "n"), shared(x, 64, 30), known=known)
    assert np.abs(found - np.tanh(x)).max() < 2e-3


@pytest.mark.parametrize("rows", [1, TOKENS])
def test_norm(session: Session, rows: int) -> None:
    x = RNG.normal(size=(rows, 24)) * RNG.uniform(0.5, 2.0, (rows, 1))
    tensors = {"n.weight": RNG.normal(1.0, 0.1, 24), "n.bias": RNG.normal(size=24)}
    known = Known(FORMATS, bounds(norm=NormBounds(12.0, (0.05, 9.0), 2.0)), TOKENS, Weights(tensors))
    norm = Norm("n", 24, 1e-12)
    found = run(session, lambda ops, t: ops.norm(t[0], norm, "n"), shared(x, 64, 30), known=known)
    expected = fixed(lambda ops, t: ops.norm(t[0], norm, "n"), x, fraction=30, known=known)
    assert np.abs(found - expected).max() < 5e-4


def test_mean_of_the_real_rows(session: Session) -> None:
    x = RNG.normal(size=(TOKENS, 12))
    found = run(session, lambda ops, t: ops.mean(t[0], "n"), shared(x, 64, 18))
    np.testing.assert_allclose(found, x[None, :REAL].mean(axis=1), atol=2.0**-13)


def answers(
    session: Session, plan: TwoPartyPlan, checkpoint: Checkpoint, text: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(by shares, by fixed, by float)."""
    hidden, mask = embed(checkpoint, text, plan.tokens)

    def work(party: Party) -> Any:
        client = party is session[0]
        return run_plan(plan, party, hidden, **({"mask": mask} if client else {"model": checkpoint}))

    simulated = simulation(plan, Weights(checkpoint.tensors), mask)
    expected = simulated.floats(hidden)[0]
    assert not simulated.overflows
    return both(session, work)[0][0], expected, reference(checkpoint, hidden, mask).logits


def test_an_opened_mean_is_the_mean_and_takes_more_bytes(session: Session) -> None:
    """Three primes instead of two hide the noise: see `opened_products_hide_their_noise` in
    crates/bfv/src/matmul/tests.rs."""
    x = RNG.normal(size=(TOKENS, 16))
    sent = []
    for flag in (False, True):
        before = session[0].cost["bytes_sent"]
        found = run(session, lambda ops, t, flag=flag: ops.mean(t[0], "n", opened=flag), shared(x, 64, 18))
        sent.append(session[0].cost["bytes_sent"] - before)
        np.testing.assert_allclose(found[0], x[:REAL].mean(axis=0), atol=1e-3)
    assert sent[1] > 1.2 * sent[0]


@pytest.mark.parametrize(("pooling", "activation"), [("pooler", "gelu"), ("cls", "gelu"), ("mean", "relu")])
def test_a_random_model(session: Session, pooling: str, activation: str) -> None:
    checkpoint = make_random_checkpoint(pooling=pooling, activation=activation)
    text = "the plot is never boring"
    plan = make_two_party_plan(checkpoint, PlanRequest(tokens=12, texts=[text, "a fine film"]))
    by_shares, by_fixed, by_float = answers(session, plan, checkpoint, text)
    assert np.abs(by_shares - by_fixed).max() < 0.01
    assert np.abs(by_shares - by_float).max() < 0.03


def test_the_default_model(session: Session) -> None:
    checkpoint = api.load(api.DEFAULT_MODEL)
    text = "a film of quiet beauty"
    plan = make_two_party_plan(
        checkpoint,
        PlanRequest(tokens=16, texts=[text, "a waste of time", "it is neither good nor bad , only long"]),
    )
    both(session, lambda party: party.native.reserve_cots(1_000_000, 1_000_000))
    before = sum(session[0].cost[name] for name in ("bytes_sent", "bytes_received"))
    chance, other = (2.0**party.native.failure_log2 for party in session)
    by_shares, by_fixed, by_float = answers(session, plan, checkpoint, text)
    sent = sum(session[0].cost[name] for name in ("bytes_sent", "bytes_received")) - before
    assert sent == pytest.approx(plan.predicted_bytes(), rel=0.25)  # with the price of transfers
    chance = 2.0 ** session[0].native.failure_log2 - chance
    assert chance == pytest.approx(2.0 ** session[1].native.failure_log2 - other)
    assert (
        2.0 ** (failure_log2(plan.program.cost().responses) - 4)
        < chance
        <= 2.0 ** failure_log2(plan.program.cost().responses)
    )
    assert np.abs(by_shares - by_fixed).max() < 0.005
    assert np.abs(by_shares - by_float).max() < 0.01


@pytest.mark.parametrize(
    ("pooling", "normalise"), [("pooler", False), ("cls", False), ("cls", True), ("mean", True)]
)
def test_a_session_gives_the_embedding_as_defined(pooling: str, normalise: bool) -> None:
    """Greeting, public part, one text: the client learns from the plan how a vector is pooled, and normalises
    it itself."""
    checkpoint = make_random_checkpoint(layers=1, labels=(), pooling=pooling, normalise=normalise)
    plan, text = (
        make_two_party_plan(checkpoint, PlanRequest(tokens=8, texts=["a fine film", "the plot is dull"])),
        "a fine film",
    )
    ids, config = tokenize(checkpoint, text)[0], checkpoint.config
    options = {"heads": config.heads, "layers": config.layers, "pooling": pooling, "normalise": normalise}
    wanted = bert_by_hand.embedding(checkpoint.tensors, ids, **options)
    with pair(timeout=180.0) as parties:
        client, server = parties

        def work(party: Party) -> Any:
            if party is server:
                return TwoPartyServer(plan, checkpoint).session(party)
            asking = TwoPartyClient(client, Nothing())
            answer = asking.classify(text)
            asking.end()
            return answer

        answer, served = both(parties, work)
    assert served.texts == 1 and served.problem is None
    assert answer.label is None and answer.warnings == ()
    assert np.abs(np.array(answer.logits) - wanted).max() < 0.03
    if normalise:
        assert np.linalg.norm(answer.logits) == pytest.approx(1.0, abs=0.01)


class Nothing:
    """A cache that keeps no public part."""

    def get(self, digest: bytes) -> bytes | None:
        return None

    def put(self, digest: bytes, data: bytes) -> None:
        return None
