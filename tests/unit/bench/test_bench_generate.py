"""`python -m bench generate`: its figures of a shape cut down, and what it refuses."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from bench.__main__ import main
from bench.runs.two_party.cases.generate import DECODERS
from bench.runs.two_party.measure import measure_case
from bench.runs.two_party.session import Options
from tacita.two_party.plan.generation_cost import GenerationCost

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
HOW = Options(small=True, prompt=6, new=3, tls=False)


@cache
def measured(shape: str) -> dict[str, Any]:
    return measure_case(DECODERS[shape], options=HOW)


@pytest.mark.parametrize("shape", ["gpt2", "smollm2"])
def test_figures_of_a_prompt_and_of_a_token(shape: str) -> None:
    found = measured(shape)
    assert found["agreement"] == 1.0 and found["kl"] < 1e-3 and len(found["peak_rss_gb"]) == 2
    assert found["prefill"]["steps"] == 1 and found["token"]["steps"] == 2
    for figures in (found["prefill"], found["token"]):
        assert figures["wall_seconds"] > 0.0 and figures["rounds"] > 50 and len(figures["cpu_seconds"]) == 2
    sent = found["prefill"]["megabytes"] + 2 * found["token"]["megabytes"]
    assert sent == pytest.approx(found["as_measured"]["megabytes"], rel=1e-6)
    before, after = found["token_before"], found["token_after"]
    assert before["megabytes"] + after["megabytes"] == pytest.approx(found["token"]["megabytes"])
    steps = {row["operation"]: row for row in found["operations"]}
    assert (steps["prompt"]["calls"], steps["prepare"]["calls"], steps["token"]["calls"]) == (1, 1, 2)
    prepared = steps["prepare"]["sent"] + steps["prepare"]["received"]
    assert prepared == pytest.approx(2e6 * before["megabytes"], abs=1) and prepared > 0


def test_a_model_or_a_shape() -> None:
    assert main(["generate"]) == 2
    assert main(["generate", "--shape", "gpt5"]) == 2
    assert main(["generate", "--shape", "gpt2", "--model", "somewhere"]) == 2


@pytest.mark.parametrize("shape", ["gpt2", "smollm2"])
def test_what_is_counted_is_what_is_sent(shape: str) -> None:
    """To a quarter, in all: the transfers that are made in one go fall on any step."""
    case = DECODERS[shape]
    found, plan = measured(shape), case.plan(case.checkpoint(HOW), HOW)
    writing = GenerationCost.of(plan.program, HOW.prompt)
    ahead = writing.ahead.bits  # once: a ciphertext holds 32 rows as well as two
    counted = (writing.prompt.bits + ahead + 2 * writing.token.bits) / 8e6
    assert found["megabytes"] == pytest.approx(counted, rel=0.25)


def test_short_and_long_options_show_the_same_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["one", "-h"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: " in shown and main(["one", "--help"]) == 0
    assert capsys.readouterr().out == shown
