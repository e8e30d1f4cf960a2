"""Requests on their way to evaluators that are made up, what a run is said to take, and what is refused: no
Ray is started."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import SMALL, run

import tacita
from tacita import api
from tacita.errors import InputError, PeerError
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.server.machines import connect
from tacita.server.machines.connect import Site, sites_of
from tacita.server.machines.evaluator import (
    PREFIX,
    Evaluated,
    Evaluator,
    Failed,
    kit_of,
    own_folder,
    weights_of,
)
from tacita.server.machines.in_flight import DEPTH, MOST_LOSSES, Done, Lost, Ready, in_order, spread
from tacita.server.machines.placing import (
    STARTING,
    Costs,
    Placing,
    Where,
    costs_of,
    link_to,
    seconds_left,
    where_of,
)

Event = Ready | Done[str] | Lost


@dataclass
class FakePool:
    """Evaluators that answer what was submitted first, one after the other in turn. lost: before the event of
    this number this evaluator is lost; another takes its place where `again` says so."""

    names: list[str]
    lost: Mapping[int, str] = field(default_factory=dict)
    again: bool = False
    happened: deque[Event] = field(default_factory=deque)
    at: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    submitted: list[tuple[str, int]] = field(default_factory=list)
    gone_at: int = -1  # submissions before the loss
    events: int = 0
    held: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        for name in self.names:
            self._start(name)

    @property
    def size(self) -> int:
        return len(self.at)

    def hold(self, request: str) -> str:
        self.held += 1
        self.most = max(self.most, self.held)
        return f"<{request}>"

    def submit(self, at: str, number: int, request: str) -> None:
        self.submitted.append((at, number))
        self.at[at].append((number, request))

    def event(self, *, wait: bool) -> Event | None:
        if not wait and not self.happened:
            return None
        self.events += 1
        if (name := self.lost.get(self.events)) in self.at:
            del self.at[str(name)]
            self.gone_at = len(self.submitted)
            if self.again:
                self._start(f"{name}'")
            return Lost(str(name), "its machine is gone")
        return self.happened.popleft() if self.happened else self._answer()

    def _start(self, name: str) -> None:
        self.at[name] = []
        self.happened.append(Ready(name))

    def _answer(self) -> Event | None:
        busy = [name for name in self.at if self.at[name]]
        if not busy:
            return None
        name = busy[self.events % len(busy)]
        number, request = self.at[name].pop(0)
        self.held -= 1
        return Done(name, number, request.upper())


def texts(count: int) -> list[str]:
    return [f"text {number}" for number in range(count)]


@pytest.mark.parametrize("evaluators", [1, 2, 5])
def test_all_are_answered_in_order(evaluators: int) -> None:
    pool = FakePool([f"e{number}" for number in range(evaluators)])
    found = list(in_order(spread(texts(17), pool)))
    assert found == [f"<TEXT {number}>" for number in range(17)]
    assert sorted(number for _, number in pool.submitted) == list(range(17))
    assert {at for at, _ in pool.submitted} == set(pool.names)


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


@pytest.mark.parametrize("evaluators", [1, 3])
def test_few_are_held_at_once_and_none_is_made_before_there_is_room(evaluators: int) -> None:
    made: list[int] = []

    def requests() -> Iterator[str]:
        for number in range(40):
            made.append(number)
            yield f"{number}"

    pool = FakePool([f"e{number}" for number in range(evaluators)])
    for done, _ in enumerate(spread(requests(), pool), 1):
        assert len(made) <= done + DEPTH * evaluators
    assert pool.most == DEPTH * evaluators
    assert len(made) == 40


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("when", range(3, 12))
def test_a_lost_evaluator_loses_nothing(when: int, again: bool) -> None:
    pool = FakePool(["a", "b"], {when: "a"}, again)
    assert list(in_order(spread(texts(9), pool))) == [f"<TEXT {number}>" for number in range(9)]
    later = [at for at, _ in pool.submitted[pool.gone_at :]]
    assert pool.gone_at > 0 and "a" not in later
    assert later or when > 9  # whatever it had


def test_what_was_lost_goes_first() -> None:
    pool = FakePool(["a", "b"], {3: "a"})
    assert len(list(spread(texts(8), pool))) == 8
    mine = [number for at, number in pool.submitted if at == "a"]
    lost_then = [number for at, number in pool.submitted if at == "b" and number in mine]
    others = [number for at, number in pool.submitted if at == "b" and number > max(mine) + DEPTH]
    positions = [number for _, number in pool.submitted[len(mine) + DEPTH :]]
    assert lost_then == mine and positions.index(mine[0]) < positions.index(others[0])


@pytest.mark.parametrize(("requests", "of_late"), [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_an_evaluator_that_is_ready_late_finds_work(requests: int, of_late: int) -> None:
    class Late(FakePool):
        """Its second evaluator is ready when the first request of the first one runs."""

        def event(self, *, wait: bool) -> Event | None:
            if self.happened and self.happened[0] == Ready("late") and not wait:
                return None
            return super().event(wait=wait)

    pool = Late(["soon", "late"])
    assert len(list(spread(texts(requests), pool))) == requests
    assert [at for at, _ in pool.submitted].count("late") == of_late


def test_without_an_evaluator_it_ends_and_says_why() -> None:
    pool = FakePool(["a"], {4: "a"})
    with pytest.raises(PeerError, match="no evaluator is left after 2 answers: its machine is gone"):
        list(spread(texts(9), pool))
    with pytest.raises(PeerError, match="after 0 answers: none was there"):
        list(spread(texts(1), FakePool([])))


def test_a_request_that_takes_evaluators_down_is_given_up() -> None:
    class Poisoned(FakePool):
        """Its third request ends whoever runs it."""

        def _answer(self) -> Event | None:
            for name, numbers in list(self.at.items()):
                if numbers and numbers[0][0] == 2:
                    del self.at[name]
                    self._start(f"{name}'")
                    return Lost(name, "out of memory")
            return super()._answer()

    pool = Poisoned(["a", "b"])
    with pytest.raises(PeerError, match=f"request 3: {MOST_LOSSES} evaluators were lost at it.*memory"):
        list(spread(texts(9), pool))


def test_a_forecast_is_rounds_beside_what_is_done_once() -> None:
    costs = Costs(keygen=10.0, start=20.0, each=100.0, placed=2e9, sent=1e6)
    here, there = costs.forecast(33, 16, None), costs.forecast(33, 16, LinkSpeed(1e10, 0.0))
    assert (here.rounds, here.evaluate, here.placement, here.seconds) == (3, 300.0, 0.0, 330.0)
    assert there.placement == pytest.approx(16 * 2e9 * 8 / 1e10)
    assert there.seconds == pytest.approx(330.0 + there.placement)
    shared = costs.forecast(33, 16, LinkSpeed(1e10, 0.0), nodes=4)  # four evaluators on each of four nodes
    assert shared.placement == pytest.approx(there.placement / 4)
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


def test_seconds_left_are_those_of_the_busiest() -> None:
    assert seconds_left(8, 3, 2, 10.0) == 30.0
    assert (seconds_left(8, 8, 2, 10.0), seconds_left(8, 0, 0, 10.0)) == (0.0, 80.0)


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
        (["--ray-nodes", "2"], "without --ray"),
        (["--ray", "local", "--connect", "h:1"], "both --ray and --connect"),
        (["--ray", "local", "--backend", "sim"], "--ray with --backend sim"),
        (["--ray", "cluster"], "neither local nor HOST:PORT"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str) -> None:
    status, _, err = run("classify", "a fine film", *SMALL, *options)
    assert status == 2 and message in err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(connect, "import_module", absent)
    with pytest.raises(InputError, match="Ray is not installed") as caught:
        tacita.classify_many(["a fine film"], ray="local", preset="insecure_toy_n10", allow_insecure=True)
    assert "'.[ray]'" in caught.value.hint


def test_many_texts_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "import_module", None)  # is not reached
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


@pytest.mark.native
def test_an_evaluator_answers_bytes_and_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model = make_random_checkpoint(layers=1)
    plan = api.plan(model, tokens=16, preset="insecure_toy_n10", texts=["a fine film", "the plot is dull"])
    client = api.Client(api.public_of(plan, model), tmp_path / "client", allow_insecure=True)
    client.keygen()
    client.encrypt("a fine film")
    keys, request = (np.fromfile(p, np.uint8) for p in (client.work.evaluation_keys, client.work.request))
    kit = kit_of(plan, model, 12.0, allow_insecure=True, folder=str(tmp_path))
    evaluator = Evaluator(1)
    assert evaluator.prepare(kit, np.frombuffer(weights_of(model), np.uint8)) is None
    half = keys.size // 2
    assert [evaluator.take(at, keys[at:to]) for at, to in ((0, half), (half, keys.size))] == [None, None]
    found = evaluator.load()
    assert isinstance(found, float) and math.isfinite(found)
    (folder,) = tmp_path.glob(f"{PREFIX}*")
    reply = evaluator.evaluate(request)
    assert isinstance(reply, Evaluated)
    assert [path.name for path in folder.iterdir()] == ["lock"]  # neither keys nor ciphertexts stay
    api.Server(plan, model, client.work, allow_insecure=True, threads=1).evaluate()
    assert client.work.response.read_bytes() == reply.response.tobytes()
    spoiled = evaluator.evaluate(request[:-1])
    assert isinstance(spoiled, Failed) and "request.ct" in spoiled.why
    evaluator.close()
    assert not folder.exists()


def test_an_evaluator_says_why_it_cannot(tmp_path: Path) -> None:
    model, other = make_random_checkpoint(layers=1), make_random_checkpoint(layers=1, seed=2)
    plan = api.plan(model, tokens=16, preset="insecure_toy_n10", texts=["a fine film", "the plot is dull"])
    kit = kit_of(plan, model, 12.0, allow_insecure=True, folder=str(tmp_path))
    nothing = np.zeros(0, np.uint8)
    found = Evaluator(1).prepare(kit, np.frombuffer(weights_of(other), np.uint8))
    assert isinstance(found, Failed) and "weights" in found.why
    assert not list(tmp_path.glob(f"{PREFIX}*"))
    old = Evaluator(1).prepare(kit_of_release(kit, "0.0.1"), nothing)
    assert isinstance(old, Failed) and "the client 0.0.1" in old.why


def test_keys_that_came_damaged_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model = make_random_checkpoint(layers=1)
    plan = api.plan(model, tokens=16, preset="insecure_toy_n10", texts=["a fine film", "the plot is dull"])
    evaluator = Evaluator(1)
    kit = kit_of(plan, model, 12.0, allow_insecure=True, folder=str(tmp_path))
    assert evaluator.prepare(kit, np.frombuffer(weights_of(model), np.uint8)) is None
    assert evaluator.take(0, np.zeros(1000, np.uint8)) is None
    found = evaluator.load()
    assert isinstance(found, Failed) and "evaluation.keys" in found.why
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_keys_go_out_a_few_pieces_at_a_time() -> None:
    placing = Placing(["a", "b"], size=100, piece=30)
    assert placing.due() == [slice(0, 30), slice(30, 60)] and placing.due() == []
    placing.arrived("a", 0)
    placing.arrived("a", 30)
    assert placing.due() == []  # b has neither
    placing.arrived("b", 0)
    assert placing.due() == [slice(60, 90)] and not placing.sent
    placing.arrived("b", 30)
    assert placing.due() == [slice(90, 100)] and placing.sent


def test_nobody_waits_for_an_evaluator_that_is_lost() -> None:
    placing = Placing(["a", "b"], size=100, piece=30)
    placing.due()
    placing.arrived("a", 0)
    placing.arrived("a", 30)
    placing.lost("b")
    assert (placing.due(), placing.names) == ([slice(60, 90), slice(90, 100)], {"a"})
    placing.lost("a")
    assert Placing([], size=100).due() == [] and placing.due() == []


def kit_of_release(kit: Any, version: str) -> Any:
    return type(kit)(**{**vars(kit), "version": version})


def test_two_parties_are_not_spread(tmp_path: Path) -> None:
    folder = write_folder(make_random_checkpoint(layers=1), tmp_path / "model")
    (tmp_path / "texts.txt").write_text("a fine film\nthe plot is dull\n")
    options = ["--model", str(folder), "--texts", str(tmp_path / "texts.txt"), "--tokens", "16"]
    status, _, err = run("classify", "a fine film", *options, "--scheme", "bumblebee", "--ray", "local")
    assert status == 2 and "bumblebee answers over a connection" in err
