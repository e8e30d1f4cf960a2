"""Declares the options of a run that all commands have that ask a model. A command takes `running: Running`
in their place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from tacita import api
from tacita.checkpoint import load
from tacita.cli.ask.served import Served, TokenFile
from tacita.cli.ask.spread import RAY
from tacita.cli.asked import standing_for
from tacita.cli.options import BackendName, Insecure, Json, ShowAnyway, Threads, option
from tacita.cli.steps.evaluate import Memory
from tacita.cli.two_party.connect import (
    TIMEOUT_DEFAULT,
    Certificate,
    Connection,
    Key,
    Plain,
    Profile,
    Timeout,
    Trusted,
    identity_of,
)
from tacita.client.http.trust import is_url
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.schemes.base import AnyPlan
from tacita.texts.embed import Text

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
    """The options of a run. backend, threads, memory (GB), work, json, allow_insecure: on this machine; ray,
    ray_nodes, ray_cores: on others. show_anyway: shows answers that failed their checks, too. The rest
    describes a connection to a server."""

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
        """The connection to the server that --connect names. Raises InputError for half an identity."""
        return connection_of(vars(self))

    def connection_to(self, target: str, whom: Trusted, *, own: bool = False) -> Connection:
        """Returns a connection to another server. own: with the identity that the options name."""
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
    """Returns the service that --connect names by an URL; None for HOST:PORT, or without one. Raises
    InputError for options that are for others."""
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
    """Returns the connection to the server that --connect names. Raises InputError for half an identity."""
    if options["connect"] is None:
        return None
    whom = Trusted(options["trust"], options["fingerprint"], options["name"], options["insecure_plain_tcp"])
    identity = identity_of(options["certificate"], options["key"])
    how = (options["timeout"], options["threads"], options["profile"])
    return Connection(options["connect"], whom, identity, *how)


# Many texts on plain or sim: one process a core, each with one thread (`tacita.cli`), so that no
# two share a core.
#
# The seed of sim's noise is the number of the text, and a process takes a text as a whole: answers do not
# depend on how many processes there are.


@dataclass(frozen=True)
class Answered:
    """An answer, the float model's, and the seconds of the first."""

    answer: api.Answer
    reference: npt.NDArray[np.float64]
    seconds: float


@contextmanager
def answered_locally(
    plan: AnyPlan, model: Path, pooling: str | None, texts: Sequence[Text], *, backend: str, processes: int
) -> Iterator[Iterator[Answered]]:
    """Yields the answers in the order of the texts, as they come. The processes end with the block."""
    work = partial(_answered, plan, str(model), pooling, backend)
    with ProcessPoolExecutor(min(processes, len(texts)), mp_context=get_context("spawn")) as workers:
        yield workers.map(work, enumerate(texts))


_load_once = lru_cache(maxsize=1)(load)  # the model of a process


def _answered(
    plan: AnyPlan, model: str, pooling: str | None, backend: str, numbered: tuple[int, Text]
) -> Answered:
    seed, text = numbered
    checkpoint = _load_once(model, pooling=pooling)
    began = time.monotonic()
    answer = api.classify_locally(plan, checkpoint, text, backend=backend, seed=seed)
    seconds = time.monotonic() - began
    return Answered(answer, api.reference_logits(plan, checkpoint, text), seconds)
