"""What stays in memory between the requests of several clients, on a toy ring, and which folders are
answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_dispatch import World, make_world

from tacita import api
from tacita.errors import InputError
from tacita.evaluate.keyring import KeyRing, server_bytes
from tacita.evaluate.session import Standing
from tacita.resources import GB

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("standing"), ("ann", "bob", "cec"))


def standing(world: World) -> Standing:
    return Standing(world.plan, api.load(), world.root, allow_insecure=True, threads=1)


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


def test_two_clients_get_what_a_fresh_server_gives(world: World) -> None:
    stays = standing(world)
    for name in ("ann", "bob"):
        job = world.job(name, name)
        stays.ring.load(job.keys)
        stays.server(job.folder).evaluate()
        answered = (job.folder / "response.ct").read_bytes()
        (job.folder / "evaluation.keys").symlink_to(job.keys)
        api.Server(world.plan, api.load(), job.folder, allow_insecure=True, threads=1).evaluate()
        assert (job.folder / "response.ct").read_bytes() == answered


def test_no_folder_outside_the_root_is_answered(world: World, tmp_path: Path) -> None:
    stays, inside = standing(world), world.job("inside").folder
    assert stays.folder(str(inside)) == inside
    (link := world.root / "link").symlink_to(tmp_path)
    names = (tmp_path, link, inside / ".." / ".." / ".." / tmp_path.name, inside / "no", "requests", "\0")
    for name in map(str, names):
        with pytest.raises(InputError, match="no folder of that name"):
            stays.folder(name)
