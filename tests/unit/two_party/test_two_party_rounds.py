"""How many messages of a text, and of a token that is written, wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tacita import api, compiled
from tacita.client.store import PublicCache
from tacita.data import DEFAULT_DECODER
from tacita.two_party.client import GenerationClient
from tacita.two_party.protocol.party import Party

pytestmark = pytest.mark.native
HOP = 250.0  # seconds of one message, on a clock that nobody waits for: a run's own seconds vanish beside it
TOKENS = 128


@contextmanager
def served(model: Any, tokens: int, folder: Path) -> Iterator[tuple[Any, Callable[[], tuple[int, int]]]]:
    """Makes a client on a link where only waiting takes time, and what counts the messages of the longest
    chain so far, and the rounds."""
    plan = api.plan(model, scheme="bumblebee", tokens=tokens)
    link = (1e15, 2 * HOP)
    client, server = map(Party, compiled.native.two_party_pair(timeout=120.0, link=link, simulate=True))
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(api.TwoPartyServer(plan, model).session, server)
        asking = api.TwoPartyClient(client, PublicCache(folder))
        yield asking, lambda: (round(client.native.skipped_seconds / HOP), client.native.rounds)
        asking.end()
        assert serving.result().problem is None


def test_the_longest_chain_of_messages_of_a_text(tmp_path: Path) -> None:
    """Finds the chain of the default model. It was 628 messages, and 383 rounds were counted; a round that is
    counted is a message there and one back."""
    with served(api.load(api.DEFAULT_MODEL), TOKENS, tmp_path) as (asking, counts):
        waited, before = counts()
        asking.classify("a film of quiet beauty")
        chain, rounds = counts()
    assert chain - waited <= 2 * (rounds - before) <= 2 * 155


def test_the_longest_chain_of_messages_of_a_token(tmp_path: Path) -> None:
    """Finds the chains of a prompt of 16 tokens and of the third token behind it, for which nothing has to be
    prepared. They were 642 and 578 before one row's 1/sqrt took segments and v grew with its squares."""
    chains, rounds = [], []
    with served(api.load(DEFAULT_DECODER), 32, tmp_path) as (asking, counts):
        dictation, given = GenerationClient(asking, 4), list(range(300, 316))
        for _ in range(4):
            waited, before = counts()
            given = [dictation.next(given)]
            after, now = counts()
            chains.append(after - waited)
            rounds.append(now - before)
    assert all(chain <= 2 * count for chain, count in zip(chains, rounds, strict=True))
    assert chains[0] <= 556 and chains[2] <= 492
