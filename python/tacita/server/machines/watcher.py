"""`python -m tacita.server.machines.watcher FD`: says which nodes of Ray's there are, at the start and at
each change; starts nodes on this machine where that is wanted.

Started by `node_set`, which sends a ClusterRequest and reads NodeLists (`server.child`). It ends, and with it
the nodes that it started, when the server does, however that ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tacita.errors import PeerError, TacitaError
from tacita.server.child import STDERR, Channel, Message, Ready, Unable, channel_of, ignore_signals
from tacita.server.jobs.worker import BAD
from tacita.server.machines.cluster import Cluster, Site, Where, connected, sites_of

LOOKING = 2.0  # seconds between two looks at Ray's list of nodes
ENDING = 20.0  # seconds for Ray's processes to end


@dataclass(frozen=True)
class ClusterRequest(Message):
    """What to connect to or to start. threads, store: as `connected` takes them. log: a file for the errors
    of the watcher, empty for the server's own."""

    tag: ClassVar[str] = "cluster"
    where: Where
    threads: int
    store: int
    log: str = ""


@dataclass(frozen=True)
class NodeList(Message):
    """The nodes that there are. token: of a cluster that the watcher started, else ""."""

    tag: ClassVar[str] = "seen"
    address: str
    token: str
    folder: str
    sites: tuple[Site, ...]


Said = ClusterRequest | NodeList  # between server and watcher, beside Ready and Unable


def main(words: Sequence[str]) -> int:
    """Looks until the server has gone; the exit status."""
    channel, over = channel_of(words, Said), threading.Event()
    request = channel.receive()
    if not isinstance(request, ClusterRequest):
        return BAD
    send_errors_to(request.log)
    threading.Thread(target=_listen, args=(channel, over), daemon=True).start()
    try:
        _watch(request, channel, over)
    except BrokenPipeError:
        return 0
    except TacitaError as error:
        channel.send(Unable.of(error))
        return 1
    return 0


def _watch(request: ClusterRequest, channel: Channel, over: threading.Event) -> None:
    began = time.monotonic()
    with connected(request.where, threads=request.threads, store=request.store) as cluster:
        ignore_signals()  # Ray sets its own
        sites: tuple[Site, ...] | None = None
        while not over.is_set():
            if (now := _sites(cluster, request.where, first=sites is None)) != sites:
                if sites is None:
                    channel.send(Ready(time.monotonic() - began))
                sites = now
                channel.send(NodeList(cluster.address, cluster.token, cluster.folder, sites))
            over.wait(LOOKING)


def _sites(cluster: Cluster, where: Where, *, first: bool) -> tuple[Site, ...]:
    """Returns the nodes with room. None of them is an error at the start alone: nodes may come back."""
    try:
        nodes: list[Any] = cluster.ray.nodes()
        return sites_of(where, nodes)
    except PeerError:
        if first:
            raise
        return ()


def _listen(channel: Channel, over: threading.Event) -> None:
    """Waits until the server has gone, gives Ray ENDING seconds to end, and ends the process."""
    while channel.receive() is not None:
        pass
    over.set()
    threading.Event().wait(ENDING)
    os._exit(1)


def send_errors_to(log: str) -> None:
    """Has this process write its standard output and error to the end of a file; without a name, where it
    did."""
    if log:
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for each in (1, STDERR):
            os.dup2(file, each)
        os.close(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
