"""The commands' parts that need no connection: addresses, certificates, progress, what a text will cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_checkpoint import make_random_checkpoint
from test_cli import run

from tacita.blocks.weights import Weights
from tacita.cli.service.port import Stopwatch, address, cost_line, expectation, identity_of, steps
from tacita.errors import InputError
from tacita.planning.request import PlanRequest
from tacita.progress import Progress
from tacita.texts.embed import embed
from tacita.two_party.model import simulation
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(make_random_checkpoint(), PlanRequest(tokens=16, texts=TEXTS))


def test_addresses() -> None:
    assert address("example.org:7007") == ("example.org", 7007)
    assert address("[::1]:7007") == ("::1", 7007)
    for wrong in ("", "host", "host:", ":1", "host:0", "host:65536", "host:x"):
        with pytest.raises(InputError, match="HOST:PORT"):
            address(wrong)


def test_a_certificate_comes_with_its_key() -> None:
    assert identity_of(None, None) is None
    assert identity_of(Path("a"), Path("b")) is not None
    for halves in ((Path("a"), None), (None, Path("b"))):
        with pytest.raises(InputError, match="together"):
            identity_of(*halves)


def test_every_step_of_the_walk_is_known_to_the_progress_bar(plan: TwoPartyPlan) -> None:
    told: list[Progress] = []
    watch = Stopwatch(plan.program, told.append)
    for step in steps(plan.program):
        watch(step)
    watch.stop()
    assert [now.index for now in told] == list(range(len(steps(plan.program))))
    assert set(watch.seconds) == set(steps(plan.program))
    hidden = make_two_party_plan(
        make_random_checkpoint(), PlanRequest(tokens=16, texts=TEXTS, embeddings="hidden")
    )
    assert set(steps(hidden.program)) - set(steps(plan.program)) == {"embedding.positions"}


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
def test_the_steps_are_those_that_a_walk_tells(pooling: str) -> None:
    model = make_random_checkpoint(pooling=pooling)
    plan = make_two_party_plan(model, PlanRequest(tokens=16, texts=TEXTS))
    hidden, mask = embed(model, TEXTS[0], 16)
    nodes: list[str] = []
    run = simulation(plan, Weights(model.tensors), mask)
    run.watch = nodes.append
    run.floats(hidden)
    assert ["set-up", *dict.fromkeys(nodes)] == steps(plan.program)


def test_the_time_left_is_that_of_an_earlier_text(plan: TwoPartyPlan) -> None:
    told: list[Progress] = []
    watch = Stopwatch(plan.program, told.append, expected=dict.fromkeys(steps(plan.program), 2.0))
    watch("layer0.attention")
    assert told[0].left == 2.0 * (len(steps(plan.program)) - 1)


def test_costs_in_words() -> None:
    line = cost_line({"bytes_sent": 1e6, "bytes_received": 2e6, "rounds": 7}, 3.0)
    assert line == "3.0 s, 3.0 MB (1.0 MB sent, 2.0 MB received), 7 rounds"


def test_expected_traffic_grows_with_tokens_and_shrinks_with_what_is_not_needed(plan: TwoPartyPlan) -> None:
    longer = make_two_party_plan(make_random_checkpoint(), PlanRequest(tokens=64, texts=TEXTS))
    mean = make_two_party_plan(make_random_checkpoint(pooling="mean"), PlanRequest(tokens=16, texts=TEXTS))
    hidden = make_two_party_plan(
        make_random_checkpoint(), PlanRequest(tokens=16, texts=TEXTS, embeddings="hidden")
    )
    assert longer.predicted_bytes() > plan.predicted_bytes()
    assert mean.predicted_bytes() > plan.predicted_bytes()  # its last layer runs on all rows
    assert hidden.predicted_bytes() > plan.predicted_bytes()
    assert "MB a text" in expectation(plan.program)


@pytest.mark.parametrize(
    "options", [[], ["--insecure-plain-tcp", "--new-certificate", "x"], ["--certificate", "x"]]
)
def test_a_server_must_be_told_how_it_is_secured(options: list[str]) -> None:
    status, _, err = run("serve", *options)
    assert status == 2 and "error:" in err


def test_a_client_must_be_told_whom_to_trust() -> None:
    for options in (
        ["127.0.0.1:1"],
        ["nowhere", "--insecure-plain-tcp"],
        ["127.0.0.1:1", "--trust", "x", "--key", "y"],
        ["127.0.0.1:1", "--trust", "x", "--fingerprint", "00" * 32],
        ["127.0.0.1:1", "--fingerprint", "00" * 32, "--name", "y"],
    ):
        status, _, err = run("classify", "bad", "--connect", *options)
        assert status == 2 and "error:" in err
