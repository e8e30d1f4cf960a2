"""The conformance suite and a whole circuit on real shares: both parties in two threads over the in-memory link."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiny
from test_circuit import run

from tacita.slots.conformance import CHECKS, Harness
from tacita.slots.paired import PairedBackend
from tacita.slots.shares import SharesBackend

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoParty"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)


@pytest.fixture(scope="module")
def sessions():
    pair = native.two_party_pair(timeout=60.0)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda session: session.setup(), pair))
    return pair


def paired(sessions, slots):
    return PairedBackend(*(SharesBackend(session, slots) for session in sessions))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(sessions, check):
    be = paired(sessions, 64)
    check(Harness(be, be.encrypt, be.decrypt, tolerance=1e-6))


def test_a_whole_circuit_agrees_with_plain(sessions):
    be, model = paired(sessions, 512), tiny.checkpoint()
    with be.stage("circuit"):
        _, _, found, _, _ = run(model, 512, 16, 11, be=be)
    _, reference, expected, _, _ = run(model, 512, 16, 11)
    assert np.max(np.abs(found.values - expected.values)) < 1e-4
    assert np.max(np.abs(found.values - reference.logits)) < 2e-3
    assert any(entry["path"].startswith("circuit") for entry in sessions[0].profile())
