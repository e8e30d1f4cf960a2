"""The conformance suite on the real engine, at a toy ring."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.slots.ckks import CkksBackend
from tacita.slots.conformance import CHECKS, COEFFICIENT_TOKENS, Harness

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET = "insecure_toy_n12"
ROTATIONS = {1, 2, 3, 4, 5, 7, -1, -3, -4, 6, 8, -5, -2}  # those of the suite: splits of small maps


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    paths = [str(tmp_path_factory.mktemp("keys") / name) for name in ("secret.key", "evaluation.keys")]
    steps = {k % params.slots for k in ROTATIONS} | {params.slots // 2}
    rotations = [(k, params.max_level) for k in sorted(steps)]
    native.keygen(params, rotations, *paths, lambda _done, _total: None, COEFFICIENT_TOKENS)
    secret = native.SecretKey.load(paths[0], params)
    keys = native.EvaluationKeys.load(paths[1], params, rotations, COEFFICIENT_TOKENS)
    be = CkksBackend(native.Evaluator(params, keys, 1))

    def encrypt(values, level):
        return native.encrypt(
            secret, np.asarray(values, dtype=complex), be.max_level if level is None else level
        )

    return Harness(be, encrypt, secret.decrypt, tolerance=1e-7)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(harness, check):
    check(harness)
