"""Lattigo decrypts, squares and rotates a ciphertext of ours with our keys, and its results decrypt here.

`make test` builds the program (bench/lattigo) where Go is installed, and says so where it is not.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import arithmetic
import numpy as np
import pytest
import reader
from reader import Ciphertext, Residues, SwitchingKey
from test_known_answers import HERE, RING

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
PROGRAM = HERE.parents[1] / "build" / "lattigo" / "lattigo"
pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not PROGRAM.exists(), reason="needs Go: make lattigo"),
]
LEVEL, STEP = 3, 5


def coefficients(limbs: dict[int, Residues]) -> list[list[int]]:
    return [arithmetic.to_coefficients(limb, p).tolist() for p, limb in limbs.items()]


def key(found: SwitchingKey) -> dict[str, Any]:
    digits = [[coefficients(half) for half in digit] for digit in found.digits]
    return {"Limbs": len(digits[0][0]) - len(found.special), "Digits": digits}


def computed(secret: Residues, keys: list[SwitchingKey], ct: Ciphertext) -> Any:
    """Returns what the program says of a ciphertext; keys: relinearisation first, the rotation last."""
    given = {
        "LogN": RING.n.bit_length() - 1,
        "LogScale": round(np.log2(RING.scales[-1])),
        "Q": RING.q,
        "P": RING.p,
        "Secret": [(secret % p).tolist() for p in RING.q + RING.p],
        "Scale": ct.scale,
        "Ciphertext": [coefficients(ct.c0), coefficients(ct.c1)],
        "Relinearise": key(keys[0]),
        "Galois": key(keys[-1]),
        "Rotation": STEP,
    }
    run = subprocess.run([PROGRAM], input=json.dumps(given), capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def of_lattigo(result: dict[str, Any]) -> Ciphertext:
    halves = [
        {
            p: arithmetic.to_values(np.array(limb, dtype=object), p)
            for p, limb in zip(RING.q, half, strict=False)
        }
        for half in result["Ciphertext"]
    ]
    return Ciphertext(halves[0], halves[1], result["Scale"])


def test_lattigo_computes_on_our_ciphertexts_with_our_keys(tmp_path: Path) -> None:
    params = native.Parameters.preset("insecure_toy_leveled_n9", allow_insecure=True)
    paths = [tmp_path / name for name in ("secret.key", "evaluation.keys")]
    native.keygen(params, [(STEP, LEVEL)], *map(str, paths), lambda _done, _total: None)
    ours = native.SecretKey.load(str(paths[0]), params)
    secret = reader.secret_key(paths[0].read_bytes(), RING)
    keys = reader.evaluation_keys(paths[1].read_bytes(), RING)
    x = np.exp(1j * np.arange(params.slots))
    file = native.encrypt(ours, x, LEVEL).to_bytes()

    found = computed(secret, keys, reader.ciphertext(file, RING))
    decrypted = ours.decrypt(native.Ciphertext.from_bytes(params, file))
    assert np.abs(np.array(found["Slots"]) @ [1, 1j] - decrypted).max() < 2.0**-40
    for name, wanted in (("Square", x * x), ("Rotated", np.roll(x, -STEP))):
        ct = native.Ciphertext.from_bytes(params, reader.written(of_lattigo(found[name]), file))
        assert ct.level == LEVEL - (name == "Square")
        assert np.abs(ours.decrypt(ct) - wanted).max() < 2.0**-22
    assert found["Square"]["Scale"] == pytest.approx(RING.scales[LEVEL - 1], rel=2.0**-50)
