"""`[run] work` of `tacita generate`: a text takes the plan and the keys that its folder has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_generation_encrypted import RING, TEXTS, TOKENS, folder_of

import tacita
from tacita.api import load
from tacita.approx.functions import FITS, Functions
from tacita.cli import main
from tacita.planning.circuit import has_functions
from tacita.plans.plan import Plan

ON = ["--scheme", "thor", "--preset", RING]
ASK = [*ON, "--tokens", str(TOKENS)]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with texts to calibrate on; the work folder is another one."""
    monkeypatch.setenv("TACITA_RUN__WORK", str(tmp_path / "work"))
    monkeypatch.setenv("TACITA_PLAN__CACHE", "true")
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "calibration.txt").write_text("\n".join(TEXTS))
    return str(folder_of(tmp_path / "model"))


def tokens(tmp_path: Path, *arguments: str) -> list[int]:
    assert main(["generate", *arguments, "--json", str(tmp_path / "report.json")]) == 0
    found: list[int] = json.loads((tmp_path / "report.json").read_text())["tokens"]
    return found


def test_a_plan_is_not_made_anew(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what it is of where something else is asked for, and no other model has it."""
    plan = tmp_path / "work" / "plan.json"
    assert main(["plan", "--model", model, *ASK, "--work", str(plan.parent)]) == 0
    before = plan.read_bytes()
    on = ["--model", model, *ASK, "--backend", "sim", "--max-tokens", "2"]
    wanted = [token.id for token in tacita.generate("time is", model=model, max_tokens=2)]
    assert tokens(tmp_path, "time is", *on) == wanted and plan.read_bytes() == before
    capsys.readouterr()
    less = [*ON, "--tokens", "8", "--backend", "sim", "--max-tokens", "2"]
    assert main(["generate", "time is", "--model", model, *less]) == 2
    assert "tokens 8 by the plan of the work folder, whose tokens is 16" in capsys.readouterr().err
    wider = replace(Plan.load(plan), gap=0.2)
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "load", lambda _path: wider)
        assert main(["generate", "time is", "--reveal", "token", *on]) == 2
    assert "gap 0.1 by the plan of the work folder, whose gap is 0.2" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setenv("TACITA_PLAN__FUNCTIONS", "leaf")
        assert main(["generate", "time is", *on]) == 2
    assert "functions leaf by the plan of the work folder, which has others" in capsys.readouterr().err
    kinds = {name: has_functions(Plan.load(plan), load(model), Functions.of(name)) for name in FITS}
    assert kinds["tacita"] and kinds["either"] and not kinds["leaf"] and not kinds["moai"]
    (tmp_path / "other").mkdir()
    other = str(folder_of(tmp_path / "other", layers=2))
    assert main(["generate", "time is", "--model", other, *on[2:]]) == 2
    assert "committed to other weights" in capsys.readouterr().err


@pytest.mark.native
def test_keys_serve_another_text(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second text by the same plan and keys; the rows of the first are gone. The limit of memory counts."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    on = ["--model", model, *ASK, "--backend", "ckks", "--max-tokens", "1"]
    kept: list[bytes] = []
    for text in ("time", "a film"):
        (word,) = tacita.generate(text, model=model, max_tokens=1)
        assert tokens(tmp_path, text, *on) == [word.id]
        kept += [(tmp_path / "work" / name).read_bytes() for name in ("plan.json", "secret.key")]
    assert kept[:2] == kept[2:]
    monkeypatch.setenv("TACITA_RUN__MEMORY", "0.1")
    capsys.readouterr()
    assert main(["generate", "time", *on]) == 2
    assert "evaluation within 0.1 GB" in capsys.readouterr().err
