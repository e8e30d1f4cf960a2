"""Recorded files of an insecure toy ring, read by a program that shares nothing with Tacita (docs/files.md).

`record.py` made them. This file and what it imports need numpy, blake3 and pytest alone.
"""

from __future__ import annotations

import ast
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arithmetic
import blake3
import numpy as np
import pytest
import reader

HERE = Path(__file__).parent
RING = reader.leveled_ring(log_n=9, base_bits=49.0, log_scale=39.0, levels=17, special=3)
FIRST = reader.HEADER.size + reader.CHECK + 8  # where the first record's body begins


def vector(name: str) -> bytes:
    return (HERE / "vectors" / name).read_bytes()


SECRET = reader.secret_key(vector("secret_key.bin"), RING)


def ciphertexts(kind: str) -> list[bytes]:
    (files,) = reader.envelope(vector(f"{kind}.bin")).values()
    return files


def distance(kind: str, files: list[bytes]) -> float:
    """Returns log2 of the largest distance between our slots and those that Tacita decrypted."""
    ours = [reader.decrypt(reader.ciphertext(file, RING), SECRET) for file in files]
    return float(np.log2(np.abs(np.array(ours) - np.load(HERE / "vectors" / f"{kind}.npy")).max()))


def errors(data: bytes) -> list[Any]:
    """Returns the error of every digit of every key; at each of its primes it must be the same."""
    found = []
    for key in reader.evaluation_keys(data, RING):
        for d, (b, _) in enumerate(key.digits):
            here = [reader.key_error(key, d, p, SECRET, RING) for p in b]
            assert all((error == here[0]).all() for error in here)
            found.append(here[0].astype(float))
    return found


def changed(data: bytes, at: int) -> bytes:
    """Returns a file with one bit of its first record changed, and the record's check made right."""
    (length,) = struct.unpack_from("<Q", data, FIRST - 8)
    body = bytearray(data[FIRST : FIRST + length])
    body[at] ^= 1
    check = blake3.blake3(bytes(body)).digest()[: reader.CHECK]
    return data[:FIRST] + body + check + data[FIRST + length + reader.CHECK :]


@pytest.mark.parametrize("kind", ["request", "response"])
def test_slots_are_those_that_tacita_decrypts(kind: str) -> None:
    assert distance(kind, ciphertexts(kind)) < -40


def test_the_response_is_the_square_the_rotation_and_the_conjugate_of_the_request() -> None:
    x = np.load(HERE / "vectors" / "request.npy")[0]
    wanted = np.array([x * x, np.roll(x, -5), x.conj()])
    assert np.abs(np.load(HERE / "vectors" / "response.npy") - wanted).max() < 2.0**-24


def test_errors_of_published_keys_are_gaussian_of_3_2() -> None:
    """Within four standard deviations of what the number of coefficients allows; keys are independent."""
    found = np.array(errors(vector("evaluation_keys.bin")))
    assert abs(found.std() / 3.2 - 1.0) < 4.0 / np.sqrt(2.0 * found.size)
    assert abs(found.mean()) < 4.0 * 3.2 / np.sqrt(found.size)
    assert np.abs(np.corrcoef(found) - np.eye(len(found))).max() < 5.0 / np.sqrt(found.shape[1])
    assert np.abs(found).max() <= 19
    keys = reader.evaluation_keys(vector("evaluation_keys.bin"), RING)
    assert len({key.seed for key in keys}) == len(keys) == 3


def test_another_residue_gives_other_slots() -> None:
    (file,) = ciphertexts("request")
    assert distance("request", [file]) < -40
    assert distance("request", [changed(file, 500)]) > -20


def test_another_residue_of_a_key_gives_no_error_at_all() -> None:
    with pytest.raises(AssertionError):
        errors(changed(vector("evaluation_keys.bin"), 500))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("slot_exponents", lambda _: lambda n: np.array([pow(3, j, 2 * n) for j in range(n // 2)])),
        ("chacha20", lambda right: lambda key, blocks: right(key, blocks + 1)[64:]),
        ("uniform", lambda right: lambda seed, indices, p, n: right(seed, (0, *indices), p, n)),
        ("root", lambda right: lambda p, n: pow(right(p, n), -1, p)),
    ],
)
def test_another_reading_gives_other_slots(
    monkeypatch: pytest.MonkeyPatch, name: str, other: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr(arithmetic, name, other(getattr(arithmetic, name)))
    assert distance("request", ciphertexts("request")) > -20


@pytest.mark.parametrize("at", [0, 11, FIRST - 9, FIRST + 30, -1])
def test_damage_is_seen(at: int) -> None:
    data = bytearray(vector("secret_key.bin"))
    data[at] ^= 1
    with pytest.raises(AssertionError):
        reader.secret_key(bytes(data), RING)


@pytest.mark.parametrize("name", ["reader.py", "arithmetic.py", Path(__file__).name])
def test_nothing_of_tacita_is_imported(name: str) -> None:
    nodes = list(ast.walk(ast.parse((HERE / name).read_text())))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    outside = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    assert outside <= {"numpy", "blake3", "pytest", "reader", "arithmetic"}
