"""A client has a text written by a server, over TLS: its tokens, its end, its chances, and connections that
break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from test_decoders_fixed import ERROR, MODELS, plan_of
from test_writing import PROMPT, greedy
from tiny_decoders import logits

import tacita
from tacita.client.store import PublicCache
from tacita.errors import GoneError, InputError, PeerError, RefusedError
from tacita.planning.request import PlanRequest
from tacita.schemes.two_parties import Address, dialled, listening
from tacita.texts.embed import tokenize
from tacita.two_party import sessions
from tacita.two_party.client import GenerationClient, TwoPartyClient, padded_slots
from tacita.two_party.limits import Admission, Limits
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.run import Past, Prepared
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.handshake import GenerateRequest
from tacita.two_party.server import TwoPartyServer
from tacita.two_party.writing import Writer

MODEL = MODELS["two"]
WANTED = greedy(MODEL, 8)


@contextmanager
def served(tmp_path: Path, name: str = "two") -> Iterator[Any]:
    """Makes clients of one server."""
    address: Address
    with listening(TwoPartyServer(plan_of(MODELS[name]), MODELS[name]), threads=1) as address:
        opened = []

        def client() -> TwoPartyClient:
            opened.append(dialled(address, threads=1))
            return TwoPartyClient(opened[-1].__enter__(), PublicCache(tmp_path))

        try:
            yield client
        finally:
            for each in opened:
                each.__exit__(None, None, None)


def tokens_of(dictation: GenerationClient, count: int) -> list[int]:
    """So many, greedily."""
    found = [dictation.next(PROMPT)]
    while len(found) < count:
        found.append(dictation.next([found[-1]]))
    return found


@pytest.mark.parametrize("name", ["two", "gpt2"])
def test_a_server_writes_what_floats_say(tmp_path: Path, name: str) -> None:
    with served(tmp_path, name) as client:
        assert tokens_of(GenerationClient(client(), 8), 8) == greedy(MODELS[name], 8)


def test_a_text_may_end_early_and_another_follows(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        one = client()
        first = GenerationClient(one, 8)
        assert tokens_of(first, 2) == WANTED[:2]
        first.end()
        second = GenerationClient(one, 3)
        assert tokens_of(second, 3) == WANTED[:3]
        second.end()  # all tokens of the wish are there: nothing is said


def test_tokens_by_chance_are_those_of_their_weights(tmp_path: Path) -> None:
    """At a low temperature the likeliest; at a high one others too, all of the vocabulary."""
    with served(tmp_path) as client:
        assert tokens_of(GenerationClient(client(), 4, temperature=0.001), 4) == WANTED[:4]
    with served(tmp_path) as client:
        one = client()
        found = set()
        for _ in range(6):
            dictation = GenerationClient(one, 1, temperature=8.0)
            found.add(dictation.next(PROMPT))
        assert len(found) > 1
        assert all(0 <= token < 41 for token in found)


def test_tokens_of_the_likeliest_alone(tmp_path: Path) -> None:
    """At a temperature at which all others would come too; over a connection that breaks, as well."""
    few, ids = 3, list(PROMPT)
    with served(tmp_path) as client:
        first = client()
        dictation = GenerationClient(first, 8, 8.0, few, again=client)
        for number in range(8):
            if number == 4:
                first.party.close()
            given = logits(MODEL, ids)[-1]
            ids.append(dictation.next([ids[-1]]) if number else dictation.next(PROMPT))
            assert given[ids[-1]] > np.sort(given)[-few] - 2 * ERROR
    with served(tmp_path) as client:
        one = client()
        assert tokens_of(GenerationClient(one, 4, 8.0, 1), 4) == WANTED[:4]
        assert tokens_of(GenerationClient(one, 4, 0.0, few), 4) == WANTED[:4]
        assert GenerationClient(one, 1, 0.5, 1000)._chance == (0.5, 0)
        with pytest.raises(InputError, match="top_k -1"):
            GenerationClient(one, 1, 0.5, -1)


@pytest.mark.parametrize("step", [1, 3])
def test_a_broken_connection_costs_no_token(tmp_path: Path, step: int) -> None:
    """The one that breaks before the server has told a token, and the one that breaks behind it."""
    with served(tmp_path) as client:
        first = client()
        dictation = GenerationClient(first, 8, again=client)
        found = tokens_of(dictation, step)
        first.party.close()
        while len(found) < 8:
            found.append(dictation.next([found[-1]]))
        assert found == WANTED


@pytest.mark.parametrize("known", [2, 7])
def test_a_connection_that_breaks_in_a_token_costs_none_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    """The server has told the token, the last of the text as well; the client did not learn it, and goes
    back."""
    with served(tmp_path) as client:
        first = client()
        dictation = GenerationClient(first, 8, again=client)
        found = tokens_of(dictation, known)
        learn, broken = dictation._writer.learn, []  # type: ignore[union-attr]

        def lost(chosen: Any) -> int:
            learn(chosen)
            broken.append(first.party.close())
            raise GoneError("the connection broke")

        monkeypatch.setattr(dictation._writer, "learn", lost)
        while len(found) < 8:
            found.append(dictation.next([found[-1]]))
        assert broken and found == WANTED


@pytest.mark.parametrize("place", ["greeting", "set-up", "prepare"])
def test_a_connection_that_breaks_again_in_the_same_token_costs_none(tmp_path: Path, place: str) -> None:
    """Before the server is asked, before the client is told the new key of the text, and behind it."""
    with served(tmp_path) as client:
        made = [client()]

        def again() -> TwoPartyClient:
            made.append(client())
            if place == "greeting" and len(made) == 2:
                raise GoneError("the connection broke")
            return made[-1]

        def watch(step: str) -> None:
            if step == place and len(made) == 2:
                made[-1].party.close()

        dictation = GenerationClient(made[0], 8, again=again, watch=watch)
        found = tokens_of(dictation, 3)
        made[0].party.close()
        while len(found) < 8:
            found.append(dictation.next([found[-1]]))
        assert found == WANTED and len(made) == 3


def test_a_text_is_forgotten_once_its_last_token_is_known(tmp_path: Path) -> None:
    """Which the server sees from what the client asks next."""
    with served(tmp_path) as client:
        one = client()
        first = GenerationClient(one, 2)
        found = tokens_of(first, 2)
        GenerationClient(one, 1).next(PROMPT)
        first._again, first._left = client, 1
        one.party.close()
        with pytest.raises(RefusedError, match="no longer has"):
            first.next([found[-1]])


def test_a_token_may_take_longer_than_a_text_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks at the end of such a token leaves as much time as any other."""
    now, link, enter = [0.0], MagicMock(), MagicMock()
    made = sessions.GenerationSessions(None, None, Past(), lambda: now[0])  # type: ignore[arg-type]
    request, limits = GenerateRequest(1, 4, held=3, key=b"k" * 16), Limits(2.0 * sessions.KEPT_SECONDS, 1)
    made._keep(request.key, sessions.Text(Past(3), 2, 4, now[0]))

    class Slow(Writer):
        def read(self, *_: Any, **__: Any) -> Any:
            now[0] = limits.text
            raise GoneError("the connection broke")

    monkeypatch.setattr(sessions, "Writer", Slow)
    monkeypatch.setattr(sessions, "token_bytes", lambda count: b"n" * count)
    monkeypatch.setattr(handshake, "more_wanted", lambda link: True)
    opened = made.open(request)
    assert isinstance(opened, sessions.Text)
    with pytest.raises(GoneError):
        made.serve(link, request, opened, enter, limits, lambda step: None, Admission(), Prepared())
    follows = replace(request, key=b"n" * 16)
    assert made.refusal(follows) is None
    now[0] += sessions.KEPT_SECONDS + 1.0
    assert made.refusal(follows) == sessions.FORGOTTEN


def test_without_another_connection_the_error_is_told(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        first = client()
        dictation = GenerationClient(first, 8)
        dictation.next(PROMPT)
        first.party.close()
        with pytest.raises(PeerError):
            dictation.next([WANTED[0]])


def test_a_key_serves_once_and_a_text_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path) as client:
        first = client()
        dictation = GenerationClient(first, 8, again=client)
        found = tokens_of(dictation, 2)
        key = dictation._key
        first.party.close()
        found.append(dictation.next([found[-1]]))
        assert found == WANTED[:3]
        for _ in range(2):
            stolen = GenerationClient(client(), 6, again=client)
            stolen._key, stolen._past, stolen._mask = key, dictation._past, dictation._mask
            with pytest.raises(RefusedError, match="no longer has"):
                stolen.next([found[-1]])
            monkeypatch.setattr(
                sessions.GenerationSessions, "refusal", lambda *_: None
            )  # where both ask at the same time
        monkeypatch.setattr(sessions, "KEPT_SECONDS", 0)
        dictation._client.party.close()
        with pytest.raises(RefusedError, match="no longer has"):
            dictation.next([found[-1]])


def test_texts_whose_connection_broke_are_bounded_in_bytes_and_by_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, rows = [0.0], np.zeros((1, 50, 1), np.uint64)
    monkeypatch.setattr(sessions, "MOST_BYTES", 4000)
    made = sessions.GenerationSessions(None, None, Past(), lambda: now[0])  # type: ignore[arg-type]

    def keep(client: str, number: int) -> GenerateRequest:
        key = bytes([number]) * 16
        made._keep(key, sessions.Text(Past(3, (rows, rows)), 2, 4, now[0], client))
        return GenerateRequest(1, 4, held=3, key=key)

    bob, *alice = [keep("bob" if number == 1 else "alice", number) for number in range(1, 20)]
    assert made.refusal(bob) is None, "another's texts do not push it out"
    assert [made.refusal(wish) is None for wish in alice] == [False] * 14 + [True] * 4
    assert isinstance(made.open(bob), sessions.Text)
    now[0] = sessions.KEPT_SECONDS + 1.0
    assert made.open(alice[-1]) == sessions.FORGOTTEN == made.refusal(bob)


def test_a_prompt_is_padded_where_there_is_room() -> None:
    plan = plan_of(MODEL).program  # 32 tokens
    assert [padded_slots(plan, count, 8) for count in (1, 16, 17, 25)] == [16, 16, 25, 25]
    with pytest.raises(InputError, match="26 tokens and 8 behind it"):
        padded_slots(plan, 26, 8)


class Sent:
    """A link on which these bytes come."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def send(self, data: bytes) -> None:
        raise AssertionError

    def receive(self, count: int) -> bytes:
        assert count == len(self._data)
        return self._data


@pytest.mark.parametrize(
    "wish",
    [
        GenerateRequest(0, 4),
        GenerateRequest(4, 0),
        GenerateRequest(30, 4),
        GenerateRequest(5, 4, temperature=8.5),
        GenerateRequest(5, 4, temperature=0.5, top_k=42),
        GenerateRequest(5, 4, temperature=0.5, top_k=2**32 - 1),  # or -1
        GenerateRequest(5, 4, top_k=3),
        GenerateRequest(5, 4, temperature=0.0004, top_k=3),
        GenerateRequest(5, 4, held=3),
        GenerateRequest(5, 4, held=3, key=b"k" * 16),
        GenerateRequest(1, 4, key=b"k" * 16),
        GenerateRequest(1, 4, held=30, key=b"k" * 16),
        GenerateRequest(2**32 - 1, 2**32 - 1),
    ],
)
def test_wishes_that_do_not_fit_are_refused(wish: GenerateRequest) -> None:
    with pytest.raises(PeerError, match="the client asks for"):
        handshake.receive_request(Sent(wish.to_bytes()), plan_of(MODEL).program)


def test_a_wish_arrives_as_it_was_made() -> None:
    wish = GenerateRequest(1, 4, 0.75, 41, 9, bytes(range(16)))
    assert handshake.receive_request(Sent(wish.to_bytes()), plan_of(MODEL).program) == wish
    assert np.isclose(wish.temperature, 0.75)


def test_a_client_is_a_model_to_generate(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        one = client()
        found = list(tacita.generate("a film of quiet beauty", model=one, max_tokens=4))
        wanted = list(tacita.generate("a film of quiet beauty", model=MODEL, max_tokens=4))
        assert found == wanted
        again = list(tacita.generate("the plot is dull", model=one, max_tokens=3, temperature=0.001))
        greedy_tokens = tacita.generate("the plot is dull", model=MODEL, max_tokens=3)
        assert [t.id for t in again] == [t.id for t in greedy_tokens]  # gaps of logits: 0.46 at least
        drawn = list(tacita.generate("a film", model=one, max_tokens=3, temperature=0.8, top_k=2))
        assert len(drawn) == 3
        with pytest.raises(InputError, match="writes texts"):
            one.classify("a film")
        for options in ({"seed": 1}, {"backend": "sim"}, {"temperature": 9.0}):
            with pytest.raises(InputError):
                tacita.generate("a film", model=one, **options)


def test_a_server_may_hide_its_table_of_words(tmp_path: Path) -> None:
    texts = ["a film of quiet beauty", "the plot is dull", "a film of time", "the film of beauty"]
    wish = PlanRequest(scheme="bumblebee", tokens=32, texts=texts, embeddings="hidden")
    server = TwoPartyServer(make_two_party_plan(MODEL, wish), MODEL)
    with listening(server, threads=1) as address, dialled(address, threads=1) as party:
        dictation = GenerationClient(TwoPartyClient(party, PublicCache(tmp_path)), 3)
        assert dictation._client.part.tables == {}
        prompt = tokenize(MODEL, texts[0])[0]
        found = [dictation.next(prompt)]
        while len(found) < 3:
            found.append(dictation.next([found[-1]]))
    assert found == [token.id for token in tacita.generate(texts[0], model=MODEL, max_tokens=3)]


def test_a_key_that_another_client_used_up_costs_a_connection(tmp_path: Path) -> None:
    wish = PlanRequest(scheme="bumblebee", tokens=32, texts=["a film of quiet beauty"], embeddings="hidden")
    server = TwoPartyServer(make_two_party_plan(MODEL, wish), MODEL, most=1)
    with listening(server, threads=1) as address, ExitStack() as opened:

        def client() -> TwoPartyClient:
            party = opened.enter_context(dialled(address, threads=1))
            return TwoPartyClient(party, PublicCache(tmp_path))

        late = client()
        first = GenerationClient(client(), 1).next(PROMPT)
        with pytest.raises(RefusedError, match="has served its 1 text"):
            GenerationClient(late, 1).next(PROMPT)
        late = client()
        assert GenerationClient(client(), 1).next(PROMPT) == first
        assert GenerationClient(late, 1, again=client).next(PROMPT) == first
