"""Records the vectors in this folder anew, where the format changed on purpose: python record.py

A key set of an insecure toy ring, a request and the response to it by Tacita's own writers, and what Tacita
decrypts. Of the evaluation keys the two at full level are left out, 0.7 MB.
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import blake3
import numpy as np

from tacita import _native
from tacita.plans import envelope

VECTORS = Path(__file__).parent / "vectors"
PRESET, LEVEL, ROTATIONS = "insecure_toy_leveled_n9", 3, (1, 5, 64)
HEADER, CHECK = 67, 16


def without_first(keys: bytes, count: int) -> bytes:
    """Returns a key file without its first records."""
    at = HEADER + CHECK
    for _ in range(count):
        at += 8 + struct.unpack_from("<Q", keys, at)[0] + CHECK
    (total,) = struct.unpack_from("<Q", keys, HEADER - 8)
    header = keys[: HEADER - 8] + struct.pack("<Q", total - count)
    return header + blake3.blake3(header).digest()[:CHECK] + keys[at:]


def evaluated(evaluator: Any, ct: Any) -> list[Any]:
    """Returns a product, a rotation and a conjugation."""
    return [evaluator.square(ct), evaluator.rotate(ct, 5), evaluator.conjugate(ct)]


def main() -> None:
    params = _native.Parameters.preset(PRESET, allow_insecure=True)
    rotations = [(step, LEVEL) for step in ROTATIONS]
    secret_path = VECTORS / "secret_key.bin"
    with tempfile.TemporaryDirectory() as folder:
        full = Path(folder) / "evaluation.keys"
        _native.keygen(params, rotations, str(secret_path), str(full), lambda _done, _total: None)
        keys = _native.EvaluationKeys.load(str(full), params, rotations)
        (VECTORS / "evaluation_keys.bin").write_bytes(without_first(full.read_bytes(), 2))
    secret = _native.SecretKey.load(str(secret_path), params)
    rng = np.random.default_rng(31)
    slots = rng.uniform(-1, 1, params.slots) + 1j * rng.uniform(-1, 1, params.slots)
    request = _native.encrypt(secret, slots, LEVEL)
    files = {"request": [request], "response": evaluated(_native.Evaluator(params, keys, 1), request)}
    for kind, cts in files.items():
        data = [ct.to_bytes() for ct in cts]
        lengths, tensors = {"slots": [len(one) for one in data]}, {"slots": data}
        envelope.write(VECTORS / f"{kind}.bin", kind, 64 * "0", secret.key_id, lengths, tensors)
        np.save(VECTORS / f"{kind}.npy", np.stack([secret.decrypt(ct) for ct in cts]))


if __name__ == "__main__":
    main()
