"""`tacita accuracy` of a decoder: words of its vocabulary, entropies, and lines that calibrated its plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_accuracy import tacita_command

from tacita.cli.ask.accuracy import ENTROPIES, language
from tacita.cli.ask.measure import Row, of_words


def test_lines_of_a_decoders_text_that_calibrated_its_plan_are_counted(tmp_path: Path) -> None:
    """Their values lie in intervals that were made of them."""
    lines, report = ["Emma was happy.", "She was not.", "It was well."], tmp_path / "report.json"
    for name, chosen in (("text.txt", lines), ("few.txt", lines[:2])):
        (tmp_path / name).write_text("\n".join(chosen))
    options = ["--model", "austen-tiny", "--data", str(tmp_path / "text.txt"), "--tokens", "8"]
    options += ["--texts", str(tmp_path / "few.txt"), "--limit", "1", "--json", str(report)]
    how = ["--scheme", "bumblebee", "--backend", "plain", "--processes", "1"]
    status, err = tacita_command("accuracy", *options, *how)
    assert status == 0 and "2 of its lines, so not unseen" in err, err
    assert json.loads(report.read_text())["calibrated_on"] == 2


def test_four_words_have_what_a_vocabulary_has() -> None:
    """The logarithms of probabilities add up before the words are chosen; the fourth is furthest apart."""
    ours, wanted = np.array([1.0, 3.0, 2.0, 0.0, -9.0]), np.array([1.0, 2.0, 3.0, 0.0, -5.0])
    logs = [each - np.log(np.exp(each).sum()) for each in (ours, wanted)]
    found = of_words(3, ours, wanted)
    assert [list(side) for side in found] == [pytest.approx(log[[3, 1, 2, 4]]) for log in logs]
    figures = language([Row(3, found[1], found[0], 0.1, 0)])
    assert figures["max_abs_error"] == pytest.approx(np.abs(logs[0] - logs[1]).max())
    assert (figures["accuracy"], figures["matches"], figures["mismatches"]) == (0.0, 0, 1)
    assert figures["cross_entropy"] == pytest.approx(-logs[0][3])


def test_of_words_that_rounding_made_equal_a_client_takes_the_first() -> None:
    """The right one is the second of them: a text would go on with another."""
    ours, wanted = of_words(2, np.array([0.0, 3.0, 3.0]), np.array([0.0, 2.9, 3.1]))
    figures = language([Row(2, wanted, ours, 0.1, 0)])
    shares = [figures[name] for name in ("accuracy", "reference_accuracy", "agreement")]
    assert shares == [0.0, 1.0, 0.0]
    assert figures["cross_entropy"] == pytest.approx(-np.log(1.0 / (2.0 + np.exp(-3.0))))


def test_a_word_whose_answer_failed_its_checks_has_no_entropy() -> None:
    """Both sides' entropies are of the same words."""
    row = Row(3, (-1.0,) * 4, (-1.5,) * 4, 0.1, 0)
    lost = replace(row, reference=(-3.0,) * 4, logits=(-90.0,) * 4, empty=True)
    named = [[each[name] for name in ENTROPIES] for each in (language([row, lost]), language([lost]))]
    assert named == [pytest.approx([1.5, 1.0, np.exp(1.5), np.exp(1.0)]), [None] * 4]
    assert language([lost, row])["cross_entropy_difference"] == pytest.approx(0.5)
