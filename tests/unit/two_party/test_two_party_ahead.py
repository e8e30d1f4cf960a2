"""Products with weights that are made before a text is known: answers, bytes, bounds, use once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from service import TEXTS, make_server
from test_cli import run
from test_decoders_fixed import MODELS, plan_of
from test_generation_client import tokens_of
from test_two_party_shares import Nothing
from test_writing import greedy

from tacita.errors import PeerError
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.two_party.client import GenerationClient, TwoPartyClient
from tacita.two_party.limits import PREPARED, PREPARED_BYTES, Admission, Idle, limits_of
from tacita.two_party.plan.generation_cost import PreparedCost
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.party import Party, pair
from tacita.two_party.protocol.refusal import Reason, Refusal
from tacita.two_party.server import Served, TwoPartyServer

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
TEXT = TEXTS[0]


@dataclass
class Counting(Admission):
    """Counts what is asked of it. most: texts that it admits."""

    most: int = 99
    texts: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    client: str = ""
    tokens: int = 0

    def admit(self, tokens: int = 0) -> Refusal | None:
        self.asked["admit"] += 1
        return Refusal(Reason.CLIENT, self.most) if self.texts >= self.most else super().admit(tokens)

    def resume(self, tokens: int = 0) -> Refusal | None:
        self.asked["resume"] += 1
        return None


@contextmanager
def talking(server: TwoPartyServer, admission: Admission | None = None) -> Iterator[TwoPartyClient]:
    """A client of a session in a thread; what the session came to is checked at the end."""
    served: list[Served] = []
    with pair(timeout=60.0) as (ours, theirs):
        work = threading.Thread(target=lambda: served.append(server.session(theirs, admission=admission)))
        work.start()
        client = TwoPartyClient(ours, Nothing())
        try:
            yield client
            client.end()
        finally:
            ours.close()
            work.join()
    assert served[0].problem is None


def taken(party: Party, work: Callable[[], Any]) -> tuple[Any, int, int]:
    """What `work` returns, and the bytes of both directions and the rounds that it took."""
    before = party.cost
    result, now = work(), party.cost
    sent = sum(now[name] - before[name] for name in ("bytes_sent", "bytes_received"))
    return result, int(sent), int(now["rounds"] - before["rounds"])


def test_a_text_that_was_prepared_has_the_same_answer_for_fewer_bytes_and_rounds() -> None:
    server = make_server()
    cost, maps = PreparedCost.of(server.plan.program), server.plan.program.maps()
    with talking(server) as client:
        usual, once, rounds = taken(client.party, lambda: client.classify(TEXT))
        usual, once, rounds = taken(client.party, lambda: client.classify(TEXT))
        ready, before, _ = taken(client.party, lambda: client.prepare(2))
        assert ready == client.ahead.texts == 2
        answer, after, fewer = taken(client.party, lambda: client.classify(TEXT))
        assert client.ahead.texts == 1
        assert np.allclose(answer.logits, usual.logits, atol=0.005) and answer.label == usual.label
        assert rounds - len(maps) - 2 <= fewer < rounds and after < once - 0.85 * before / 2
        assert before / 2 == pytest.approx(cost.bytes()[0], rel=0.24)
        # a text in the middle of preparing takes the maps that are there, and the next one none
        client.classify(TEXT)
        assert client.ahead.texts == 0 and not client.ahead.any
        client.prepare_map()
        _, _, few = taken(client.party, lambda: client.classify(TEXT))
        _, _, none = taken(client.party, lambda: client.classify(TEXT))
        assert few <= none and abs(none - rounds) <= 2  # a refill may fall between two messages


def test_a_mask_serves_once() -> None:
    """What is taken is taken whole: no later text finds a row of it, and the engine has none left."""
    server = make_server()
    with talking(server) as client:
        client.prepare(2)
        first, second = client.ahead._texts
        client.classify(TEXT)
        assert [*client.ahead._texts] == [second] and client.ahead.take() is second
        assert not client.ahead.any and {one.left for one in first.linear.values()} == {0}
        assert {one.left for one in second.linear.values()} != {0}
        at = client.plan.maps()[0]
        with pytest.raises(native.TacitaError, match="1 rows asked for, 0 of the prepared are left"):
            row = np.zeros((1, at.read[1]), np.uint64)
            client.party.native.times_prepared(row, first.linear[at.number], None)
        client.ahead._texts.append(second)  # for the server has it still
        client.classify(TEXT)


def test_a_session_prepares_no_more_than_its_server_allows() -> None:
    with talking(make_server(prepared=1)) as client:
        assert client.prepare(9) == 1 and not client.prepare_map()
        client.classify(TEXT)
        assert client.prepare(9) == 1
    with talking(make_server(prepared=0)) as client:
        assert client.prepare(9) == 0
        assert client.classify(TEXT).label


def test_the_server_s_shares_of_what_it_prepares_are_bounded() -> None:
    plan = make_server().plan
    each = sum(8 * one.shape[0] * one.outputs for one in plan.program.maps())
    assert limits_of(plan, bits_per_second=1e9).prepared == PREPARED
    assert limits_of(plan, bits_per_second=1e9, prepared=10**6).prepared == PREPARED_BYTES // each


def test_a_text_counts_once_when_it_is_prepared() -> None:
    admission = Counting(most=2)
    with talking(make_server(), admission) as client:
        maps = len(client.plan.maps())
        client.prepare(2)
        assert admission.asked == {"admit": 2, "resume": 2 * (maps - 1)}
        client.classify(TEXT)
        client.classify(TEXT)
        assert admission.texts == 2 and admission.asked["admit"] == 2


def test_preparing_waits_for_the_texts_of_others() -> None:
    idle, over = Idle(), threading.Event()
    waiting = threading.Thread(target=lambda: (idle.wait(60.0), over.set()))
    with idle.text():
        waiting.start()
        idle.wait(0.0)  # returns although a text is under way
        assert not over.is_set()
    waiting.join()
    assert over.is_set()


def test_windows_follow_the_link() -> None:
    """A fast link takes more bytes of products for less work; both parties choose alike, or nothing would
    fit. What is prepared is products alone."""
    server = make_server()
    with talking(server) as client:
        usual = client.classify(TEXT)
        _, whole, _ = taken(client.party, lambda: client.classify(TEXT))
        _, at_100_mbit, _ = taken(client.party, lambda: client.prepare(1))
        client.adapt(LINKS["LAN"])
        _, fast, _ = taken(client.party, lambda: client.prepare(2))
        client.adapt(LINKS["FAR"])
        _, far, _ = taken(client.party, lambda: client.prepare(3))
        client.adapt(LinkSpeed(1e6, 0.1))
        _, slow, _ = taken(client.party, lambda: client.prepare(4))
        assert 0 < slow <= far <= at_100_mbit <= fast < whole
        client.adapt()  # as measured
        for _ in range(5):  # products that were prepared for another link serve as well
            assert np.allclose(client.classify(TEXT).logits, usual.logits, atol=0.005)


def test_the_least_of_a_few_round_trips_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 0.004, 1.0, 1.0005, 2.0, 2.009])  # 20 ms are spent with the third
    monkeypatch.setattr(handshake, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    sent: list[bytes] = []
    link: Any = SimpleNamespace(send=sent.append, receive=lambda count: handshake.ECHO)
    assert handshake.least_round_trip(link, 0.0066) == pytest.approx(0.0005)
    assert sent == 3 * [handshake.ECHO]
    assert handshake.least_round_trip(link, 0.08) == 0.08 and len(sent) == 3
    monkeypatch.undo()
    link.receive = lambda count: handshake.END
    with pytest.raises(PeerError, match="echo"):
        handshake.least_round_trip(link, 0.001)


def test_a_slow_link_takes_fewer_bytes_of_a_product() -> None:
    """Requests with gaps save merges: 0.48 MB in place of 0.24 where the link carries ten times as much."""
    sizes, sent = (128, 128, 128), dict[str, float]()
    weights = np.ones(sizes[1:], np.int64)
    with pair(timeout=60.0) as (client, server):

        def work(party: Party, matrix: Any) -> None:
            party.set_up()
            for link in LINKS:
                party.native.set_link(link.lower())
                before = party.cost["bytes_sent"]
                party.native.prepare_weights(matrix, sizes, 37)
                if matrix is None:
                    sent[link] = party.cost["bytes_sent"] - before

        other = threading.Thread(target=work, args=(server, weights))
        other.start()
        work(client, None)
        other.join()
    assert sent["LAN"] == pytest.approx(2 * sent["FAR"], rel=0.01)


def test_a_link_that_cannot_be_is_taken_for_the_next_that_can() -> None:
    sent: list[bytes] = []
    link: Any = SimpleNamespace(send=sent.append, receive=lambda count: b"".join(sent[1:]))
    ours = handshake.send_speed(link, LinkSpeed(1e30, 0.0))
    assert sent[0] == handshake.LINK and handshake.receive_speed(link) == ours == (1e12, 1e-6)
    sent[1:] = [bytes(8)]
    assert handshake.receive_speed(link) == (1e3, 1e-6)


@pytest.mark.parametrize("name", ["two", "gpt2"])
def test_a_prompt_that_was_prepared_is_gone_on_with_as_floats_say(name: str) -> None:
    server = TwoPartyServer(plan_of(MODELS[name]), MODELS[name])
    with talking(server) as client:
        usual = GenerationClient(client, 4)
        _, once, rounds = taken(client.party, lambda: tokens_of(usual, 1))
        usual.end()
        assert client.prepare(1) == 1
        text = GenerationClient(client, 4)
        found, after, fewer = taken(client.party, lambda: tokens_of(text, 1))
        assert after < once and fewer < rounds
        while len(found) < 4:
            found.append(text.next(found[-1:]))
        assert found == greedy(MODELS[name], 4)


def test_the_command_tells_what_came_before_the_texts_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACITA_NETWORK__PREPARED", "1")
    model = write_folder(make_random_checkpoint(layers=1), tmp_path / "model")
    report = tmp_path / "report.json"
    status, out, _ = run(
        *("classify", TEXT, TEXTS[1], "--model", str(model), "--scheme", "bumblebee", "--tokens", "16"),
        *("--json", str(report)),
    )
    assert status == 0 and "before the texts: " in out and "after them: " in out
    found = json.loads(report.read_text())
    before, after, together = (found[name] for name in ("before", "after", "together"))
    assert before["texts"] == after["texts"] == together["texts"] == 2
    for name in ("seconds", "bytes_sent", "bytes_received", "rounds"):
        assert before[name] > 0 and together[name] == pytest.approx(before[name] + after[name])
    assert after["bytes_sent"] == sum(row["bytes_sent"] for row in found["results"])
