"""`tacita accuracy`: lines that cannot be used are named and left out, and processes do not change the
figures."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from safetensors.numpy import load_file, save_file
from test_families import folder_of

import tacita
from bench.options import read_examples
from bench.runs.harness import unrounded
from tacita import api
from tacita.approx import rsqrt
from tacita.approx.fit import FitError
from tacita.approx.spec import from_dict
from tacita.blocks.weights import Weights
from tacita.cli import main
from tacita.cli.ask.accuracy import MEASURED, language, regression, scores, summary
from tacita.cli.ask.measure import Row
from tacita.cli.columns import read_labelled
from tacita.errors import InputError
from tacita.generation.sources import Floats
from tacita.packings.specs import exact_spec
from tacita.plans.json_fields import to_json
from tacita.texts.answer import withhold_failed
from tacita.texts.embed import embed
from tacita.texts.generation import ids_of
from tacita.two_party.model import simulation

SENTENCES = ["a fine film", "the plot is dull", "never boring , very good", "it ended too soon", "bad"]
GOOD = [b"a fine film\t1", b"the plot is dull\t0", b"never boring\t1"]
BAD = {
    "no tab": (b"a fine film 1", "not a sentence, a tab and a label number"),
    "no label": (b"a fine film\tgood", "not a sentence, a tab and a label number"),
    "superscript": ("a fine film\t²".encode(), "not a sentence, a tab and a label number"),
    "no text": (b" \t1", "not a sentence, a tab and a label number"),
    "latin-1": (
        "un film éblouissant\t1".encode("latin-1"),
        "not UTF-8 (invalid continuation byte at byte 8)",
    ),
    "too long": (b"a " * 40 + b"\t1", "the text has 42 tokens, the plan 16"),
}


def tacita_command(*arguments: str) -> tuple[int, str]:
    """(exit status, what it says on stdout and stderr) of one command."""
    err = io.StringIO()
    with contextlib.redirect_stdout(err), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    return status, err.getvalue()


def measured(rows: list[bytes], tmp_path: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, stderr and figures of a toy model on the rows, below a header: in this process and by a
    plan for few texts, unless options say otherwise."""
    model = write_folder(make_random_checkpoint(layers=1), tmp_path / "model")
    data, report = tmp_path / "data.tsv", tmp_path / "report.json"
    data.write_bytes(b"\n".join([b"sentence\tlabel", *rows]) + b"\n")
    (tmp_path / "few.txt").write_text("\n".join(SENTENCES))
    toy = ["--preset", "insecure_toy_n10", "--tokens", "16", "--model", str(model), "--processes", "1"]
    toy += ["--texts", str(tmp_path / "few.txt")]
    status, err = tacita_command("accuracy", "--data", str(data), *toy, *options, "--json", str(report))
    return status, err, json.loads(report.read_text()) if report.exists() else {}


def test_sentences_that_calibrated_the_plan_are_counted(tmp_path: Path) -> None:
    own, strange = GOOD[0].split(b"\t")[0], GOOD[1].split(b"\t")[0]
    for text, count in ((own, 1), (strange, 0)):
        (tmp_path / "texts.txt").write_bytes(text + b"\nthe plot is dull\n")
        options = ["--backend", "plain", "--texts", str(tmp_path / "texts.txt")]
        _, _, found = measured([GOOD[0]], tmp_path, *options)
        assert found["calibrated_on"] == count


def test_bad_lines_are_left_out_by_number_and_the_others_count(tmp_path: Path) -> None:
    rows = [GOOD[0], *(row for row, _ in BAD.values()), b"", *GOOD[1:]]
    status, err, found = measured(rows, tmp_path, "--backend", "plain")
    assert status == 1
    assert found["sentences"] == 3
    problems = [problem for _, problem in BAD.values()]
    assert found["rejected"] == [{"line": 3 + i, "error": problem} for i, problem in enumerate(problems)]
    assert all(f"data.tsv:{3 + i}: {problem}" in err for i, problem in enumerate(problems))


def test_figures_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    found = []
    for processes in ("1", "2"):
        status, err, figures = measured(GOOD, tmp_path, "--backend", "sim", "--processes", processes)
        assert status == 0, err
        assert figures["processes"] == int(processes)
        assert (figures["encrypted"], figures["parameters"]) == (False, None)
        found.append(
            {name: figures[name] for name in ("max_abs_error", "mean_abs_error", "accuracy", "agreement")}
        )
    assert found[0] == found[1]
    assert found[0]["max_abs_error"] > 0


@pytest.mark.native
def test_two_encrypted_processes_answer_as_one_and_leave_no_keys(tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    work = tmp_path / "work"
    work.mkdir()
    for scheme in ("thor", "bumblebee"):
        how = ["--backend", "ckks", "--scheme", scheme, "--allow-insecure", "--work", str(work)]
        status, err, figures = measured(GOOD[:2], tmp_path, *how, "--processes", "2")
        assert status == 0, err
        assert figures["encrypted"] and figures["processes"] == 2
        assert figures["agreement"] == 1.0 and 0.0 < figures["max_abs_error"] < 0.5
        assert not [*work.iterdir()]


class Cut(Exception):
    """What cuts a run off."""


def test_a_run_that_was_cut_off_goes_on_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = ["--backend", "sim"]
    _, _, whole = measured(GOOD, tmp_path, *how)
    asked, journal, classify = list[str](), tmp_path / "report.json.rows", api.classify_locally

    def cut(plan: Any, model: Any, text: Any, **more: Any) -> Any:
        if len(asked) == 2:
            raise Cut
        asked.append(text)
        return classify(plan, model, text, **more)

    monkeypatch.setattr(api, "classify_locally", cut)
    with pytest.raises(Cut):
        measured(GOOD, tmp_path, *how)
    with journal.open("ab") as file:
        file.write(b'{"input":"cut o')  # as a process that is killed while it writes leaves it
    monkeypatch.setattr(api, "classify_locally", lambda *a, **k: asked.append(a[2]) or classify(*a, **k))
    status, err, figures = measured(GOOD, tmp_path, *how)
    assert status == 0 and "goes on with 1 of 3 inputs" in err
    assert figures["resumed"] == 2 and len(asked) == len(set(asked)) == 3 and not journal.exists()
    assert figures["plan_hash"] != whole["plan_hash"]  # each commits with a salt of its own
    assert {n: v for n, v in figures.items() if n in SAME} == {n: v for n, v in whole.items() if n in SAME}


SAME = ("max_abs_error", "mean_abs_error", "accuracy", "agreement", "matches", "sentences", "warnings")


def test_rows_of_another_measurement_are_not_taken_up(tmp_path: Path) -> None:
    journal, row = tmp_path / "report.json.rows", to_json(Row(1, (0.0, 1.0), (0.0, 0.9), 0.1, 0))
    for line, problem in (
        ({"measure": "00", "input": "00", "row": row}, "rows of another model, plan or backend"),
        ({"measure": "00", "input": "00", "row": [1]}, "no rows of a measurement"),
    ):
        journal.write_text(json.dumps(line) + "\n")
        status, err, found = measured(GOOD, tmp_path, "--backend", "plain")
        assert status == 2 and problem in err and not found and journal.exists()


@pytest.mark.parametrize("how", [("bumblebee", "sim"), ("thor", "plain"), ("thor", "ckks")])
def test_images_have_labels_and_top_three(tmp_path: Path, how: tuple[str, str]) -> None:
    """Names are of the folder of the file that has them; what is no image is left out by its line."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install tacita[images]")
    if how[1] == "ckks":
        pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model = folder_of("vit-class", tmp_path)
    tensors = load_file(model / "model.safetensors")  # with a fourth label
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = np.concatenate([tensors[name], -tensors[name][:1]])
    save_file(tensors, model / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    labels = {"id2label": dict(enumerate("abcd")), "label2id": {n: i for i, n in enumerate("abcd")}}
    (model / "config.json").write_text(json.dumps(config | labels))
    rng = np.random.default_rng(2)
    for number in range(4):
        pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    rows = [f"{number}.png\t{number}" for number in range(3)]
    (tmp_path / "images.tsv").write_text("\n".join(["image\tlabel", *rows, "broken.png\t1"]) + "\n")
    (tmp_path / "texts.txt").write_text("\n".join(str(tmp_path / f"{n}.png") for n in range(4)) + "\n")
    tokens = "10" if how[0] == "bumblebee" else "16"
    options = ["--model", str(model), "--data", str(tmp_path / "images.tsv"), "--tokens", tokens]
    options += ["--texts", str(tmp_path / "texts.txt"), "--preset", "insecure_toy_n10", "--allow-insecure"]
    report = tmp_path / "report.json"
    status, err = tacita_command(
        "accuracy",
        *options,
        "--scheme",
        how[0],
        "--backend",
        how[1],
        "--processes",
        "1",
        "--json",
        str(report),
    )
    assert report.exists(), err
    figures = json.loads(report.read_text())
    assert status == 1 and "images.tsv:5: " in err and "not an image" in err
    assert (figures["sentences"], figures["agreement"], figures["calibrated_on"]) == (3, 1.0, 3)
    assert figures["top3"] >= figures["accuracy"] and 0.0 < figures["max_abs_error"] < 0.05


@pytest.mark.parametrize("how", [("bumblebee", "sim", 8, 10), ("thor", "plain", 16, 3)])
def test_a_decoder_has_a_perplexity_beside_the_float_models(
    tmp_path: Path, how: tuple[str, str, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each token by those before it, at most as many as the plan has, as floats say that remember rows."""
    monkeypatch.setitem(MEASURED, "next", rows := Mock(side_effect=language))
    scheme, backend, tokens, count = how
    model, text, report = tacita.load("austen-tiny"), tmp_path / "text.txt", tmp_path / "report.json"
    text.write_text("Emma could not be happy, and she knew it very well indeed.\n")
    ids = ids_of(model, "Emma could not be happy, and she knew it very well indeed.", begun=False)
    options = ["--model", "austen-tiny", "--data", str(text), "--tokens", str(tokens)]
    (tmp_path / "few.txt").write_text("Emma\nShe could not be very happy.\nIt was not well known.")
    options += ["--preset", "insecure_toy_n12", "--limit", str(count), "--scheme", scheme]
    options += ["--texts", str(tmp_path / "few.txt")]
    here = ["--backend", backend, "--processes", "1", "--json", str(report)]
    status, err = tacita_command("accuracy", *options, *here)
    assert status == 0, err
    figures, entropies, right = json.loads(report.read_text()), list[float](), list[bool]()
    for at, row in enumerate(rows.call_args.args[0], 2):  # behind the first, which stands behind the model's
        before = ids[:at] if at <= tokens else [ids[0], *ids[at - tokens + 1 : at]]
        logits = Floats(model).logits(before)[0]
        if not row.empty:
            entropies.append(float(np.log(np.exp(logits).sum()) - logits[ids[at]]))
        right.append(bool(logits.argmax() == ids[at]))
    assert figures["matches"] + figures["mismatches"] == figures["sentences"] == count
    assert figures["reference_cross_entropy"] == pytest.approx(np.mean(entropies))
    assert figures["reference_perplexity"] == pytest.approx(np.exp(np.mean(entropies)))
    assert figures["reference_accuracy"] == pytest.approx(np.mean(right))
    assert 0.0 < abs(figures["cross_entropy_difference"]) < 0.05
    status, err = tacita_command("accuracy", *options, "--backend", "ckks")
    assert status == 2 and "a decoder on ckks" in err


EVERY = ("softmax", "norm", "gelu", "tanh")
CIRCUITS = [("thor", "tacita"), ("arion", "tacita"), ("thor", "arion"), ("thor", "moai"), ("thor", "thor")]


@pytest.mark.parametrize(("scheme", "functions"), [*CIRCUITS, ("thor", "leaf")])
def test_exact_functions_leave_a_circuit_nothing_to_differ_by(scheme: str, functions: str) -> None:
    """Each alone moves the answers, all together are the float model's but for rounding of doubles."""
    model = make_random_checkpoint(layers=1)
    how: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n10", "texts": SENTENCES}
    plan = unrounded(api.plan(model, scheme=scheme, functions=functions, **how))

    def error(*exact: str) -> float:
        answer = api.classify_locally(plan, model, SENTENCES[1], exact=exact)
        wanted = api.reference_logits(plan, model, SENTENCES[1])
        return float(np.abs(answer.anyway.vector - wanted).max())

    alone = [error(name) for name in EVERY]
    assert error(*EVERY) < 1e-9 < 1e-6 < error() and all(1e-9 < each != error() for each in alone)


def test_exact_functions_leave_two_parties_the_rounding_of_their_integers() -> None:
    model = tacita.load()
    plan = api.plan(model, scheme="bumblebee", tokens=16, texts=SENTENCES)
    exact = dict[tuple[str, ...], float]()
    for names in ((), *((name,) for name in EVERY), EVERY):
        hidden, mask = embed(model, SENTENCES[1], 16)
        run = simulation(plan, Weights(model.tensors), mask, exact=frozenset(names))
        wanted = api.reference_logits(plan, model, SENTENCES[1])
        exact[names] = float(np.abs(np.ravel(run.floats(hidden)) - wanted).max())
        assert not run.overflows
    assert len(set(exact.values())) == len(exact) and exact[EVERY] < min(exact[()], 2e-3)


def test_an_ablation_names_functions_of_the_model(tmp_path: Path) -> None:
    status, err, figures = measured(GOOD, tmp_path, "--backend", "plain", "--exact", "norm, softmax,norm")
    assert status == 0 and figures["exact"] == ["norm", "softmax"], err
    for names, backend, problem in (
        ("softmax,gleu", "plain", "no function of this model"),
        ("silu", "plain", "no function of this model"),
        ("softmax", "ckks", "ciphertexts have approximations alone"),
    ):
        status, err, _ = measured(GOOD, tmp_path, "--backend", backend, "--exact", names)
        assert status == 2 and problem in err
    with pytest.raises(InputError, match="products of coefficients"):
        how: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n11", "texts": SENTENCES}
        plan = api.plan(tacita.load(), scheme="leaf", packing="coefficients", **how)
        api.classify_locally(plan, tacita.load(), SENTENCES[0], exact=["gelu"])


def test_no_file_can_hold_an_exact_function() -> None:
    spec = rsqrt.fit((0.5, 2.0), 1e-3)
    exact = exact_spec(spec)
    assert type(from_dict(spec.to_dict())) is type(spec) and isinstance(exact, type(spec))
    with pytest.raises(FitError):
        from_dict(exact.to_dict())


@pytest.mark.parametrize("name", [name for name in BAD if name != "too long"])
def test_a_file_that_must_be_whole_is_refused_by_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_bytes(b"\n".join([b"sentence\tlabel", GOOD[0], BAD[name][0]]))
    with pytest.raises(InputError, match=r"data.tsv:3: not "):
        read_examples(path)
    assert [bool(line.problem) for line in read_labelled(path)] == [False, True]


def test_scores_are_those_of_the_formulas_of_counts() -> None:
    """20 right, 5 wrongly 1, 15 wrongly 0, 60 rightly 0: F1 = 2 tp / (2 tp + fp + fn), Matthews by its own
    formula, and as Pearson's correlation of the two columns."""
    labels = np.array([1] * 20 + [0] * 5 + [1] * 15 + [0] * 60, dtype=float)
    answers = np.array([1] * 25 + [0] * 75)
    score = scores(np.eye(2)[answers], labels)
    ones, noughts = 2 * 20 / (2 * 20 + 5 + 15), 2 * 60 / (2 * 60 + 15 + 5)
    assert score["f1"] == pytest.approx(ones) and score["macro_f1"] == pytest.approx((ones + noughts) / 2)
    matthews = (20 * 60 - 5 * 15) / (25 * 35 * 65 * 75) ** 0.5
    assert score["matthews"] == pytest.approx(matthews)
    assert score["matthews"] == pytest.approx(np.corrcoef(labels, answers)[0, 1])
    assert score["accuracy"] == 0.8 and "top3" not in score


def test_labels_that_do_not_vary_have_no_correlation() -> None:
    score = scores(np.eye(2)[[1, 1, 0]], np.ones(3))
    assert score["matthews"] == 0.0 and score["f1"] == pytest.approx(0.8)
    assert scores(np.eye(2)[[0, 0]], np.zeros(2))["f1"] == 0.0


def test_of_many_labels_the_three_largest_count() -> None:
    """A label that the model has no logit for is wrong."""
    logits = np.array([[4.0, 3, 2, 1], [4, 3, 2, 1], [4, 3, 2, 1], [1, 2, 3, 4]])
    score = scores(logits, np.array([0.0, 2, 3, 9]))
    assert (score["accuracy"], score["top3"]) == (0.25, 0.5) and "f1" not in score
    # labels 0, 2, 3 and 9: one of three answers 0 is right, and no other answer
    assert score["macro_f1"] == pytest.approx(2 * 1 / (1 + 3) / 4)


def test_labels_that_match_are_counted_beside_those_that_do_not() -> None:
    """The float model's scores stand beside the circuit's."""
    rows = [Row(1, (0.0, 1.0), (0.0, 0.9), 0.1, 0), Row(1, (0.0, 1.0), (0.2, 0.1), 0.1, 0)]
    figures = summary(rows)
    assert (figures["matches"], figures["mismatches"], figures["agreement"]) == (1, 1, 0.5)
    assert (figures["f1"], figures["reference_f1"]) == (pytest.approx(2 / 3), 1.0)


def test_an_answer_that_failed_its_checks_is_no_label_and_has_no_error() -> None:
    """The float model says 0, and so would the largest of what was decrypted."""
    rows = [Row(0, (2.0, 0.0), (1.9, 0.0), 0.1, 0), Row(0, (2.0, 0.0), (0.0, 0.0), 0.1, 1, empty=True)]
    figures = summary(rows)
    assert [figures[name] for name in ("accuracy", "matches", "mismatches", "empty")] == [0.5, 1, 1, 1]
    assert figures["macro_f1"] == pytest.approx(2 / 3)  # of label 0 alone: none is no label
    assert figures["max_abs_error"] == figures["mean_abs_error"] == pytest.approx(0.1)
    assert (summary(rows[1:])["max_abs_error"], regression(rows[1:])["correlation"]) == (None, None)
    words = Row(3, (-1.0,) * 4, (-1.0,) * 4, 0.1, 1, empty=True)
    assert (language([words])["accuracy"], language([words])["matches"]) == (0.0, 0)
    assert scores(np.full((1, 4), np.nan), np.zeros(1))["top3"] == 0.0


def test_what_is_without_an_answer_is_said_beside_what_the_plan_expects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classify = api.classify_locally

    def fail(plan: Any, model: Any, text: Any, **how: Any) -> Any:
        answer = classify(plan, model, text, **how)
        return answer if text == "a fine film" else withhold_failed(replace(answer, trusted=False))

    monkeypatch.setattr(api, "classify_locally", fail)
    status, err, figures = measured(GOOD, tmp_path, "--backend", "plain")
    assert status == 0 and figures["empty"] == figures["mismatches"] == 2
    assert "2 without an answer" in err and "texts outside the intervals: not estimated" in err
