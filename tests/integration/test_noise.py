"""The noise that `sim` adds is the engine's: its size, its tail, and that a noisy slot stays noisy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encrypted import make_engine, toy

from tacita.plans.presets import PRESETS, noise_of
from tacita.slots.sim import SimBackend

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
INFO = PRESETS["insecure_toy_n13"]
FLOOR = INFO.max_level - 3  # the scale falls down to there
RUNS, WITHIN = 8, 1.5
Array = np.ndarray
OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "rescale": lambda be, ct: be.mul_const(ct, 1.0),
    "rotate": lambda be, ct: be.rotate(ct, 1),
    "bootstrap": lambda be, ct: be.bootstrap([ct], ["complex"])[0],
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Array]:
    """(backend, operation) -> what it adds to real parts, (runs, slots)."""
    folder: Path = tmp_path_factory.mktemp("keys")
    params = toy(INFO.preset)
    ckks = make_engine(params, [(1, params.max_level)], folder, threads=0)
    sim = SimBackend(INFO.slots, inject=True, noise=noise_of(INFO))
    sides = {
        "ckks": (ckks.be, ckks.encrypt, ckks.secret.decrypt),
        "sim": (sim, sim.encrypt, sim.decrypt),
    }

    @cache
    def found(side: str, operation: str) -> Array:
        be, encrypt, decrypt = sides[side]
        rng = np.random.default_rng(3)
        level, turned = (0, 0) if operation == "bootstrap" else (FLOOR, -(operation == "rotate"))
        cts = [encrypt(rng.uniform(-1, 1, (INFO.slots, 2)) @ (1, 1j), level) for _ in range(RUNS)]
        pairs = [(decrypt(OPERATIONS[operation](be, ct)), np.roll(decrypt(ct), turned)) for ct in cts]
        return np.array([(after - before).real for after, before in pairs])

    return found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_size_and_tail_are_the_engines(errors: Callable[[str, str], Array], operation: str) -> None:
    """A normal distribution has kurtosis 3 and 99.9 % within 3.3 deviations; the engine has 6 and 4.9."""
    real, simulated = (figures(errors(side, operation)) for side in ("ckks", "sim"))
    assert np.all(np.maximum(real / simulated, simulated / real) < WITHIN), (real, simulated)
    assert real[2] > (5 if operation != "bootstrap" else 3.1)


@pytest.mark.parametrize("side", ["ckks", "sim"])
def test_a_noisy_slot_stays_noisy_under_one_key(errors: Callable[[str, str], Array], side: str) -> None:
    sizes = [np.log(np.mean(errors(side, operation) ** 2, axis=0)) for operation in OPERATIONS]
    assert np.corrcoef(sizes)[0, 1] > 0.6 and np.corrcoef(sizes)[0, 2] > 0.3


def figures(found: Array) -> Array:
    """Standard deviation, 99.9 % quantile, kurtosis."""
    deviation = found.std()
    return np.array([deviation, np.quantile(np.abs(found), 0.999), np.mean((found / deviation) ** 4)])
