"""Ray on the user's machines: started here and ended with the run, or found at the address that was named.

Ray is a programme that runs what it is sent, so a cluster of ours listens on this machine alone, sends nobody
statistics, and has no dashboard. The one at an address is the user's; whoever reaches its ports commands it.
`connected` and `member` are for processes of their own, which do nothing else: what they set stays set.

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
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any

from tacita.errors import InputError, PeerError
from tacita.extras import how_to_install
from tacita.resources import available_memory
from tacita.resources import threads as all_threads

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


@dataclass(frozen=True)
class Where:
    """The machines of a run. address: HOST:PORT of a cluster that runs; None for one that is started on this
    machine and ended with the run. nodes: to start here, or to use there at most. cores: of one evaluator;
    None for all of a node, or for one each where `nodes` are started here."""

    address: str | None
    nodes: int | None = None
    cores: int | None = None

    @property
    def local(self) -> bool:
        """Returns whether the machines are this one."""
        return self.address is None


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
class Cluster:
    """A Ray cluster that this process is connected to. ray: the module. address: HOST:PORT of the cluster.
    folder: for the evaluators' files, and token: that commands the cluster; both empty where nodes are not
    ours."""

    ray: Any
    address: str
    folder: str = ""
    token: str = ""


@contextmanager
def connected(where: Where, *, threads: int, store: int) -> Iterator[Cluster]:
    """Connects to a cluster, which is started where it is local. threads: cores of this machine for it (0:
    all). store: bytes of Ray's object store on each node that is started here; what does not fit, Ray spills
    to disk.

    Cost: a local cluster starts in 5 s. Raises InputError where Ray is not installed, PeerError where no
    cluster answers.
    """
    ray = _imported()
    if where.address is not None:
        _require_somebody(where.address)
        with _session(ray, where.address):
            yield Cluster(ray, where.address)
        return
    with _start_nodes(ray, where, threads, store) as cluster, _session(ray, cluster.address):
        yield cluster


@contextmanager
def member(address: str) -> Iterator[Any]:
    """Yields Ray's module, connected to a known cluster. Raises InputError, PeerError as `connected`."""
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
def _start_nodes(ray: Any, where: Where, threads: int, store: int) -> Iterator[Cluster]:
    """Starts nodes on this machine, each with a store of its own."""
    count = where.nodes or 1
    cores = (where.cores or 1) if where.nodes else threads or all_threads()
    free = available_memory()
    most = store if free is None else min(store, int(SHARE * free) // count)
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
        yield Cluster(ray, nodes.address, folder, token)
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
