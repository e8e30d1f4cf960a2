"""A family that the house does not know, in one file (`norms_first`): in the clear, on `sim`, on a toy ring
in each packing, and between two parties, against the float definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from eager import run_plan
from encrypted import planned_answers
from norms_first import FAMILY, Config
from random_checkpoint import make_tokenizer

from tacita import api
from tacita.checkpoint import Checkpoint, embed, from_tensors
from tacita.checkpoint.reference import reference
from tacita.models import registry
from tacita.planning.request import PlanRequest
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol.party import Party, pair

pytestmark = pytest.mark.native
TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkpoint]:
    monkeypatch.setitem(registry.FAMILIES, "norms-first", FAMILY)
    rng, config = np.random.default_rng(4), Config()
    scales = {name: 1.0 / np.sqrt(shape[-1]) for name, shape in registry.tensor_shapes(config).items()}
    tensors = {
        name: rng.normal(0.0, scales[name], shape) for name, shape in registry.tensor_shapes(config).items()
    }
    for name in (n for n in tensors if ".ln" in n and n.endswith("weight")):
        tensors[name] += 1.0
    yield from_tensors(config, tensors, make_tokenizer(config.vocab), name="norms first")


@pytest.mark.parametrize(
    ("scheme", "packing"), [("thor", "rows"), ("thor", "multidiagonal"), ("arion", "columns")]
)
def test_on_ciphertexts(model: Checkpoint, scheme: str, packing: str | None, tmp_path: Any) -> None:
    toy = {"tokens": 16, "preset": "insecure_toy_n10", "texts": TEXTS}
    plan = api.plan(model, scheme=scheme, packing=packing, **toy)
    samples = [embed(model, text, 16) for text in TEXTS[: plan.batch]]
    wanted = [reference(model, *sample).logits for sample in samples]
    for backend in ("plain", "sim"):
        found = api.classify_batch_locally(plan, model, TEXTS[: plan.batch], backend=backend)
        assert max(np.abs(np.array(a.logits) - w).max() for a, w in zip(found, wanted, strict=True)) < 0.02
    for answer, expected in zip(planned_answers(plan, model, samples, tmp_path), wanted, strict=False):
        assert np.abs(answer.values - expected).max() < 0.02 and answer.sound()


@pytest.mark.parametrize("embeddings", ["published", "hidden"])
def test_between_two_parties(model: Checkpoint, embeddings: str) -> None:
    plan = make_two_party_plan(model, PlanRequest(tokens=16, texts=TEXTS, embeddings=embeddings))
    given = embed(model, TEXTS[0], 16)
    words = given[0] - (
        0.0 if plan.embedding is None else model.tensors["embeddings.position_embeddings.weight"][:16]
    )
    with pair(timeout=900.0) as parties, ThreadPoolExecutor(2) as pool:

        def work(party: Party) -> Any:
            party.set_up()
            client = party is parties[0]
            mine = {"mask": given[1]} if client else {"model": model}
            return run_plan(plan, party, words, **mine)

        (answer, _) = pool.map(work, parties)
    assert np.abs(answer[0] - reference(model, *given).logits).max() < 0.02
