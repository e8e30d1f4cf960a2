"""A plan of a model with the options of newer encoders (`newer`), calibrated, fitted and placed for one text
and for a batch: its answers on `sim` are those of floats, of short texts in a window too. Conformance (NEWER)
holds every packing to the same options, `test_family_schemes.py` to plans of families that have them."""

from __future__ import annotations

from collections.abc import Iterator

import newer
import numpy as np
import pytest

from tacita import api
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.models import registry
from tacita.planning.circuit import require_circuit

TEXTS = ["a fine film", "the plot is dull", "never boring , very good and a fine film too", "bad"]
TOKENS = 16


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkpoint]:
    monkeypatch.setitem(registry.FAMILIES, "newer", newer.FAMILY)
    yield newer.model()


@pytest.mark.parametrize(("scheme", "packing"), [("thor", "rows"), ("arion", "columns")])
def test_plans(model: Checkpoint, scheme: str, packing: str) -> None:
    """The shortest text has 13 padded tokens, most of which see no real key through a window of three."""
    options = {"tokens": TOKENS, "preset": "insecure_toy_n11", "texts": TEXTS}
    plan = api.plan(model, scheme=scheme, packing=packing, **options)
    require_circuit(plan)
    for text in (TEXTS[2], TEXTS[3]):
        wanted = reference(model, *embed(model, text, TOKENS)).logits
        (found,) = api.classify_batch_locally(plan, model, [text], backend="sim")
        assert np.abs(np.array(found.logits) - wanted).max() < 0.02 and not found.warnings
