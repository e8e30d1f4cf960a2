"""What a server takes of a request: canonical scales alone, and headers whose words may be shown."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_plan import make_plan

from tacita.errors import FileError
from tacita.plans import envelope
from tacita.plans.engine import require_level_and_scale
from tacita.plans.envelope import MAGIC
from tacita.plans.plan import TensorInfo

KEY = "ab" * 16
PARAMS = SimpleNamespace(log_scale_at=lambda level: 48.0 + level * 1e-4)
X = TensorInfo("x", 1, 5, "real")
PATH = Path("request.ct")


def ciphertext(level: int, log_scale: float) -> SimpleNamespace:
    return SimpleNamespace(level=level, log_scale=log_scale)


def test_the_canonical_scale_of_its_level_is_taken() -> None:
    require_level_and_scale(PATH, X, ciphertext(5, 48.0005), PARAMS)


@pytest.mark.parametrize("log_scale", [48.0006, 10.0, 100.0, -math.inf, math.nan])
def test_another_scale_is_refused(log_scale: float) -> None:
    with pytest.raises(FileError, match=r"x has a scale of 2\^.*level 5 has 2\^48\.0005"):
        require_level_and_scale(PATH, X, ciphertext(5, log_scale), PARAMS)


def test_another_level_is_refused() -> None:
    with pytest.raises(FileError, match="x is at level 4, the plan says 5"):
        require_level_and_scale(PATH, X, ciphertext(4, 48.0005), PARAMS)


def test_fresh_ciphertexts_have_the_scale_that_the_server_asks_for(tmp_path: Path) -> None:
    native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    params = native.Parameters.preset("insecure_toy_n9", allow_insecure=True)
    paths = str(tmp_path / "secret.key"), str(tmp_path / "evaluation.keys")
    native.keygen(params, [(1, 1)], *paths, lambda done, total: None)
    secret = native.SecretKey.load(paths[0], params)
    for level in range(params.max_level + 1):
        sent = native.encrypt(secret, np.zeros(params.slots, np.complex128), level)
        require_level_and_scale(PATH, TensorInfo("x", 1, level, "real"), sent, params)
    for level in (-1, params.max_level + 1, 1 << 40):
        with pytest.raises(native.ParameterError, match="the preset has 0 to"):
            params.log_scale_at(level)


GOOD = {"kind": "request", "plan": "00" * 32, "key": KEY, "tensors": {"x": [1], "mask": [1]}}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "\x1b[2J"},
        {"kind": ["request"]},
        {"kind": "requests"},
        {"plan": "\x1b]0;owned\x07"},
        {"plan": "00" * 10_000},
        {"key": "zz" * 16},
        {"tensors": {"\x1b[2J": [1]}},
        {"tensors": {"x" * 33: [1]}},
        {"tensors": {f"x_{chr(97 + i)}": [1] for i in range(17)}},
        {"tensors": [1]},
        {"tensors": {"x": [1.5]}},
    ],
)
def test_words_of_a_header_that_a_terminal_would_obey_are_not_repeated(change: dict, tmp_path: Path) -> None:
    header = json.dumps(GOOD | change).encode()
    path = tmp_path / "request.ct"
    path.write_bytes(struct.pack("<10sHI", MAGIC, 1, len(header)) + header + b"\0" * 64)
    with pytest.raises(FileError, match=r"damaged header \(fields\)"):
        list(envelope.stream(path, "request", make_plan(), KEY))
