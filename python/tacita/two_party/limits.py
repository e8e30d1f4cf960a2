"""How long a two-party client may take, and how much may wait for it.

All are bounds in wall-clock time for a whole step, so that a client that sends or reads a byte now and then
does not renew them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacita.checkpoint import Checkpoint
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.plans.presets import answers_within, spare_bits
from tacita.texts.embedding import WORDS
from tacita.two_party.arithmetic.base import encode as integers
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import encrypt_table
from tacita.two_party.protocol.public_part import encode, public_part
from tacita.two_party.protocol.refusal import Reason, Refusal

if TYPE_CHECKING:
    from tacita._native import TableServer


LOADING = 1e-6  # seconds a byte of the public part, in addition: 8 Mbit/s, whatever the link is said to be
QUIET = 10.0  # seconds that a map to be prepared waits for texts of other sessions
PREPARED, PREPARED_BYTES = 4, 1 << 28  # texts that are prepared of a session; bytes of the server's shares
FLOOR, FACTOR = 60.0, 10.0  # seconds of a text: a floor, and a multiple of the estimate
HANDSHAKE_QUEUE = 1 << 20  # bytes that may wait before a plan is agreed: a chunk of the public part
LEAST_QUEUE = 16_000_000  # bytes that may wait later: the set-up of a session and a half more
MOST_QUEUE = 1 << 32  # whatever a layer sends: attention by tiles sends a tile's in a round


@dataclass(frozen=True)
class Limits:
    """Bounds of a session: seconds of each step, and `queue`, bytes that may wait for a client to read them.

    text: one text from the permission to the answer, the set-up of the session included. prepared: texts that
    a session may have prepared.
    """

    text: float
    queue: int
    handshake: float = 10.0  # from the connection to the choice of a plan, TLS included
    loading: float = LOADING
    idle: float = 30.0  # between two texts
    farewell: float = 2.0  # for the last bytes to leave
    resting: float = 600.0  # between two texts, one prepared; a service's limit of silence is shorter
    prepared: int = PREPARED

    def part(self, size: int) -> float:
        """Returns the seconds to fetch a public part of so many bytes and to choose the plan."""
        return self.handshake + self.loading * size


def limits_of(
    plan: TwoPartyPlan, *, bits_per_second: float, crowding: float = 1.0, prepared: int = PREPARED
) -> Limits:
    """Returns limits of a plan's texts over such a link. crowding: sessions at the same time for each core,
    at least 1. prepared: texts of a session, if their shares take no more than 256 MB.

    The public part may take ten times what it needs over that link. A text may take ten times its estimate,
    times the crowding, and a minute. The queue holds what two layers send: the protocols need room for the
    messages of one round, of which a layer has many.
    """
    link = LinkSpeed(bits_per_second, LINKS["WAN"].round_trip)
    text = FLOOR + FACTOR * max(1.0, crowding) * plan.predicted_seconds(link)
    queue = min(max(LEAST_QUEUE, 2 * plan.predicted_bytes() // plan.config.layers), MOST_QUEUE)
    shares = sum(8 * each.shape[0] * each.outputs for each in plan.program.maps())
    most = min(prepared, PREPARED_BYTES // max(1, shares))
    return Limits(text, queue, loading=max(LOADING, FACTOR * 8 / bits_per_second), prepared=most)


class Idle:
    """How many texts of all sessions are under way. Thread-safe."""

    def __init__(self) -> None:
        self._changed, self._texts = threading.Condition(), 0

    @contextmanager
    def text(self) -> Iterator[None]:
        """Counts a text for as long as the block lasts."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def wait(self, seconds: float) -> None:
        """Waits until none is under way, this long at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._texts, seconds)

    def _add(self, count: int) -> None:
        with self._changed:
            self._texts += count
            self._changed.notify_all()


class Admission:
    """What a server of two parties asks about one session. This one admits everything; a service's admits by
    quotas and places (`server.sessions.process`). client: whose session it is. texts: that were admitted,
    also one that was broken off; tokens: of texts that are written."""

    def __init__(self, client: str = "") -> None:
        self.client, self.texts, self.tokens = client, 0, 0

    def refusal(self) -> Refusal | None:
        """Returns why the client would be refused now, or None; takes nothing."""
        return None

    def fetch(self, size: int) -> None:
        """Is called before the public part, of `size` bytes, is sent. Raises RefusedError where it must not
        be."""

    def admit(self, tokens: int = 0) -> Refusal | None:
        """Asks for one text, of at most so many tokens where it is written. Returns why not, or None."""
        self.texts += 1
        return None

    def resume(self, tokens: int = 0) -> Refusal | None:
        """Asks to go on with a text that was admitted when it was prepared. Returns why not, or None."""
        return None

    def wrote(self) -> None:
        """Counts one more token of the text; it is chosen already and sent next."""
        self.tokens += 1

    def over(self) -> None:
        """Is called when the text that was admitted last is answered."""


# What a server publishes, and how many texts its key may serve where the word table is hidden.
#
# The table is encrypted under a key of the server that outlives sessions. A client that deviates from the
# protocol can have the server open ciphertexts of its own making with that key and read off its answers what
# they held, so the key is replaced before answers can carry enough of it.

LOG_N, LOG_Q = 13, 147  # of the table's key: its dimension, bits of the largest modulus under it
OPENED = 32  # bits of an answer's coordinate that a client receives
SPARE = spare_bits(LOG_N, LOG_Q)
LONGEST_SAFE = int(SPARE / OPENED)  # coordinates of an answer that carries no more than these


def texts_of_a_key(outputs: int) -> int:
    """Returns how many texts' answers cannot carry so much of the table's key that the rest falls below 128
    bits (`plans.presets`): 63 for two labels. An answer of 128 and more coordinates carries more in one
    text: then nothing is promised against a client that deviates."""
    return answers_within(SPARE, OPENED * outputs)


@dataclass
class Publication:
    """A public part under one key of the hidden word table. data: the encoded public part.

    table: the engine's half of the hidden word table. most: texts of its key, None for any number.
    """

    data: bytes
    table: TableServer | None = None
    most: int | None = None
    texts: int = 0

    @property
    def spent(self) -> bool:
        """Whether its key serves no further text."""
        return self.most is not None and self.texts >= self.most

    def refusal(self) -> Refusal | None:
        """Returns why no further text is served under its key, or None."""
        return Refusal(Reason.KEY, self.most or 0) if self.spent else None


class Publisher:
    """Makes publications, one at a time. Thread-safe. most: texts of a key, for plans that hide the table."""

    def __init__(self, plan: TwoPartyPlan, checkpoint: Checkpoint, most: int | None = None) -> None:
        self._plan, self._checkpoint, self._most = plan, checkpoint, most
        self._lock = threading.Lock()
        self._current = self._make()

    @property
    def renewing(self) -> bool:
        """Whether `current` will make a key, which takes as long as at the start."""
        return self._current.spent

    def current(self) -> Publication:
        """Returns what a new client is given: under a new key once the last is spent."""
        with self._lock:
            if self._current.spent:
                self._current = self._make()
            return self._current

    def take(self, publication: Publication) -> Refusal | None:
        """Counts a text, or says that the key of this publication serves no further one."""
        with self._lock:
            refusal = publication.refusal()
            publication.texts += refusal is None
            return refusal

    def _make(self) -> Publication:
        plan, checkpoint = self._plan, self._checkpoint
        if plan.embedding is None:
            return Publication(encode(public_part(plan.program, checkpoint)))
        values = integers(checkpoint.tensors[WORDS], plan.formats.table)
        table = encrypt_table(values, plan.formats.table_ring(plan.embedding))
        return Publication(encode(public_part(plan.program, checkpoint, table.message())), table, self._most)
