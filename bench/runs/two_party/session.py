"""What a measured run is given, and how its parties connect: the engine's two-party object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.runs.two_party.cost import Cost, Reading
from tacita import compiled
from tacita.errors import TacitaError
from tacita.plans.commitment import LINKS, link_of

HOST, LOOPBACK = "127.0.0.1", "loopback"
HERE = b"\1"
WAITING = 600.0  # seconds for the other party


@dataclass(frozen=True)
class Options:
    """What the command was given. model: of MiniLM-L6; data: labelled sentences; documents: an index; small:
    shapes cut down for tests.

    sentences: how many of them the protocol itself answers, None for all. prompt, new, begin: of a text that
    is written, tokens of the prompt, tokens behind it, and its public beginning. weights: where those of a
    shape lie, which are made where there are none. layers: of a shape, 0 for all. prepared: whether models
    are also run with products that are prepared. tls: or bare TCP. link: loopback, or as `link_of` takes it.
    folder: of the run.
    """

    model: Path | None = None
    data: Path | None = None
    documents: Path | None = None
    threads: int = 1
    small: bool = False
    sentences: int | None = 8
    prompt: int = 32
    new: int = 4
    begin: str = ""
    weights: Path | None = None
    layers: int = 0
    prepared: bool = False
    tls: bool = True
    link: str = LOOPBACK
    folder: str = ""


class Session(Protocol):
    """A connected party, as a measured run needs it; cases get `party`, the engine's object."""

    party: Any

    def set_up(self) -> None:
        """Base transfers and keys."""

    def meet(self) -> None:
        """Returns when the peer is here too."""

    def read(self) -> Reading:
        """The counters."""

    def close(self) -> None:
        """Ends the connection."""


class EngineSession:
    """One connected `tacita._native.TwoParty`."""

    def __init__(self, party: Any, link: str) -> None:
        self.party = party
        party.set_link(choices(link))

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
        party, cots = self.party, self.party.cots()
        made, used = (cots[f"{word}_as_sender"] + cots[f"{word}_as_receiver"] for word in ("made", "used"))
        operations = {row.pop("path"): Cost(**row) for row in map(dict, party.profile())}
        return Reading(party.bytes_sent, party.bytes_received, party.rounds, made, used, operations)

    def close(self) -> None:
        """Ends the connection."""
        self.party.close()


def choices(link: str) -> tuple[float, float]:
    """Returns the link by which windows are chosen; on loopback those of fewest bytes and rounds that cost
    next to no work (decision 96). Raises InputError."""
    speed = link_of("wan" if link == LOOPBACK else link)
    return speed.bits_per_second, speed.round_trip


def listen(options: Options, announce: Callable[[int, str], None]) -> EngineSession:
    """The server's end, once the client has come. Over TLS it makes a certificate of its own in the run's
    folder."""
    native, certificate, secured = compiled.native, "", {}
    if options.tls:
        certificate, key = native.generate_certificate(options.folder, [HOST, "localhost"])
        secured = {"certificate": certificate, "key": key}
    listener = native.TwoPartyListener(HOST, 0, insecure_plain=not options.tls, **secured)
    announce(listener.port, certificate)
    party = listener.accept(WAITING, **_connection(options))
    if party is None:
        raise TacitaError("bench two-party: the client did not come", hint="run it again")
    return EngineSession(party, options.link)


def connect(options: Options, port: int, certificate: str) -> EngineSession:
    """The client's end."""
    trusted: dict[str, Any] = {"ca": certificate} if options.tls else {"insecure_plain": True}
    dialled = compiled.native.TwoParty.dial(HOST, port, **_connection(options), **trusted)
    return EngineSession(dialled, options.link)


def _connection(options: Options) -> dict[str, Any]:
    link = options.link if options.link.upper() in LINKS else None
    return {"timeout": WAITING, "link": link, "threads": options.threads}
