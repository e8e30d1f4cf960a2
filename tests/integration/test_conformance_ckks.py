"""The conformance suite on the real engine, at a toy ring."""

from __future__ import annotations

import pytest
from encrypted import make_engine, toy

from tacita.slots.conformance import CHECKS, COEFFICIENT_TOKENS, Harness

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET = "insecure_toy_n12"
ROTATIONS = {1, 2, 3, 4, 5, 7, -1, -3, -4, 6, 8, -5, -2}  # those of the suite: splits of small maps


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    params = toy(PRESET)
    steps = {k % params.slots for k in ROTATIONS} | {params.slots // 2}
    rotations = [(k, params.max_level) for k in sorted(steps)]
    engine = make_engine(params, rotations, tmp_path_factory.mktemp("keys"), tokens=COEFFICIENT_TOKENS)
    return Harness(engine.be, engine.encrypt, engine.secret.decrypt, tolerance=1e-7)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(harness, check):
    check(harness)
