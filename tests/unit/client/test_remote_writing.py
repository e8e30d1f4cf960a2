"""Texts that a service's model writes: connections that break, readers that leave, several texts at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_decoder_folders import LLAMA, WORDS, written
from tiny_decoders import llama

import tacita
from tacita.client.calls import Meter, Report, in_thread
from tacita.client.connected import Connected
from tacita.client.keys import Owner
from tacita.client.requests import Ciphertexts
from tacita.errors import FileError, InputError, PlanError
from tacita.planning.circuit import require_model
from tacita.plans.answers import Answer
from tacita.plans.check import check
from tacita.plans.plan import parse
from tacita.plans.public_folder import public_of
from tacita.plans.wire import Offer
from tacita.progress import Progress
from tacita.schemes.two_parties import Address, dialled, listening
from tacita.texts.answer import withhold_failed
from tacita.texts.embed import tokenize
from tacita.texts.generation import NONE, Choice, Next, TextOptions, Token
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Party
from tacita.two_party.server import TwoPartyServer

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PROMPT, COUNT = "a film of quiet beauty", 6
TEXTS = ["a film of quiet beauty", "the plot is time", "of quiet"]


class Opened:
    """A server of a decoder, and the connections that a session made to it."""

    def __init__(self, folder: Path, address: Address, plan: TwoPartyPlan) -> None:
        self.folder, self.address, self.plan = folder, address, plan
        self.parties, self.stack = list[Party](), ExitStack()

    def dial(self) -> Party:
        self.parties.append(self.stack.enter_context(dialled(self.address, threads=1)))
        return self.parties[-1]

    async def session(self, prepared: int = 0) -> Connected:
        plan = self.plan
        counts = {"batch": 1, "tokens": plan.tokens, "seconds": 1.0, "traffic_bytes": 1}
        offer = Offer(scheme=plan.scheme, plan=plan.hash, connected=True, **counts)
        return await in_thread(lambda _: Connected(self.dial, offer, self.folder / "cache", prepared))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoder")
    return written(
        llama(), folder, LLAMA | {"tie_word_embeddings": False}, {WORDS: "embed_tokens.weight"}, "model."
    )


@pytest.fixture
def opened(model: Path, tmp_path: Path) -> Iterator[Opened]:
    plan = tacita.plan(tacita.load(model), scheme="bumblebee", tokens=24, texts=TEXTS)
    with listening(TwoPartyServer(plan, tacita.load(model)), threads=1) as address:
        made = Opened(tmp_path, address, plan)
        with made.stack:
            yield made


def text(session: Connected, meter: Meter | None = None) -> AsyncGenerator[Token, None]:
    return session.generate(PROMPT, TextOptions(COUNT), meter or Meter(), lambda now: None)


def test_a_broken_connection_costs_no_token(opened: Opened, model: Path) -> None:
    async def tokens() -> tuple[list[int], Meter]:
        session, meter, found = await opened.session(), Meter(), list[int]()
        async for token in text(session, meter):
            found.append(token.id)
            if len(found) in (1, 4):
                opened.parties[-1].close()
        await session.close()
        return found, meter

    found, meter = asyncio.run(tokens())
    assert found == [token.id for token in tacita.generate(PROMPT, model=model, max_tokens=COUNT)]
    assert len(opened.parties) == 3
    assert meter.sent > 0 and meter.received > 0


def test_a_connection_serves_one_text_after_the_other_and_two_take_two(opened: Opened) -> None:
    """A reader that leaves ends its text and no more."""

    async def asked() -> None:
        session = await opened.session()
        left = text(session)
        first = (await anext(left)).id
        await left.aclose()
        one, other = text(session), text(session)
        assert (await anext(one)).id == first and len(opened.parties) == 1
        assert (await anext(other)).id == first and len(opened.parties) == 2
        assert [token.id async for token in one] == [token.id async for token in other]
        assert (await anext(text(session))).id == first and len(opened.parties) == 2
        await session.close()

    asyncio.run(asked())


def test_two_parties_write_the_texts_of_a_batch_one_after_the_other(opened: Opened) -> None:
    """Over one connection; one that does not fit is refused before any is begun."""

    async def texts(*prompts: str) -> list[tuple[int, int]]:
        session = await opened.session()
        tokens = session.generate_batch(prompts, TextOptions(2), Meter(), lambda now: None)
        found = [(number, token.id) async for number, token in tokens]
        await session.close()
        return found

    alone = [list(asyncio.run(texts(prompt))) for prompt in (PROMPT, TEXTS[2])]
    together = asyncio.run(texts(PROMPT, TEXTS[2]))
    assert together == [*alone[0], *((1, token) for _, token in alone[1])] and len(opened.parties) == 3
    for prompts, why in [((PROMPT, "film " * 30), "a prompt of 32 tokens"), ((), "no prompts")]:
        with pytest.raises(InputError, match=why):
            asyncio.run(texts(*prompts))


def test_a_text_that_is_cancelled_in_a_step_leaves_room_for_the_next(opened: Opened) -> None:
    async def asked() -> None:
        session, steps = await opened.session(), list[str]()
        loop, stepping = asyncio.get_running_loop(), asyncio.Event()

        def report(now: Progress) -> None:
            steps.append(now.stage)
            loop.call_soon_threadsafe(stepping.set)

        tokens = session.generate(PROMPT, TextOptions(COUNT), Meter(), report)
        step = asyncio.ensure_future(anext(tokens))
        await stepping.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert len([token async for token in text(session)]) == COUNT
        await session.close()

    asyncio.run(asked())


def test_a_text_goes_on_no_further_once_its_session_is_closed(opened: Opened) -> None:
    async def asked() -> None:
        session = await opened.session()
        tokens = text(session)
        await anext(tokens)
        await session.close()
        with pytest.raises(InputError, match="was closed"):
            await anext(tokens)

    asyncio.run(asked())


def test_a_session_prepares_while_nothing_is_asked(opened: Opened) -> None:
    """The text that comes takes it, and the next is prepared behind it."""

    async def asked() -> None:
        session, meter = await opened.session(prepared=1), Meter()
        await session.prepare(Meter(), lambda now: None)
        assert session._resting[0].ready == 1
        tokens = text(session, meter)
        await anext(tokens)
        assert session._all.pop().ready == 0
        assert len([token async for token in tokens]) == COUNT - 1
        assert session._ahead is not None
        await session._ahead
        assert session._resting[0].ready == 1
        opened.parties[-1].close()
        assert len([token async for token in text(session)]) == COUNT  # over a connection that has none
        await session.close()

    asyncio.run(asked())


def test_a_plan_that_writes_no_texts_is_refused_before_anything_is_sent(model: Path) -> None:
    """The client refuses an earlier server, whose folder names no end tokens, one that would keep rows, and
    chance where it gets the token alone."""
    how: dict[str, Any] = {"scheme": "thor", "tokens": 16, "preset": "insecure_toy_n11", "texts": TEXTS}
    loaded, chance = tacita.load(model), TextOptions(2, choice=Choice(temperature=0.5))
    plan = tacita.plan(loaded, **how)
    alone = tacita.plan(loaded, reveal="token", gap=0.02, **how)
    assert plan.ends == () == alone.ends
    silent = replace(plan, model=replace(plan.model, ends=None))
    for refused, options, why in [
        (silent, TextOptions(2), "does not say which tokens end a text"),
        (replace(plan, kept=plan.request), TextOptions(2), "keeps rows of a text"),
        (alone, chance, "temperature or top_k without logits"),
    ]:
        public = public_of(refused, loaded)
        owner = SimpleNamespace(client=SimpleNamespace(plan=public.plan, public=public), offer=None)
        session = Ciphertexts(cast(Owner, owner), signer="")
        with pytest.raises(InputError, match=why) as error:
            asyncio.run(anext(session.generate(PROMPT, options, Meter(), lambda now: None)))
        assert error.value.hint


@pytest.mark.parametrize(("anyway", "second"), [(False, [NONE]), (True, [7, 7])])
def test_a_token_that_is_not_sound_ends_its_text_alone(
    model: Path, monkeypatch: pytest.MonkeyPatch, anyway: bool, second: list[int]
) -> None:
    """It is withheld unless it is to be shown; the reports count the requests that may still come."""
    loaded, asked, reports = tacita.load(model), list[int](), list[Progress]()
    plan = tacita.plan(loaded, scheme="thor", tokens=16, preset="insecure_toy_n11", texts=TEXTS)
    prompts = [TEXTS[0], TEXTS[2]]
    short = len(tokenize(loaded, prompts[1])[0])

    async def ask(self: Ciphertexts, meter: Meter, report: Report, hidden_states: Any) -> list[Answer]:
        asked.append(len(hidden_states))
        report(Progress("layer", 0, 4, 0.0, 1.0))
        logits = tuple(float(word == 7) for word in range(loaded.config.vocab))
        trusted = [not short <= len(text) <= short + 1 for text in hidden_states]
        return [withhold_failed(Next(None, logits, (), trusted=each)) for each in trusted]

    async def ready(*_: Any) -> str:
        return "key"

    monkeypatch.setattr(Ciphertexts, "_ask", ask)
    monkeypatch.setattr(Ciphertexts, "_ready", ready)
    public, offer = public_of(plan, loaded), SimpleNamespace(seconds=5.0, request_bytes=1, response_bytes=1)
    channel = SimpleNamespace(patience=SimpleNamespace(clock=lambda: 0.0))
    client = SimpleNamespace(plan=public.plan, public=public)
    session = Ciphertexts(
        cast(Owner, SimpleNamespace(client=client, offer=offer, channel=channel)), signer=""
    )
    options = TextOptions(2, show_anyway=anyway)

    async def written() -> list[list[int]]:
        texts: list[list[int]] = [[], []]
        async for number, token in session.generate_batch(prompts, options, Meter(), reports.append):
            texts[number].append(token.id)
        return texts

    assert asyncio.run(written()) == [[7, 7], second]
    counts = [(now.index, now.total, now.left) for now in reports]
    last = [(2, 4, 6.0), (3, 4, 1.0)] if anyway else [(2, 3, 1.0)]
    assert counts == [(0, 4, 20.0), (0, 4, 16.0), (1, 4, 11.0), *last] and len(asked) == 2 + len(last)


def test_a_plan_without_end_tokens_still_serves_its_model(model: Path) -> None:
    """One that a release of before has made."""
    loaded = tacita.load(model)
    plan = tacita.plan(loaded, scheme="thor", tokens=16, preset="insecure_toy_n11", texts=TEXTS)
    old = replace(plan, model=replace(plan.model, ends=None))
    assert '"ends"' not in old.to_text() and '"ends": []' in plan.to_text()
    assert parse(old.to_text(), "old", old.salt).ends is None
    require_model(old, loaded)
    with pytest.raises(PlanError, match="ends of the model"):
        require_model(replace(plan, model=replace(plan.model, ends=(7,))), loaded)
    for ends in ((loaded.config.vocab,), (-1,), tuple(range(17))):
        with pytest.raises(FileError, match=r"ends|end a text"):
            check(replace(plan, model=replace(plan.model, ends=ends)))
