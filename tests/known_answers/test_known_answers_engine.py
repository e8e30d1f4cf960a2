"""The engine beside the independent reader: it reads the recorded files alike, and so are fresh keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import reader
from test_known_answers import HERE, RING, ciphertexts, vector

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
PRESET = "insecure_toy_leveled_n9"


def test_the_engine_decrypts_the_recorded_files_alike(tmp_path: Path) -> None:
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    path = tmp_path / "secret.key"
    path.touch(0o600)
    path.write_bytes(vector("secret_key.bin"))
    secret = native.SecretKey.load(str(path), params)
    for kind in ("request", "response"):
        read = [native.Ciphertext.from_bytes(params, file) for file in ciphertexts(kind)]
        assert np.array_equal([secret.decrypt(ct) for ct in read], np.load(HERE / "vectors" / f"{kind}.npy"))


def test_errors_of_fresh_keys_are_gaussian_of_3_2(tmp_path: Path) -> None:
    """Six standard deviations of what the number of coefficients allows: one run in 10^9 fails."""
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    paths = [tmp_path / name for name in ("secret.key", "evaluation.keys")]
    native.keygen(params, [(1, 3), (2, 17)], *map(str, paths), lambda _done, _total: None)
    secret = reader.secret_key(paths[0].read_bytes(), RING)
    keys = reader.evaluation_keys(paths[1].read_bytes(), RING)
    assert [key.kind for key in keys] == [reader.RELINEARISE, *3 * [reader.GALOIS]]
    errors = np.array(
        [
            reader.key_error(key, d, list(b)[RING.digit_limbs * d], secret, RING).astype(float)
            for key in keys
            for d, (b, _) in enumerate(key.digits)
        ]
    )
    assert abs(errors.std() / 3.2 - 1.0) < 6.0 / np.sqrt(2.0 * errors.size)
    assert np.abs(errors).max() <= 19
