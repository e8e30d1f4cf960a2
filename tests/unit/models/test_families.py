"""Every family against transformers: tiny models with random weights, in folders as `save_pretrained` writes
them, with the answers that transformers gave (`python -m bench family-vectors`). NanoGuard, which
transformers lacks, against its own forward pass (`bench/models/nanoguard_reference.py`)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from tacita.checkpoint import load
from tacita.checkpoint.load import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.texts.embed import embedded
from tacita.texts.images import hidden_of

DATA = Path(__file__).parents[2] / "vectors" / "families"
CASES = sorted(folder.name for folder in DATA.iterdir())
# modernbert turns queries and keys in single precision, decoders ("next") take angles and norms in it;
# nanoguard's table is normalised in it; others: EXACT
TOLERANCE = {"modernbert": 1e-5, "nanoguard": 1e-6, "next": 1e-5}
EXACT = 1e-9


def folder_of(name: str, place: Path) -> Path:
    """A copy of a case with a tokenizer of as many words as the model has."""
    folder = place / name
    shutil.copytree(DATA / name, folder)
    words = {f"w{number}": number for number in range(23)}
    Tokenizer(models.WordLevel(words, unk_token="w0")).save(str(folder / "tokenizer.json"))
    return folder


def expected_of(name: str) -> dict[str, Any]:
    return json.loads((DATA / name / "expected.json").read_text())


def answer_of(model: Checkpoint, case: dict[str, Any]) -> np.ndarray:
    if "pixels" in case:
        hidden = hidden_of(model, np.array(case["pixels"]))
    else:
        hidden = embedded(model, case["ids"], case["types"])
    return reference(model, hidden, np.ones(len(hidden))).logits


@pytest.mark.parametrize("name", CASES)
def test_a_family_answers_as_transformers_does(name: str, tmp_path: Path) -> None:
    case, folder = expected_of(name), folder_of(name, tmp_path)
    tolerance = max(TOLERANCE.get(part, EXACT) for part in name.split("-"))
    for pooling, rows in case["answer"].items():
        model = load(folder, pooling=pooling or None)
        found = answer_of(model, case)
        assert found.shape == np.shape(rows)
        assert np.abs(found - rows).max() < tolerance


def test_every_family_and_every_task_is_there() -> None:
    assert {name.split("-")[0] for name in CASES} >= {
        *("bert", "roberta", "xlm", "camembert", "distilbert", "electra", "albert", "mpnet", "modernbert"),
        *("vit", "deit", "dinov2", "nanoguard"),
        *("llama", "llama3", "mistral", "qwen2", "qwen3", "gemma", "phi3"),
    }
    tasks = {"model", "class", "mean", "tokens", "span", "words", "next"}
    assert {name.split("-")[-1] for name in CASES} == tasks
