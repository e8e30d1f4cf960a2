"""The service's worker for a node, and the evaluator there, on a toy ring and without Ray: the bytes of one
machine, keys that are sent once, stages, stops, losses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_ray import FakeRay, Handle
from service_dispatch import World, make_world

from tacita import api
from tacita.evaluate.keyring import server_bytes
from tacita.progress import Progress
from tacita.resources import GB
from tacita.server.jobs.queue import REFUSED, RESOURCES, Job
from tacita.server.machines.evaluator import Failed as Refused
from tacita.server.machines.evaluator import Kit, kit_of, weights_of
from tacita.server.machines.serving import forward
from tacita.server.machines.serving.forward import Forward, LostError
from tacita.server.machines.serving.node import Node
from tacita.server.workers.evaluator import EndedError
from tacita.server.workers.messages import Done, Evaluate, Failed, Log, Stopped

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
MEMORY = 4.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("serving"))


def kit(world: World, folder: Path, memory: float = MEMORY) -> Kit:
    return kit_of(world.plan, api.load(), memory, allow_insecure=True, folder=str(folder))


def weights() -> np.ndarray:
    return np.frombuffer(weights_of(api.load()), np.uint8)


@pytest.fixture
def node(world: World, tmp_path: Path) -> Iterator[Handle]:
    """An actor on a node."""
    handle = Handle(Node(1))
    assert handle.actor.prepare(kit(world, tmp_path), weights(), "thor") is None
    yield handle
    handle.end()
    handle.actor.close()
    assert not list(tmp_path.iterdir()), "nothing is left on the node"


def worker(node: Handle) -> Forward:
    return Forward(FakeRay(), node, Log("sst2", "thor"))


def order(job: Job) -> Evaluate:
    return Evaluate(job.id, job.key_id, str(job.keys), str(job.folder))


def on_one_machine(world: World, name: str) -> bytes:
    """The response to a job of ann's."""
    work = world.root / "keys" / "ann"
    shutil.copy(world.root / "requests" / name / "request.ct", work)
    api.Server(world.plan, api.load(), work, allow_insecure=True, threads=1).evaluate()
    return (work / "response.ct").read_bytes()


def ignored(now: Progress) -> None:
    pass


def test_the_answer_is_that_of_one_machine_and_keys_are_sent_once(world: World, node: Handle) -> None:
    here, stages = worker(node), list[Progress]()
    said = here.answer(order(world.job("one")), stages.append)
    assert isinstance(said, Done) and said.resident == 1 and said.figures["keys_loaded"] == 1.0
    assert [now.index for now in stages] == list(range(len(world.plan.stages) + 1))
    response = (world.root / "requests" / "one" / "response.ct").read_bytes()
    assert response == on_one_machine(world, "one")
    assert world.label("one") == "positive"

    again = here.answer(order(world.again("one")), ignored)
    assert isinstance(again, Done) and again.figures["keys_loaded"] == 0.0
    assert node.calls.count("take") == -(-world.again("one").keys.stat().st_size // forward.PIECE)
    assert (world.root / "requests" / "one" / "response.ct").read_bytes() == response
    other = here.answer(order(world.job("two", "bob")), ignored)
    assert isinstance(other, Done) and other.resident == 2
    assert world.label("two", "bob") == "positive"


def test_keys_that_were_replaced_at_the_service_are_sent_again(world: World, node: Handle) -> None:
    here, job = worker(node), order(world.job("replaced"))
    assert isinstance(here.answer(job, ignored), Done)
    sent = node.calls.count("take")
    keys = Path(job.keys)
    keys.write_bytes(keys.read_bytes())  # the same bytes, but who knows
    assert isinstance(here.answer(job, ignored), Done)
    assert node.calls.count("take") == 2 * sent


def test_keys_that_had_to_make_room_are_sent_again(world: World, tmp_path: Path) -> None:
    handle = Handle(Node(1))
    one = server_bytes(world.plan) / GB + 0.02  # with the keys of one client, which take more than the rest
    assert handle.actor.prepare(kit(world, tmp_path, one), weights(), "thor") is None
    here = worker(handle)
    names = [("evicted", "ann"), ("evicting", "bob")]
    jobs = {name: order(world.job(name, client)) for name, client in names}
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

    assert isinstance(here.answer(order(world.job("stopped")), until_third), Stopped)
    assert not (world.root / "requests" / "stopped" / "response.ct").exists()
    assert isinstance(here.answer(order(world.again("stopped")), ignored), Done)


def test_what_is_wrong_with_a_job_is_its_answer(world: World, node: Handle, tmp_path: Path) -> None:
    here, job = worker(node), world.job("wrong")
    missing = Evaluate(job.id, job.key_id, str(tmp_path / "none"), str(job.folder))
    said = here.answer(missing, ignored)
    assert isinstance(said, Failed) and said.code == REFUSED and "upload them again" in said.hint
    swapped = Evaluate(job.id, world.job("bobs", "bob").key_id, str(job.keys), str(job.folder))
    said = here.answer(swapped, ignored)
    assert isinstance(said, Failed) and said.code == REFUSED and "other keys" in said.detail
    request = job.folder / "request.ct"
    request.write_bytes(request.read_bytes()[:-100])
    said = here.answer(order(job), ignored)
    assert isinstance(said, Failed) and said.code == REFUSED
    assert str(tmp_path) not in said.detail + said.hint, "no place of files on a node"


def test_a_full_disk_at_the_node_is_told(world: World, node: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.actor, "take", lambda mark, begin, piece: "No space left on device")
    said = worker(node).answer(order(world.job("full")), ignored)
    assert isinstance(said, Failed) and said.code == RESOURCES and "No space left" in said.detail


def test_a_node_that_is_lost_ends_the_worker(world: World, node: Handle) -> None:
    def lose(now: Progress) -> None:
        node.lost = True

    with pytest.raises(LostError):
        worker(node).answer(order(world.job("lost")), lose)


def test_what_cannot_be_served_is_said_when_it_is_prepared(world: World, tmp_path: Path) -> None:
    bad = kit(world, tmp_path)
    refused = Node(1).prepare(Kit(**{**vars(bad), "version": "0.0"}), weights(), "thor")
    assert isinstance(refused, Refused) and "release" in refused.why
    refused = Node(1).prepare(Kit(**{**vars(bad), "salt": "00" * 32}), weights(), "thor")
    assert isinstance(refused, Refused)
    assert not list(tmp_path.iterdir())
