"""`tacita accuracy`: lines that cannot be used are named and left out, and processes do not change the
figures."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder

from bench.options import read_examples
from tacita.cli import main
from tacita.cli.ask.accuracy import Row, scores, summary
from tacita.cli.columns import read_labelled
from tacita.errors import InputError

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


def tacita(*arguments: str) -> tuple[int, str]:
    """(exit status, stderr) of one command."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    return status, err.getvalue()


def measured(rows: list[bytes], tmp_path: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, stderr and figures of a toy model on the rows, below a header."""
    model = write_folder(make_random_checkpoint(layers=1), tmp_path / "model")
    data, report = tmp_path / "data.tsv", tmp_path / "report.json"
    data.write_bytes(b"\n".join([b"sentence\tlabel", *rows]) + b"\n")
    toy = ["--preset", "insecure_toy_n10", "--tokens", "16", "--model", str(model)]
    status, err = tacita("accuracy", "--data", str(data), *toy, *options, "--json", str(report))
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
    status, err, found = measured(rows, tmp_path, "--backend", "plain", "--threads", "1")
    assert status == 1
    assert found["sentences"] == 3
    problems = [problem for _, problem in BAD.values()]
    assert found["rejected"] == [{"line": 3 + i, "error": problem} for i, problem in enumerate(problems)]
    assert all(f"data.tsv:{3 + i}: {problem}" in err for i, problem in enumerate(problems))


def test_figures_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    found = []
    for processes in ("1", "3"):
        status, err, figures = measured(GOOD, tmp_path, "--backend", "sim", "--threads", processes)
        assert status == 0, err
        assert (figures["encrypted"], figures["parameters"]) == (False, None)
        found.append(
            {name: figures[name] for name in ("max_abs_error", "mean_abs_error", "accuracy", "agreement")}
        )
    assert found[0] == found[1]
    assert found[0]["max_abs_error"] > 0


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
