"""How many messages of a text, and of a token that is written, wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tacita import api, compiled
from tacita.client.store import PublicCache
from tacita.data import DEFAULT_DECODER
from tacita.plans.commitment import LINKS
from tacita.two_party.client import GenerationClient
from tacita.two_party.protocol.party import Party

pytestmark = pytest.mark.native
HOP = 250.0  # seconds of one message, on a clock that nobody waits for: a run's own seconds vanish beside it
TOKENS = 128
MOST = {"LAN": (160, 33.0), "WAN": (141, 31.0), "FAR": (125, 31.5)}  # rounds and megabytes over each link


class Count(NamedTuple):
    """What was taken so far: the longest chain of messages, rounds, bytes both ways."""

    chain: int
    rounds: int
    bytes: int

    def since(self, before: Count) -> Count:
        """Returns what came after `before`."""
        return Count(*(now - then for now, then in zip(self, before, strict=True)))


@contextmanager
def served(model: Any, tokens: int, folder: Path) -> Iterator[tuple[Any, Callable[[], Count]]]:
    """Makes a client on a link where only waiting takes time, and what counts so far."""
    plan = api.plan(model, scheme="bumblebee", tokens=tokens)
    link = (1e15, 2 * HOP)
    client, server = map(Party, compiled.native.two_party_pair(timeout=120.0, link=link, simulate=True))

    def count() -> Count:
        native = client.native
        chain = round(native.skipped_seconds / HOP)
        return Count(chain, native.rounds, native.bytes_sent + native.bytes_received)

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(api.TwoPartyServer(plan, model).session, server)
        asking = api.TwoPartyClient(client, PublicCache(folder))
        yield asking, count
        asking.end()
        assert serving.result().problem is None


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Count]:
    """Counts a text of the default model over each link."""
    each = {}
    with served(api.load(api.DEFAULT_MODEL), TOKENS, tmp_path_factory.mktemp("public")) as (asking, count):
        asking.classify("a film of quiet beauty")  # keys of the session
        for name, speed in {"none": None, **LINKS}.items():
            if speed is not None:
                asking.adapt(speed)
            before = count()
            asking.classify("a film of quiet beauty")
            each[name] = count().since(before)
    return each


def test_the_longest_chain_of_messages_of_a_text(counts: dict[str, Count]) -> None:
    """It was 628 messages of the default model, and 383 rounds were counted; a round that is counted is a
    message there and one back."""
    assert counts["none"].chain <= 2 * counts["none"].rounds <= 2 * 141, counts


def test_rounds_and_bytes_follow_the_link(counts: dict[str, Count]) -> None:
    """A fast link takes more bytes for less work, a long one more bytes for fewer rounds."""
    rounds = {name: count.rounds for name, count in counts.items()}
    assert rounds["FAR"] < rounds["WAN"] < rounds["LAN"], counts
    assert counts["none"].bytes < min(counts["FAR"].bytes, counts["LAN"].bytes), counts
    for name, (most, megabytes) in MOST.items():
        assert counts[name].rounds <= most and counts[name].bytes < 1e6 * megabytes, counts


def test_the_longest_chain_of_messages_of_a_token(tmp_path: Path) -> None:
    """Finds the chains of a prompt of 16 tokens and of the third token behind it, for which nothing has to be
    prepared. They were 642 and 578 before one row's 1/sqrt took segments and v grew with its squares,
    and 556 and 492 before squares went beside comparisons."""
    taken = []
    with served(api.load(DEFAULT_DECODER), 32, tmp_path) as (asking, count):
        dictation, given = GenerationClient(asking, 4), list(range(300, 316))
        for _ in range(4):
            before = count()
            given = [dictation.next(given)]
            taken.append(count().since(before))
    assert all(one.chain <= 2 * one.rounds for one in taken), taken
    assert taken[0].chain <= 486 and taken[2].chain <= 418, taken
