"""How many messages of a text wait for one another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tacita import api, compiled
from tacita.client.store import PublicCache
from tacita.two_party.protocol.party import Party

pytestmark = pytest.mark.native
HOP = 250.0  # seconds of one message, on a clock that nobody waits for: a run's own seconds vanish beside it
TOKENS = 128


def test_the_longest_chain_of_messages_of_a_text(tmp_path: Path) -> None:
    """Finds the chain on a link where only waiting takes time. It was 628 messages of the default model, and
    383 rounds were counted; a round that is counted is a message there and one back."""
    model = api.load(api.DEFAULT_MODEL)
    plan = api.plan(model, scheme="bumblebee", tokens=TOKENS)
    link = (1e15, 2 * HOP)
    client, server = map(Party, compiled.native.two_party_pair(timeout=120.0, link=link, simulate=True))
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(api.TwoPartyServer(plan, model).session, server)
        asking = api.TwoPartyClient(client, PublicCache(tmp_path))
        waited, rounds = client.native.skipped_seconds, client.native.rounds
        asking.classify("a film of quiet beauty")
        chain = round((client.native.skipped_seconds - waited) / HOP)
        rounds = client.native.rounds - rounds
        asking.end()
        assert serving.result().problem is None
    assert chain <= 2 * rounds <= 2 * 165, (chain, rounds)
