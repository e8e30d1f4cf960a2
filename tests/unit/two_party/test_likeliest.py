"""The k likeliest on shares: the others fall, exactly; tokens are drawn of them by their weights; what it
costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from test_decoders_fixed import MODELS, plan_of

from tacita.plans.commitment import LINKS
from tacita.texts.answer import softmax
from tacita.texts.generation import Choice
from tacita.two_party.arithmetic.base import CHOICE_FRACTION, choice_ring
from tacita.two_party.arithmetic.residues import reconstruct
from tacita.two_party.arithmetic.text_steps import NOISE_SPREAD, keep_likeliest, marks, settled
from tacita.two_party.plan.generation_cost import GenerationCost
from tacita.two_party.program.cost import likeliest_bits, likeliest_rounds
from tacita.two_party.protocol.party import Party

pytestmark = pytest.mark.native
shared = pytest.importorskip("test_two_party_shares")
writing = pytest.importorskip("tacita.two_party.writing")
Session = tuple[Party, Party]
UNIT = 2.0**-CHOICE_FRACTION
WORDS, K, TEMPERATURE, DRAWS = 12, 5, 0.7, 300


@dataclass(frozen=True)
class Model:
    """What is asked of a plan to choose a token."""

    bound: float
    vocab: int


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with shared.prepared() as parties:
        yield parties


def spread(session: Session, x: np.ndarray, k: int, bound: float, fall: float) -> np.ndarray:
    """What is left of numbers when all but the k largest have fallen."""
    halves = shared.shared(x[None], choice_ring(bound + fall), CHOICE_FRACTION)
    ours, theirs = shared.both(
        session,
        lambda party: keep_likeliest(party.native, halves[0 if party is session[0] else 1], k, bound, fall),
    )
    return np.asarray(reconstruct(ours, theirs.values)[0])


def drawn(session: Session, logits: np.ndarray, answer: float, count: int, *chance: Any) -> list[int]:
    """So many tokens by a temperature and a top_k."""
    model, halves = Model(answer, logits.size), shared.shared(logits[None], 64, 30)

    def work(party: Party) -> list[int]:
        client, found = party is session[0], []
        writer = writing.Writer(party.native, model, None if client else object())
        for _ in range(count):
            chosen = writer.choose(halves[0 if client else 1], *chance)
            found.append(writer.learn(chosen) if client else writer.tell(chosen))
        return found

    return list(shared.both(session, work)[0])


def scores(logits: np.ndarray, temperature: float, top_k: int, chance: np.random.Generator) -> np.ndarray:
    """Logits with the chance that the server takes from these bytes, of the k largest alone."""
    bits = np.frombuffer(chance.bytes(8 * logits.size), np.uint64) >> np.uint64(11)
    noise = -np.log(-np.log((bits + 0.5) * 2.0**-53))
    return np.where(logits >= np.sort(logits)[-top_k], logits + temperature * noise, -np.inf)


@pytest.mark.parametrize("bound", [0.5, 20.0, 33.0])  # of an odd and of an even number of bits
@pytest.mark.parametrize("count", [3, 12, 64, 65])
def test_all_but_the_largest_fall(session: Session, count: int, bound: float) -> None:
    """At the ends of the range too."""
    rng = np.random.default_rng(count)
    x = np.rint(rng.uniform(-bound, bound, count) / UNIT) * UNIT
    x[:2] = bound - UNIT, -bound
    for k in {1, 2, count // 2, count - 1, count}:
        wanted = np.where(x >= np.sort(x)[-k], x, x - 2.0)
        assert np.array_equal(spread(session, x, k, bound, 2.0), wanted), k


def test_what_equals_the_last_stays_too(session: Session) -> None:
    x = np.array([1.0, 3.0, -2.0, 3.0, 3.0, 3.0 - UNIT, 4.0])
    for k, stay in ((1, 1), (2, 4), (3, 4), (4, 4), (5, 5), (6, 6)):
        assert (spread(session, x, k, 8.0, 1.0) == x).sum() == stay
    assert np.array_equal(spread(session, np.full(9, -0.25), 4, 8.0, 1.0), np.full(9, -0.25))


def test_tokens_are_drawn_of_the_likeliest_by_their_weights(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is the one that the server's bytes say; together they are spread as those of `Choice`: a
    chi-square of 4 degrees of freedom is above 50 once in 10^9."""
    logits = np.random.default_rng(3).uniform(-2.0, 2.0, WORDS)
    monkeypatch.setattr(writing, "token_bytes", np.random.default_rng(4).bytes)
    found, chance = drawn(session, logits, 8.0, DRAWS, TEMPERATURE, K), np.random.default_rng(4)
    for token in found:
        sums = scores(logits, TEMPERATURE, K, chance)
        assert sums[token] > sums.max() - 4 * UNIT
    best, source = np.argsort(-logits)[:K], np.random.default_rng(5)
    in_floats = {Choice(TEMPERATURE, K).of(logits, source) for _ in range(DRAWS)}
    assert set(found) == set(best.tolist()) == in_floats
    seen = np.array([Counter(found)[token] for token in best.tolist()])
    wanted = DRAWS * softmax(logits[best] / TEMPERATURE)
    assert ((seen - wanted) ** 2 / wanted).sum() < 50.0


@pytest.mark.parametrize("temperature", [0.001, 8.0])
def test_no_chance_brings_back_what_fell(
    session: Session, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """The most that chance can give to the two that fell, and the least to the two that stay."""
    logits = np.array([1.0, 1.0 - 2 * UNIT, 1.0 - 4 * UNIT, -1.0])
    ends = np.array([0, 0, 2**64 - 2**12, 2**64 - 2**12], np.uint64)
    monkeypatch.setattr(writing, "token_bytes", lambda count: ends.tobytes()[:count])
    assert set(drawn(session, logits, 2.0, 4, temperature, 2)) <= {0, 1}
    assert set(drawn(session, logits, 2.0, 4, temperature)) <= {2, 3}


def test_of_all_of_one_and_at_no_temperature_nothing_is_looked_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = np.random.default_rng(6).uniform(-2.0, 2.0, WORDS)

    def told(*chance: Any) -> tuple[list[int], int]:
        monkeypatch.setattr(writing, "token_bytes", np.random.default_rng(7).bytes)
        before = session[0].native.rounds
        return drawn(session, logits, 8.0, 6, *chance), session[0].native.rounds - before

    free, likeliest = told(1.5), [int(logits.argmax())] * 6
    assert told(1.5, WORDS) == told(1.5, WORDS + 5) == free
    for chance in ((1.5, 1), (0.0, 3), (0.0, 0)):
        assert told(*chance)[0] == likeliest
    assert told(1.5, 1)[1] == told(0.0, 3)[1] == told()[1] < told(1.5, 3)[1]
    assert settled(0.0, 5, 9) == settled(2.0, 1, 9) == (0.0, 0)
    assert settled(2.0, 9, 9) == settled(2.0, 0, 9) == (2.0, 0) and settled(2.0, 8, 9) == (2.0, 8)


@pytest.mark.parametrize("ring", [12, 13, 16, 17, 20])
def test_marks_reach_every_number_of_the_range(ring: int) -> None:
    most = sum(above[-1] for _, above in marks(ring))
    assert most == (1 << (ring - 1)) - 1 and [weight for weight, _ in marks(ring)][-1] == 1


@pytest.mark.parametrize(("count", "answer"), [(2048, 20.0), (5000, 9.0)])
def test_what_is_counted_is_what_is_sent(session: Session, count: int, answer: float) -> None:
    """To a fifth, although transfers were made before; and the same whatever the numbers are, and k."""
    ring, wide = choice_ring(answer), choice_ring(answer + NOISE_SPREAD)

    def sent(x: np.ndarray, k: int) -> tuple[int, int]:
        party = session[0]
        before = party.cost["bytes_sent"] + party.cost["bytes_received"], party.native.rounds
        halves = shared.shared(x[None], wide, CHOICE_FRACTION)
        shared.both(
            session,
            lambda p: keep_likeliest(p.native, halves[0 if p is party else 1], k, answer, NOISE_SPREAD),
        )
        after = party.cost["bytes_sent"] + party.cost["bytes_received"], party.native.rounds
        return int(after[0] - before[0]), after[1] - before[1]

    shared.both(session, lambda party: party.native.reserve_cots(4_000_000, 4_000_000))
    found = sent(np.random.default_rng(8).uniform(-answer, answer, count), 40)
    assert found == sent(np.zeros(count), 2)
    assert likeliest_bits(count, ring, wide) / 8 == pytest.approx(found[0], rel=0.2)
    assert likeliest_rounds(ring) == pytest.approx(found[1], rel=0.25)


def test_what_is_said_before_a_prompt_counts_it() -> None:
    plan = plan_of(MODELS["two"]).program
    free, some = GenerationCost.of(plan, 16, 0.8), GenerationCost.of(plan, 16, 0.8, 5)
    wide = choice_ring(plan.bound + 0.8 * NOISE_SPREAD)
    more = int(likeliest_bits(plan.vocab, choice_ring(plan.bound), wide) / 8)
    for before, after in zip(free.bytes(), some.bytes(), strict=True):
        assert after - before == pytest.approx(more, abs=1)
    waits = likeliest_rounds(choice_ring(plan.bound)) * LINKS["WAN"].round_trip
    for before, after in zip(free.seconds(LINKS["WAN"]), some.seconds(LINKS["WAN"]), strict=True):
        assert after - before > waits
    for chance in ((0.0, 5), (0.8, plan.vocab)):
        assert GenerationCost.of(plan, 16, *chance).bytes() == GenerationCost.of(plan, 16, chance[0]).bytes()
    assert GenerationCost.of(plan, 16, 0.8, 1).bytes() == GenerationCost.of(plan, 16).bytes()
