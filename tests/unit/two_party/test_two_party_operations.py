"""The engine's two-party operations from Python against plain arithmetic: shapes, formats, both parties in
one process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacita.two_party.arithmetic.functions import norm_layout

native = pytest.importorskip("tacita._native", reason="the native engine is not built")
pytestmark = pytest.mark.native
if not hasattr(native, "TwoParty"):
    pytest.skip("the native engine was built without the two-party mode", allow_module_level=True)

Array = NDArray[Any]
FRACTION = 18


@pytest.fixture(scope="module")
def parties() -> Iterator[tuple[Any, Any]]:
    """One session, set up once."""
    pair = native.two_party_pair(timeout=120.0)
    both(pair, lambda party: party.setup())
    yield pair
    for party in pair:
        party.close()


def both(parties: tuple[Any, Any], step: Callable[..., Any], *inputs: tuple[Any, Any]) -> tuple[Any, Any]:
    """A step at both parties at once, each with its own of every input."""
    with ThreadPoolExecutor(2) as pool:
        arguments = list(zip(*inputs, strict=True)) if inputs else [(), ()]
        running = [pool.submit(step, party, *given) for party, given in zip(parties, arguments, strict=True)]
        first, second = (future.result() for future in running)
    return first, second


def split(x: Array, bits: int, seed: int = 1) -> tuple[Array, Array]:
    """Signed integers in shares modulo 2^bits."""
    mask = np.uint64(2**bits - 1)
    left = np.random.default_rng(seed).integers(0, 2**64, np.shape(x), np.uint64) & mask
    return left, (np.asarray(x, np.int64).astype(np.uint64) - left) & mask


def join(shares: tuple[Array, Array], bits: int) -> Array:
    """The signed values."""
    up = np.uint64(64 - bits)
    total = (shares[0] + shares[1]) << up
    return total.view(np.int64) >> up.astype(np.int64)


def fixed(x: Array, bits: int = 64, fraction: int = FRACTION) -> tuple[Array, Array]:
    """Reals in shares."""
    return split(np.rint(x * 2.0**fraction), bits)


def real(shares: tuple[Array, Array], bits: int = 64, fraction: int = FRACTION) -> Array:
    return join(shares, bits) / 2.0**fraction


def of(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestComparisons:
    @pytest.mark.parametrize("bits", [13, 32, 64])
    def test_signs_and_thresholds(self, parties: tuple[Any, Any], bits: int) -> None:
        top = 2 ** (bits - 2)
        x = np.array([[0, 1, -1], [top - 1, -top, 5]])
        shares = split(x, bits)
        signs = both(parties, lambda p, s: p.negative(s, bits), shares)
        assert signs[0].shape == x.shape
        assert signs[0].dtype == np.uint8
        np.testing.assert_array_equal(signs[0] ^ signs[1], x < 0)
        lanes = both(parties, lambda p, s: p.below(s, bits, [-3, 5]), shares)
        for lane, threshold in enumerate([-3, 5]):
            np.testing.assert_array_equal(lanes[0][lane] ^ lanes[1][lane], x < threshold)

    def test_choices(self, parties: tuple[Any, Any]) -> None:
        a, left = (of(seed).integers(0, 2, 64, np.uint8) for seed in (1, 3))
        shares_a = (left, left ^ a)
        x = of(5).integers(-1000, 1000, 64)
        picked = both(parties, lambda p, c, s: p.select(c, s, 40), shares_a, split(x, 40))
        np.testing.assert_array_equal(join(picked, 40), a * x)
        numbers = both(parties, lambda p, c: p.to_arithmetic(c, 7), shares_a)
        np.testing.assert_array_equal(join(numbers, 7), a)

    def test_rows(self, parties: tuple[Any, Any]) -> None:
        x = of(6).integers(-500, 500, (7, 11))
        found = both(parties, lambda p, s: p.argmax_rows(s, 32, 8, window=12), split(x, 32))
        np.testing.assert_array_equal(join((found[0][0], found[1][0]), 32), x.max(axis=1))
        np.testing.assert_array_equal(join((found[0][1], found[1][1]), 8), x.argmax(axis=1))

    def test_rings(self, parties: tuple[Any, Any]) -> None:
        x = of(7).integers(-(2**29), 2**29, 100)
        np.testing.assert_array_equal(
            join(both(parties, lambda p, s: p.extend(s, 32, 64), split(x, 32)), 64), x
        )
        got = both(parties, lambda p, s: p.truncate(s, 32, 9), split(x, 32))
        assert np.abs(join(got, 32) - x / 512).max() <= 1


class TestProducts:
    def test_elements(self, parties: tuple[Any, Any]) -> None:
        x = of(1).integers(-1000, 1000, (3, 50))
        got = both(parties, lambda p, a: p.square_narrow(a, 14, 24, 4), split(x, 14))
        assert got[0].shape == x.shape
        assert np.abs(join(got, 24) - x * x).max() < 2**4

    def test_shares_times_weights(self, parties: tuple[Any, Any]) -> None:
        x, weights = of(1).integers(-1000, 1000, (5, 33)), of(2).integers(-1000, 1000, (33, 17))
        step = lambda p, s, w: p.share_times_weights(s, w, (5, 33, 17), 64)  # noqa: E731
        got = both(parties, step, split(x, 64), (None, weights))
        assert got[0].shape == (5, 17)
        assert np.abs(join(got, 64) - x @ weights).max() < 2**16
        left = ((x % 2**40).astype(np.uint64), None)
        step = lambda p, a, w: p.client_times_server(a, w, (5, 33, 17), 40)  # noqa: E731
        got = both(parties, step, left, (None, weights))
        assert np.abs(join(got, 40) - x @ weights).max() < 2**16

    def test_shares_times_shares(self, parties: tuple[Any, Any]) -> None:
        x, y = of(1).integers(-1000, 1000, (2, 6, 20)), of(2).integers(-1000, 1000, (2, 20, 6))
        step = lambda p, a, b: p.share_times_share(a, b, (2, 6, 20, 6), 48)  # noqa: E731
        got = both(parties, step, split(x, 48), split(y, 48, 2))
        assert got[0].shape == (2, 6, 6)
        assert np.abs(join(got, 48) - x @ y).max() < 2**16

    def test_shapes_are_checked(self, parties: tuple[Any, Any]) -> None:
        client, _ = parties
        x = np.zeros(4, np.uint64)
        with pytest.raises(native.TacitaError, match="is needed"):
            client.share_times_weights(x, None, (2, 2), 64)
        with pytest.raises(native.TacitaError, match="too large"):
            client.share_times_weights(x, None, (2**40, 2**40, 2), 64)
        with pytest.raises(native.TacitaError, match="left matrix has 4 values"):
            client.share_times_weights(x, None, (3, 3, 3), 64)
        with pytest.raises(native.TacitaError, match="slack"):
            client.share_times_weights(x, None, (2, 2, 2), 64, slack=1)
        with pytest.raises(native.TacitaError, match="a matrix"):
            client.argmax_rows(x, 64, 8)


def gelu(x: Array) -> Array:
    from tacita.approx.activations import gelu

    return np.asarray(gelu.exact(x))


def elu(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0)) - 1, x)


def gelu_tanh(x: Array) -> Array:
    from tacita.approx.activations import gelu_tanh

    return np.asarray(gelu_tanh.exact(x))


class TestFunctions:
    @pytest.mark.parametrize(
        ("name", "plain", "tolerance", "options"),
        [
            ("gelu", gelu, 4e-3, {}),
            ("gelu", gelu, 2e-3, {"form": "abs8"}),
            ("gelu", gelu, 2.5e-2, {"form": "seg4"}),
            ("gelu", gelu, 1.1e-2, {"form": "p4"}),
            ("gelu", gelu_tanh, 4e-3, {"form": "tanh4"}),
            ("gelu", gelu_tanh, 2e-3, {"form": "tanh8"}),
            ("silu", lambda x: x / (1 + np.exp(-x)), 3e-3, {}),
            ("silu", lambda x: x / (1 + np.exp(-x)), 2e-3, {"form": "abs16"}),
            ("tanh", np.tanh, 2e-3, {}),
            ("elu", elu, 2e-3, {}),
        ],
    )
    def test_activations(
        self,
        parties: tuple[Any, Any],
        name: str,
        plain: Callable[[Array], Array],
        tolerance: float,
        options: dict[str, Any],
    ) -> None:
        x = np.concatenate([np.linspace(-9, 9, 61), [0.0, -200.0, 200.0]])
        got = both(parties, lambda p, s: getattr(p, name)(s, **options), fixed(x))
        np.testing.assert_allclose(real(got), plain(x), atol=tolerance)

    def test_other_formats(self, parties: tuple[Any, Any]) -> None:
        x = np.linspace(-4, 4, 33)
        got = both(parties, lambda p, s: p.gelu(s, 40, 14, 36, range=6), fixed(x, 40, 14))
        np.testing.assert_allclose(real(got, 36, 14), gelu(x), atol=4e-3)
        got = both(parties, lambda p, s: p.tanh(s, 40, 14, 32, 12, range=4), fixed(x, 40, 14))
        np.testing.assert_allclose(real(got, 32, 12), np.tanh(x), atol=3e-3)

    def test_softmax(self, parties: tuple[Any, Any]) -> None:
        x = of(3).standard_normal((6, 13)) * 3
        raised = np.exp(x - x.max(axis=1, keepdims=True))
        got = both(parties, lambda p, s: p.softmax(s, range=6), fixed(x))
        np.testing.assert_allclose(real(got), raised / raised.sum(axis=1, keepdims=True), atol=3e-3)
        parts = both(parties, lambda p, s: p.softmax_parts(s, 64, 18, 6, 24, 32, 16), fixed(x))
        assert parts[0][0].shape == x.shape
        assert parts[0][1].shape == (6,)
        powers, inverses = real((parts[0][0], parts[1][0]), 24, 14), real((parts[0][1], parts[1][1]), 32, 16)
        np.testing.assert_allclose(powers.sum(axis=1) * inverses, 1.0, atol=3e-3)

    @pytest.mark.parametrize(("columns", "least"), [(1023, 0.5), (1024, 1.0), (1024, 0.5), (4096, 1.0)])
    def test_layer_norm_of_many_values_has_room_for_its_sums(
        self, parties: tuple[Any, Any], columns: int, least: float
    ) -> None:
        """Where a plan is refused, and nowhere else."""
        x, one = np.zeros((5, columns), np.uint64), np.ones(columns)

        def step(party: Any) -> bool:
            gamma = None if party.is_client else one
            try:
                party.layer_norm(x, gamma, gamma, bound=256.0, least=least, gamma_bound=1.0)
            except native.TacitaError as error:
                assert "rsqrt" in str(error)
                return False
            return True

        held = norm_layout(columns, 256.0, least, 1.0).sums
        assert both(parties, step) == (held, held)

    def test_layer_norm(self, parties: tuple[Any, Any]) -> None:
        x, gamma, beta = (
            of(4).standard_normal((5, 32)),
            of(5).uniform(0.5, 1.5, 32),
            of(6).standard_normal(32),
        )
        step = lambda p, s, g, b: p.layer_norm(s, g, b, bound=8.0, least=0.3, gamma_bound=2.0)  # noqa: E731
        got = both(parties, step, fixed(x), (None, gamma), (None, beta))
        plain = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True) * gamma + beta
        np.testing.assert_allclose(real(got), plain, atol=4e-3)
        step = lambda p, s, g, b: p.layer_norm(  # noqa: E731
            s, g, b, bound=8.0, least=0.3, gamma_bound=2.0, centred=False
        )
        got = both(parties, step, fixed(x + 1.0), (None, gamma), (None, beta))
        plain = (x + 1.0) / np.sqrt(((x + 1.0) ** 2).mean(axis=1, keepdims=True)) * gamma + beta
        np.testing.assert_allclose(real(got), plain, atol=4e-3)

    def test_formats_are_checked(self, parties: tuple[Any, Any]) -> None:
        client, _ = parties
        x = np.zeros((2, 2), np.uint64)
        for step in (
            lambda: client.gelu(x, 16, 16),
            lambda: client.gelu(x, form="other"),
            lambda: client.silu(x, form="tanh4"),
            lambda: client.square_narrow(x, 20, 41, 4),
            lambda: client.gelu(x, range=60),
            lambda: client.softmax(x.ravel()),
            lambda: client.layer_norm(x, np.ones(2), None, bound=1.0, least=0.1, gamma_bound=2.0),
        ):
            with pytest.raises(native.TacitaError) as caught:
                step()
            assert not isinstance(caught.value, native.PeerError)


def test_an_opened_value_a_profile_and_counters(parties: tuple[Any, Any]) -> None:
    x = of(8).integers(-1000, 1000, (2, 9))
    client, server = parties

    def opening(party: Any, share: Array) -> Array | None:
        if not party.is_client:
            party.reveal(share)
            return None
        return np.asarray(party.receive_revealed(share, 40))

    opened, _ = both(parties, opening, split(x, 40))
    np.testing.assert_array_equal(join((opened, np.zeros_like(opened)), 40), x)
    paths = {row["path"]: row for row in client.profile()}
    assert "setup" in paths
    assert all(row["path"].rpartition("/")[0] in {"", *paths} for row in client.profile())
    assert paths["reveal"]["received"] == 8 * 18
    counts = client.cots()
    assert counts["made_as_sender"] >= counts["used_as_sender"] > 0
    assert server.cots() == {
        "made_as_sender": counts["made_as_receiver"],
        "made_as_receiver": counts["made_as_sender"],
        "used_as_sender": counts["used_as_receiver"],
        "used_as_receiver": counts["used_as_sender"],
    }


def test_a_peer_that_leaves_in_the_middle_of_an_operation_is_a_peer_error() -> None:
    pair = native.two_party_pair(timeout=180.0)
    both(pair, lambda party: party.setup())

    def leaving(party: Any, share: Array) -> str | None:
        if not party.is_client:
            party.receive(1 << 20)  # not what the operation sends first
            return None
        with pytest.raises(native.PeerError) as caught:
            party.gelu(share)
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        x = fixed(np.linspace(-1, 1, 50))
        client, server = pool.submit(leaving, pair[0], x[0]), pool.submit(leaving, pair[1], x[1])
        with pytest.raises(native.PeerError, match="were expected"):
            server.result(60)
        pair[1].close()
        assert "closed" in client.result(60)


def test_a_session_between_two_processes_over_tls(tmp_path: Path) -> None:
    certificate, key = native.generate_certificate(str(tmp_path), ["localhost"])
    listener = native.TwoPartyListener("localhost", 0, certificate=certificate, key=key)
    x = of(9).integers(-1000, 1000, 300)
    left, right = split(x, 64)
    np.save(tmp_path / "share.npy", left)
    script = """
import sys, numpy as np
from tacita import _native
folder, port = sys.argv[1], int(sys.argv[2])
pin = _native.certificate_fingerprint(folder + "/certificate.pem")
client = _native.TwoParty.dial("localhost", port, fingerprint=pin, timeout=60.0)
client.handshake(bytes(32))
client.setup()
client.reveal(client.to_arithmetic(client.negative(np.load(folder + "/share.npy"), 64), 8))
client.close()
"""
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(listener.port)]) as process:
        server = listener.accept(180.0, timeout=180.0)
        server.handshake(bytes(32))
        server.setup()
        share = server.to_arithmetic(server.negative(right, 64), 8)
        negative = server.receive_revealed(share, 8)
        server.close()
        assert process.wait(180) == 0
    np.testing.assert_array_equal(negative, x < 0)


@pytest.mark.parametrize("kind", ["ferret", "softspoken"])
def test_correlations_are_right_and_can_be_made_ahead(kind: str) -> None:
    pair = native.two_party_pair()
    both(pair, lambda party: party.setup(kind, products=False))
    before = both(pair, lambda party: party.bytes_sent + party.bytes_received)
    made = both(pair, lambda party: party.take_cots(20_000))
    assert made[0] == made[1] >= 20_000
    assert both(pair, lambda party: party.wrong_cots(5_000)) == (0, 0)
    after = both(pair, lambda party: party.bytes_sent + party.bytes_received)
    assert after[0] > before[0]
    both(pair, lambda party: party.reserve_cots(*((100, 200) if party.is_client else (200, 100))))
    with pytest.raises(native.TacitaError, match="not known"):
        pair[0].setup("magic")
