"""Evaluators of a command on nodes that are made up, what a run is said to take, and what is refused: no Ray
is started."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import SMALL, run

import tacita
from tacita import api
from tacita.errors import CheckpointError, InputError, PeerError, TacitaError
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.server.jobs.messages import Done, Evaluate, Order, Reply, WorkerSpec
from tacita.server.jobs.worker import Start
from tacita.server.machines import cluster, spread
from tacita.server.machines.cluster import Site, Where, sites_of, where_of
from tacita.server.machines.costs import STARTING, Costs, costs_of, link_to, store_bytes
from tacita.server.machines.node import MODEL, PREFIX, WEIGHTS, own_folder, parse_model, write_model
from tacita.server.machines.spread import MOST_LOSSES, RESTARTS, Nodes, in_order

WHERE = Where("10.0.0.5:6379")


class FakeWorker:
    """A worker that answers its jobs at once; it ends at the jobs that are poison."""

    def __init__(self, world: World) -> None:
        self.pid, self._world, self._replies = 0, world, asyncio.Queue[Reply | None]()

    def send(self, order: Order) -> None:
        if isinstance(order, Evaluate):
            self._world.given.append(order.id)
            poison = order.id in self._world.poison
            figures = {"evaluate_seconds": 1.0, "processor_seconds": 1.0}
            self._replies.put_nowait(None if poison else Done(order.id, 1.0, figures, 1))

    async def receive(self) -> Reply | None:
        return await self._replies.get()

    def kill(self) -> None:
        self._replies.put_nowait(None)

    async def end(self, seconds: float | None = None) -> None:
        pass


class World:
    """Nodes that are made up, in the place of `RayNodeSet`. poison: jobs at which workers end. bad: nodes
    where no worker starts."""

    def __init__(self, *names: str, poison: tuple[str, ...] = (), bad: tuple[str, ...] = ()) -> None:
        self.names, self.poison, self.bad, self.given = list(names), poison, bad, list[str]()
        self._news = asyncio.Event()

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(Site(name, 1) for name in self.names)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def starts(self) -> Mapping[str, Start]:
        self._news.clear()
        return {name: self._start_at(name) for name in self.names}

    async def changed(self) -> None:
        await self._news.wait()

    async def leave(self, name: str) -> None:
        self.names.remove(name)
        self._news.set()

    def _start_at(self, name: str) -> Start:
        async def start(spec: WorkerSpec) -> Any:
            if name in self.bad:
                raise TacitaError("no room on its disk", hint="make room")
            return FakeWorker(self)

        return start


@pytest.fixture
def nodes_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Makes evaluators on the nodes of a world."""
    opened = list[Nodes]()

    def make(world: World) -> Nodes:
        monkeypatch.setattr(spread, "RayNodeSet", lambda *_, **__: world)
        spec = WorkerSpec("m", "thor", tmp_path, tmp_path, tmp_path, 1, 1.0, True, "0" * 64)
        opened.append(nodes := Nodes(WHERE, 1, 1 << 20, spec))
        nodes.open()
        nodes.start()
        return nodes

    yield make
    for nodes in opened:
        nodes.close()


def answered(nodes: Nodes, count: int) -> list[int]:
    """The numbers of so many requests, as they are answered."""
    for number in range(count):
        nodes.submit(number, "key", nodes.log, nodes.log.parent)
    events = [nodes.event(wait=True) for _ in range(count)]
    return [event[0] for event in events if event]


@pytest.mark.parametrize("evaluators", [1, 2, 5])
def test_all_are_answered(evaluators: int, nodes_of: Any) -> None:
    world = World(*(f"e{number}" for number in range(evaluators)))
    nodes = nodes_of(world)
    assert nodes.size == evaluators and nodes.event(wait=False) is None
    assert sorted(answered(nodes, 17)) == list(range(17)) and len(world.given) == 17


def test_a_node_where_none_starts_costs_time_alone(nodes_of: Any, quick_starts: None) -> None:
    nodes = nodes_of(World("bad", "good", bad=("bad",)))
    assert sorted(answered(nodes, 5)) == list(range(5))
    until = time.monotonic() + 180.0
    while nodes.size > 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert nodes.size == 1


def test_without_an_evaluator_it_ends_and_says_why(nodes_of: Any, quick_starts: None) -> None:
    nodes = nodes_of(World("bad", bad=("bad",)))
    with pytest.raises(PeerError, match="no evaluator is left after 0 answers: no room on its disk"):
        answered(nodes, 1)


def test_the_last_node_that_leaves_ends_it(nodes_of: Any) -> None:
    world = World("a", "b")
    nodes = nodes_of(world)
    assert len(answered(nodes, 2)) == 2
    for name in ("a", "b"):
        nodes._loop.run(world.leave(name))
    with pytest.raises(PeerError, match="after 2 answers: its node is gone"):
        nodes.event(wait=True)


def test_a_request_that_takes_evaluators_down_is_given_up(nodes_of: Any, quick_starts: None) -> None:
    world = World("a", "b", "c", poison=("2",))
    nodes = nodes_of(world)
    with pytest.raises(PeerError, match=f"request 3: {MOST_LOSSES} evaluators were lost at it"):
        answered(nodes, 9)
    assert world.given.count("2") == MOST_LOSSES > RESTARTS + 1


@pytest.fixture
def quick_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ended is followed at once."""
    monkeypatch.setattr("tacita.server.child.pause_after", lambda starts: 0.0)


def test_a_value_comes_as_soon_as_its_turn_does() -> None:
    taken: list[int] = []

    def numbered() -> Iterator[tuple[int, str]]:
        for number in (1, 0, 3, 2):
            taken.append(number)
            yield number, "abcd"[number]

    values = in_order(numbered())
    assert (next(values), list(taken)) == ("a", [1, 0])
    assert (next(values), list(taken)) == ("b", [1, 0])
    assert list(values) == ["c", "d"]


def test_a_forecast_is_rounds_beside_what_is_done_once() -> None:
    costs = Costs(keygen=10.0, start=20.0, each=100.0, placed=2e9, sent=1e6)
    here, there = costs.forecast(33, 16, None), costs.forecast(33, 16, LinkSpeed(1e10, 0.0))
    assert (here.rounds, here.evaluate, here.placement, here.seconds) == (3, 300.0, 0.0, 330.0)
    assert there.placement == pytest.approx(16 * 2e9 * 8 / 1e10)
    assert there.seconds == pytest.approx(330.0 + there.placement)
    assert there.to_json()["seconds"] == there.seconds
    assert "33 requests on 16 evaluators: 3 x 100.0 s" in there.words()


def test_a_narrow_link_decides_where_requests_are_large() -> None:
    costs = Costs(keygen=0.0, start=0.0, each=1.0, placed=0.0, sent=1e9)
    found = costs.forecast(160, 16, LINKS["LAN"])
    assert found.evaluate == pytest.approx(160 * 8.0)


def test_costs_are_those_of_the_plan() -> None:
    model = make_random_checkpoint()
    plan = api.plan(model, tokens=16, preset="insecure_toy_n10", texts=["a fine film", "the plot is dull"])
    two, many = (costs_of(plan, 1000, cores) for cores in (1, 4 * plan.prediction.threads))
    assert many.start > STARTING
    assert many.each == pytest.approx(plan.prediction.seconds["evaluate"])  # no gain is promised
    assert two.each == pytest.approx(many.each * plan.prediction.threads)
    assert many.placed == plan.prediction.bytes["evaluation_keys"] + 1000
    assert two.sent == plan.predicted_bytes()
    assert link_to(None, local=True) is None and link_to(LINKS["WAN"], local=True) is None
    assert (link_to(None, local=False), link_to(LINKS["WAN"], local=False)) == (LINKS["LAN"], LINKS["WAN"])


def node(name: str, cores: float, *, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "Resources": {"CPU": cores} if cores else {}}


def test_room_is_where_cores_are() -> None:
    nodes = [node("a", 4.0), node("b", 0.0), node("c", 8.0, alive=False), node("d", 6.0)]
    assert sites_of(Where("h:1"), nodes) == (Site("a", 4), Site("d", 6))
    split = sites_of(Where("h:1", cores=2), nodes)
    assert [site.node for site in split] == ["a", "d", "a", "d", "d"]  # few requests use many nodes
    assert sites_of(Where("h:1", nodes=1, cores=4), nodes) == (Site("a", 4),)
    with pytest.raises(PeerError, match="none of 3 nodes has 16 cores"):
        sites_of(Where("h:1", cores=16), nodes)


@pytest.mark.parametrize("given", ["", "auto", "ray://h:1", "h", "h:", "h:1/x", "-h:x", "local:", "h:123456"])
def test_an_address_is_the_users_word(given: str) -> None:
    with pytest.raises(InputError, match="neither local nor HOST:PORT"):
        where_of(given)


def test_numbers_are_checked() -> None:
    assert where_of("h-1.example:6379", 3, 2) == Where("h-1.example:6379", 3, 2)
    for numbers in ({"nodes": 0}, {"cores": -1}, {"nodes": 10**6}):
        with pytest.raises(InputError, match="--ray: "):
            where_of("local", **numbers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ray", "local", "--connect", "h:1"], "both --ray and --connect"),
        (["--ray", "local", "--backend", "sim"], "--ray with --backend sim"),
        (["--ray", "cluster"], "neither local nor HOST:PORT"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str) -> None:
    plan = [] if "--connect" in options else SMALL  # which a server decides
    status, _, err = run("classify", "a fine film", *plan, *options)
    assert status == 2 and message in err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="Ray is not installed") as caught:
        tacita.classify_many(["a fine film"], ray="local", preset="insecure_toy_n10", allow_insecure=True)
    assert "[ray]" in caught.value.hint


def test_many_texts_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", None)  # is not reached
    with pytest.raises(InputError, match="no text"):
        tacita.classify_many([])
    with pytest.raises(tacita.TacitaError, match="insecure"):
        tacita.classify_many(["a fine film"], preset="insecure_toy_n10")


def test_folders_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    dead = tmp_path / f"{PREFIX}dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "request.ct").write_bytes(b"left")
    (tmp_path / f"{PREFIX}other").mkdir()  # nobody's that we know of
    mine, second = own_folder(tmp_path).path, own_folder(tmp_path).path
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, second.name, f"{PREFIX}other"}


def test_a_model_travels_as_it_was_loaded(tmp_path: Path) -> None:
    model = make_random_checkpoint(layers=1)
    write_model(model, tmp_path)
    text, weights = (tmp_path / MODEL).read_text(), (tmp_path / WEIGHTS).read_bytes()
    read = parse_model(text, weights)
    assert (read.name, read.config, read.sha256) == (model.name, model.config, model.sha256)
    for damaged in ("{}", "[", text.replace('"bert"', '"none"'), text.replace('"layers"', '"floors"')):
        with pytest.raises(CheckpointError, match="no model"):
            parse_model(damaged, weights)
    with pytest.raises(CheckpointError, match="the client's weights"):
        parse_model(text, weights[:-1])


def test_a_store_has_room_for_what_moves() -> None:
    plan = api.plan(make_random_checkpoint(), tokens=16, preset="insecure_toy_n10", texts=["a fine film"])
    one, two = (store_bytes([plan], nodes) for nodes in (1, 2))
    assert two - one >= plan.predicted_bytes() and store_bytes([plan, plan], 1) > one


def test_two_parties_are_not_spread(tmp_path: Path) -> None:
    folder = write_folder(make_random_checkpoint(layers=1), tmp_path / "model")
    (tmp_path / "texts.txt").write_text("a fine film\nthe plot is dull\n")
    options = ["--model", str(folder), "--texts", str(tmp_path / "texts.txt"), "--tokens", "16"]
    status, _, err = run("classify", "a fine film", *options, "--scheme", "bumblebee", "--ray", "local")
    assert status == 2 and "bumblebee answers over a connection" in err
