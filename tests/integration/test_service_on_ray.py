"""A service whose requests are evaluated on a Ray cluster on this machine, on a toy ring: answers of two
clients by two nodes, a node that dies, a server that is asked to end and one that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_cluster import children, mark, require_nothing_left, second_raylet
from test_service import LONGER, TOY, Caller, started

from tacita import api
from tacita.cli.service.started import Started, ended
from tacita.plans import wire
from tacita.schemes import base

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytest.importorskip("ray", reason="Ray is not installed: the extra ray")
pytestmark = pytest.mark.native
assert mark  # a fixture that every test here takes
ON_RAY = {**LONGER, "run": {**TOY["run"], "memory": 4}, "ray": {"address": "local"}}
TWO = {**ON_RAY, "ray": {"address": "local", "nodes": 2}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("on-ray")
    yield found
    shutil.rmtree(found)


def evaluated_here(server: Started, client: api.Client) -> bytes:
    """The response of one machine, without Ray."""
    plan = base.load(server.data / "offers" / "sst2-tiny" / "thor" / "plan.json")
    api.Server(plan, api.load(), client.work, allow_insecure=True, threads=1).evaluate()
    return client.work.response.read_bytes()


def metric(operator: Caller, name: str) -> float:
    (value,) = re.findall(rf"^tacita_{name}\{{.*\}} (\S+)$", operator.get("/metrics").text, re.M)
    return float(value)


def begun_by(log: Path, ids: list[str]) -> set[int]:
    """The workers that were given these requests."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return {line["worker"] for line in lines if line["event"] == "begins" and line["job"] in ids}


def under_way(caller: Caller, id: str) -> None:
    """Returns when the request has passed a stage."""
    next(status for status in caller.events(id) if status.state is wire.State.running and status.done)


def test_two_nodes_answer_two_clients_and_one_dies(folder: Path, mark: str) -> None:
    with started(folder, "--schemes", "thor", settings=TWO) as server:
        assert any("thor: 2 evaluators on 2 nodes" in line for line in server.greeting)
        callers = [Caller(server, server.token(name), folder / name) for name in ("ann", "bob")]
        operator = Caller(server, server.token("prometheus", operator=True), folder)
        clients = [caller.prepare() for caller in callers]
        expected = [evaluated_here(server, client) for client in clients]
        asked = [(n, callers[n].post(clients[n])) for n in (0, 0, 0, 1, 1)]
        assert all(callers[n].answer(id) == expected[n] for n, id in asked)
        assert len(begun_by(folder / "log", [id for _, id in asked])) == 2, "both nodes worked"
        assert metric(operator, "workers") == 2 and metric(operator, "keys_resident") >= 2

        asked = [(n, callers[n].post(clients[n])) for n in (0, 1, 0)]
        for n, id in asked[:2]:
            under_way(callers[n], id)
        raylet = second_raylet(mark)
        for pid in (*children(raylet), raylet):
            with contextlib.suppress(ProcessLookupError):  # those of a node end by themselves, too
                os.kill(pid, signal.SIGKILL)
        assert all(callers[n].answer(id) == expected[n] for n, id in asked)
        assert '"requeued"' in (folder / "log").read_text(), "one was lost in the middle"
        assert callers[0].get("/readyz").text == "ready\n" and metric(operator, "workers") == 1
    assert server.process.returncode == 0
    require_nothing_left(mark)


def test_requests_outlive_servers_that_end_and_that_are_killed(folder: Path, mark: str) -> None:
    with started(folder, "--schemes", "thor", settings={**ON_RAY, "service": {"drain": 100}}) as server:
        caller = Caller(server, server.token("cec"), folder / "cec")
        client = caller.prepare()
        expected = evaluated_here(server, client)
        ids = [caller.post(client) for _ in range(3)]
        under_way(caller, ids[0])
        assert ended(server.process) == 0
    require_nothing_left(mark)
    assert begun_by(folder / "log", ids[:1]) and not begun_by(folder / "log", ids[1:]), "one ran to its end"
    with started(folder, "--schemes", "thor", settings=ON_RAY) as server:
        caller = Caller(server, caller.token, caller.work)
        under_way(caller, ids[2])  # the last, which waits for another: it is not over before it is asked for
        server.process.kill()
        server.process.wait()
    require_nothing_left(mark)
    with started(folder, "--schemes", "thor", settings=LONGER) as server:
        caller = Caller(server, caller.token, caller.work)
        assert all(caller.answer(id) == expected for id in ids), "also without Ray"
