"""`python -m bench generate`: its figures of a shape cut down, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.runs.two_party.cases.generate import DECODERS, Shape
from bench.runs.two_party.measure import measure_case
from bench.runs.two_party.session import Options
from tacita.errors import InputError
from tacita.plans.commitment import LINKS
from tacita.texts.embedding import stored_tensor
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


def test_a_shape_of_a_folder_is_made_once_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is a model's like any other, in half precision; another shape does not pass for it."""
    how, case = replace(HOW, prompt=3, new=2, layers=3, weights=tmp_path / "made"), DECODERS["llama-7b"]
    assert isinstance(case, Shape)
    found = measure_case(case, options=how)
    assert found["agreement"] == 1.0 and found["kl"] < 1e-3
    monkeypatch.setattr("bench.runs.two_party.cases.generate.write_random", pytest.fail)
    monkeypatch.setattr("tacita.models.fields.MAPPED", 1)
    model = case.checkpoint(how)
    assert model.config.layers == 3 and not model.config.tied
    stored = [stored_tensor(tensor) for tensor in model.tensors.values()]
    assert all(tensor is not None and tensor.stored.dtype == np.float16 for tensor in stored)
    matrix = np.asarray(model.tensors["layers.2.mlp.down_proj.weight"])
    assert matrix.shape == (24, 38) and abs(matrix.std() * np.sqrt(38) - 1.0) < 0.1
    assert not np.array_equal(matrix, np.asarray(model.tensors["layers.1.mlp.down_proj.weight"]))
    with pytest.raises(InputError, match="another shape"):
        case.checkpoint(replace(how, layers=2))
    with pytest.raises(InputError, match=r"6738415616 weights: pass --folder"):
        measure_case(case, options=replace(how, small=False, layers=0, weights=None))


def test_a_model_or_a_shape() -> None:
    assert main(["generate", "--model", "somewhere", "--folder", "elsewhere"]) == 2
    assert main(["generate"]) == 2
    assert main(["generate", "--shape", "gpt5"]) == 2
    assert main(["generate", "--shape", "gpt2", "--model", "somewhere"]) == 2


@pytest.mark.parametrize("shape", ["gpt2", "smollm2"])
def test_what_is_counted_is_what_is_sent(shape: str) -> None:
    """To a quarter, in all: the transfers that are made in one go fall on any step."""
    case = DECODERS[shape]
    found, plan = measured(shape), case.plan(case.checkpoint(HOW), HOW)
    writing = GenerationCost.of(plan.program, HOW.prompt)
    prompt, ahead, token = (  # ahead: once, as a ciphertext holds 32 rows as well as two
        each.sent(LINKS["WAN"]) for each in (writing.prompt, writing.ahead, writing.token)
    )
    counted = (prompt + ahead + 2 * token) / 8e6
    assert found["megabytes"] == pytest.approx(counted, rel=0.25)


def test_short_and_long_options_show_the_same_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["one", "-h"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: " in shown and main(["one", "--help"]) == 0
    assert capsys.readouterr().out == shown
