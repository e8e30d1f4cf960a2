"""The service's view of Ray's nodes by a watcher that the test plays, and what `serve --ray` refuses: no Ray
is started."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from test_cli import run

from tacita.errors import PeerError
from tacita.extras import how_to_install
from tacita.plans.json_fields import from_json
from tacita.server import child
from tacita.server.child import Child, Ready, Unable, decode, encode
from tacita.server.jobs.messages import WorkerSpec
from tacita.server.machines import cluster, node_set
from tacita.server.machines.cluster import ClusterRequest, NodeList, Said, Site, Where
from tacita.server.machines.forward import ActorSite
from tacita.server.machines.node_set import RayNodeSet, share

WISH = ClusterRequest(Where("10.0.0.5:6379"), 2, 1 << 20)
ONE, TWO = (
    NodeList("10.0.0.5:6379", "", "", tuple(Site(node, 4) for node in nodes)) for nodes in ("a", "aab")
)
PATIENCE = 900.0  # seconds
READY, LONG = encode(Ready(0.0)), b"x"  # with more of it behind
SPEC = WorkerSpec("m", "thor", Path("m"), Path("p"), Path("r"), 1, 1.0, True, "0" * 64)


def play(monkeypatch: pytest.MonkeyPatch, *lines: bytes, then: str = "sock.recv(1)") -> None:
    """A watcher that says these lines, and then lives until its socket is closed."""
    begin = "import socket, sys; sock = socket.socket(fileno=int(sys.argv[-1])); sock.recv(1 << 16)"
    said = f"{begin}; sock.sendall({b''.join(lines)!r}); {then}"
    monkeypatch.setattr(node_set, "WATCHER", (sys.executable, "-c", said))


async def until(found: RayNodeSet, sites: int) -> None:
    """Returns when so many are seen."""
    async with asyncio.timeout(PATIENCE):
        while len(found.starts()) != sites:
            await found.changed()


def test_places_follow_what_the_watcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[Any]()

    async def started(*words: Any) -> Child:
        given.append(words)
        raise PeerError("it is made up", hint="")

    async def test() -> None:
        found = RayNodeSet(WISH, plans=2)
        await found.open()
        await until(found, 3)
        assert set(found.starts()) == {"a:1", "a:2", "b:1"}
        with pytest.raises(PeerError, match="made up"):
            await found.starts()["b:1"](SPEC)
        await found.close()

    play(monkeypatch, READY, encode(ONE), encode(TWO))
    monkeypatch.setattr(node_set, "start_process", started)
    asyncio.run(test())
    ((command, spec, environment),) = given
    assert command[:-1] == node_set.COMMAND
    site = from_json(ActorSite, json.loads(command[-1]))
    assert site == ActorSite("10.0.0.5:6379", "b", 4, 2.0, "")
    assert (spec, environment) == (SPEC, dict(os.environ))


def test_a_watcher_that_ends_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "pause_after", lambda starts: 0.0)

    async def test() -> None:
        found = RayNodeSet(WISH, plans=1)
        play(monkeypatch, READY, encode(ONE), then="pass")
        await found.open()
        play(monkeypatch, READY, encode(TWO))
        await until(found, 3)
        await found.close()
        assert found.sites == TWO.sites

    asyncio.run(test())


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (encode(Unable("--ray h:1: nobody listens there", "ray start")), "^--ray h:1: nobody listens"),
        (b"", "^--ray: its process ended before"),
        (READY, "ended before it saw a node"),
        (b"{}\n", "no message"),
        (b'{"kind": "seen", "address": 1}\n', "no message"),
        (LONG, "a line of more than"),
    ],
    ids=["unable", "silent", "blind", "empty", "mistyped", "long"],
)
def test_what_a_watcher_cannot_do_is_told(said: bytes, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        found = RayNodeSet(WISH, plans=1)
        with pytest.raises(PeerError, match=match):
            await found.open()
        assert found.starts() == {}

    play(monkeypatch, said, then="pass" if said != LONG else "sock.sendall(b'x' * (3 << 20))")
    asyncio.run(test())


def test_lines_of_a_watcher_pass_whole() -> None:
    for said in (ONE, TWO, Unable("why", "hint")):
        assert decode(Said | Unable, encode(said)[:-1]) == said
    with pytest.raises(PeerError, match="no message"):
        decode(Said | Unable, json.dumps({"kind": "done"}).encode())


SERVED = ("--https", "127.0.0.1:0", "--data", "D", "--insecure-plain-tcp")


@pytest.mark.parametrize(("cores", "plans", "expected"), [(8, 2, 4), (8, 3, 2), (1, 2, 0.5), (2, 2, 1)])
def test_plans_share_the_cores_of_a_node(cores: int, plans: int, expected: float) -> None:
    assert share(cores, plans) == expected and share(cores, plans) * plans <= cores


@pytest.mark.parametrize(
    ("schemes", "address", "said"),
    [
        ("thor", "ray://x:1", "neither local nor"),
        ("thor", "127.0.0.1:1", "nobody listens there"),
        ("bumblebee", "local", "a connection"),
    ],
)
def test_what_does_not_go_together_is_refused_before_plans_are_made(
    schemes: str, address: str, said: str
) -> None:
    status, _, complaint = run("serve", *SERVED, "--tokens", "16", "--schemes", schemes, ray__address=address)
    assert status == 2 and said in " ".join(complaint.split()), complaint


def test_rows_that_a_service_keeps_are_not_for_nodes() -> None:
    line = ("serve", *SERVED, "--model", "austen-tiny", "--schemes", "thor", "--tokens", "16")
    status, _, complaint = run(*line, ray__address="local", plan__cache=True)
    assert status == 2 and "cache with --ray (rows are kept on this machine" in " ".join(complaint.split())


def test_without_ray_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    status, _, complaint = run("serve", *SERVED, ray__address="local")
    assert status == 2 and how_to_install("ray") in complaint
