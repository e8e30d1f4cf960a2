"""Every family from its stored folder to an answer in every scheme on ciphertexts, and the page that says so
(docs/families.md). Between two parties: `test_two_party_families.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_families import CASES, expected_of, folder_of

from bench.tables import families as table
from bench.tables import pages
from tacita import api
from tacita.checkpoint import Checkpoint, from_tensors, load
from tacita.checkpoint.reference import reference
from tacita.errors import PlanError
from tacita.models.registry import tensor_shapes
from tacita.packings.approximated import approximated
from tacita.packings.lowering import in_slots
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.temper import tempered
from tacita.texts.embed import arranged, embedded
from tacita.texts.images import hidden_of

ROOT = Path(__file__).resolve().parents[3]
TOKENS, CALM, SAMPLES = 16, 0.5, 12
TOY: dict[str, Any] = {"tokens": TOKENS, "preset": "insecure_toy_n10"}
BY_PACKING = 1e-5  # what a packing adds on `plain`: digits that are shown, sums in another order
Rows = np.ndarray


LAYERS = {"modernbert": 2, "nanoguard": 3}  # which differ from one another; of the others the first


@lru_cache
def calm(name: str, place: Path) -> Checkpoint:
    """The folder's model with its first layers (see LAYERS) and matrices that do not amplify."""
    model = load(folder_of(name, place), pooling=next(iter(expected_of(name)["answer"])) or None)
    stated: Any = model.config
    config = replace(stated, layers=LAYERS.get(name.partition("-")[0], 1))
    layers = {
        key: tensor * (CALM if tensor.ndim == 2 and not key.startswith("embeddings.") else 1.0)
        for key, tensor in model.tensors.items()
    }
    return from_tensors(config, {key: layers[key] for key in tensor_shapes(config)}, name=name)


def inputs(name: str, model: Checkpoint) -> Iterator[Rows]:
    """Hidden states of the stored input, then of random ones of all lengths, the second of the most."""
    case, rng = expected_of(name), np.random.default_rng(0)
    if "pixels" in case:
        yield hidden_of(model, np.array(case["pixels"]))
        while True:
            yield hidden_of(model, rng.normal(size=np.shape(case["pixels"])))
    yield embedded(model, case["ids"], case["types"])
    most, typed = min(TOKENS, model.config.positions), any(case["types"])
    real = most
    while True:
        first = int(rng.integers(1, real + 1)) if typed else real
        ids = [2, *(int(word) for word in rng.integers(0, 23, real - 1))]
        yield embedded(model, ids, [0] * first + [1] * (real - first))
        real = int(rng.integers(3, most + 1))


def planned(model: Checkpoint, scheme: str, samples: Any, **how: Any) -> Any:
    """In a scheme, and after a colon its packing; with the digits that a toy ring's noise would hide."""
    scheme, _, packing = scheme.partition(":")
    request = {"scheme": scheme, "packing": packing or None, "hidden_states": samples, **TOY, **how}
    return replace(api.plan(model, **request), decimals=6, noise=1e-9)


def floats(model: Checkpoint, hidden: Rows) -> Rows:
    """Of the real tokens, one row after the other."""
    found = reference(model, *arranged(hidden, TOKENS, last=model.config.last_token)).logits
    return np.ravel(found[: len(hidden)] if found.ndim > 1 else found)


def by_functions_alone(plan: Any, model: Checkpoint, hidden: Rows) -> Rows:
    """Of the real tokens, as the plan's functions answer without its packing."""
    specs, calibration = plan.circuit["specs"], plan.circuit["calibration"]
    soft = tempered(in_slots(model), Calibration.from_dict(calibration).temperatures)
    last, backwards = model.config.last_token, soft.config.backwards
    rows = arranged(hidden, TOKENS, last=last, backwards=backwards)
    found = approximated(soft, CircuitSpecs.from_json(specs), *rows)
    assert not found.outside
    return np.ravel(found.answer[: len(hidden)] if found.answer.ndim > 1 else found.answer)


@pytest.mark.parametrize(
    ("name", "scheme"), [pytest.param(*pair, id="-".join(pair)) for pair in table.slot_cases()]
)
def test_a_familys_folder_gets_its_answer(
    name: str, scheme: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = calm(name, tmp_path_factory.getbasetemp() / "calm")
    (asked, *known) = (hidden for hidden, _ in zip(inputs(name, model), range(1 + SAMPLES), strict=False))
    samples = [arranged(hidden, TOKENS, last=model.config.last_token) for hidden in known]
    if refused := table.why(name, scheme):
        with pytest.raises(PlanError, match=refused[0]) as caught:
            planned(model, scheme, samples)
        assert caught.value.hint
        return
    plan = planned(model, scheme, samples)
    found = api.classify_locally(plan, model, hidden_states=asked)
    assert not found.warnings
    assert np.abs(found.vector - floats(model, asked)).max() < table.WITHIN.get(scheme, 0.01)
    assert np.abs(found.vector - by_functions_alone(plan, model, asked)).max() < BY_PACKING


def test_every_stored_folder_has_a_row() -> None:
    assert sorted(case.name for case in table.CASES) == CASES
    assert set(table.DIAGONALS) | set(table.ENCRYPTED_CASES) <= set(CASES)
    assert {name for name, _ in table.REFUSED} <= set(CASES)


PAGE = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")


def test_the_page_has_what_the_command_writes() -> None:
    for name, lines in table.parts().items():
        text = "\n".join(lines) + "\n"
        assert text in PAGE and pages.replaced(PAGE, name, text) == PAGE, "python -m bench families-page"


def test_tests_that_the_page_names_exist() -> None:
    found = re.findall(r"(tests/\S+\.py)(?:::(\w+))?", PAGE)
    assert sum(bool(name) for _, name in found) == 4
    for file, name in found:
        assert (f"def {name}(" if name else "def test_") in (ROOT / file).read_text(encoding="utf-8"), file
    from test_family_refusals import FOLDERS

    assert list(FOLDERS) == list(table.FOLDERS)
