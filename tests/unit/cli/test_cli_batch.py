"""Files of texts in batches on plain and sim: answers by line, what is wrong with a line, which scheme and
why."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.columns import Line, checked
from tacita.errors import InputError, PlanError
from tacita.planning.request import Objective
from tacita.plans.plan import Plan
from tacita.schemes.choose import Option, choose

WORDS = ("a", "fine", "dull", "film", "the", "plot", "is", "never", "boring", "good", "bad", "very")
SENTENCES = [" ".join(np.random.default_rng(seed).choice(WORDS, 1 + seed % 12)) for seed in range(20)]
TOY = ["--preset", "insecure_toy_n9", "--tokens", "16"]  # 256 slots: 16 texts of 16 tokens


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(make_random_checkpoint(layers=1), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def common(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options of every command: model, toy ring, calibration texts."""
    texts = tmp_path_factory.mktemp("texts") / "calibration.txt"
    texts.write_text("\n".join(SENTENCES))
    return ["--model", str(model), *TOY, "--texts", str(texts)]


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    return api.plan(load(model), tokens=16, preset="insecure_toy_n9", scheme="arion", texts=SENTENCES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(SENTENCES))
    return path


def classified(
    file: Path, common: list[str], *options: str, **settings: object
) -> tuple[int, str, str, dict]:
    """(status, stdout, stderr, report) of `classify --file` on plain."""
    report = file.with_suffix(".json")
    arguments = ["--file", str(file), "--backend", "plain", "--scheme", "arion", *common, *options]
    status, out, err = run("classify", *arguments, "--json", str(report), **settings)
    return status, out, err, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.parametrize(("scheme", "backend"), [("arion", "sim"), ("moai", "plain")])
def test_more_texts_than_a_batch_go_in_several(
    scheme: str, backend: str, file: Path, common: list[str]
) -> None:
    status, out, _, found = classified(file, common, "--backend", backend, "--scheme", scheme)
    assert status == 0
    assert (found["scheme"], found["inputs"], found["requests"], found["texts_per_request"]) == (
        scheme,
        20,
        2,
        16,
    )
    assert [result["line"] for result in found["results"]] == list(range(1, 21))
    assert [result["request"] for result in found["results"]] == [1] * 16 + [2] * 4
    assert found["max_abs_error"] < 0.02
    assert found["agreement"] == 1.0
    assert found["rejected"] == []
    answers = [line.split(": ", 1) for line in out.splitlines()[:20]]
    assert [int(number) for number, _ in answers] == list(range(1, 21))
    assert all(told.startswith(r["label"]) for (_, told), r in zip(answers, found["results"], strict=True))


def test_thor_answers_a_file_one_by_one(file: Path, common: list[str]) -> None:
    file.write_text("a fine film\n\n  \nthe plot is dull\n")
    status, _, _, found = classified(file, common, "--scheme", "thor")
    assert status == 0
    assert [result["line"] for result in found["results"]] == [1, 4]
    assert (found["requests"], found["texts_per_request"]) == (2, 1)


def test_bad_lines_are_named_and_the_others_unharmed(file: Path, common: list[str]) -> None:
    file.write_bytes(b"a fine film\n" + b"very " * 30 + b"dull\n\xff\xfe film\n\nthe plot is dull\r\n")
    status, out, err, found = classified(file, common)
    assert status == 1
    assert f"{file}:2: the text has 33 tokens, the plan 16" in err
    assert f"{file}:3: not UTF-8" in err
    assert len(err.strip().splitlines()) == 2
    assert [result["line"] for result in found["results"]] == [1, 5]
    assert [result["text"] for result in found["results"]] == ["a fine film", "the plot is dull"]
    assert [line["line"] for line in found["rejected"]] == [2, 3]
    assert found["max_abs_error"] < 0.02
    assert out.startswith("1: ")


def test_a_file_of_bad_lines_alone_plans_nothing(file: Path, common: list[str]) -> None:
    file.write_text("very " * 30)
    status, out, err, found = classified(file, common)
    assert (status, out, found) == (1, "", {})
    assert f"{file}:1: " in err


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n"])
def test_an_empty_file_is_refused(content: bytes, file: Path, common: list[str]) -> None:
    file.write_bytes(content)
    status, _, err, _ = classified(file, common)
    assert status == 2
    assert "holds no text" in err


def test_a_file_that_is_absent_or_doubled_by_texts_is_refused(file: Path, common: list[str]) -> None:
    status, _, err, _ = classified(file.with_name("absent.txt"), common)
    assert status == 2
    assert "cannot be read" in err
    status, _, err, _ = classified(file, common, "a text beside it")
    assert status == 2
    assert "texts or a --file" in err


def test_texts_come_from_standard_input(common: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a fine film\nthe plot is dull\n")))
    status, out, _ = run("classify", "--file", "-", "--backend", "plain", "--scheme", "arion", *common)
    assert status == 0
    assert [line.split(":")[0] for line in out.splitlines()[:2]] == ["1", "2"]


def test_auto_says_why_with_the_numbers_of_every_scheme(
    file: Path, common: list[str], tmp_path: Path
) -> None:
    status, out, _, found = classified(file, common, "--scheme", "auto")
    assert status == 0
    said = out.splitlines()[0]
    assert said.startswith(f"scheme auto: {found['scheme']} (20 texts: ")
    assert "by throughput" in said
    assert all(name in said for name in ("thor", "arion", "moai"))
    status, out, _, found = classified(file, common, "--scheme", "auto", plan__objective="latency")
    assert found["scheme"] == "thor"  # one text is sooner answered than a batch
    assert "until the first answer" in out.splitlines()[0]


def test_auto_passes_over_a_scheme_that_is_not_possible(common: list[str], tmp_path: Path) -> None:
    """Two tokens are too few for rows, enough for a batch."""
    status, out, err = run(
        "plan", "--scheme", "auto", "--inputs", "4", *common, "--tokens", "2", "--work", str(tmp_path)
    )
    assert (status, err) == (0, "")
    assert "thor not possible: " in out
    assert Plan.load(tmp_path / "plan.json").scheme in ("arion", "moai")


def test_a_plan_of_a_batch_is_written_and_shown(common: list[str], tmp_path: Path) -> None:
    status, out, _ = run("plan", "--scheme", "arion", *common, "--work", str(tmp_path))
    assert status == 0
    assert "for a batch of 16" in out
    plan = Plan.load(tmp_path / "plan.json")
    assert (plan.scheme, plan.batch, plan.lanes) == ("arion", 16, 1)
    status, out, _ = run("plan", "show", str(tmp_path / "plan.json"))
    assert status == 0
    assert "scheme arion in columns, 16 texts a request" in out


def test_an_estimate_goes_stage_by_stage(common: list[str], tmp_path: Path) -> None:
    report = tmp_path / "estimate.json"
    options = ["--scheme", "arion", "--inputs", "40", "--memory", "0.25", "--json", str(report)]
    status, out, _ = run("estimate", *common, *options)
    found = json.loads(report.read_text())
    assert status == 0
    assert (found["inputs"], found["requests"]) == (40, 3)
    assert found["wall_seconds"] == pytest.approx(3 * found["seconds"]["evaluate"])
    assert found["seconds_per_input"] == pytest.approx(found["wall_seconds"] / 40)
    assert sum(stage["seconds"] for stage in found["stages"]) == pytest.approx(found["seconds"]["evaluate"])
    assert sum(stage["key_switches"] for stage in found["stages"]) == found["key_switches"]
    assert all(any(line.startswith(stage["name"]) for line in out.splitlines()) for stage in found["stages"])


def test_an_estimate_says_what_does_not_fit(common: list[str], tmp_path: Path) -> None:
    report = tmp_path / "estimate.json"
    run("estimate", *common, "--scheme", "arion", "--memory", "0.1", "--json", str(report))
    found = json.loads(report.read_text())
    assert any("keys, matrices and circuit need" in line for line in found["too_large"])
    assert any("stages do not fit 0.1 GB" in line for line in found["too_large"])
    assert all(stage["spill_bytes"] == stage["bytes"] for stage in found["stages"])


def test_lanes_are_chosen_by_the_texts_expected() -> None:
    model = make_random_checkpoint(layers=1, pooling="mean", heads=4)
    options = {"tokens": 16, "preset": "insecure_toy_n9", "scheme": "arion", "texts": SENTENCES}
    chosen = {n: api.plan(model, inputs=n, **options) for n in (None, 3, 5, 9, 17)}
    assert {n: (plan.batch, plan.lanes) for n, plan in chosen.items()} == {
        None: (16, 1),
        3: (4, 4),
        5: (8, 2),
        9: (16, 1),
        17: (16, 1),
    }
    for plan in (chosen[3], chosen[5], chosen[9]):
        _equals_reference(plan, model, SENTENCES[:3])


def test_a_model_that_admits_one_lane_gets_one() -> None:
    model = make_random_checkpoint(layers=1)  # a [CLS] pooler
    plan = api.plan(model, tokens=16, preset="insecure_toy_n9", scheme="arion", inputs=3, texts=SENTENCES)
    assert (plan.batch, plan.lanes) == (16, 1)


def _equals_reference(plan: Plan, model: Checkpoint, texts: list[str]) -> None:
    answers = api.classify_batch_locally(plan, model, texts)
    for text, answer in zip(texts, answers, strict=True):
        assert np.max(np.abs(np.array(answer.logits) - api.reference_logits(plan, model, text))) < 0.02
        assert answer.warnings == ()


def test_places_that_do_not_matter_do_not_change_answers(plan: Plan, model: Path) -> None:
    """The same texts in a batch of two places, of sixteen, and beside others."""
    checkpoint = load(model)
    few = api.classify_batch_locally(plan, checkpoint, SENTENCES[:2])
    many = api.classify_batch_locally(plan, checkpoint, SENTENCES[:16])
    assert [a.logits for a in few] == [a.logits for a in many[:2]]
    assert api.classify_locally(plan, checkpoint, SENTENCES[0]) == few[0]


def test_a_batch_takes_no_more_than_it_holds(plan: Plan, model: Path) -> None:
    for texts in ([], SENTENCES[:17]):
        with pytest.raises(InputError, match=rf"{len(texts)} texts, a batch holds 1 to 16"):
            api.classify_batch_locally(plan, load(model), texts)


def test_the_quickest_option_is_chosen_by_what_is_to_be_short(plan: Plan) -> None:
    def option(scheme: str, batch: int, seconds: float) -> Option:
        prediction = dataclasses.replace(plan.prediction, seconds={"evaluate": seconds})
        return Option(scheme, 40, dataclasses.replace(plan, batch=batch, prediction=prediction))

    options = [option("thor", 1, 10.0), option("arion", 16, 100.0), Option("moai", 40, None, "too deep")]
    by_last, by_first = (choose(options, goal) for goal in (Objective.throughput, Objective.latency))
    assert [o.scheme for o in by_last.options] == ["arion", "thor", "moai"]
    assert [o.seconds(Objective.throughput) for o in by_last.options[:2]] == [300.0, 400.0]
    assert [o.scheme for o in by_first.options] == ["thor", "arion", "moai"]
    with pytest.raises(PlanError, match="no scheme admits this model \\(moai: too deep\\)"):
        choose(options[2:], Objective.latency)


def test_a_line_within_the_plans_tokens_but_over_the_models_positions_has_a_problem() -> None:
    model = make_random_checkpoint(positions=12)
    short, long = (
        Line(n, " ".join(["fine"] * words)) for n, words in enumerate((3, 12), 1)
    )  # and [CLS], [SEP]
    kept, refused = checked(model, [short, long], 16)
    assert kept == short
    assert refused.number == 2 and "the model 12 positions" in refused.problem
