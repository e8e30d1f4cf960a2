"""Generates a text with a server that sees neither the prompt nor what comes behind it, over its port or by a
service: `tacita generate --connect`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tacita.cli.ask.served import Served, open_session
from tacita.cli.console import out
from tacita.cli.two_party.connect import Connection, dial_server, open_client, watching, writing_expectation
from tacita.client.connected import RenewableSession
from tacita.client.cost import Meter
from tacita.plans.scheme import BUMBLEBEE
from tacita.texts.embedding import Embedder
from tacita.texts.generation import TextOptions, Token, ids_of
from tacita.two_party.client import padded_slots
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import Watch

if TYPE_CHECKING:
    from tacita.client.blocking import BlockingSession


@dataclass(frozen=True)
class Writing:
    """A generation session with a server. generate: yields tokens behind a prompt, and calls its watch as
    each step begins. cost: bytes so far, and rounds over a port."""

    plan: Program
    front: Embedder
    generate: Callable[[str, TextOptions, Watch], Iterator[Token]]
    cost: Callable[[], dict[str, float]]

    def tokens(self, prompt: str, options: TextOptions) -> Iterator[Token]:
        """Yields token by token, after saying what they will cost. Raises InputError, PeerError,
        RefusedError."""
        with watching(self.plan, "prompt", {}) as watch:
            tokens = self.generate(prompt, options, watch)
            count = len(ids_of(self.front, prompt, begun=bool(self.plan.begin)))
            slots = padded_slots(self.plan, count, options.max_tokens)
            chance = options.choice.temperature, options.choice.top_k
            out.print(f"expected: {writing_expectation(self.plan, slots, *chance)}", soft_wrap=True)
            first = next(tokens)
        yield first
        yield from tokens


@contextmanager
def writing(how: Connection | Served, model: str | None) -> Iterator[Writing]:
    """Opens a session, and closes it at the block's end. model: a name at a service. Raises InputError,
    PeerError, RefusedError."""
    with _by_a_service(how, model) if isinstance(how, Served) else _over_a_port(how) as session:
        yield session


@contextmanager
def _over_a_port(how: Connection) -> Iterator[Writing]:
    session = RenewableSession(lambda: dial_server(how), open_client)
    try:
        yield Writing(session.plan, session.part.front, session.generate, lambda: session.cost)
    finally:
        session.close(politely=True)


@contextmanager
def _by_a_service(how: Served, model: str | None) -> Iterator[Writing]:
    with how.connect() as service:
        meter = Meter()
        session = open_session(service, ["generate"], model, BUMBLEBEE, meter)
        assert isinstance(session.plan, Program) and session.front is not None  # by its scheme
        yield Writing(session.plan, session.front, partial(_written, session, meter), partial(_cost, meter))


def _written(
    session: BlockingSession, meter: Meter, prompt: str, options: TextOptions, watch: Watch
) -> Iterator[Token]:
    return session.generate(prompt, options, meter, lambda now: watch(now.stage))


def _cost(meter: Meter) -> dict[str, float]:
    return {"bytes_sent": meter.sent, "bytes_received": meter.received}
