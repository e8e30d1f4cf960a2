"""`python -m bench one`: shapes reach a BERT-base's intervals, the report has its fields, on sim and on a toy
ring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder

from bench.__main__ import main
from bench.models.shapes import BERT_BASE, SHAPES, random_inputs, shaped_model
from bench.runs.two_party.cases.generate import Shape
from bench.runs.two_party.session import Options
from tacita.checkpoint.reference import reference
from tacita.cli import main as cli
from tacita.errors import InputError

TOY = ("--tokens", "16", "--preset", "insecure_toy_n12", "--shape", "bert-tiny")
FIELDS = {
    "agreement": float,
    "bootstraps": int,
    "encrypted": bool,
    "layer_errors": list,
    "max_abs_error": float,
    "peak_rss_gb": float,
    "seconds": dict,
    "setup": dict,
    "stages": list,
    "threads": int,
    "warm": dict,
}


def report(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    assert main(["one", *TOY, *arguments, "--json", str(tmp_path / "one.json")]) == 0
    found: dict[str, Any] = json.loads((tmp_path / "one.json").read_text())
    return found


def extremes(traces: list[Any], node: str) -> tuple[float, float]:
    """Over all inputs."""
    values = np.concatenate([trace[node].ravel() for trace in traces])
    return float(values.min()), float(values.max())


@pytest.mark.parametrize("name", ["bert-tiny", "minilm"])
def test_a_shape_reaches_the_intervals_of_a_bert_base(name: str) -> None:
    model = shaped_model(name, layers=2)
    traces = [reference(model, *sample).trace for sample in random_inputs(model.config.hidden, 128, 4, 5)]
    for layer, wanted in enumerate(BERT_BASE[:2]):
        low, high = extremes(traces, f"layer{layer}.feed_forward.argument")
        assert 0.6 * wanted.inner[0] > low > 1.6 * wanted.inner[0]
        assert 0.5 * wanted.inner[1] < high < 2.0 * wanted.inner[1]
        low, high = extremes(traces, f"layer{layer}.attention.scores")
        assert 0.6 < (high - low) / (wanted.scores[1] - wanted.scores[0]) < 1.6
        assert 0.25 < extremes(traces, f"layer{layer}.norm2.variance")[1] / wanted.variance < 4.0


def test_upper_layers_of_a_shape_do_not_fall_behind() -> None:
    """Stretched without looking, the sixth layer reached a hundredth of its variance."""
    model = shaped_model("minilm")
    traces = [reference(model, *sample).trace for sample in random_inputs(model.config.hidden, 128, 4, 5)]
    for layer, wanted in enumerate(BERT_BASE[:6]):
        for node, (least, most) in (
            ("feed_forward.argument", wanted.inner),
            ("attention.scores", wanted.scores),
        ):
            low, high = extremes(traces, f"layer{layer}.{node}")
            assert 0.4 < (high - low) / (most - least) < 2.5
        assert extremes(traces, f"layer{layer}.norm2.variance")[1] > 0.1 * wanted.variance


@pytest.mark.parametrize("eps", [1e-6, 1e-3])
def test_a_shape_damps_small_errors_as_trained_models_do(eps: float) -> None:
    """Stretched over all tokens alike, one layer made errors three times as large a share of its range, and
    twelve 700 times. Of trained models the share falls to a tenth or a third."""
    model = shaped_model("bert-tiny")
    rng = np.random.default_rng(0)
    for hidden, mask in random_inputs(model.config.hidden, 128, 2, 5):
        real, moved = mask > 0, hidden + eps * hidden.std() * rng.normal(size=hidden.shape)
        exact, other = (reference(model, states, mask).trace for states in (hidden, moved))
        for node in (f"layer{layer}.norm2.result" for layer in range(model.config.layers)):
            share = np.abs(exact[node] - other[node])[real].max() / np.ptp(exact[node][real])
            assert share < 0.6 * eps


def test_only_the_separator_of_a_shape_reaches_the_ends() -> None:
    """As in a BERT-base: the neuron of 107.5 is at -14 and less on all other tokens."""
    model = shaped_model("bert-tiny")
    for hidden, mask in random_inputs(model.config.hidden, 128, 2, 5):
        trace, words = reference(model, hidden, mask).trace, int(mask.sum()) - 1
        for layer, wanted in enumerate(BERT_BASE[:2]):
            reached = trace[f"layer{layer}.feed_forward.argument"]
            assert reached[words].max() > 0.7 * wanted.inner[1] > 1.4 * reached[:words].max()
            assert reached[:words, reached[words].argmax()].max() < 0.0


def test_shapes_have_their_sizes_and_no_others() -> None:
    assert len(BERT_BASE) == max(layers for layers, *_ in SHAPES.values())
    assert shaped_model("bert-tiny").config.hidden == 128
    for name, layers in (("bert-large", None), ("bert-tiny", 3), ("bert-tiny", 0)):
        with pytest.raises(InputError):
            shaped_model(name, layers=layers)


def test_on_sim_nothing_is_encrypted(tmp_path: Path) -> None:
    found = report(tmp_path, "--backend", "sim", "--layers", "1")
    assert not found["encrypted"] and found["parameters"] is None
    assert found["max_abs_error"] < 0.02 * found["range"]
    assert all(isinstance(found[field], kind) for field, kind in FIELDS.items())
    (layer,) = found["layer_errors"]
    assert layer["name"] == "layer0" and 0.0 < layer["error"] < 0.01 and found["layer_errors_from"] == "sim"


def test_a_plan_says_what_it_takes_and_runs_nothing(tmp_path: Path) -> None:
    found = report(tmp_path, "--plan-only", "--layers", "1", "--memory", "0.125")
    assert found["bootstraps"] > 0 < found["predicted_seconds"] and not found.get("seconds")
    assert found["memory_limit_gb"] == 0.125 < found["bytes"]["server_memory"] / 1e9
    assert "0.12 GB may be taken" in " ".join(found["too_large"])


def test_a_plan_that_was_kept_is_the_one_that_runs(tmp_path: Path) -> None:
    work = ["--work", str(tmp_path / "work")]
    report(tmp_path, "--plan-only", "--layers", "1", *work)
    kept = (tmp_path / "work" / "plan.json").read_bytes()
    found = report(tmp_path, "--backend", "plain", "--layers", "1", "--planned", *work)
    assert found["max_abs_error"] < 0.02 * found["range"]
    assert (tmp_path / "work" / "plan.json").read_bytes() == kept


@pytest.mark.parametrize("packing", ["rows", "multidiagonal"])
def test_a_model_is_timed_on_texts_that_calibrate_nothing(tmp_path: Path, packing: str) -> None:
    folder = write_folder(make_random_checkpoint(layers=1), tmp_path / "model")
    lines = [
        f"{first} {second} film ." for first in ("a", "the", "never") for second in ("fine", "dull", "bad")
    ]
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(lines))
    how = ["--model", str(folder), "--tokens", "16", "--preset", "insecure_toy_n10", "--backend", "sim"]
    options = [*how, "--texts", str(texts), "--json", str(tmp_path / "one.json"), "--packing", packing]
    assert main(["one", *options, "--inputs", "3"]) == 0
    found = json.loads((tmp_path / "one.json").read_text())
    assert found["inputs"] == 3 and found["packing"] == packing and 0.9 < found["cosine"] <= 1.0 + 1e-12
    assert {"worst", "ratio", "prices"} <= set(found)
    assert main(["one", *options, "--inputs", "5"]) == 2  # four of nine are not for calibration


def test_on_a_toy_ring_the_second_request_is_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    found = report(tmp_path, "--backend", "ckks", "--allow-insecure", "--layers", "1")
    assert found["encrypted"] and found["agreement"] == 1.0 and found["warnings"] == 0
    assert found["layer_errors_from"] == "sim" and found["layer_errors"][0]["error"] < 0.01
    assert found["max_abs_error"] < 0.02 * found["range"]
    assert set(found["seconds"]) == {"plan", "keygen", "encrypt", "evaluate", "decrypt"}
    assert list(found["setup"]) == ["circuit", "start", "keys"]
    assert found["seconds"]["evaluate"] >= sum(found["setup"].values())
    assert set(found["warm"]["seconds"]) == {"encrypt", "evaluate", "decrypt"}
    assert found["warm"]["seconds"]["evaluate"] >= sum(row["seconds"] for row in found["stages"]) - 1e-6
    assert {row["name"] for row in found["stages"]} >= {"layer0.attention.scores", "answer"}


def test_what_is_measured_must_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ([], ["--model", str(tmp_path), "--shape", "minilm"], ["--layers", "2"], ["--shape", "gpt"]):
        assert main(["one", *wrong]) == 2
    assert "bench one" in capsys.readouterr().err
    assert main(["one", "--shape", "minilm", "--packing", "columns"]) == 2
    assert "--packing" in capsys.readouterr().err
    for backend, device in (("ckks", "cuda"), ("sim", "opencl:0")):
        assert main(["one", "--shape", "minilm", "--backend", backend, "--device", device]) == 2
        assert "--device" in (err := capsys.readouterr().err) or f"device {device}" in err


@pytest.mark.parametrize("backend", ["sim", "ckks"])
def test_rows_of_a_decoder_are_timed_by_a_plan_that_was_made(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rows of one text, each a request behind those before it, with the logits of floats."""
    if backend == "ckks":
        pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    sizes: dict[str, Any] = {"vocab": 64, "hidden": 24, "heads": 2, "intermediate": 48}
    folder, work = tmp_path / "model", tmp_path / "work"
    shape = Shape("tiny", "gpt2", layers=1, activation="gelu_tanh", **sizes)
    shape.checkpoint(Options(weights=folder))
    toy = ["--model", str(folder), "--tokens", "16", "--allow-insecure", "--inputs", "3"]
    how = [*toy, "--backend", backend, "--work", str(work), "--json", str(tmp_path / "one.json")]
    assert main(["one", *toy, "--planned"]) == 2  # of which folder?
    monkeypatch.setenv("TACITA_PLAN__CACHE", "true")
    ring = ["--scheme", "thor", "--tokens", "16", "--preset", "insecure_toy_n10"]
    assert cli(["plan", "--model", str(folder), *ring, "--work", str(work)]) == 0
    assert main(["one", *how, "--planned", "--packing", "multidiagonal"]) == 2  # it is of rows
    plan = (work / "plan.json").read_bytes()
    assert main(["one", *how, "--planned"]) == 0
    assert (work / "plan.json").read_bytes() == plan  # to be measured again
    found = json.loads((tmp_path / "one.json").read_text())
    assert found["inputs"] == 3 and found["layer_errors"] == [] and "plan" in found["seconds"]
    assert found["max_abs_error"] < 0.01 * found["range"]
    if backend == "ckks":
        assert all(stage["seconds"] > 0.0 for stage in found["stages"])
