"""The compiled engine on a toy ring: the conformance suite of the contract, and what its classes refuse."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from tacita.slots.bootstraps import CoefficientMatrix
from tacita.slots.ckks import CkksBackend
from tacita.slots.conformance import CHECKS, COEFFICIENT_TOKENS, Harness

native = pytest.importorskip("tacita._native", reason="the native engine is not built")
pytestmark = pytest.mark.native

RING = "insecure_toy_n8"
Toy = tuple[Any, Any, Any, Path]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """(parameters, secret key, evaluation keys, folder) with every rotation of the small ring."""
    folder = tmp_path_factory.mktemp("keys")
    params = native.Parameters.preset(RING, allow_insecure=True)
    rotations = [(k, params.max_level) for k in range(1, params.slots)]
    secret, public = folder / "secret.key", folder / "evaluation.keys"
    paths = str(secret), str(public)
    native.keygen(params, rotations, *paths, lambda done, total: None, COEFFICIENT_TOKENS)
    keys = native.EvaluationKeys.load(str(public), params, rotations, COEFFICIENT_TOKENS)
    return params, native.SecretKey.load(str(secret), params), keys, folder


@pytest.fixture(scope="module")
def harness(toy: Toy) -> Harness:
    params, secret, keys, _ = toy
    be = CkksBackend(native.Evaluator(params, keys, 1))

    def encrypt(values: np.ndarray, level: int | None) -> Any:
        slots = np.ascontiguousarray(np.asarray(values), np.complex128)
        return native.encrypt(secret, slots, params.max_level if level is None else level)

    return Harness(be, encrypt, secret.decrypt, tolerance=2e-5)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[Harness], None], harness: Harness) -> None:
    check(harness)


def test_refreshes_after_a_product_get_the_bound_of_the_server(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[Any]()
    maps = MagicMock(refresh=lambda *how: seen.append(how) or [])
    be = CkksBackend(native.Evaluator(toy[0], toy[2], 1), at_once=3)
    monkeypatch.setattr(be, "_coefficients", lambda tokens: maps)
    be.coefficient_product([object()], CoefficientMatrix(COEFFICIENT_TOKENS, np.eye(2), np.zeros(2)))
    assert [how[1:] for how in seen] == [(None, None, 3)]


def test_vectors_of_a_map_are_the_same_wherever_they_lie(toy: Toy) -> None:
    """In C order they are read where they are: also those that nobody may write to, and from two threads."""
    params, secret, keys, _ = toy
    be, rng = native.Evaluator(params, keys, 1), np.random.default_rng(5)
    ct = native.encrypt(secret, rng.uniform(-1.0, 1.0, params.slots).astype(complex), 3)
    vectors = rng.uniform(-1.0, 1.0, (2, 32)).view(complex)
    terms = np.array([[0, 4, 0, 0, 0], [0, 0, 0, 1, 1]], np.int32)

    def mapped(these: np.ndarray) -> bytes:
        data: bytes = be.linear([ct], these, terms, 1, 0)[0].to_bytes()
        return data

    wanted, spread, frozen = mapped(vectors), np.zeros((4, 48), complex), vectors.view()
    spread[::2, ::3], frozen.flags.writeable = vectors, False
    for these in (frozen, np.asfortranarray(vectors), spread[::2, ::3], vectors[::-1].copy()[::-1]):
        assert mapped(these) == wanted
    with ThreadPoolExecutor(2) as threads:
        assert set(threads.map(mapped, [vectors] * 4)) == {wanted}
    with pytest.raises(native.TacitaError, match="length 0"):
        mapped(vectors[:, :0])


def test_an_evaluator_has_no_more_threads_than_there_are_cores(toy: Toy) -> None:
    assert native.Evaluator(toy[0], toy[2], 1).threads == 1
    assert native.Evaluator(toy[0], toy[2], 4096).threads == native.Evaluator(toy[0], toy[2]).threads < 4096


def test_the_secret_key_file_is_private_and_names_its_client(toy: Toy) -> None:
    _, secret, keys, folder = toy
    assert (folder / "secret.key").stat().st_mode & 0o777 == 0o600
    assert secret.key_id == keys.key_id
    assert secret.key_id in repr(secret)


def test_ciphertexts_survive_the_wire(toy: Toy) -> None:
    params, secret, _, _ = toy
    slots = np.linspace(-1, 1, params.slots).astype(complex)
    ct = native.encrypt(secret, slots, 5)
    data = ct.to_bytes()
    back = native.Ciphertext.from_bytes(params, data)
    assert back.level == 5
    assert np.abs(secret.decrypt(back) - slots).max() < 1e-6
    again = native.Ciphertext.from_bytes(params, back.to_bytes())
    assert len(back.to_bytes()) > 1.8 * len(data)
    assert np.abs(secret.decrypt(again) - slots).max() < 1e-6


@pytest.mark.parametrize("damage", ["cut", "flip", "grow", "empty"])
def test_damaged_ciphertexts_are_refused(damage: str, toy: Toy) -> None:
    params, secret, _, _ = toy
    data = bytearray(native.encrypt(secret, np.zeros(16, complex), 3).to_bytes())
    if damage == "cut":
        data = data[:-7]
    elif damage == "flip":
        data[len(data) // 2] ^= 4
    elif damage == "grow":
        data += b"\0"
    else:
        data = bytearray()
    with pytest.raises(native.FormatError):
        native.Ciphertext.from_bytes(params, bytes(data))


def test_other_parameters_are_refused(toy: Toy) -> None:
    _, secret, _, folder = toy
    other = native.Parameters.preset("insecure_toy_n9", allow_insecure=True)
    data = native.encrypt(secret, np.zeros(16, complex), 3).to_bytes()
    with pytest.raises(native.FormatError, match="param"):
        native.Ciphertext.from_bytes(other, data)
    with pytest.raises(native.FormatError, match="param"):
        native.SecretKey.load(str(folder / "secret.key"), other)
    with pytest.raises(native.FormatError, match="param"):
        native.EvaluationKeys.load(str(folder / "evaluation.keys"), other, [])
    with pytest.raises(native.ParameterError):
        native.Parameters.preset("n15")


def test_another_clients_ciphertexts_are_refused(toy: Toy, tmp_path: Path) -> None:
    params, mine, keys, _ = toy
    paths = str(tmp_path / "secret.key"), str(tmp_path / "evaluation.keys")
    native.keygen(params, [], *paths, lambda done, total: None)
    other = native.SecretKey.load(paths[0], params)
    foreign = native.encrypt(other, np.zeros(16, complex), 3)
    with pytest.raises(native.FormatError, match="client"):
        native.Evaluator(params, keys, 1).neg(foreign)
    with pytest.raises(native.FormatError, match="client"):
        mine.decrypt(foreign)


def test_only_the_plans_keys_are_accepted(toy: Toy) -> None:
    params, _, _, folder = toy
    path = str(folder / "evaluation.keys")
    with pytest.raises(native.FormatError):
        native.EvaluationKeys.load(path, params, [(1, 3)])
    with pytest.raises(TypeError, match="rotations"):
        native.EvaluationKeys.load(path, params)


@pytest.mark.parametrize("name", ["insecure_toy_n8", "insecure_toy_leveled_n12", "insecure_toy_n15"])
def test_insecure_presets_must_be_asked_for(name: str) -> None:
    with pytest.raises(native.ParameterError, match=r"bits of security, 128 are required; hint"):
        native.Parameters.preset(name)
    assert native.Parameters.preset(name, allow_insecure=True).security_bits < 128


@pytest.mark.parametrize("level", [17, 2**63, 2**64 - 1])
def test_levels_above_the_top_are_refused_and_do_not_wrap(level: int, toy: Toy, tmp_path: Path) -> None:
    params, secret, keys, _ = toy
    with pytest.raises(native.TacitaError, match=f"level {level} is above the top level 16"):
        native.encrypt(secret, np.zeros(16, complex), level)
    with pytest.raises(native.TacitaError, match=f"level {level} is above the top level 16"):
        native.EvaluationKeys.load(str(tmp_path / "none"), params, [(1, level)])
    fresh = native.encrypt(secret, np.zeros(16, complex), 3)
    with pytest.raises(native.TacitaError, match="above"):
        native.Evaluator(params, keys, 1).drop_to(fresh, level)
