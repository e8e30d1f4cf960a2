"""Commands in this process on plain and sim: fields of the reports, messages, exit statuses."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tacita import api
from tacita.cli import main
from tacita.cli.console import duration, size
from tacita.errors import InputError
from tacita.plans.plan import Plan
from tacita.plans.public_folder import open_public

SMALL = ["--preset", "insecure_toy_n12", "--tokens", "16"]


def run(*arguments: str, **settings: object) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of one command. settings: as run__threads=1, by the environment."""
    out, err = io.StringIO(), io.StringIO()
    variables = {f"TACITA_{name.upper()}": str(value) for name, value in settings.items()}
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.dict(os.environ, variables),
    ):
        status = main(list(arguments))
    return status, out.getvalue(), err.getvalue()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("a film of quiet beauty\na waste of time\nit is neither good nor bad , only long\n")
    return path


@pytest.mark.parametrize("backend", ["plain", "sim"])
def test_classify_reports_every_field(backend: str, texts: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--backend", backend, *SMALL, "--texts", str(texts), "--json", str(report)]
    status, out, _ = run("classify", "a film of quiet beauty", "a waste of time", *options)
    found = json.loads(report.read_text())
    assert status == 0
    assert "positive" in out
    assert [r["label"] for r in found["results"]] == ["positive", "negative"]
    assert found["max_abs_error"] < 0.02
    assert set(found["seconds"]) == {"plan", "keygen", "encrypt", "evaluate", "decrypt"}
    assert set(found["bytes"]) == {"evaluation_keys", "request", "response"}
    assert (found["encrypted"], found["parameters"], found["bootstraps"]) == (False, None, None)
    assert f"none: {backend} encrypts nothing" in out
    assert "bits" not in out and "bootstraps" not in out
    for field in ("label", "logits", "reference_logits", "peak_rss_gb", "bootstraps", "threads"):
        assert field in found


def test_a_ring_below_128_bits_is_refused_before_anything_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacita.cli.ask.core.planned", None)
    status, _, err = run("classify", "a film", *SMALL)
    assert status == 2 and "bits of security, 128 are required" in err and "--allow-insecure" in err


def test_a_text_that_looks_like_markup_is_classified_and_reported(texts: Path, tmp_path: Path) -> None:
    report, text = tmp_path / "report.json", "[/foo] a \x1b[2J film of quiet beauty"
    options = ["--backend", "plain", *SMALL, "--texts", str(texts), "--json", str(report)]
    status, out, err = run("classify", text, "a waste of time", *options)
    assert (status, err) == (0, "")
    assert [r["text"] for r in json.loads(report.read_text())["results"]] == [text, "a waste of time"]
    assert "[/foo]" in out
    assert "\x1b" not in out


def test_plan_writes_a_plan_and_show_reads_it(texts: Path, tmp_path: Path) -> None:
    status, out, _ = run("plan", *SMALL, "--texts", str(texts), "--work", str(tmp_path))
    assert status == 0
    plan = Plan.load(tmp_path / "plan.json")
    assert plan.hash[:12] in out
    status, out, _ = run("plan", "show", str(tmp_path / "plan.json"))
    assert status == 0
    assert all(stage.name in out for stage in plan.stages)
    assert "7 bits" in out


def test_the_same_input_gives_the_same_plan(texts: Path, tmp_path: Path) -> None:
    """With the salt that the folder has: keys of an earlier plan stay good."""
    (tmp_path / "b").mkdir()
    for name in ("a", "b"):
        run("plan", *SMALL, "--texts", str(texts), "--work", str(tmp_path / name))
        shutil.copy(tmp_path / "a" / "weights.salt", tmp_path / "b" / "weights.salt")
    assert Plan.load(tmp_path / "a" / "plan.json").hash == Plan.load(tmp_path / "b" / "plan.json").hash


def test_estimate_runs_nothing_and_says_what_a_run_costs(texts: Path, tmp_path: Path) -> None:
    report = tmp_path / "estimate.json"
    status, _, _ = run("estimate", *SMALL, "--texts", str(texts), "--json", str(report))
    found = json.loads(report.read_text())
    assert status == 0
    assert found["seconds"]["evaluate"] > 0
    assert {"evaluation_keys", "request", "response", "server_memory", "client_memory"} <= set(found["bytes"])
    assert 0.0 < found["error"]["bound"] < 0.03 and found["error"]["texts"] > 0
    assert found["parameters"]["security_bits"] == 7
    assert len(found["stage_seconds"]) > 10


def test_accuracy_on_a_labelled_file(texts: Path, tmp_path: Path) -> None:
    data, report = tmp_path / "data.tsv", tmp_path / "accuracy.json"
    data.write_text("sentence\tlabel\na film of quiet beauty\t1\na waste of time\t0\na waste of time\t1\n")
    options = ["--data", str(data), "--backend", "sim", *SMALL, "--texts", str(texts), "--json", str(report)]
    status, _, _ = run("accuracy", *options, "--processes", "1")
    found = json.loads(report.read_text())
    assert status == 0
    assert found["sentences"] == 3
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["agreement"] == 1.0
    assert found["warnings"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classify", "  ", "--backend", "plain"], "the text is empty"),
        (["classify", "fine", "--preset", "n99"], "no preset 'n99'"),
        (["classify", "fine", "--model", "/nowhere"], "not a folder"),
        (["classify", "fine", "--backend", "plain", "--tokens", "24"], "does not admit 24 tokens"),
        (["classify", "fine", "--texts", "/nowhere.txt"], "cannot be read"),
        (["keygen", "--public", "/nowhere"], "make it with `tacita publish`"),
        (["evaluate", "--work", "/nowhere"], "make it with `tacita plan`"),
        (["accuracy", "--data", "/nowhere.tsv"], "cannot be read"),
        (["plan", "show", "/nowhere.json"], "cannot be read as a plan"),
    ],
)
def test_errors_are_one_line_with_a_hint(arguments: list[str], message: str) -> None:
    status, _, err = run(*arguments)
    assert status == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert err.strip().endswith(")")


def test_wrong_options_show_usage() -> None:
    for arguments in (["nonsense"], ["classify"], ["classify", "fine", "--backend", "quantum"]):
        status, _, _ = run(*arguments)
        assert status == 2


@pytest.mark.parametrize(
    "command", [[], ["classify"], ["plan"], ["plan", "show"], ["token", "add"], ["prices"]]
)
def test_short_and_long_options_show_the_same_help(command: list[str]) -> None:
    status, out, _ = run(*command, "-h")
    assert status == 0 and "Usage: " in out and "--help" in out
    assert run(*command, "--help") == (0, out, "")


def test_a_text_over_the_limit_is_refused_before_anything_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacita.cli.ask.core.planned", None)
    status, _, err = run("classify", "word " * 40, "--backend", "plain", *SMALL)
    assert status == 2
    assert "tokens, the plan 16" in err


def test_a_broken_checkpoint_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(api.DEFAULT_MODEL, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    status, _, err = run("classify", "fine", "--model", str(folder), "--backend", "plain")
    assert status == 2
    assert "model.safetensors: not a safetensors file" in err


def test_an_interrupt_leaves_no_half_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "choose_plan", interrupt)
    status, _, err = run("plan", "--work", str(tmp_path))
    assert status == 130
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


def test_times_and_sizes_for_people() -> None:
    assert [duration(s) for s in (0.44, 12.3, 185)] == ["0.4 s", "12 s", "3 min 05 s"]
    assert [size(n) for n in (999, 14_800_000, 1_890_000_000)] == ["999 B", "14.8 MB", "1.89 GB"]


def test_a_plan_that_was_made_before_is_published_as_it_is(texts: Path, tmp_path: Path) -> None:
    work, output = ["--work", str(tmp_path / "work")], ["--output", str(tmp_path / "public")]
    assert run("plan", *SMALL, "--texts", str(texts), *work)[0] == 0
    status, out, _ = run("publish", "--planned", *work, *output)
    assert status == 0
    public = open_public(tmp_path / "public")
    assert public.plan == Plan.load(tmp_path / "work" / "plan.json")
    assert public.sha256 in out
    assert not (tmp_path / "public" / "weights.salt").exists()
    (tmp_path / "work" / "weights.salt").unlink()
    status, _, err = run("publish", "--planned", *work, *output)
    assert status == 2
    assert "without the salt that opens its commitment" in err.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "insecure_toy_n11"], "has 4 bits of security, 128 are required"),
        (["--tokens", "17"], "does not admit 17 tokens"),
        (["--json", "/proc/none/report.json"], "/proc/none/report.json: the folder cannot be made"),
        (["--config", "tacita.toml"], "the folder cannot be made"),
    ],
)
def test_what_cannot_be_is_refused_before_planning(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if words[0] == "--config":
        (tmp_path / "tacita.toml").write_text('[run]\nwork = "/proc/none"\n')

    def calibrated(*_: object, **__: object) -> None:
        raise AssertionError("a text was calibrated on")

    monkeypatch.setattr("tacita.planning.calibrate.walk.reference", calibrated)
    status, out, err = run("classify", "fine", *words)
    assert status == 2 and message in err and err.count("\n") == 1 and "prices" not in out


def test_an_answer_without_noise_takes_a_quick_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[bool] = []

    def planned(_: object, request: Any) -> None:
        asked.append(request.quick)
        raise InputError("enough")

    monkeypatch.setattr("tacita.cli.ask.core.planned", planned)
    (tmp_path / "work.toml").write_text(f'[run]\nwork = "{tmp_path}"\n')
    work = ["--config", str(tmp_path / "work.toml")]
    for options in (["plain"], ["plain", *work], ["sim"], ["ckks"]):
        assert run("classify", "fine", "--backend", *options)[0] == 2
    assert asked == [True, False, False, False]  # a plan that stays in a folder may be used for encryption
