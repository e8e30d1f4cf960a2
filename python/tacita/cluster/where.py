"""Which machines a run is spread over: the user's words, checked before anything is started.

>>> where_of("local", nodes=2)
Where(address=None, nodes=2, cores=None)
>>> where_of("10.0.0.5:6379").address
'10.0.0.5:6379'
>>> where_of("ray://10.0.0.5:10001")
Traceback (most recent call last):
tacita.errors.InputError: --ray 'ray://10.0.0.5:10001': neither local nor HOST:PORT
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tacita.errors import InputError

LOCAL = "local"
ADDRESS = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}")
HINT = (
    "local, or the HOST:PORT that `ray start --head` printed, on a machine that has joined with `ray start`"
)
MOST_NODES = 1024


@dataclass(frozen=True)
class Where:
    """address: HOST:PORT of a cluster that runs; None for one that is started on this machine and ended with
    the run. nodes: to start here, or to use there at most. cores: of one evaluator; None for all of a node,
    or for one each where `nodes` are started here."""

    address: str | None
    nodes: int | None = None
    cores: int | None = None

    @property
    def local(self) -> bool:
        """Whether the machines are this one."""
        return self.address is None


def where_of(given: str, nodes: int | None = None, cores: int | None = None) -> Where:
    """Checks what the user says. Raises InputError."""
    for name, value in (("nodes", nodes), ("cores", cores)):
        if value is not None and not 1 <= value <= MOST_NODES:
            raise InputError(f"--ray: {value} {name}", hint=f"1 to {MOST_NODES}")
    if given == LOCAL:
        return Where(None, nodes, cores)
    if not ADDRESS.fullmatch(given):
        raise InputError(f"--ray {given!r:.80}: neither {LOCAL} nor HOST:PORT", hint=HINT)
    return Where(given, nodes, cores)
