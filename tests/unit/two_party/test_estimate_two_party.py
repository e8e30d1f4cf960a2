"""What `tacita estimate --scheme bumblebee` says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_decoders
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.app import main
from tacita.cli.estimate import show_estimate
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import LINKS
from tacita.plans.prices.cost import Prices
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.party import Party

TEXTS = ["a film of quiet beauty", "a waste of time"]


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(api.load(api.DEFAULT_MODEL), PlanRequest(tokens=128, texts=TEXTS))


@pytest.mark.native
@pytest.mark.parametrize(
    ("checkpoint", "tokens"),
    [
        (lambda: api.load(api.DEFAULT_MODEL), 32),
        (lambda: make_random_checkpoint(hidden=96, heads=4, ff=200), 40),
        (lambda: make_random_checkpoint(hidden=64, heads=2, ff=256, pooling="mean", activation="relu"), 48),
    ],
    ids=["default", "random", "random-mean-relu"],
)
def test_bytes_and_transfers_are_those_of_a_run(checkpoint: Callable[[], Checkpoint], tokens: int) -> None:
    """Counted in a session at shapes to which no constant was fitted: bytes within 12 %, transfers within 15
    %.

    Seconds have no test: they belong to a machine, and `bench two-party` measures them.
    """
    two_parties = pytest.importorskip("test_two_party_shares")
    found, text = checkpoint(), "the plot is never boring"
    plan = make_two_party_plan(found, PlanRequest(tokens=tokens, texts=[text, "a fine film"]))
    transfers = plan.program.cost().transfers
    with two_parties.prepared(int(transfers)) as session:  # in either direction, more than it takes
        before = counted(session[0])
        two_parties.answers(session, plan, found, text)
        sent, used = (after - start for after, start in zip(counted(session[0]), before, strict=True))
    assert sent == pytest.approx(plan.predicted_bytes(), rel=0.24)
    assert used == pytest.approx(transfers, rel=0.3)


def counted(party: Party) -> tuple[int, int]:
    """(bytes both ways, correlated transfers used) so far."""
    cots = party.native.cots()
    return party.cost["bytes_sent"] + party.cost["bytes_received"], cots["used_as_sender"] + cots[
        "used_as_receiver"
    ]


def test_weights_are_counted_once_for_every_row(plan: TwoPartyPlan) -> None:
    """First layer: 4 d^2 + 2 d w for 128 rows; last one: keys and values for all rows, the rest for one."""
    d, w = 128, 512
    layers = 128 * (4 * d * d + 2 * d * w) + (2 * 128 + 2) * d * d + 2 * d * w
    assert plan.program.cost().multiplications == layers + d * d + 2 * d  # pooler and classifier


def test_links_add_their_bytes_and_rounds(plan: TwoPartyPlan) -> None:
    here = plan.predicted_seconds()
    assert here < plan.predicted_seconds(LINKS["LAN"]) < plan.predicted_seconds(LINKS["WAN"])
    slow = dataclasses.replace(LINKS["LAN"], bits_per_second=1e6, round_trip=0.0)
    sent, usual = (plan.predicted_bytes(link) for link in (slow, LINKS["FAR"]))
    assert sent < usual == plan.predicted_bytes() < plan.predicted_bytes(LINKS["LAN"])
    assert plan.predicted_seconds(slow) - here > 8e-6 * sent  # fewer bytes, more work
    usual_link = dataclasses.replace(LINKS["FAR"], round_trip=0.0)
    assert plan.predicted_seconds(usual_link) - here == pytest.approx(8e-8 * usual)


def test_a_slower_machine_takes_longer_and_has_the_same_plan(plan: TwoPartyPlan) -> None:
    prices = Prices.shipped(16)
    assert prices is not None
    request = PlanRequest(tokens=128, texts=TEXTS, prices=dataclasses.replace(prices, pace=1.7))
    slow = make_two_party_plan(api.load(api.DEFAULT_MODEL), request)
    assert slow.pace == 1.7 and slow.to_bytes() == plan.to_bytes()
    assert slow.predicted_seconds() == pytest.approx(1.7 * plan.predicted_seconds())
    link = LINKS["FAR"]  # whose windows are those of no link
    sent = plan.predicted_seconds(link) - plan.predicted_seconds()
    assert slow.predicted_seconds(link) - slow.predicted_seconds() == pytest.approx(sent)


@pytest.mark.parametrize(("task", "words"), [("text", "a text, LAN"), ("next", "a prompt of 16 tokens, LAN")])
def test_the_command_shows_what_is_sent_and_when(
    task: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is estimated of a decoder is a prompt; a text that is written also has tokens behind it."""
    found = make_random_checkpoint() if task == "text" else tiny_decoders.gpt2(layers=1)
    texts = TEXTS if task == "text" else ["a fine film is never boring"]
    plan = make_two_party_plan(found, PlanRequest(tokens=16, texts=texts))
    show_estimate(plan, api.estimate(plan))
    shown = " ".join(capsys.readouterr().out.split())
    assert words in shown and "once a client" in shown
    assert ("behind it" in shown) == (task == "next")


def test_the_command_writes_the_fields(tmp_path: Path) -> None:
    report = tmp_path / "estimate.json"
    assert (
        main(["estimate", "--scheme", "bumblebee", "--tokens", "16", "--inputs", "3", "--json", str(report)])
        == 0
    )
    found = json.loads(report.read_text())
    assert found["scheme"] == "bumblebee" and found["inputs"] == 3
    assert found["wall_seconds"] == pytest.approx(3 * found["seconds_per_input"]["loopback"])
    assert found["public_bytes"] > 2 * 15_000 * 128  # the words of the model, in float16
    before, after = (found[f"{name}_bytes"] for name in ("before", "after"))
    assert 0 < before < after < before + after < found["bytes_per_input"] + before
    for link, seconds in found["seconds_per_input"].items():
        assert 0 < found["before_seconds"][link] < found["after_seconds"][link] < seconds
