"""Which keys stay in memory between the requests of several clients, on a toy ring."""

from __future__ import annotations

import sys
import threading

import pytest
from service_dispatch import World, make_world

from tacita import resources
from tacita.errors import FileError, ResourceError
from tacita.evaluate import keyring
from tacita.evaluate.keyring import KeyRing, server_bytes
from tacita.resources import GB

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("keyring"), ("ann", "bob", "cec"))


def test_keys_stay_within_the_limit_and_share_what_is_no_clients(world: World) -> None:
    files = [world.root / "keys" / name / "evaluation.keys" for name in ("ann", "bob", "cec")]
    need = server_bytes(world.plan)
    one = KeyRing(world.plan, memory=need / GB, allow_insecure=True)
    nbytes = one.load(files[0]).nbytes
    ring = KeyRing(world.plan, memory=(need + 1.5 * nbytes) / GB, allow_insecure=True)
    a, b = (ring.load(file).key_id for file in files[:2])
    assert (len(one), len(ring), ring.further_bytes) == (1, 2, nbytes)
    assert ring.held(a) is not None  # used last now
    c = ring.load(files[2]).key_id
    assert [ring.held(key) is not None for key in (a, b, c)] == [True, False, True]
    one.load(files[1])
    assert len(one) == 1 and one.held(a) is None


def test_what_clients_share_is_made_once_and_a_bad_file_is_named(world: World) -> None:
    ring = KeyRing(world.plan, memory=2 * server_bytes(world.plan) / GB, allow_insecure=True)
    damaged = world.root / "damaged.keys"
    good = world.root / "keys" / "ann" / "evaluation.keys"
    damaged.write_bytes(good.read_bytes()[:-1])
    with pytest.raises(FileError, match=r"damaged\.keys"):
        ring.load(damaged)
    assert len(ring) == 0
    shared = ring.prepare()  # by the thread beside the read that failed, or now
    assert ring.load(good).evaluator is not shared and ring.prepare() is shared
    assert ring.load(good).key_id == ring.load(good).key_id and len(ring) == 1


def test_memory_is_touched_before_the_first_client_and_counts_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thread in threading.enumerate():  # of evaluators that other tests made
        if thread.name == "provide":
            thread.join()
    file, need = world.root / "keys" / "ann" / "evaluation.keys", server_bytes(world.plan)
    ring = KeyRing(world.plan, memory=2 * need / GB, allow_insecure=True)
    shared, free = ring.prepare(), [need // 2]
    for module in (keyring, resources):
        monkeypatch.setattr(module, "available_memory", lambda: free[-1])
    monkeypatch.setattr(keyring, "resident_bytes", lambda: shared.unused_bytes)  # of this test alone
    ring.provide()
    before = shared.unused_bytes
    free.append(2 * need)
    ring.provide()
    there = shared.unused_bytes - before
    assert there >= 2 * file.stat().st_size or sys.platform != "linux"
    monkeypatch.setattr(keyring, "resident_bytes", lambda: need)  # as a worker's process, which has no other
    free.append(need - there)
    ring.load(file)  # wants what is not there yet
    assert shared.unused_bytes < before + there or sys.platform != "linux"
    free.append(0)
    with pytest.raises(ResourceError, match=r"evaluation needs .* of memory, 0.0 GB are available"):
        ring.load(file)
