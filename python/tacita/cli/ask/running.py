"""How a command that asks a model runs: options that all of them have, declared once. A command takes
`running: Running` in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita.cli.ask.served import Served
from tacita.cli.ask.spread import RAY
from tacita.cli.ask.token import TokenFile
from tacita.cli.asked import standing_for
from tacita.cli.options import BackendName, Insecure, Json, ShowAnyway, Threads, option
from tacita.cli.steps.evaluate import Memory
from tacita.cli.two_party.connect import Connection, Trusted
from tacita.cli.two_party.connection import (
    TIMEOUT_DEFAULT,
    Certificate,
    Key,
    Plain,
    Profile,
    Timeout,
    identity_of,
)
from tacita.errors import InputError
from tacita.remote.http.address import is_url
from tacita.server.session import MEMORY_GB

RUNNING = "running"  # the parameter that the options stand for
Backend = Annotated[BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")]
Keep = Annotated[
    Path | None,
    option("--work", help="Keep plan, keys and ciphertexts here (ckks only)."),
]
Connect = Annotated[
    str | None,
    option(
        "--connect",
        metavar="[HOST:PORT|URL]",
        help="Ask a server, and need no model folder: https://HOST:PORT is a service of any scheme, where "
        "--model is the name of a model and --scheme one of its schemes (default: what the service offers); "
        "HOST:PORT a `tacita serve` by the two-party protocol.",
    ),
]
Trust = Annotated[
    Path | None,
    option("--trust", help="With --connect: PEM file of the server's certificate, or its signer's."),
]
Fingerprint = Annotated[
    str | None,
    option(
        "--fingerprint",
        metavar="SHA256",
        help="With --connect: trust exactly the server whose certificate has this hash.",
    ),
]
Name = Annotated[
    str | None,
    option(
        "--name", help="With --connect and --trust: the name in the server's certificate (default: the host)."
    ),
]


@dataclass(frozen=True)
class Running:
    """backend, threads, memory (GB), work, json, allow_insecure: of a run on this machine; ray, ray_nodes,
    ray_cores: on others. show_anyway: answers that failed their checks, too. The rest: of a connection to a
    server."""

    backend: BackendName
    threads: int
    memory: float
    work: Path | None
    json: Path | None
    allow_insecure: bool
    show_anyway: bool
    ray: str | None
    ray_nodes: int | None
    ray_cores: int | None
    connect: str | None
    trust: Path | None
    fingerprint: str | None
    name: str | None
    certificate: Path | None
    key: Path | None
    insecure_plain_tcp: bool
    timeout: float
    profile: bool
    token_file: Path | None

    @property
    def served(self) -> Served | None:
        """The service that --connect names by an URL. Raises InputError for options that are for others."""
        return served_of(vars(self))

    @property
    def connection(self) -> Connection | None:
        """To the server that --connect names. Raises InputError for half an identity."""
        return connection_of(vars(self))

    def connected(self, target: str, whom: Trusted, *, own: bool = False) -> Connection:
        """To another one. own: with the identity that the options name."""
        identity = identity_of(self.certificate, self.key) if own else None
        return Connection(target, whom, identity, self.timeout, self.threads, self.profile)


CONNECTED = (
    ("connect", Connect, None),
    ("trust", Trust, None),
    ("fingerprint", Fingerprint, None),
    ("name", Name, None),
    ("certificate", Certificate, None),
    ("key", Key, None),
    ("insecure_plain_tcp", Plain, False),
    ("timeout", Timeout, TIMEOUT_DEFAULT),
    ("profile", Profile, False),
)
OF_A_PORT = ("name", "certificate", "key", "insecure_plain_tcp", "profile")
THREADS = ("threads", Threads, 0)
DECLARED = (
    ("backend", Backend, BackendName.ckks),
    THREADS,
    ("memory", Memory, MEMORY_GB),
    ("work", Keep, None),
    ("json", Json, None),
    ("allow_insecure", Insecure, False),
    ("show_anyway", ShowAnyway, False),
    *RAY,
    *CONNECTED,
    ("token_file", TokenFile, None),
)
CONNECTION = "connection"  # the parameter that those of a connection stand for
REACHED = (*CONNECTED, THREADS, ("token_file", TokenFile, None))


def running(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command: the options become its parameter `running`."""
    return standing_for(RUNNING, DECLARED, _built)(command)


def _built(given: dict[str, Any]) -> Running:
    return Running(**{field.name: given.pop(field.name) for field in fields(Running)})


def connecting(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command that runs nothing here, or asks a server: the options of the connection, beside its
    own `allow_insecure`, become its parameter `connection`, a Connection or a Served."""
    return standing_for(CONNECTION, REACHED, _reached)(command)


def _reached(given: dict[str, Any]) -> Connection | Served | None:
    options = {name: given.pop(name) for name, *_ in REACHED} | {"allow_insecure": given["allow_insecure"]}
    return served_of(options) or connection_of(options)


def served_of(options: Mapping[str, Any]) -> Served | None:
    """The service that --connect names by an URL. Raises InputError for options that are for others."""
    target = options["connect"]
    if target is None or not is_url(target):
        if options["token_file"]:
            raise InputError("--token-file without a service", hint="--connect https://HOST:PORT")
        return None
    for name in OF_A_PORT:
        if options[name]:
            option_ = f"--{name.replace('_', '-')}"
            raise InputError(f"{option_} is for --connect HOST:PORT", hint="leave it out")
    how = ("trust", "fingerprint", "token_file", "timeout", "threads", "allow_insecure")
    return Served(target, *(options[name] for name in how))


def connection_of(options: Mapping[str, Any]) -> Connection | None:
    """To the server that --connect names. Raises InputError for half an identity."""
    if options["connect"] is None:
        return None
    whom = Trusted(options["trust"], options["fingerprint"], options["name"], options["insecure_plain_tcp"])
    identity = identity_of(options["certificate"], options["key"])
    how = (options["timeout"], options["threads"], options["profile"])
    return Connection(options["connect"], whom, identity, *how)
