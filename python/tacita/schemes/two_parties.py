"""bumblebee: client and server compute together on shares of every value, over a connection; there are no
keys to keep.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.client.store import PublicCache
from tacita.errors import InputError, PeerError
from tacita.evaluate.session import MEMORY_GB
from tacita.planning.calibrate.calibrate import Sample
from tacita.planning.survey import Subject
from tacita.plans.answers import Answer
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.plans.scheme import BUMBLEBEE
from tacita.schemes.base import CLEAR, Place, Private, Report, Seconds, unknown_backend
from tacita.texts.embed import Text
from tacita.two_party.client import TwoPartyClient, judge_nearest
from tacita.two_party.model import simulation
from tacita.two_party.plan.generation_cost import PreparedCost
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.cost import SET_UP, failure_log2
from tacita.two_party.protocol.party import (
    Arrival,
    Listener,
    Party,
    dial,
    fingerprint,
    new_identity,
    share_threads,
)
from tacita.two_party.protocol.public_part import most_bytes
from tacita.two_party.server import TwoPartyServer


@dataclass(frozen=True)
class TwoParties:
    """The scheme of that name in `plans.scheme`."""

    name: str = BUMBLEBEE
    several: bool = False
    connected: bool = True

    def plan(self, subject: Subject) -> TwoPartyPlan:
        """Plans by `two_party.planning.make_two_party_plan`; over a link with the transfers that are quicker
        there."""
        subject.phases.enter("calibrate", self.name)
        link = subject.request.link
        plan = make_two_party_plan(subject.model, subject.request, subject.phases.part)
        return plan.for_link(link.bits_per_second) if link else plan

    def estimate(
        self,
        plan: TwoPartyPlan,
        inputs: int | None = None,
        *,
        link: LinkSpeed | None = None,
        memory: float = MEMORY_GB,
    ) -> dict[str, Any]:
        """Returns JSON fields. seconds: of a core a party on the measured machine, over no link, over usual
        ones, and over `link`, by which all texts are reckoned if it is given; before_seconds and
        after_seconds: the same of a text whose products are prepared, before it is there and after;
        setup_bytes once a session, public_bytes once a client at most. The limit of memory is ignored, since
        nothing is spilled."""
        links: dict[str, LinkSpeed | None] = {"loopback": None, **LINKS}
        if link is not None and link not in LINKS.values():
            links[f"{link.bits_per_second / 1e6:g} Mbit/s, {1e3 * link.round_trip:g} ms"] = link
        cost, prepared = plan.program.cost(), PreparedCost.of(plan.program)
        apart = {name: prepared.seconds(over, plan.pace) for name, over in links.items()}
        before, after = prepared.bytes(link)
        ring = plan.formats.table_ring(plan.embedding) if plan.embedding else 0
        return {
            "model": plan.name,
            "scheme": plan.scheme,
            "tokens": plan.tokens,
            "inputs": inputs or 1,
            "wall_seconds": (inputs or 1) * plan.predicted_seconds(link),
            "seconds_per_input": {name: plan.predicted_seconds(over) for name, over in links.items()},
            "bytes_per_input": plan.predicted_bytes(link),
            "before_seconds": {name: seconds for name, (seconds, _) in apart.items()},
            "after_seconds": {name: seconds for name, (_, seconds) in apart.items()},
            "before_bytes": before,
            "after_bytes": after,
            "setup_bytes": SET_UP,
            "public_bytes": most_bytes(plan.program, ring),
            "transfers_per_input": cost.transfers,
            "failure_log2": failure if math.isfinite(failure := failure_log2(cost.responses)) else None,
            "plan_hash": plan.hash,
        }

    def client(self, party: Party, cache: Path | None = None, **options: Any) -> TwoPartyClient:
        """Opens a client on a dialled connection. cache: folder of public parts (default: the user's)."""
        return TwoPartyClient(party, PublicCache(cache), **options)

    def server(self, plan: TwoPartyPlan, model: Checkpoint, **options: Any) -> TwoPartyServer:
        """Opens a server of sessions, whose connections the caller makes."""
        return TwoPartyServer(plan, model, **options)

    def in_the_clear(
        self,
        plan: TwoPartyPlan,
        model: Checkpoint,
        samples: Sequence[Sample],
        backend: str,
        seed: int,
        progress: Report,
        exact: frozenset[str] = frozenset(),
    ) -> list[Answer]:
        """plain: the float model. sim: integers with the formats, roundings and polynomials of the
        protocols.
        """
        if plan.embedding is not None:
            raise InputError(f"{backend}: a hidden embedding", hint='plan it with embeddings="published"')
        if backend not in CLEAR:
            raise unknown_backend(backend)
        answers: list[Answer] = []
        for hidden, mask in samples:
            if sound := backend == "plain":
                values = reference(model, hidden, mask).trace["answer"]
            else:
                run = simulation(plan, Weights(model.tensors), mask, exact=exact)
                values = run.floats(hidden)
                sound = not run.overflows  # where a value left its ring
            answers.append(judge_nearest(plan.program, values, sound=sound, real=int(mask.sum())))
        return answers

    @contextmanager
    def private(self, plan: TwoPartyPlan, model: Checkpoint, place: Place) -> Iterator[Private]:
        """A server in a thread of this process, over TLS on the loopback, and a client that trusts its
        certificate.
        """
        with (
            listening(self.server(plan, model), place.threads) as address,
            dialled(address, place.threads) as party,
        ):
            client = self.client(party, place.folder / "public")
            yield Private(lambda texts, title: _together(client, texts, title, place))
            client.end()


def _together(
    client: TwoPartyClient, texts: Sequence[Text], title: str, place: Place
) -> tuple[list[Answer], Seconds]:
    began = time.monotonic()
    with place.bar(f"{title}evaluate"):
        answers = [client.classify(text) for text in texts]
    return answers, {"evaluate": time.monotonic() - began}


# A two-party server of one's own: in a thread of this process, over TLS on the loopback, for as long as a
# block lasts. `schemes.two_parties.TwoParties.private` asks one.

HOST = "127.0.0.1"
LOOK = 0.5  # seconds between two looks at the end of the block
SILENCE = 600.0  # seconds after which either side gives the other up


@dataclass(frozen=True)
class Address:
    """Where it listens; fingerprint: SHA-256 of the one certificate to trust, made for this block."""

    port: int
    fingerprint: str
    host: str = HOST


@contextmanager
def listening(server: TwoPartyServer, threads: int = 0) -> Iterator[Address]:
    """Accepts clients of this machine until the block ends, each in a thread. threads: 0 for all cores."""
    share_threads(threads)
    with tempfile.TemporaryDirectory(prefix="tacita-server-") as folder:
        identity = new_identity(Path(folder) / "identity", [HOST])
        listener, over = Listener(HOST, 0, identity=identity), threading.Event()
        accepting = threading.Thread(target=_accept, args=(server, listener, over), daemon=True)
        accepting.start()
        try:
            yield Address(listener.port, fingerprint(identity.certificate))
        finally:
            over.set()
            accepting.join()


def _accept(server: TwoPartyServer, listener: Listener, over: threading.Event) -> None:
    while not over.is_set():
        try:
            if arrival := listener.next(LOOK):
                threading.Thread(target=_serve, args=(server, arrival), daemon=True).start()
        except PeerError:  # no descriptor is left
            over.wait(LOOK)


def _serve(server: TwoPartyServer, arrival: Arrival) -> None:
    with closing(arrival), suppress(PeerError):
        party = arrival.secure(server.limits.handshake, SILENCE)
        server.session(party)
        party.limit(server.limits.farewell)
        party.close()


@contextmanager
def dialled(address: Address, threads: int = 0) -> Iterator[Party]:
    """A connection as the client, hung up at the block's end."""
    trust = address.fingerprint
    party = dial(address.host, address.port, fingerprint=trust, timeout=SILENCE, threads=threads)
    try:
        yield party
    finally:
        party.close()
