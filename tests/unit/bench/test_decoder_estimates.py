"""`python -m bench decoder-estimates`: a token's seconds by a few layers, and the folder of a shape."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.runs.two_party.cases.generate import Shape
from bench.runs.two_party.session import Options
from bench.tables import estimates
from tacita.checkpoint import load
from tacita.planning.request import PlanRequest
from tacita.plans.prices.formulas import formula_prices

SIZES = {"vocab": 64, "hidden": 32, "heads": 2, "intermediate": 64, "activation": "gelu_tanh"}
SHAPE = Shape("tiny", "gpt2", layers=5, **SIZES)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape, a ring and a calibration of seconds, not of minutes."""
    monkeypatch.setitem(estimates.SIZED, "tiny", SHAPE)
    monkeypatch.setattr(estimates, "SEQUENCES", 2)
    monkeypatch.setattr(estimates, "PlanRequest", partial(PlanRequest, preset="insecure_toy_n10"))
    monkeypatch.setattr(estimates, "shipped_prices", partial(formula_prices, 10))


def estimated(place: Path, *arguments: str) -> dict[str, Any]:
    line = ("decoder-estimates", "--shape", "tiny", "--tokens", "16", "--json", str(place / "found.json"))
    assert main([*line, *arguments]) == 0
    found: dict[str, Any] = json.loads((place / "found.json").read_text())
    return found


def seconds(found: dict[str, Any], prefix: str = "") -> float:
    return float(
        sum(each["seconds_per_input"] for each in found["stages"] if each["name"].startswith(prefix))
    )


def test_a_middle_layer_stands_for_all_that_are_not_planned(tmp_path: Path) -> None:
    """The folder of the shape is a model like any other: its own texts calibrate, its words are numbers."""
    found = estimated(tmp_path, "--folder", str(tmp_path / "gpt2"))
    assert (found["layers"], found["batch"]) == (3, 1) and found["bootstraps"] > 0
    assert 0.0 < found["layer"] == pytest.approx(seconds(found, "layer1."))
    assert found["token"] == pytest.approx(seconds(found) + 2 * found["layer"])
    model = load(tmp_path / "gpt2")
    assert model.tokenizer is not None and model.tokenizer.encode("5 63").ids == [5, 63]
    assert model.config == SHAPE.checkpoint(Options(layers=3)).config and len(set(model.texts)) > 16
    matrix = np.asarray(model.tensors["h.1.mlp.c_fc.weight"])
    assert matrix.shape == (64, 32) and abs(matrix.std() * np.sqrt(32) - 1.0) < 0.1
    table = model.tensors["embeddings.word_embeddings.weight"]
    assert not np.array_equal(model.tensors["lm_head.weight"], table)


def test_more_layers_than_a_shape_has_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer would be subtracted from the token's seconds."""
    for shape, layers in (("tiny", "6"), ("smollm2-layer", "3"), ("gpt5", "3")):
        assert main(["decoder-estimates", "--shape", shape, "--layers", layers]) == 2
        assert f"{layers} layers of '{shape}'" in capsys.readouterr().err


def test_one_layer_stands_for_all(tmp_path: Path) -> None:
    """Where memory has no room for three, as of LLaMA-3-8B's."""
    found = estimated(tmp_path, "--layers", "1")
    assert found["layers"] == 1 and found["layer"] == pytest.approx(seconds(found, "layer0."))
    assert found["token"] == pytest.approx(seconds(found) + 4 * found["layer"])
