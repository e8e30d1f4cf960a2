"""The engine's two-party object as the child process needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.runs.two_party.child import Order, Reading
from bench.runs.two_party.cost import Cost
from tacita import compiled
from tacita.errors import TacitaError

HOST = "127.0.0.1"
HERE = b"\1"


class EngineSession:
    """One connected `tacita._native.TwoParty`."""

    def __init__(self, party: Any) -> None:
        self.party = party

    def set_up(self) -> None:
        """Base transfers, the first Ferret expansion, lattice keys."""
        self.party.setup()

    def meet(self) -> None:
        """One byte each way."""
        self.party.send(HERE)
        if self.party.receive(1) != HERE:
            raise TacitaError(
                "bench two-party: the parties are not at the same place", hint="a defect: report it"
            )

    def read(self) -> Reading:
        """The counters."""
        cots = self.party.cots()
        made, used = (cots[f"{word}_as_sender"] + cots[f"{word}_as_receiver"] for word in ("made", "used"))
        operations = {
            row["path"]: Cost(**{k: v for k, v in row.items() if k != "path"}) for row in self.party.profile()
        }
        return Reading(
            self.party.bytes_sent, self.party.bytes_received, self.party.rounds, made, used, operations
        )

    def close(self) -> None:
        """Ends the connection."""
        self.party.close()


def listen(order: Order, announce: Callable[[int, str], None]) -> EngineSession:
    """The server's end, once the client has come. Over TLS it makes a certificate of its own in the order's
    folder."""
    native, certificate, secured = compiled.native, "", {}
    if order.tls:
        certificate, key = native.generate_certificate(order.options.folder, [HOST, "localhost"])
        secured = {"certificate": certificate, "key": key}
    listener = native.TwoPartyListener(HOST, 0, insecure_plain=not order.tls, **secured)
    announce(listener.port, certificate)
    party = listener.accept(
        order.timeout, timeout=order.timeout, link=_link(order), threads=order.options.threads
    )
    if party is None:
        raise TacitaError("bench two-party: the client did not come", hint="run it again")
    return EngineSession(party)


def connect(order: Order, port: int, certificate: str) -> EngineSession:
    """The client's end."""
    trusted: dict[str, Any] = {"ca": str(Path(certificate))} if order.tls else {"insecure_plain": True}
    dial = compiled.native.TwoParty.dial
    return EngineSession(
        dial(HOST, port, timeout=order.timeout, link=_link(order), threads=order.options.threads, **trusted)
    )


def _link(order: Order) -> str | None:
    return None if order.link == "loopback" else order.link
