"""The worker for a node, and the evaluator there, on a toy ring and without Ray: the bytes of one
machine, keys that are sent once, stages, stops, losses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_ray import FakeRay, Handle
from random_checkpoint import make_random_checkpoint
from service_dispatch import World, make_world

from tacita import api
from tacita.errors import PeerError
from tacita.evaluate.keyring import server_bytes
from tacita.progress import Progress
from tacita.resources import GB
from tacita.server import logs
from tacita.server.child import Unable
from tacita.server.jobs.evaluator import EndedError
from tacita.server.jobs.messages import REFUSED, RESOURCES, Done, Failed, Stopped
from tacita.server.machines import forward
from tacita.server.machines.forward import ActorSite, Forward, LostError, prepare
from tacita.server.machines.node import Node, write_model

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = make_world(tmp_path_factory.mktemp("serving"))
    write_model(made.model, made.spec.plan)
    return made


@pytest.fixture(autouse=True)
def own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node is a process of its own, whose log it sets up."""
    monkeypatch.setattr(logs, "start", lambda **labels: None)


def site(folder: Path) -> ActorSite:
    return ActorSite("h:1", "n", 1, 1.0, str(folder))


@pytest.fixture
def node(world: World, tmp_path: Path) -> Iterator[Handle]:
    """An actor on a node."""
    handle = Handle(Node(1))
    prepare(FakeRay(), handle, world.spec, site(tmp_path))
    handle.calls.clear()
    yield handle
    handle.end()
    handle.actor.close()
    assert not list(tmp_path.iterdir()), "nothing is left on the node"


def worker(node: Handle) -> Forward:
    return Forward(FakeRay(), node)


def on_one_machine(world: World, name: str) -> bytes:
    """The response to a job of ann's."""
    work = world.root / "keys" / "ann"
    shutil.copy(world.root / "requests" / name / "request.ct", work)
    api.Server(world.plan, world.model, work, allow_insecure=True, threads=1).evaluate()
    return (work / "response.ct").read_bytes()


def ignored(now: Progress) -> None:
    pass


def test_the_answer_is_that_of_one_machine_and_keys_are_sent_once(world: World, node: Handle) -> None:
    here, stages = worker(node), list[Progress]()
    said = here.answer(world.job("one").order, stages.append)
    assert isinstance(said, Done) and said.resident == 1 and said.figures["keys_loaded"] == 1.0
    assert [now.index for now in stages] == list(range(len(world.plan.stages) + 1))
    response = (world.root / "requests" / "one" / "response.ct").read_bytes()
    assert response == on_one_machine(world, "one")
    assert world.label("one") == "positive"

    again = here.answer(world.again("one").order, ignored)
    assert isinstance(again, Done) and again.figures["keys_loaded"] == 0.0
    assert node.calls.count("take") == -(-world.again("one").order.keys.stat().st_size // forward.PIECE)
    assert (world.root / "requests" / "one" / "response.ct").read_bytes() == response
    other = here.answer(world.job("two", "bob").order, ignored)
    assert isinstance(other, Done) and other.resident == 2
    assert world.label("two", "bob") == "positive"


def test_keys_that_were_replaced_at_the_service_are_sent_again(world: World, node: Handle) -> None:
    here, job = worker(node), world.job("replaced").order
    assert isinstance(here.answer(job, ignored), Done)
    sent = node.calls.count("take")
    job.keys.write_bytes(job.keys.read_bytes())  # the same bytes, but who knows
    assert isinstance(here.answer(job, ignored), Done)
    assert node.calls.count("take") == 2 * sent


def test_keys_that_had_to_make_room_are_sent_again(world: World, tmp_path: Path) -> None:
    handle = Handle(Node(1))
    one = server_bytes(world.plan) / GB + 0.02  # with the keys of one client, which take more than the rest
    prepare(FakeRay(), handle, replace(world.spec, memory=one), site(tmp_path))
    here = worker(handle)
    names = [("evicted", "ann"), ("evicting", "bob")]
    jobs = {name: world.job(name, client).order for name, client in names}
    for name in ("evicted", "evicting", "evicted"):
        said = here.answer(jobs[name], ignored)
        assert isinstance(said, Done) and said.resident == 1, said
        assert said.figures["keys_loaded"] == 1.0
    handle.end()
    handle.actor.close()


def test_a_job_that_is_stopped_ends_and_the_next_is_well(world: World, node: Handle) -> None:
    here, seen = worker(node), list[Progress]()

    def until_third(now: Progress) -> None:
        seen.append(now)
        if len(seen) == 3:
            raise EndedError

    assert isinstance(here.answer(world.job("stopped").order, until_third), Stopped)
    assert not (world.root / "requests" / "stopped" / "response.ct").exists()
    assert isinstance(here.answer(world.again("stopped").order, ignored), Done)


def test_what_is_wrong_with_a_job_is_its_answer(world: World, node: Handle, tmp_path: Path) -> None:
    here, job = worker(node), world.job("wrong").order
    said = here.answer(replace(job, keys=tmp_path / "none"), ignored)
    assert isinstance(said, Failed) and said.code == REFUSED and "upload them again" in said.hint
    said = here.answer(replace(job, key_id=world.job("bobs", "bob").order.key_id), ignored)
    assert isinstance(said, Failed) and said.code == REFUSED and "other keys" in said.detail
    request = job.folder / "request.ct"
    request.write_bytes(request.read_bytes()[:-100])
    said = here.answer(job, ignored)
    assert isinstance(said, Failed) and said.code == REFUSED
    assert str(tmp_path) not in said.detail + said.hint, "no place of files on a node"


def test_a_full_disk_at_the_node_is_told(world: World, node: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.actor, "take", lambda mark, begin, piece: "No space left on device")
    job = world.job("full").order
    said = worker(node).answer(job, ignored)
    assert isinstance(said, Failed) and said.code == RESOURCES and "No space left" in said.detail
    with pytest.raises(LostError):  # so that another node takes it
        Forward(FakeRay(), node, retry=True).answer(job, ignored)


def test_a_node_that_is_lost_ends_the_worker(world: World, node: Handle) -> None:
    def lose(now: Progress) -> None:
        node.lost = True

    with pytest.raises(LostError):
        worker(node).answer(world.job("lost").order, lose)


def test_a_node_that_was_never_made_is_dropped_without_a_word() -> None:
    """Ray drops objects that it made without `__init__`."""
    Node.__new__(Node).__del__()


def test_what_cannot_be_served_is_said_when_it_is_prepared(world: World, tmp_path: Path) -> None:
    old = Node(1).open("0.0", str(tmp_path))
    assert isinstance(old, Unable) and "release" in old.error
    other = tmp_path / "plan"
    shutil.copytree(world.spec.plan, other)
    write_model(make_random_checkpoint(layers=1), other)
    (below := tmp_path / "node").mkdir()
    handle = Handle(Node(1))
    with pytest.raises(PeerError, match=r"node n: .*weights"):
        prepare(FakeRay(), handle, replace(world.spec, plan=other), site(below))
    monkey = Handle(Node(1))
    monkey.actor.take = lambda name, begin, piece: "No space left on device"
    with pytest.raises(PeerError, match="cannot keep weights: No space left"):
        prepare(FakeRay(), monkey, world.spec, site(below))
    for each in (handle, monkey):
        each.end()
        del each.actor  # as Ray drops it when its client is gone
    assert not list(below.iterdir())


def test_keys_that_came_damaged_are_refused(world: World, node: Handle, tmp_path: Path) -> None:
    job = world.job("damaged").order
    (damaged := tmp_path.parent / "damaged.keys").write_bytes(bytes(1000))
    said = worker(node).answer(replace(job, keys=damaged), ignored)
    assert isinstance(said, Failed) and said.code == REFUSED and "evaluation.keys" in said.detail
