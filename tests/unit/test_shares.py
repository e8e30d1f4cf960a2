"""The `shares` backend over a stand-in for the protocols (two threads that show each other their shares)."""

from __future__ import annotations

import queue

import numpy as np
import pytest
import tiny
from test_circuit import run

from tacita.slots.conformance import CHECKS, Harness
from tacita.slots.paired import PairedBackend
from tacita.slots.shares import SharesBackend
from tacita.slots.sharing import FRACTION, RING, decode, encode


class OpenSession:
    """What `TwoParty` does, without its secrecy: arguments are opened, results shared again with a fixed mask."""

    def __init__(self, is_client, to, back):
        self.is_client, self._to, self._back = is_client, to, back
        self.bytes = 0

    def send(self, data):
        self._to.put(bytes(data))

    def receive(self, count):
        data = self._back.get(timeout=60)
        assert len(data) == count
        return data

    def reveal(self, x):
        self.send(x.tobytes())

    def receive_revealed(self, x, bits):
        other = np.frombuffer(self.receive(x.nbytes), np.uint64).reshape(x.shape)
        return (x + other) & np.uint64((1 << bits) - 1)

    def _open(self, x, bits):
        assert x.dtype == np.uint64 and x.flags["C_CONTIGUOUS"] and int(x.max(initial=0)) < 1 << bits
        self.reveal(x)
        return self.receive_revealed(x, bits)

    def _share(self, x, bits):
        mask = np.uint64((1 << bits) - 1)
        random = (np.arange(x.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).reshape(x.shape)
        return ((x - random) if self.is_client else random) & mask

    def product(self, x, y, bits, slack):
        assert slack < bits
        return self._share(self._open(x, bits) * self._open(y, bits), bits)

    def square(self, x, bits, slack):
        return self.product(x, x, bits, slack)

    def truncate(self, x, bits, shift):
        up = np.uint64(64 - bits)
        signed = (self._open(x, bits) << up).view(np.int64) >> np.int64(64 - bits)
        assert np.all(np.abs(signed) < 1 << (bits - 2)), "beyond what a truncation takes"
        return self._share((signed >> np.int64(shift)).view(np.uint64), bits)

    def begin(self, name):
        pass

    def end(self):
        pass


def paired(slots, max_level=13):
    up, down = queue.Queue(), queue.Queue()
    sessions = OpenSession(True, up, down), OpenSession(False, down, up)
    return PairedBackend(*(SharesBackend(s, slots, max_level) for s in sessions))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check):
    be = paired(64)
    check(Harness(be, be.encrypt, be.decrypt, tolerance=1e-6))


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 15, 16, 40, 127])
def test_series_of_any_degree(degree):
    be = paired(64)
    x = np.linspace(-1, 1, 64)
    coeffs = np.random.default_rng(degree).normal(size=degree + 1) / (degree + 1)
    found = be.decrypt(be.poly(be.encrypt(x), coeffs))
    assert np.max(np.abs(found - np.polynomial.chebyshev.chebval(x, coeffs))) < 1e-5


def test_fixed_point_round_trips_at_its_edges():
    top = 2.0 ** (RING - 1 - FRACTION) - 1
    values = np.array([0.0, -0.0, 2.0**-FRACTION, -(2.0**-FRACTION), 1.5, top, -top])
    assert np.array_equal(decode(encode(values)), values)


def test_real_values_stay_real_and_cost_one_product():
    be = paired(64)
    a = be.encrypt(np.linspace(-1, 1, 64))
    assert all(half.share.im is None for half in be.mul(a, a).halves)
    assert all(half.share.im is not None for half in be.add_const(a, 1j).halves)


def test_a_whole_circuit_agrees_with_the_reference():
    model = tiny.checkpoint()
    _, reference, answer, errors, _ = run(model, 512, 16, 11, be=paired(512))
    assert max(errors.values()) < 2e-3
    assert np.max(np.abs(answer.values - reference.logits)) < 2e-3
