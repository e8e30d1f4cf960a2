"""The programs and notebooks for users, as they stand: with small random models under the names that they
ask for, in the folder where `tacita models fetch` puts models."""

from __future__ import annotations

import csv
import importlib
import io
import json
import runpy
import sys
from pathlib import Path

import pytest
from random_checkpoint import make_random_checkpoint, write_folder

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = ["a fine film", "the plot is dull", "never boring"]
MODELS = {
    "minilm": {"labels": (), "pooling": "mean"},
    "tagger": {"labels": ("O", "B-PER", "I-PER"), "task": "tokens"},
    "nanoguard": {"labels": ("safe", "injection")},
    "ranker": {"labels": ("score",)},
}
LONGEST = 60


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder with the models, texts to ask, and a user without keys."""
    for name, kind in MODELS.items():
        write_folder(make_random_checkpoint(**kind), tmp_path / "cache" / "tacita" / "models" / name)
    (tmp_path / "docs.txt").write_text("\n".join(TEXTS) + "\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.chdir(tmp_path)


def ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, *words: str
) -> list[str]:
    """Returns the lines that a program prints."""
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_every_program_is_short_shown_and_run() -> None:
    programs = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert all(len((EXAMPLES / name).read_text().splitlines()) <= LONGEST for name in programs)
    table, own = (EXAMPLES / "README.md").read_text(), Path(__file__).read_text()
    assert all(f"]({name})" in table and f'"{name}"' in own for name in programs)


def test_labels_by_a_model_of_ones_own(monkeypatch, capsys) -> None:
    *rows, last = ask(
        monkeypatch, capsys, "classify_own_model.py", "sst2-tiny", "a film of quiet beauty", "dull"
    )
    assert [row.split()[0] for row in rows] == ["positive", "negative"]
    assert last.startswith("protected by: ") and "none" not in last


def test_a_search_finds_the_document_itself_and_keeps_vectors(monkeypatch, capsys, tmp_path: Path) -> None:
    asked = "embed_and_search.py", "docs.txt", TEXTS[1]
    first = ask(monkeypatch, capsys, *asked)
    assert first[0].endswith(TEXTS[1]) and first[0].startswith("1.000") and len(first) == 3
    kept = tmp_path / "docs.npy"
    written = kept.stat().st_mtime_ns
    assert ask(monkeypatch, capsys, *asked)[0] == first[0] and kept.stat().st_mtime_ns == written


def test_names_are_masked(monkeypatch, capsys) -> None:
    (line,) = ask(monkeypatch, capsys, "mask_pii.py", TEXTS[0], "--model", "tagger", "--least", "0")
    (whole,) = ask(monkeypatch, capsys, "mask_pii.py", TEXTS[0], "--model", "tagger", "--least", "1")
    assert "[PER]" in line and whole == TEXTS[0]
    masked = runpy.run_path(str(EXAMPLES / "mask_pii.py"))["masked"]
    assert masked("Ada", []) == "Ada"


def test_a_guard_refuses_what_it_labels(monkeypatch, capsys) -> None:
    answers = set[str]()
    for bad in ("injection", "safe"):  # whatever the random guard says, one of both refuses
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{TEXTS[0]}\n\n"))
        answers |= set(ask(monkeypatch, capsys, "guard_prompts.py", "--bad", bad))
    assert answers == {f"you said: {TEXTS[0]}", "refused: this prompt tries to change the rules"}
    monkeypatch.setattr(sys, "stdin", io.StringIO("x"))
    with pytest.raises(SystemExit, match="no label odd: one of safe, injection"):
        ask(monkeypatch, capsys, "guard_prompts.py", "--bad", "odd")


def test_documents_are_sorted(monkeypatch, capsys) -> None:
    lines = ask(monkeypatch, capsys, "rerank.py", "docs.txt", "is it fine", "--model", "ranker", "--top", "2")
    scores = [float(line.split()[0]) for line in lines]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)


def test_a_table_gets_labels_and_says_which_row_is_too_long(monkeypatch, capsys, tmp_path: Path) -> None:
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], ["1", "a film of quiet beauty"], ["2", "so , " * 40]])
    (line,) = ask(monkeypatch, capsys, "classify_csv.py", "in.csv", "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["positive", "too long"] and line.startswith("1 of 2 rows")


def test_openai_s_client_by_a_gateway(monkeypatch, capsys) -> None:
    pytest.importorskip("openai")
    (line,) = ask(monkeypatch, capsys, "openai_client.py", TEXTS[0], TEXTS[0])
    assert line == f"1.000  {TEXTS[0]} | {TEXTS[0]}"


def test_a_server_and_a_client(monkeypatch, capsys) -> None:
    answer, cost = ask(monkeypatch, capsys, "server_and_client.py", "a film of quiet beauty")
    assert answer == "positive a film of quiet beauty" and "bytes sent" in cost


NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_printed(path: Path, monkeypatch) -> None:
    """Without Jupyter: cell after cell (`.ci/notebooks.py`)."""
    monkeypatch.syspath_prepend(str(EXAMPLES.parent / ".ci"))
    notebook = json.loads(path.read_text(encoding="utf-8"))
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    importlib.import_module("notebooks").run(notebook, path.name)
    run = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    kinds = [[[output["output_type"] for output in outputs] for outputs in cells] for cells in (stored, run)]
    assert kinds[0] == kinds[1], "python .ci/notebooks.py --write"
    assert all(len("".join(cell["source"])) < 1000 for cell in notebook["cells"])


def test_there_are_four_notebooks_and_the_table_has_them() -> None:
    table = (EXAMPLES / "README.md").read_text()
    assert len(NOTEBOOKS) == 4 and all(f"](notebooks/{path.name})" in table for path in NOTEBOOKS)
