"""Ray on the user's machines: started here and ended with the run, or found at the address that was named.

Ray is a programme that runs what it is sent, so a cluster of ours listens on this machine alone, sends nobody
statistics, and has no dashboard. The one at an address is the user's; whoever reaches its ports commands it.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any

from tacita.errors import InputError, PeerError
from tacita.extras import how_to_install
from tacita.resources import available_memory
from tacita.resources import threads as all_threads
from tacita.server.machines.placing import HINT, Where

LOOPBACK = "127.0.0.1"
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
ANSWERING = 5.0  # seconds for a connection
LEAST_STORE = 100 << 20  # bytes; Ray takes no store under 75 MB
SHORT = "/tmp"  # Ray's sockets lie some 75 characters below, and no name of one may have more than 107
SHARE = 0.3  # of free memory for all stores of one machine, as Ray itself takes


@dataclass(frozen=True)
class Site:
    """Room for one evaluator. node: Ray's name of it."""

    node: str
    cores: int


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process is connected to. ray: the module. folder: for the evaluators' files;
    empty where nodes have their own. address: HOST:PORT of the cluster."""

    ray: Any
    sites: tuple[Site, ...]
    folder: str = ""
    address: str = ""

    @property
    def nodes(self) -> int:
        """Returns the number of nodes with room."""
        return len({site.node for site in self.sites})


def imported() -> Any:
    """Returns Ray's module. Raises InputError where it is not installed, or this process uses it already."""
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise _missing() from error
    if ray.is_initialized():
        raise InputError("--ray: this process is connected to Ray already", hint="ray.shutdown() first")
    return ray


def _missing() -> InputError:
    return InputError("--ray: Ray is not installed", hint=how_to_install("ray"))


@contextmanager
def connected(where: Where, *, threads: int = 0, store: int = LEAST_STORE) -> Iterator[Cluster]:
    """Connects to a cluster with room for evaluators, which is started where it is local. threads: cores of
    this machine (0: all). store: bytes of Ray's object store on each node that is started here; what does not
    fit, Ray spills to disk.

    Cost: a local cluster starts in 5 s. Raises InputError, PeerError where no cluster answers or no node has
    enough cores.
    """
    ray = imported()
    with _environment(QUIET), _handler():
        if where.local:
            with _start_nodes(where, threads or all_threads(), store) as (address, folder):
                yield from _join(ray, where, address, folder)
        else:
            _require_somebody(str(where.address))
            yield from _join(ray, where, str(where.address), "")


@contextmanager
def member(address: str) -> Iterator[Any]:
    """Yields Ray's module, connected to a known cluster. Raises InputError, PeerError as `connected`."""
    ray = imported()
    with _environment(QUIET), _handler(), ExitStack() as stack:
        if address.startswith(f"{LOOPBACK}:"):
            stack.enter_context(_loopback())
        stack.enter_context(_session(ray, address))
        yield ray


def require_reachable(where: Where) -> None:
    """Raises InputError where Ray is not installed, PeerError where nobody listens at the address."""
    if find_spec("ray") is None:
        raise _missing()
    if where.address is not None:
        _require_somebody(where.address)


def _join(ray: Any, where: Where, address: str, folder: str) -> Iterator[Cluster]:
    with _session(ray, address):
        yield Cluster(ray, sites_of(where, ray.nodes()), folder, address)


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
def _start_nodes(where: Where, threads: int, store: int) -> Iterator[tuple[str, str]]:
    """Starts nodes on this machine, each with a store of its own. Yields (address, folder)."""
    count = where.nodes or 1
    cores = (where.cores or 1) if where.nodes else threads
    free = available_memory()
    most = store if free is None else min(store, int(SHARE * free) // count)
    own: dict[str, Any] = {
        "num_cpus": cores,
        "object_store_memory": max(LEAST_STORE, most),
        "node_ip_address": LOOPBACK,
    }
    folder = tempfile.mkdtemp(prefix="tacita-ray-", dir=SHORT if os.path.isdir(SHORT) else None)
    nodes = import_module("ray.cluster_utils").Cluster(shutdown_at_exit=True)
    try:
        with _environment({"RAY_TMPDIR": folder}), _token(), _loopback(), _quiet_log():
            for _ in range(count):
                nodes.add_node(**own, include_dashboard=False, include_log_monitor=False)
            yield nodes.address, folder
    finally:
        nodes.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _token() -> Iterator[None]:
    """Makes a fresh token for the nodes that start inside: who has not got it, such as another user of this
    machine, cannot command them."""
    try:
        with _environment({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}):
            _reread()
            yield
    finally:
        _reread()


def _reread() -> None:
    """Has Ray look at the environment again, which it did when it was imported."""
    compiled: Any = import_module("ray._raylet")
    if hasattr(compiled, "AuthenticationTokenLoader"):  # else a release before tokens
        compiled.Config.initialize("")
        compiled.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _loopback() -> Iterator[None]:
    """Has nodes on this machine find each other at the loopback address, not at the machine's own: where Ray
    has no clusters, as on macOS, it does so by itself."""
    constants: Any = import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets these variables for Ray's processes that start inside, and restores what was there before."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _handler() -> Iterator[None]:
    """Restores the handler of SIGTERM, for which Ray sets its own and leaves it."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Silences Ray's own lines about its start, which are no user's concern."""
    log = logging.getLogger("ray")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
