"""`python -m tacita.server.machines.serving.watcher REQUEST`: says which nodes of Ray's there are, at the
start and at each change, one line of JSON each; starts nodes on this machine where that is wanted.

Started by `node_set`. It ends, and with it the nodes that it started, when its standard input does, however
the service ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tacita.errors import PeerError, TacitaError
from tacita.plans.json_fields import from_json
from tacita.server.child import Message, Unable, encode, ignore_signals
from tacita.server.machines.connect import Cluster, Site, connected, sites_of
from tacita.server.machines.placing import Where

LOOKING = 2.0  # seconds between two looks at Ray's list of nodes
ENDING = 20.0  # seconds for Ray's processes to end
TOKEN = "RAY_AUTH_TOKEN"


@dataclass(frozen=True)
class ClusterRequest:
    """What the watcher connects to or starts. address: of a cluster, "" for one of this machine. nodes,
    cores: as in `Where`, 0 for None. threads, store: as `connected` takes them."""

    address: str
    nodes: int
    cores: int
    threads: int
    store: int

    @property
    def where(self) -> Where:
        """Returns the machines as the user named them."""
        return Where(self.address or None, self.nodes or None, self.cores or None)


@dataclass(frozen=True)
class NodeList(Message):
    """The nodes that there are. token: of a cluster that the watcher started, else ""."""

    tag: ClassVar[str] = "seen"
    address: str
    token: str
    folder: str
    sites: tuple[Site, ...]


def main(words: Sequence[str]) -> int:
    """Looks until standard input ends; the exit status."""
    ignore_signals()
    sink = os.dup(1)
    os.dup2(2, 1)  # nothing that Ray prints becomes part of what is said
    over = threading.Event()
    threading.Thread(target=_listen, args=(over,), daemon=True).start()

    def tell(message: NodeList | Unable) -> None:
        rest = encode(message)
        while rest:
            rest = rest[os.write(sink, rest) :]

    try:
        _watch(from_json(ClusterRequest, json.loads(words[0])), tell, over)
    except BrokenPipeError:
        return 0
    except TacitaError as error:
        tell(Unable.of(error))
        return 1
    return 0


def _watch(request: ClusterRequest, tell: Callable[[NodeList], None], over: threading.Event) -> None:
    with connected(request.where, threads=request.threads, store=request.store) as cluster:
        ignore_signals()  # Ray sets its own
        token = os.environ.get(TOKEN, "") if request.where.local else ""
        sites: tuple[Site, ...] | None = None
        while not over.is_set():
            if (now := _sites(cluster, request.where, first=sites is None)) != sites:
                sites = now
                tell(NodeList(cluster.address, token, cluster.folder, sites))
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


def _listen(over: threading.Event) -> None:
    """Waits until the service has gone, gives Ray ENDING seconds to end, and ends the process."""
    while os.read(0, 1 << 12):
        pass
    over.set()
    threading.Event().wait(ENDING)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
