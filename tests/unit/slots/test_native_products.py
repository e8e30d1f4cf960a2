"""The engine's degree-2 accumulators and leveled presets: what their classes refuse, and what an object still
says after use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacita.evaluate.spill import Codec, SpillingBackend, SpillStore
from tacita.slots.ckks import CkksBackend

native = pytest.importorskip("tacita._native", reason="the native engine is not built")
pytestmark = pytest.mark.native

RING = "insecure_toy_leveled_n9"


def _client(folder: Path, ring: str = RING) -> tuple[Any, Any]:
    """(secret key, evaluator) of a new client; no rotations."""
    params = native.Parameters.preset(ring, allow_insecure=True)
    paths = str(folder / f"{ring}.secret"), str(folder / f"{ring}.keys")
    native.keygen(params, [], *paths, lambda done, total: None)
    keys = native.EvaluationKeys.load(paths[1], params, [])
    return native.SecretKey.load(paths[0], params), native.Evaluator(params, keys, 1)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return _client(tmp_path_factory.mktemp("client"))


def _encrypt(secret: Any, level: int = 4) -> Any:
    return native.encrypt(secret, np.full(secret.params.slots, 0.5 + 0j), level)


def test_accumulators_are_taken_over(client: tuple[Any, Any]) -> None:
    secret, evaluator = client
    x = _encrypt(secret)
    first = evaluator.products([[x, x]], [[x, x, x]])
    assert (first.rows, first.columns, first.level, first.nbytes) == (2, 3, 4, 6 * 3 * 5 * 512 * 8)
    both = evaluator.products([[x, x]], [[x, x, x]], first)
    assert (first.nbytes, first.rows, first.level) == (0, 2, 4)
    for again in (lambda: evaluator.relinearise(first), lambda: evaluator.products([[x]], [[x]], first)):
        with pytest.raises(native.TacitaError, match="took these accumulators over"):
            again()
    found = evaluator.relinearise(both)
    assert [len(row) for row in found] == [3, 3]
    assert all(
        ct.level == 3 and np.allclose(secret.decrypt(ct), 0.5, atol=1e-5) for row in found for ct in row
    )


def test_a_refusal_leaves_the_accumulators(client: tuple[Any, Any]) -> None:
    secret, evaluator = client
    x, low, bottom = _encrypt(secret), _encrypt(secret, 1), _encrypt(secret, 0)
    acc = evaluator.products([[x]], [[x]])
    for right in ([[low]], [[x, x]], [[x], [x]], []):
        with pytest.raises(native.TacitaError, match="products"):
            evaluator.products([[x]], right, acc)
    assert np.allclose(secret.decrypt(evaluator.relinearise(acc)[0][0]), 0.25, atol=1e-5)
    with pytest.raises(native.LevelError, match="relinearise"):
        evaluator.relinearise(evaluator.products([[x]], [[bottom]]))


def test_other_clients_and_parameters_are_refused(client: tuple[Any, Any], tmp_path: Path) -> None:
    secret, evaluator = client
    acc = evaluator.products([[_encrypt(secret)]], [[_encrypt(secret)]])
    for ring, error in ((RING, native.FormatError), ("insecure_toy_leveled_n10", native.ParameterError)):
        stranger, other = _client(tmp_path, ring)
        with pytest.raises(error):
            evaluator.products([[_encrypt(stranger)]], [[_encrypt(secret)]])
        with pytest.raises(native.ParameterError, match="another evaluator"):
            other.relinearise(acc)


@pytest.mark.parametrize("budget", [1000, 96, 8])  # operands in one part, two and four
def test_a_product_has_the_bits_of_one_call_within_any_budget(
    client: tuple[Any, Any], tmp_path: Path, budget: int
) -> None:
    """Where operands came in turn each part was rescaled for itself: bits depended on the memory limit."""
    secret, evaluator = client
    rng = np.random.default_rng(7)
    weights, bias = rng.normal(size=(40, 100, 2)) / 100, rng.normal(size=(40, 2))
    xs = [_encrypt(secret, 3 + (i == 70)) for i in range(100)]
    want = [ct.to_bytes() for ct in evaluator.matmul(xs, weights, bias)]
    codec = Codec(
        lambda ct: ct.nbytes,
        lambda ct: ct.to_bytes(),
        lambda data: native.Ciphertext.from_bytes(secret.params, data),
    )
    store = SpillStore(tmp_path / "spill")
    be = SpillingBackend(CkksBackend(evaluator), store, budget * xs[0].nbytes, codec)
    got = be.matmul([be.adopt(x) for x in xs], weights, bias)
    assert (store.bytes_read > 0) == (budget < 1000)
    assert [be.pool.packed(ct) for ct in got] == want
    store.close(keep=False)


def test_leveled_presets_do_not_bootstrap(client: tuple[Any, Any]) -> None:
    secret, evaluator = client
    assert native.Parameters.preset("insecure_toy_n8", allow_insecure=True).can_bootstrap
    assert not secret.params.can_bootstrap
    assert secret.params.failure_log2 == -1024.0
    with pytest.raises(native.TacitaError, match="no primes for bootstrapping"):
        evaluator.bootstrap([_encrypt(secret)], ["real"])
