"""All cases, and how their parties connect: what a child process runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tacita.measure.two_party import session
from tacita.measure.two_party.case import Case
from tacita.measure.two_party.child import Order, Session
from tacita.measure.two_party.correlations import Ferret
from tacita.measure.two_party.elementwise import Gelu, Less, Softmax
from tacita.measure.two_party.matrices import PrivateTimesPrivate, ShareTimesWeights

ALL: tuple[Case, ...] = (ShareTimesWeights(), PrivateTimesPrivate(), Gelu(), Softmax(), Less(), Ferret())
CASES: Mapping[str, Case] = {case.name: case for case in ALL}


def listen(order: Order, announce: Callable[[int, str], None]) -> Session:
    """The server's end, once the client has come."""
    return session.listen(order, announce)


def connect(order: Order, port: int, certificate: str) -> Session:
    """The client's end."""
    return session.connect(order, port, certificate)
