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
from tacita.server.child import Child, Unable, decode, encode
from tacita.server.jobs.queue import WorkerSpec
from tacita.server.machines import connect
from tacita.server.machines.connect import Site
from tacita.server.machines.serving import node_set
from tacita.server.machines.serving.node_set import RayNodeSet, share
from tacita.server.machines.serving.watcher import ClusterRequest, NodeList

WISH = ClusterRequest("10.0.0.5:6379", 0, 0, 2, 1 << 20)
ONE, TWO = (
    NodeList("10.0.0.5:6379", "", "", tuple(Site(node, 4) for node in nodes)) for nodes in ("a", "aab")
)
PATIENCE = 180.0  # seconds
LONG = b"x"  # with more of it behind
SPEC = WorkerSpec("m", "thor", Path("m"), Path("p"), Path("r"), 1, 1.0, True, "0" * 64)


def play(monkeypatch: pytest.MonkeyPatch, *lines: bytes, then: str = "sys.stdin.read()") -> None:
    """A watcher that says these lines, and then lives until its input ends."""
    said = f"sys.stdout.buffer.write({b''.join(lines)!r}); sys.stdout.flush(); {then}"
    monkeypatch.setattr(node_set, "WATCHER", (sys.executable, "-c", f"import sys; {said}"))


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
            await found.starts()["b:1"](SPEC, 60.0)
        await found.close()

    play(monkeypatch, encode(ONE), encode(TWO))
    monkeypatch.setattr(node_set, "start_process", started)
    asyncio.run(test())
    ((command, spec, save_every, environment),) = given
    assert command == (*node_set.COMMAND, "10.0.0.5:6379", "b", "4", "2", "")
    assert (spec, save_every, environment) == (SPEC, 60.0, dict(os.environ))


def test_a_watcher_that_ends_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_set, "PAUSE", 0.0)

    async def test() -> None:
        found = RayNodeSet(WISH, plans=1)
        play(monkeypatch, encode(ONE), then="pass")
        await found.open()
        play(monkeypatch, encode(TWO))
        await until(found, 3)
        await found.close()
        assert found.sites == TWO.sites

    asyncio.run(test())


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (encode(Unable("nobody listens there", "ray start")), "nobody listens"),
        (b"", "ended before"),
        (b"{}\n", "no message"),
        (b'{"kind": "seen", "address": 1}\n', "no message"),
        (LONG, "too long"),
    ],
    ids=["unable", "silent", "empty", "mistyped", "long"],
)
def test_what_a_watcher_cannot_do_is_told(said: bytes, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        found = RayNodeSet(WISH, plans=1)
        with pytest.raises(PeerError, match=match):
            await found.open()
        assert found.starts() == {}

    monkeypatch.setattr(node_set, "PAUSE", 0.0)
    monkeypatch.setattr(node_set, "ENDING", 0.1)  # one that says so much does not hear
    play(monkeypatch, said, then="pass" if said != LONG else "sys.stdout.write('x' * (3 << 20))")
    asyncio.run(test())


def test_lines_of_a_watcher_pass_whole() -> None:
    for said in (ONE, TWO, Unable("why", "hint")):
        assert decode(NodeList | Unable, encode(said)[:-1]) == said
    with pytest.raises(PeerError, match="no message"):
        decode(NodeList | Unable, json.dumps({"kind": "done"}).encode())


@pytest.mark.parametrize(("cores", "plans", "expected"), [(8, 2, 4), (8, 3, 2), (1, 2, 0.5), (2, 2, 1)])
def test_plans_share_the_cores_of_a_node(cores: int, plans: int, expected: float) -> None:
    assert share(cores, plans) == expected and share(cores, plans) * plans <= cores


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray", "local"], "--ray is for --https"),
        (["--https", "127.0.0.1:0", "--data", "D", "--ray-nodes", "2"], "without --ray"),
        (["--https", "127.0.0.1:0", "--data", "D", "--ray", "ray://x:1"], "neither local nor"),
        (["--https", "127.0.0.1:0", "--data", "D", "--ray", "127.0.0.1:1"], "nobody listens there"),
        (
            ["--https", "127.0.0.1:0", "--data", "D", "--schemes", "bumblebee", "--ray", "local"],
            "a connection",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_before_plans_are_made(options: list[str], said: str) -> None:
    status, _, complaint = run("serve", *options, "--insecure-plain-tcp", "--tokens", "16")
    assert status == 2 and said in " ".join(complaint.split()), complaint


def test_without_ray_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "find_spec", lambda _: None)
    where = ("--https", "127.0.0.1:0", "--data", "D", "--ray", "local", "--insecure-plain-tcp")
    status, _, complaint = run("serve", *where)
    assert status == 2 and ".[ray]" in complaint
