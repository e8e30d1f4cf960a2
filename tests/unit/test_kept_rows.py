"""A step on one new row behind rows kept as ciphertexts (`evaluation/kept_rows.py`): any number of steps at
the same levels, the float model's logits after each, on real ciphertexts too."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_generation_encrypted import TEXTS, TOKENS, TOY
from tiny_decoders import gpt2, hidden_of, llama, logits

from tacita.checkpoint import Checkpoint
from tacita.front.embed import tokenize
from tacita.plans.plan import ParameterInfo
from tacita.slots.plain import PlainBackend

ROOT = Path(__file__).parents[2]
TEXT = "the plot is quiet and the film is time of a beauty"
Make = Callable[[ParameterInfo, Sequence[tuple[int, int]]], Any]


@pytest.fixture
def kept_rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "evaluation"))
    return importlib.import_module("kept_rows")


def walked(kept_rows: Any, model: Checkpoint, make: Make, steps: int) -> Any:
    """Each step beside floats; the levels of what is kept never change."""
    found = kept_rows.stepper(model, TOY, TOKENS, TEXTS, make)
    ids = tokenize(model, TEXT)[0][:steps]
    rows, wanted = hidden_of(model, ids), logits(model, ids)
    found.begin()
    levels = [found.be.level(cts[0]) for cts in found.kept.values()]
    for place in range(len(ids)):
        got = found.logits(rows[place : place + 1])
        assert np.abs(got - wanted[place]).max() < 0.02
        assert [found.be.level(cts[0]) for cts in found.kept.values()] == levels
    return found


@pytest.mark.parametrize("make", [llama, gpt2])
def test_every_step_gives_the_logits_of_the_text_so_far(kept_rows: Any, make: Any) -> None:
    found = walked(kept_rows, make(), kept_rows.BACKENDS["sim"], 12)
    assert found.length == 12
    assert found.placed.placement.seconds < found.anew.seconds


def test_rows_turn_and_make_room(kept_rows: Any) -> None:
    """Row t becomes row t + 1, with its copies; the vector becomes row 0; a level below the vector."""
    layout = kept_rows.FeatureLayout.dense(kept_rows.RowsShape(256, 8), 12, copied=True)
    vector, be = kept_rows.VectorLayout(256, 12), PlainBackend(256)
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(8, 12)), rng.normal(size=12)
    rows[-1] = 0.0
    kept = tuple(be.encrypt(part) for part in layout.pack(rows))
    later = kept_rows.later(be, kept, be.encrypt(vector.pack(new), 5), layout, 256)
    expected = layout.pack(np.vstack([new, rows[:-1]]))
    for ct, wanted in zip(later, expected, strict=True):
        assert np.allclose(be.decrypt(ct).real, wanted) and be.level(ct) == 4


@pytest.mark.native
def test_steps_on_ciphertexts(kept_rows: Any, tmp_path: Path) -> None:
    native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    from tacita.slots.ckks import CkksBackend

    class Both(CkksBackend):
        """With the secret key beside it."""

        def __init__(self, info: ParameterInfo, rotations: Sequence[tuple[int, int]]) -> None:
            params = native.Parameters.preset(info.preset, allow_insecure=True)
            paths = [str(tmp_path / name) for name in ("secret.key", "evaluation.keys")]
            native.keygen(params, list(rotations), *paths, lambda _done, _total: None, None)
            self.secret = native.SecretKey.load(paths[0], params)
            keys = native.EvaluationKeys.load(paths[1], params, list(rotations), None)
            super().__init__(native.Evaluator(params, keys, 1))

        def encrypt(self, values: np.ndarray, level: int) -> Any:
            whole = np.tile(values, self.slots // len(values)).astype(complex)
            return native.encrypt(self.secret, whole, level)

        def decrypt(self, ct: Any) -> np.ndarray:
            return np.asarray(self.secret.decrypt(ct))

    walked(kept_rows, llama(), Both, 4)
