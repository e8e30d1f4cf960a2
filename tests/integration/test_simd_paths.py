"""TACITA_SIMD: every implementation of the kernels gives the same bits, and what cannot run is refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET = "insecure_toy_n9"
PATHS = ("scalar", "neon", "avx2", "avx512", "avx512ifma")
LACKING = "needs instructions that this processor lacks"
# what a path of another name would do: import, then say which one runs
SHOW = "from tacita import compiled; print(compiled.native.simd_path())"
CATCH = """
from tacita.errors import TacitaError
from tacita import compiled
try:
    compiled.native
except TacitaError as error:
    print(error.hint)
"""
EVALUATE = "import sys; sys.path.insert(0, sys.argv[1]); from test_simd_paths import show; show(sys.argv[2])"


def run(path: str | None, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python process with TACITA_SIMD set (None: not set)."""
    env = {name: value for name, value in os.environ.items() if name != "TACITA_SIMD"}
    if path is not None:
        env["TACITA_SIMD"] = path
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@pytest.fixture(scope="module")
def request_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys and two ciphertexts: the only random part, made once."""
    folder = tmp_path_factory.mktemp("simd")
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    paths = str(folder / "secret.key"), str(folder / "evaluation.keys")
    native.keygen(params, _rotations(params), *paths, lambda done, total: None)
    secret = native.SecretKey.load(paths[0], params)
    for seed in (1, 2):
        slots = np.random.default_rng(seed).uniform(-1, 1, params.slots).astype(complex)
        (folder / f"{seed}.ct").write_bytes(native.encrypt(secret, slots, params.max_level).to_bytes())
    return folder


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _rotations(params: Any) -> list[tuple[int, int]]:
    return [(k, params.max_level) for k in (1, 2, 3, 5)]


def show(folder: str) -> None:
    """Prints sha256 of what every kind of operation returns, and of what the client decrypts."""
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    keys = native.EvaluationKeys.load(f"{folder}/evaluation.keys", params, _rotations(params))
    secret = native.SecretKey.load(f"{folder}/secret.key", params)
    be = native.Evaluator(params, keys, 1)
    a, b = (native.Ciphertext.from_bytes(params, Path(folder, f"{name}.ct").read_bytes()) for name in (1, 2))
    vector = np.linspace(-1, 1, params.slots).astype(complex)
    terms = np.array([[0, 0, 0, 1, 0], [0, 5, 0, 2, 0]], np.int32)
    fresh = be.bootstrap([be.drop_to(a, 0)], ["complex"])
    results = {
        "sum": [be.add(a, be.neg(be.sub(b, a)))],
        "product": [be.dot([a, b], [b, b])],
        "vector": [be.mul_vector(be.add_vector(a, vector), vector)],
        "rotations": be.rotate_many(a, [1, 2, 3]),
        "linear": be.linear([a], vector[None, :], terms, 1, 0),
        "polynomial": [be.poly(a, np.linspace(-0.1, 0.1, 32).astype(complex))],
        "matrix": be.matmul([a, b], np.linspace(-1, 1, 6).reshape(3, 2, 1), None),
        "outer product": be.relinearise(be.products([[a, b]], [[b, a]]))[0],
        "bootstrap": fresh,
    }
    digests = {name: [_digest(ct.to_bytes()) for ct in cts] for name, cts in results.items()}
    digests["decrypted"] = [_digest(secret.decrypt(fresh[0]).tobytes())]
    print(json.dumps({"path": native.simd_path(), "digests": digests}))


def test_every_path_gives_the_same_bits(request_files: Path) -> None:
    here = str(Path(__file__).parent)
    runs = {path: run(path, EVALUATE, here, str(request_files)) for path in PATHS}
    able = {path: done for path, done in runs.items() if LACKING not in done.stderr}
    assert "scalar" in able
    found = {path: json.loads(done.stdout) for path, done in able.items() if done.returncode == 0}
    assert set(found) == set(able), [done.stderr for done in able.values()]
    assert {path: result["path"] for path, result in found.items()} == {path: path for path in found}
    scalar = found["scalar"]["digests"]
    for path, result in found.items():
        differing = [name for name, digests in result["digests"].items() if digests != scalar[name]]
        assert differing == [], path


def test_without_a_wish_the_fastest_path_runs() -> None:
    fastest = [path for path in PATHS if run(path, SHOW).returncode == 0][-1]
    for unset in (None, ""):
        assert run(unset, SHOW).stdout.strip() == fastest


@pytest.mark.parametrize("name", ["sse2", "AVX2", "reference", "x" * 500])
def test_an_unknown_path_is_refused_by_name(name: str) -> None:
    done = run(name, "from tacita.cli import main; raise SystemExit(main(['prices']))")
    assert done.returncode == 2, done.stderr
    assert "TACITA_SIMD=" in done.stderr and "is no path" in done.stderr, done.stderr
    assert "scalar, neon, avx2, avx512 or avx512ifma" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr and len(done.stderr) < 500


def test_the_error_is_one_of_ours() -> None:
    done = run("sse2", CATCH)
    assert "unset it" in done.stdout, done.stderr
