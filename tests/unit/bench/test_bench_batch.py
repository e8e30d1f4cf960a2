"""`python -m bench batch` and `dashformer`: the fields of their reports, and the figures in them, on plain,
sim and a toy ring."""

from __future__ import annotations

import contextlib
import io
import json
from functools import partial
from pathlib import Path

import dashformer
import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder

from bench.__main__ import main
from bench.runs import batch
from bench.runs.batch import _compared
from bench.runs.harness import Ran, quality
from bench.runs.stages import StageClock
from tacita import api
from tacita.checkpoint import load
from tacita.client import Answer
from tacita.evaluate import Server
from tacita.planning.calibrate.excesses import FAR
from tacita.plans.files import Workdir
from tacita.progress import Progress
from tacita.schemes.base import save
from tacita.texts.answer import withhold_failed

FIELDS = {
    "scheme", "tokens", "inputs", "wall_seconds", "seconds_per_input", "stages", "agreement", "accuracy",
    "max_abs_error", "bootstraps", "rotations", "key_switches", "peak_rss_gb", "spill_gb", "parameters",
    "threads", "bytes",
}  # fmt: skip
TOY = ["--preset", "insecure_toy_n10", "--allow-insecure"]


def bench(*arguments: str) -> tuple[int, str, str]:
    """(exit status, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    return status, out.getvalue(), err.getvalue()


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "texts.tsv"
    rows = [("a fine film", 1), ("the plot is dull", 0), ("never boring", 1), ("a very bad film", 0)]
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return path


def check(found: dict, inputs: int) -> None:
    assert set(found) >= FIELDS
    assert found["inputs"] == inputs
    assert found["seconds_per_input"] == pytest.approx(found["wall_seconds"] / inputs)
    assert found["key_switches"] > found["rotations"] > 0
    assert all(set(row) == {"name", "seconds", "predicted_seconds"} for row in found["stages"])
    assert sum(row["seconds"] for row in found["stages"]) <= found["seconds"]["evaluate"]
    assert found["encrypted"] == (found["backend"] == "ckks")
    assert (found["parameters"] or {}).get("preset") == ("insecure_toy_n10" if found["encrypted"] else None)


def test_a_scheme_without_requests_is_refused_before_any_work() -> None:
    status, out, err = bench("batch", "--scheme", "bumblebee", "--inputs", "1")
    assert (status, out) == (2, "")
    assert "bumblebee has no requests (python -m bench two-party" in " ".join(err.split())


def test_batch_on_plain_reports_every_field(labelled: Path, tmp_path: Path) -> None:
    model, report = (
        write_folder(make_random_checkpoint(layers=1), tmp_path / "model"),
        tmp_path / "report.json",
    )
    options = ["--model", str(model), "--tokens", "16", "--backend", "plain", *TOY]
    texts = ["--inputs", "5", "--texts", str(labelled)]
    status, out, err = bench("batch", "--scheme", "moai", *texts, *options, "--json", str(report))
    assert status == 0, err
    found = json.loads(report.read_text())
    check(found, 5)
    assert found["scheme"] == "moai"
    assert 0.0 <= found["accuracy"] <= 1.0
    assert "an input" in out


def test_an_encoder_has_cosines_and_no_accuracy(labelled: Path, tmp_path: Path) -> None:
    encoder = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True)
    model, report = write_folder(encoder, tmp_path / "model"), tmp_path / "report.json"
    options = ["--model", str(model), "--tokens", "16", "--backend", "plain", *TOY]
    status, _, err = bench("batch", *options, "--texts", str(labelled), "--json", str(report))
    assert status == 0, err
    found = json.loads(report.read_text())
    assert (found["inputs"], found["accuracy"], found["reference_accuracy"]) == (4, None, None)
    assert found["cosine"] > 0.999


def test_of_a_file_of_lines_the_first_calibrate_and_the_last_are_measured(tmp_path: Path) -> None:
    model, texts = write_folder(make_random_checkpoint(layers=1), tmp_path / "model"), tmp_path / "texts.txt"
    texts.write_text("a fine film\nthe plot is dull\n\nnever boring\na very bad film\nnever boring\n")
    options = ["--model", str(model), "--texts", str(texts), "--tokens", "16", "--backend", "plain", *TOY]
    status, _, err = bench("batch", *options, "--inputs", "1", "--json", str(tmp_path / "report.json"))
    assert status == 0, err
    found = json.loads((tmp_path / "report.json").read_text())
    assert (found["inputs"], found["calibration_texts"], found["accuracy"]) == (1, 3, None)
    assert found["agreement"] == 1.0
    status, _, err = bench("batch", *options, "--inputs", "4")
    assert status == 2 and "4 different texts: 4 cannot be asked" in " ".join(err.split())


def test_a_shape_answers_random_hidden_states(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--layers", "1", "--inputs", "3", "--tokens", "16", "--backend", "plain", *TOY]
    status, _, err = bench("batch", "--shape", "bert-tiny", *options, "--json", str(report))
    assert status == 0, err
    found = json.loads(report.read_text())
    check(found, 3)
    assert found["agreement"] == 1.0
    assert found["max_abs_error"] < 0.02


def test_quality_compares_with_reference_and_labels() -> None:
    reference = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 0.4]])
    logits = reference + np.array([[0.01, 0.0], [0.0, -0.02], [0.0, 0.2]])
    found = quality(logits, reference, [0, 1, 0])
    assert found["agreement"] == pytest.approx(2 / 3)
    assert (found["accuracy"], found["reference_accuracy"]) == (pytest.approx(2 / 3), 1.0)
    assert found["max_abs_error"] == pytest.approx(0.2)
    shift = 1 / (1 + np.exp(-0.1)) - 1 / (1 + np.exp(0.1))
    assert found["max_softmax_error"] == pytest.approx(shift, rel=1e-6)
    assert quality(logits, reference)["accuracy"] is None


def test_refused_answers_are_counted_and_compared_with_nothing() -> None:
    good, refused = (
        Answer("L1", (0.0, 1.0), ()),
        withhold_failed(Answer("L0", (9e15, 0.0), ("far",), trusted=False)),
    )
    wanted = np.array([[0.0, 1.1], [0.0, 1.0]])
    found = _compared(Ran([good, refused]), wanted, [1, 1])
    assert (found["refused"], found["agreement"], found["accuracy"]) == (1, 1.0, 1.0)
    assert found["max_abs_error"] == pytest.approx(0.1) and found["cosine"] == pytest.approx(1.0)
    none = _compared(Ran([refused, refused]), wanted, None)
    assert set(none) == set(found) and none.pop("refused") == 2 and not any(none.values())


def test_an_input_that_would_spoil_its_request_is_named_before_it_is_encrypted(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(folder := write_folder(make_random_checkpoint(layers=1), tmp_path / "model"))
    options, report = ["--model", str(folder), "--texts", str(labelled), *TOY], tmp_path / "report.json"
    options += ["--tokens", "16", "--json", str(report)]
    asked = [line.split("\t")[0] for line in labelled.read_text().splitlines()[1:]]
    found = {}
    for name, texts in {"like them": asked, "unlike": ["a"]}.items():
        plan = api.plan(model, tokens=16, preset=TOY[1], scheme="arion", inputs=4, texts=texts)
        save(plan, Workdir(tmp_path).plan)
        status, out, err = bench("batch", *options, "--backend", "plain", "--work", str(tmp_path))
        assert status == 0, err
        found[name] = json.loads(report.read_text())["outside"]
        assert ("outside the intervals" in out) == bool(found[name])
    first = found["unlike"][0]
    assert found["like them"] == [] and first["half_widths"] > FAR
    monkeypatch.setattr(batch, "ask", lambda *_, **__: pytest.fail("encrypted"))
    status, _, err = bench("batch", *options, "--work", str(tmp_path))
    said = " ".join(err.split())
    assert status == 2 and "--anyway" in said and asked[first["input"] - 1] not in said
    where = f"input {first['input']} lies {first['half_widths']:.2f} half-widths out at {first['stage']}"
    assert where in said


def test_stage_clock_adds_up_several_runs() -> None:
    clock = StageClock()
    for begin in (0.0, 1.0):
        for index, (name, now) in enumerate([("a", 0.0), ("b", 2.0 + begin), ("done", 5.0)]):
            clock(Progress(name, index, 2, now, 0.0))
    assert clock.seconds == {"a": 5.0, "b": 5.0}


def test_stage_clock_counts_stages_of_an_earlier_sitting_once() -> None:
    saved: list[dict[str, float]] = []
    seconds = {"a": 2.0, "b": 9.0}  # b had not been saved, so that it runs again
    clock = StageClock(seconds, lambda: saved.append(dict(seconds)))
    for index, (name, now) in enumerate([("b", 1.0), ("c", 4.0), ("done", 5.0)], 1):
        clock(Progress(name, index, 3, now, 0.0))
    assert saved == [{"a": 2.0, "b": 3.0}, {"a": 2.0, "b": 3.0, "c": 1.0}]
    assert clock.earlier == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dashformer", "--model", "/nowhere"], "not a folder"),
        (
            ["dashformer"],
            "bench dashformer: no model (python -m bench dashformer --data DIR, with the DASHformer",
        ),
        (
            ["dashformer", "--data", "/nowhere"],
            "has neither weights/ and example_AA_sequences.list nor sequences.tsv",
        ),
        (["batch", "--texts", "/nowhere.tsv"], "cannot be read"),
        (["batch", "--shape", "bert-tiny", "--texts", "/nowhere.tsv"], "--shape, which has no --texts"),
        (["batch", "--layers", "1"], "--layers is of a --shape"),
        (["batch", "--shape", "bert-tiny", "--pooling", "mean"], "no --pooling"),
        (["batch", "--shape", "bert-huge"], "no shape 'bert-huge'"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str) -> None:
    status, _, err = bench(*arguments)
    assert status == 2
    assert message in err


def test_data_that_only_look_published_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "example_AA_sequences.list").write_text("A L G,3\n")
    status, _, err = bench("dashformer", "--data", str(tmp_path))
    assert status == 2
    assert "not the published DASHformer" in err
    assert "its folder has weights/*.csv" in err


@pytest.mark.skipif(not dashformer.available(), reason=dashformer.MISSING)
def test_the_published_data_are_enough(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--data", str(dashformer.DATA), "--inputs", "4", "--backend", "sim", "--json", str(report)]
    status, out, err = bench("dashformer", *options)
    assert status == 0, err
    found = json.loads(report.read_text())
    assert (found["model"], found["inputs"], found["agreement"]) == ("dashformer", 4, 1.0)
    assert found["max_softmax_error"] < 0.02
    assert "none: sim encrypts nothing" in out


@pytest.mark.native
def test_an_encrypted_batch_goes_through_files_and_equals_plain(labelled: Path, tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model, work = write_folder(make_random_checkpoint(layers=1), tmp_path / "model"), tmp_path / "work"
    options = ["--inputs", "4", "--texts", str(labelled), "--model", str(model), "--tokens", "16", *TOY]
    found = {}
    for backend, more in (("plain", []), ("ckks", ["--work", str(work)])):
        report = tmp_path / f"{backend}.json"
        status, _, err = bench("batch", *options, "--backend", backend, *more, "--json", str(report))
        assert status == 0, err
        found[backend] = json.loads(report.read_text())
        check(found[backend], 4)
    assert found["ckks"]["max_abs_error"] == pytest.approx(found["plain"]["max_abs_error"], abs=0.005)
    assert found["ckks"]["agreement"] == 1.0
    assert set(found["ckks"]["seconds"]) == {"plan", "keygen", "encrypt", "evaluate", "decrypt"}
    assert all(found["ckks"]["bytes"][name] > 0 for name in ("evaluation_keys", "request", "response"))
    assert (work / "plan.json").is_file()
    assert found["ckks"]["refused"] == 0
    assert found["ckks"]["cosine_median"] >= found["ckks"]["cosine"] > 0.999


@pytest.mark.native
def test_a_folder_with_a_killed_run_goes_on_with_its_plan_and_its_keys(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model, work = write_folder(make_random_checkpoint(layers=1), tmp_path / "model"), tmp_path / "work"
    options = ["--inputs", "4", "--texts", str(labelled), "--model", str(model), *TOY]
    options += ["--backend", "ckks", "--work", str(work), "--tokens"]

    def files() -> tuple[bytes, ...]:
        return tuple((work / name).read_bytes() for name in ("plan.json", "evaluation.keys", "request.ct"))

    monkeypatch.setattr("bench.runs.harness.Server", partial(Server, save_every=0.0))
    stage = StageClock.__call__

    def killed(clock: StageClock, now: Progress) -> None:
        stage(clock, now)
        if now.index == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(StageClock, "__call__", killed)
    assert bench("batch", *options, "16")[0] != 0
    monkeypatch.setattr(StageClock, "__call__", stage)
    before, report = files(), tmp_path / "report.json"
    status, _, err = bench("batch", *options, "16", "--json", str(report))
    assert status == 0, err
    found = json.loads(report.read_text())
    assert files() == before
    assert found["agreement"] == 1.0
    assert 0 < (again := found["resumed_stages"]) <= 3
    seconds = [stage["seconds"] for stage in found["stages"]]
    assert all(seconds)  # those of the first sitting too, which the whole counts
    assert found["wall_seconds"] >= sum(seconds) > sum(seconds[again:])
    assert 0.0 < found["outside_seconds"] < found["wall_seconds"]
    status, _, err = bench("batch", *options, "16", "--json", str(report))
    assert status == 0, err
    assert json.loads(report.read_text())["resumed_stages"] == 0
    assert files()[1:] != before[1:]  # a run that has ended is measured again as a whole
    status, _, err = bench("batch", *options, "32")
    assert status == 2
    assert "the folder's plan is of" in " ".join(err.split())
