"""Ray on the user's machines: started here and ended with the run, or found at the address that was named.

`python -m tacita.server.machines.cluster FD`, the watcher, says which nodes there are, at the start and at
each change; it starts nodes on this machine where that is wanted. `node_set` starts it, sends a
ClusterRequest and reads NodeLists (`server.child`). It ends, and with it the nodes that it started, when the
server does, however that ended.

Ray is a programme that runs what it is sent, so a cluster of ours listens on this machine alone, sends nobody
statistics, and has no dashboard. The one at an address is the user's; whoever reaches its ports commands it.
`member` is, as the watcher, for a process of its own, which does nothing else: what they set stays set.

>>> where_of("local", nodes=2)
Where(address=None, nodes=2, cores=None)
>>> where_of("10.0.0.5:6379").address
'10.0.0.5:6379'
>>> where_of("ray://10.0.0.5:10001")
Traceback (most recent call last):
tacita.errors.InputError: --ray 'ray://10.0.0.5:10001': neither local nor HOST:PORT
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any, ClassVar

from tacita.errors import InputError, PeerError, TacitaError
from tacita.extras import how_to_install
from tacita.resources import available_memory
from tacita.resources import threads as all_threads
from tacita.server.child import STDERR, Channel, Message, Ready, Unable, channel_of, ignore_signals
from tacita.server.jobs.worker import BAD

LOOPBACK = "127.0.0.1"
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
ANSWERING = 5.0  # seconds for a connection
LEAST_STORE = 100 << 20  # bytes; Ray takes no store under 75 MB
SHORT = "/tmp"  # Ray's sockets lie some 75 characters below, and no name of one may have more than 107
SHARE = 0.3  # of free memory for all stores of one machine, as Ray itself takes


LOCAL = "local"
ADDRESS = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}")
HINT = (
    "local, or the HOST:PORT that `ray start --head` printed, on a machine that has joined with `ray start`"
)
MOST_NODES = 1024
LOOKING = 2.0  # seconds between two looks at Ray's list of nodes
ENDING = 20.0  # seconds for Ray's processes to end


@dataclass(frozen=True)
class Where:
    """The machines of a run. address: HOST:PORT of a cluster that runs; None for one that is started on this
    machine and ended with the run. nodes: to start here, or to use there at most. cores: of one evaluator;
    None for all of a node, or for one each where `nodes` are started here."""

    address: str | None
    nodes: int | None = None
    cores: int | None = None


def where_of(place: str, nodes: int | None = None, cores: int | None = None) -> Where:
    """Checks what the user says. Raises InputError."""
    for name, value in (("nodes", nodes), ("cores", cores)):
        if value is not None and not 1 <= value <= MOST_NODES:
            raise InputError(f"--ray: {value} {name}", hint=f"1 to {MOST_NODES}")
    if place == LOCAL:
        return Where(None, nodes, cores)
    if not ADDRESS.fullmatch(place):
        raise InputError(f"--ray {place!r:.80}: neither {LOCAL} nor HOST:PORT", hint=HINT)
    return Where(place, nodes, cores)


@dataclass(frozen=True)
class Site:
    """Room for one evaluator. node: Ray's name of it."""

    node: str
    cores: int


@dataclass(frozen=True)
class ClusterRequest(Message):
    """What to connect to, or to start where it is local. threads: cores of this machine for it (0: all).
    store: bytes of Ray's object store on each node that is started here; what does not fit, Ray spills to
    disk. log: a file for the errors of the watcher, empty for the server's own."""

    tag: ClassVar[str] = "cluster"
    where: Where
    threads: int
    store: int
    log: str = ""


@dataclass(frozen=True)
class NodeList(Message):
    """The nodes that there are. address: HOST:PORT of their cluster. token: that commands it, and folder: for
    the evaluators' files; both empty where the watcher did not start it."""

    tag: ClassVar[str] = "seen"
    address: str
    token: str = ""
    folder: str = ""
    sites: tuple[Site, ...] = ()


Said = ClusterRequest | NodeList  # between server and watcher, beside Ready and Unable


@contextmanager
def _connected(request: ClusterRequest) -> Iterator[tuple[Any, NodeList]]:
    """Yields Ray's module, connected to a cluster, and that cluster without its sites. Cost: a local cluster
    starts in 5 s. Raises InputError where Ray is not installed, PeerError where no cluster answers."""
    ray, address = _imported(), request.where.address
    with ExitStack() as stack:
        if address is not None:
            _require_somebody(address)
            cluster = NodeList(address)
        else:
            cluster = stack.enter_context(_start_nodes(request))
        stack.enter_context(_session(ray, cluster.address))
        yield ray, cluster


@contextmanager
def member(address: str) -> Iterator[Any]:
    """Yields Ray's module, connected to a known cluster. Raises InputError, PeerError as the watcher does."""
    ray = _imported()
    if address.startswith(f"{LOOPBACK}:"):
        _use_loopback()
    with _session(ray, address):
        yield ray


def require_reachable(where: Where) -> None:
    """Raises InputError where Ray is not installed, PeerError where nobody listens at the address."""
    if find_spec("ray") is None:
        raise _missing()
    if where.address is not None:
        _require_somebody(where.address)


def _imported() -> Any:
    os.environ.update(QUIET)
    try:
        return import_module("ray")
    except ImportError as error:
        raise _missing() from error


def _missing() -> InputError:
    return InputError("--ray: Ray is not installed", hint=how_to_install("ray"))


@contextmanager
def _session(ray: Any, address: str) -> Iterator[None]:
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, namespace="tacita")
    except (ConnectionError, RuntimeError, OSError, ValueError) as error:
        ray.shutdown()
        raise PeerError(f"--ray {address}: no cluster of ours ({_line(error)})", hint=HINT) from error
    try:
        yield
    finally:
        ray.shutdown()


def _require_somebody(address: str) -> None:
    """Raises PeerError where nobody listens: Ray itself would try for ten minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWERING).close()
    except (OSError, OverflowError) as error:
        raise PeerError(f"--ray {address}: nobody listens there ({_line(error)})", hint=HINT) from error


def sites_of(where: Where, nodes: list[Mapping[str, Any]]) -> tuple[Site, ...]:
    """Returns the room on the nodes that are alive, as Ray lists them. Raises PeerError for none."""
    cores = {str(n["NodeID"]): int(n["Resources"].get("CPU", 0)) for n in nodes if n["Alive"]}
    able = [node for node, count in cores.items() if count >= (where.cores or 1)][: where.nodes]
    split = [[Site(node, each) for each in _split(cores[node], where.cores)] for node in able]
    sites = [site for row in zip_longest(*split) for site in row if site]  # the first of each node first
    if not sites:
        raise PeerError(
            f"--ray: none of {len(cores)} nodes has {where.cores or 1} cores", hint="add nodes: ray start"
        )
    return tuple(sites)


def _split(count: int, cores: int | None) -> list[int]:
    return [cores] * (count // cores) if cores else [count]


@contextmanager
def _start_nodes(request: ClusterRequest) -> Iterator[NodeList]:
    """Starts nodes on this machine, each with a store of its own."""
    where, free = request.where, available_memory()
    count = where.nodes or 1
    cores = (where.cores or 1) if where.nodes else request.threads or all_threads()
    most = request.store if free is None else min(request.store, int(SHARE * free) // count)
    own: dict[str, Any] = {
        "num_cpus": cores,
        "object_store_memory": max(LEAST_STORE, most),
        "node_ip_address": LOOPBACK,
    }
    folder = tempfile.mkdtemp(prefix="tacita-ray-", dir=SHORT if os.path.isdir(SHORT) else None)
    token = secrets.token_hex(32)  # who has not got it, such as another user here, cannot command the nodes
    os.environ.update(with_token(token) | {"RAY_TMPDIR": folder})
    _read_token()
    _use_loopback()
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # its lines about its start are no user's concern
    nodes = import_module("ray.cluster_utils").Cluster(shutdown_at_exit=True)
    try:
        for _ in range(count):
            nodes.add_node(**own, include_dashboard=False, include_log_monitor=False)
        yield NodeList(nodes.address, token, folder)
    finally:
        nodes.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def with_token(token: str) -> dict[str, str]:
    """Returns the variables by which a process commands the cluster of this token; none without one."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {}


def _read_token() -> None:
    """Has Ray read the token from the environment, at which it looked when it was imported."""
    compiled: Any = import_module("ray._raylet")
    if hasattr(compiled, "AuthenticationTokenLoader"):  # else a release before tokens
        compiled.Config.initialize("")
        compiled.AuthenticationTokenLoader.instance().reset_cache()


def _use_loopback() -> None:
    """Has nodes on this machine find each other at the loopback address, not at the machine's own: where Ray
    has no clusters, as on macOS, it does so by itself."""
    constants: Any = import_module("ray._private.ray_constants")
    constants.ENABLE_RAY_CLUSTER = False


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


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
    with _connected(request) as (ray, cluster):
        ignore_signals()  # Ray sets its own
        sites: tuple[Site, ...] | None = None
        while not over.is_set():
            if (now := _sites(ray, request.where, first=sites is None)) != sites:
                if sites is None:
                    channel.send(Ready(time.monotonic() - began))
                sites = now
                channel.send(replace(cluster, sites=sites))
            over.wait(LOOKING)


def _sites(ray: Any, where: Where, *, first: bool) -> tuple[Site, ...]:
    """Returns the nodes with room. None of them is an error at the start alone: nodes may come back."""
    try:
        return sites_of(where, ray.nodes())
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
