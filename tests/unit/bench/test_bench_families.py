"""`python -m bench families`: a run that was cut off goes on with what is left, and with nothing of
another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_bench_batch import TOY, bench

from bench.runs import families
from tacita import api

TEXTS = ("a fine film", "the plot is dull", "never boring", "a very bad film", "it is good", "dull")
SAME = ("model", "task", "tokens", "inputs", "same", "error", "range", "step", "warnings", "MB")


class Cut(Exception):
    """What cuts a run off."""


def figures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in SAME} for row in rows]


@pytest.mark.parametrize("backend", ["sim", "fixed"])
def test_a_run_that_was_cut_off_goes_on_with_what_is_left(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "PRESET", TOY[1])
    models = [tmp_path / "first", tmp_path / "second"]
    for seed, folder in enumerate(models):
        write_folder(make_random_checkpoint(layers=1, seed=seed), folder)
        (folder / "texts.txt").write_text("\n".join(TEXTS))
    report, asked, classify = tmp_path / "report.json", list[str](), api.classify_locally
    how = ["families", "--backend", backend, "--inputs", "2", "--json", str(report)]
    how += [word for folder in models for word in ("--models", str(folder))]

    def cut(plan: Any, model: Any, text: Any, **more: Any) -> Any:
        if len(asked) == 3:
            raise Cut
        asked.append(text)
        return classify(plan, model, text, **more)

    assert bench(*how)[0] == 0
    whole = json.loads(report.read_text())
    monkeypatch.setattr(api, "classify_locally", cut)
    with pytest.raises(Cut):
        bench(*how)
    status, _, err = bench(*how, "--calibration", "3")
    assert status == 2 and "rows of another model, plan or backend" in " ".join(err.split())
    monkeypatch.setattr(api, "classify_locally", lambda *a, **k: asked.append(a[2]) or classify(*a, **k))
    status, _, err = bench(*how)
    said = " ".join(err.split())
    assert status == 0 and "goes on with 0 of 2 inputs" in said and "goes on with 1 of 2 inputs" in said
    assert asked == [*TEXTS[-2:]] * 2
    assert figures(json.loads(report.read_text())) == figures(whole)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [report.name]


def test_a_plan_is_as_long_as_the_longest_text_needs() -> None:
    """Texts of more than 512 tokens, which `--tokens` may admit, had no length."""
    model = make_random_checkpoint(layers=1)
    lengths = {words: families.length(model, ["film " * words]) for words in (1, 14, 15, 700)}
    assert lengths == {1: 16, 14: 16, 15: 32, 700: 1024}


def test_a_folder_that_is_no_model_is_a_row(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert bench("families", "--models", str(tmp_path), "--json", str(report))[0] == 0
    (row,) = json.loads(report.read_text())
    assert row["backend"] == "sim" and "config.json" in row["refused"]


def test_a_cross_encoder_is_counted_by_its_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four documents for each of two queries; the pairs before them calibrate."""
    monkeypatch.setattr(families, "PRESET", TOY[1])
    write_folder(make_random_checkpoint(layers=1, labels=("relevance",)), tmp_path / "m")
    pairs = [f"{query}\t{text}" for query in ("a film", "the plot", "dull") for text in TEXTS[:4]]
    (tmp_path / "pairs.tsv").write_text("\n".join(["text\ttext2", *pairs]))
    report, place = tmp_path / "report.json", str(tmp_path / "pairs.tsv")
    how = ["--models", str(tmp_path / "m"), "--texts", place, "--inputs", "8", "--json", str(report)]
    assert bench("families", "--backend", "fixed", *how)[0] == 0
    (row,) = json.loads(report.read_text())
    assert (row["same"], row["inputs"]) == ("2/2", 8) and 0.0 < row["error"] < 0.05
    asked = [tuple(pair.split("\t")) for pair in pairs[4:]]
    scores = [(np.array([float(i)]), np.array([float(i % 5)])) for i in range(8)]
    groups = families.by_query(scores, asked)
    assert [families.same_choice(*group) for group in groups] == [True, False]
