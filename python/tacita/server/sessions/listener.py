"""The two-party port: clients over TLS and nothing else, for the same process of sessions as the service's
WebSocket. It is quicker than that (docs/decisions/0034), and needs no account.

A client is known by the certificate that it showed, or without one by its network address; its texts are
counted over the server's life. TLS is the service's: the process of the sessions has no key of it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacita.errors import InputError, RefusedError
from tacita.server import logs
from tacita.server.connections import (
    OF_ADDRESS,
    Acceptor,
    Connection,
    PendingConnections,
    network,
    pending_of,
)
from tacita.server.sessions.messages import Ended, Used
from tacita.server.sessions.supervisor import Sessions
from tacita.two_party.protocol.carrier import Carrier
from tacita.two_party.protocol.party import TIMEOUT, Identity
from tacita.two_party.protocol.refusal import Reason, Refusal

LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class SessionLimits:
    """Bounds of what a server without accounts serves. sessions: at the same time.

    per_address: of these, one address's; None: all but one, and all for loopback, where tunnels and proxies
    make every client look alike. texts: of one client, None for any number.
    """

    sessions: int = 4
    per_address: int | None = None
    texts: int | None = None

    def of_address(self, network: str) -> int:
        """Returns how many sessions one address may have at the same time."""
        if self.per_address is not None:
            return self.per_address
        loopback = ipaddress.ip_network(network).is_loopback
        return self.sessions if loopback else max(1, self.sessions - 1)

    def pending(self, descriptors: int) -> PendingConnections:
        """Returns the connections of a process that may have so many descriptors; of one address no fewer
        than its sessions, and any number of loopback's."""
        return pending_of(descriptors, LOOPBACK, OF_ADDRESS + (self.per_address or self.sessions))


@dataclass(frozen=True)
class AddressClients:
    """Clients without accounts, and the texts that each has had, by certificate or address. model: for the
    log. on_end: called with each session that is over."""

    model: str
    limits: SessionLimits
    on_end: Callable[[Ended], None] = lambda ended: None
    texts: Counter[str] = field(default_factory=Counter)

    def client(self, address: str, certificate: str | None) -> AddressClient:
        """Returns the client of a connection. certificate: SHA-256 of the one that it showed, in hex."""
        return AddressClient(self, network(address), certificate)


class AddressClient:
    """The client of one session, as `messages.Client`. Its sessions share the places of its address."""

    def __init__(self, clients: AddressClients, address: str, certificate: str | None) -> None:
        self._clients, self.name, self._known_by = clients, address, certificate or address
        self._charged = 0

    def places(self, sessions: int) -> int:
        return self._clients.limits.of_address(self.name)

    def admit(self, used: Used, wanted: Used) -> Refusal | None:
        """Reserves a text. Returns a refusal for a client that had its texts, unless it goes on with one."""
        self.settle(used)
        most, goes_on = self._clients.limits.texts, used.texts > 0 and not wanted.texts
        if most is not None and self._clients.texts[self._known_by] >= most and not goes_on:
            return Refusal(Reason.CLIENT, most)
        self._charge(used.texts + wanted.texts)
        return None

    def note(self, used: Used) -> bool:
        """Returns True: nothing but texts is counted."""
        return True

    def settle(self, used: Used) -> None:
        """Gives back a text that was not begun."""
        self._charge(used.texts)

    def ended(self, session: Ended) -> None:
        """Adds the session to the log. One without a text tells no more than how it ended, since anybody can
        make as many as they like: equal lines are written once a second (`logs`)."""
        fields = {"model": self._clients.model, "texts": session.texts, "ending": session.ending}
        if session.texts:
            fields |= {"client": self._known_by, "seconds": round(session.seconds, 3)}
            fields |= {"bytes": session.bytes_sent + session.bytes_received}
        logs.say("session", **fields)
        self._clients.on_end(session)

    def _charge(self, texts: int) -> None:
        """Counts the difference to what was counted before; `texts` is the whole."""
        if texts != self._charged:
            self._clients.texts[self._known_by] += texts - self._charged
            self._charged = texts


def tls_context(identity: Identity, client_ca: Path | None) -> ssl.SSLContext:
    """Returns the server's side of TLS 1.3. client_ca: who must have signed a client's certificate, PEM; None
    for clients without one. Raises InputError for files that are no certificates and key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a client shows its certificate each time
    try:
        context.load_cert_chain(identity.certificate, identity.key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # self-signed ones bear one name
    except OSError as error:  # ssl.SSLError is one
        raise InputError(f"certificate and key: {error}", hint="PEM files that belong together") from None
    return context


class SessionListener:
    """Accepts clients for the sessions of one model. pending: its connections. patience: seconds that a
    client may take to read what is sent at once."""

    def __init__(
        self,
        sessions: Sessions,
        pending: PendingConnections,
        clients: AddressClients,
        patience: float = TIMEOUT,
    ) -> None:
        self.sessions, self.clients, self.patience = sessions, clients, patience
        self._pending = pending

    def acceptor(self, listener: socket.socket, tls: ssl.SSLContext | None) -> Acceptor:
        """Returns what accepts from a bound socket. tls: None for plain TCP."""
        return Acceptor(listener, self._pending, tls, lambda connection: Relay(self, connection))


class Relay(Carrier):
    """A client's connection and the socket of its session."""

    def __init__(self, listener: SessionListener, connection: Connection) -> None:
        super().__init__(listener.patience)
        self._listener, self._connection = listener, connection

    def connection_made(self, transport: Any) -> None:
        """Opens the session. What the client sends meanwhile waits in its socket."""
        self._transport = transport
        self._connection.hold(busy=True)  # it waits in the process from now on
        transport.pause_reading()
        self._task = self._loop.create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        self._task.cancel()
        self.stop()

    async def _serve(self) -> None:
        """Opens the session, and waits until one of the two, or the program, ends."""
        tls = self._transport.get_extra_info("ssl_object")
        certificate = tls and tls.getpeercert(binary_form=True)
        known_by = hashlib.sha256(certificate).hexdigest() if certificate else None
        client = self._listener.clients.client(self._connection.address, known_by)
        try:
            self._begin(await self._listener.sessions.open(client))
            self._transport.resume_reading()
            await self._loop.create_future()
        except RefusedError:  # the process is being started, or ends
            return
        finally:
            self._transport.abort()
            self.stop()
