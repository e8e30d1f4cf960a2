"""How long a client may take, how many texts a key serves, and how a client is refused."""

from __future__ import annotations

import pytest
from random_checkpoint import make_random_checkpoint

from tacita.planning.request import PlanRequest
from tacita.two_party.limits import LONGEST_SAFE, limits_of, texts_of_a_key
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.refusal import Reason, Refusal

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]


def test_refusals_are_words_of_our_own() -> None:
    assert str(Refusal(Reason.FULL, 4).error()) == "the server is full (4 sessions)"
    assert "1 text of one client" in str(Refusal(Reason.CLIENT, 1).error())
    assert Refusal(99, 1).error().reason == 0


def test_limits_follow_the_estimate() -> None:
    small, large = (
        make_two_party_plan(make_random_checkpoint(), PlanRequest(tokens=tokens, texts=TEXTS))
        for tokens in (16, 64)
    )
    usual, longer = (limits_of(plan, bits_per_second=1e9) for plan in (small, large))
    assert usual.text < longer.text
    assert limits_of(small, bits_per_second=1e6).text - usual.text == pytest.approx(
        10 * 8 * small.predicted_bytes() * (1e-6 - 1e-9)
    )
    assert limits_of(small, bits_per_second=1e9, crowding=8.0).text - 60 == pytest.approx(
        8 * (usual.text - 60)
    )
    assert usual.queue >= small.predicted_bytes() / small.config.layers
    assert usual.part(10**8) == usual.handshake + 100.0
    assert limits_of(small, bits_per_second=8e6).part(10**8) == pytest.approx(1010.0)


def test_a_key_serves_fewer_texts_the_more_an_answer_carries() -> None:
    assert [texts_of_a_key(outputs) for outputs in (1, 2, LONGEST_SAFE, 384)] == [127, 63, 1, 1]
    bits, coefficients = 32 * 2 * texts_of_a_key(2), 8192 * 147 / 214
    assert bits / 1.585 + coefficients <= 8192  # what answers may carry, and what must stay unknown
