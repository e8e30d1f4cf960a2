"""Documents of the server that two parties search: the nearest alone, their scores, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.documents import with_documents
from tacita.checkpoint.reference import reference
from tacita.errors import FileError, InputError
from tacita.planning.request import PlanRequest
from tacita.texts.vectors import Index, Search
from tacita.two_party.arithmetic.residues import reduced
from tacita.two_party.arithmetic.text_steps import nearest, none_of
from tacita.two_party.plan.check import check
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.program import decode, encode
from tacita.two_party.program.sizes import MAX_DOCUMENTS
from tacita.two_party.server import TwoPartyServer

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad film", "is it a good plot"]
ENCODER = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True, seed=7)
COUNT, K, TOKENS = 500, 10, 12
RNG = np.random.default_rng(11)


def searching(count: int = COUNT) -> Checkpoint:
    """The encoder with so many random documents behind it."""
    vectors = RNG.normal(size=(count, ENCODER.config.hidden))
    return with_documents(ENCODER, Index(ENCODER.name, "", ("",) * count, vectors))


def plan_of(model: Checkpoint, **fields: Any) -> TwoPartyPlan:
    return make_two_party_plan(model, PlanRequest(tokens=TOKENS, texts=TEXTS, **fields))


@pytest.fixture(scope="module")
def model() -> Checkpoint:
    return searching()


@pytest.fixture(scope="module")
def plan(model: Checkpoint) -> TwoPartyPlan:
    return plan_of(model)


def floats(model: Checkpoint, text: str) -> np.ndarray:
    return reference(model, *embed(model, text, TOKENS)).logits


def agrees(answer: Search, wanted: np.ndarray, error: float) -> bool:
    """Whether the documents are the float model's nearest, but for those that are nearer to the last than the
    error, with its scores."""
    found = {int(each.label): each.score for each in answer.scores}
    least = np.sort(wanted)[-K]
    near = all(wanted[number] > least - 2 * error for number in found)
    sure = set(np.flatnonzero(wanted > least + 2 * error).tolist()) <= set(found)
    scores = all(abs(wanted[number] - score) < error for number, score in found.items())
    return near and sure and scores and len(found) >= K


@pytest.mark.parametrize("backend", ["plain", "sim"])
def test_in_the_clear_the_same_documents_are_told(
    backend: str, model: Checkpoint, plan: TwoPartyPlan
) -> None:
    answer = api.classify_locally(plan, model, TEXTS[0], backend=backend)
    assert isinstance(answer, Search) and agrees(answer, floats(model, TEXTS[0]), 0.01)
    assert len(answer.logits) == len(answer.scores) == K


def test_of_few_documents_and_by_wish_all_scores_are_told(model: Checkpoint) -> None:
    for plan in (plan_of(searching(K)), plan_of(model, nearest=0), plan_of(model, nearest=COUNT)):
        assert plan.nearest == plan.program.nearest == 0
        assert not any(step.op == "nearest" for step in plan.program.steps)
    assert b'"nearest"' not in plan_of(model, nearest=0).to_bytes()
    with pytest.raises(InputError, match="nearest -1"):
        PlanRequest(nearest=-1)


def test_a_program_survives_the_wire_and_a_model_has_no_product_opened(plan: TwoPartyPlan) -> None:
    """Scores that are compared must not be masked for a client as those that it learns are."""
    assert decode(encode(plan.program)) == plan.program and plan.program.nearest == K
    last = [step for step in plan.program.steps if step.op == "linear"][-1]
    assert last.parameters["outputs"] == COUNT and not last.parameters["opened"]


def test_the_search_is_counted_before_it_runs(model: Checkpoint, plan: TwoPartyPlan) -> None:
    everything, some = plan_of(model, nearest=0).program.cost(), plan.program.cost()
    assert some.bits - everything.bits == some.search > 0 == everything.search
    assert some.rounds > 0 == everything.rounds
    assert plan_of(searching(2 * COUNT)).program.cost().search > 1.5 * some.search


def wrong_steps(program: Any, **parameters: Any) -> Any:
    last = replace(program.steps[-1], parameters={**program.steps[-1].parameters, **parameters})
    return replace(program, steps=(*program.steps[:-1], last))


@pytest.mark.parametrize(
    "parameters", [{"count": 0}, {"count": -1}, {"count": COUNT}, {"ring": 3}, {"ring": 64}, {"ring": 20}]
)
def test_a_client_refuses_a_search_that_fits_nothing(plan: TwoPartyPlan, parameters: Any) -> None:
    assert plan.program.steps[-1].parameters["ring"] != parameters.get("ring")
    with pytest.raises(FileError):
        decode(encode(wrong_steps(plan.program, **parameters)))


def test_a_client_refuses_a_search_whose_documents_have_no_labels(plan: TwoPartyPlan) -> None:
    """The nearest are told by theirs, behind the whole protocol."""
    with pytest.raises(FileError, match="nearest"):
        decode(encode(replace(plan.program, labels=())))


def test_what_no_search_has_is_refused(model: Checkpoint, plan: TwoPartyPlan) -> None:
    with pytest.raises(FileError, match="nearest"):
        check(replace(plan, nearest=COUNT))
    classifier = make_random_checkpoint(layers=1)
    with pytest.raises(FileError, match="nearest"):
        check(replace(plan_of(classifier), nearest=1))
    with pytest.raises(InputError, match=f"at most {MAX_DOCUMENTS}"):
        searching(MAX_DOCUMENTS + 1)
    many = searching(4097)
    with pytest.raises(InputError, match="ciphertexts score at most 4096"):
        api.plan(many, tokens=16, preset="insecure_toy_n10", texts=TEXTS)
    assert plan_of(many).program.nearest == K


native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
shared = pytest.importorskip("test_two_party_shares")


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with shared.prepared() as parties:
        yield parties


def kept(session: Any, x: np.ndarray, ring: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """What both parties have together, and what the server has of it."""
    halves = shared.shared(x[None].astype(np.float64), ring, 0)
    ours, theirs = shared.both(
        session, lambda party: nearest(party.native, halves[0 if party is session[0] else 1], k)
    )
    total = reduced(ours + theirs, ring)[0].astype(np.int64)
    return np.where(total >> (ring - 1), total - (1 << ring), total), theirs[0]


@pytest.mark.native
@pytest.mark.parametrize("ring", [4, 9, 17, 24])
@pytest.mark.parametrize("k", [1, 7, 99])
def test_the_largest_stay_exactly(session: Any, ring: int, k: int) -> None:
    """All that equal the last of them too, of which small rings have many, and the ends of the range."""
    half = 1 << (ring - 2)
    x = np.concatenate([RNG.integers(-half + 1, half, 98), [half - 1, 1 - half]])
    found, _ = kept(session, x, ring, k)
    assert np.array_equal(found, np.where(x >= np.sort(x)[-k], x, none_of(ring)))


@pytest.mark.native
def test_the_servers_share_tells_nothing_of_who_stays(session: Any) -> None:
    """The share of the same numbers is another each time, and is even over the ring: that of numbers that
    stay and that of the others."""
    ring, x = 12, np.repeat([5, -5], 4000)
    found, theirs = kept(session, x, ring, 4000)
    assert np.array_equal(found, np.where(x > 0, x, none_of(ring)))
    _, again = kept(session, x, ring, 4000)
    assert np.count_nonzero(theirs == again) < 30  # 2 by chance
    for part in (theirs[:4000], theirs[4000:]):
        counts = np.bincount((part >> np.uint64(ring - 4)).astype(int), minlength=16)
        assert np.sum((counts - 250.0) ** 2 / 250.0) < 50  # chi-square, 15 degrees: 1e-5


def asked(plan: TwoPartyPlan, model: Checkpoint, texts: list[str]) -> tuple[list[Any], dict[str, float]]:
    """The answers of one session, and what the client sent and received in it."""

    def work(party: Any) -> list[Any]:
        if not party.native.is_client:
            served = TwoPartyServer(plan, model).session(party)
            assert served.problem is None and served.texts == len(texts)
            return []
        client = shared.TwoPartyClient(party, shared.Nothing())
        answers = [client.classify(text) for text in texts]
        client.end()
        return answers

    with shared.pair(timeout=180.0) as parties:
        return shared.both(parties, work)[0], parties[0].cost


@pytest.mark.native
def test_two_parties_find_what_floats_find(model: Checkpoint, plan: TwoPartyPlan) -> None:
    """And exchange as much, in as many rounds, whatever is asked."""
    runs = [asked(plan, model, texts) for texts in (TEXTS[:2], TEXTS[2:4])]
    for text, answer in zip(TEXTS, (*runs[0][0], *runs[1][0]), strict=False):
        assert isinstance(answer, Search) and agrees(answer, floats(model, text), 0.01)
        assert answer.trusted and K <= len(answer.logits) == len(answer.scores) < K + 3
    assert runs[0][1] == runs[1][1]
