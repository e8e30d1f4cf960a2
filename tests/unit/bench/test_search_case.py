"""The case of private search: its plan and texts, and how alike two rankings are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder

from bench.runs.harness import alike
from bench.runs.two_party.cases.search import Search
from bench.runs.two_party.session import Options


def test_rankings_are_alike_by_their_ten_first() -> None:
    wanted = np.linspace(1.0, 0.0, 40)[None].repeat(2, axis=0)
    assert alike(2.0 * wanted, wanted) == {"queries": 2, "same_ten": 2, "shared": 1.0, "worst": 0.0}
    found = wanted.copy()
    found[1, [9, 12]] = found[1, [12, 9]]
    told = alike(found, wanted)
    assert (told["same_ten"], told["shared"]) == (1, 0.95)
    assert told["worst"] == pytest.approx(wanted[0, 9] - wanted[0, 12])


def test_a_case_has_documents_of_any_kind_and_sentences_that_fit(tmp_path: Path) -> None:
    encoder = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True)
    docs, data = tmp_path / "docs.txt", tmp_path / "data.tsv"
    docs.write_text("\n".join(f"a fine film {'very ' * count}good" for count in range(12)))
    data.write_text("sentence\tlabel\na film\t1\n" + "film " * 40 + "\t0\nbad\t0\n")
    case, options = Search(), Options(write_folder(encoder, tmp_path / "model"), data, docs)
    assert not case.available(options) and case.available(Options(None, data, None))
    model = case.checkpoint(options)
    assert case.texts(model, options) == ["a film", "bad"]
    assert case.planned(model, case.tokens).nearest == 10
