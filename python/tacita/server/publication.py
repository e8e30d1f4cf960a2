"""What a server publishes, and how many texts its key may serve where the word table is hidden.

The table is encrypted under a key of the server that outlives sessions. A client that deviates from the
protocol can have the server open ciphertexts of its own making with that key and read off its answers what
they held, so the key is replaced before answers can carry enough of it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacita.checkpoint import Checkpoint
from tacita.front.front import WORDS
from tacita.plans.key_budget import answers_within, spare_bits
from tacita.plans.two_party.plan import TwoPartyPlan, words_ring
from tacita.protocol.party import encrypt_table
from tacita.protocol.public_part import encode, public_part
from tacita.protocol.refusal import Reason, Refusal
from tacita.two_party.integers import encode as integers

if TYPE_CHECKING:
    from tacita._native import TableServer

LOG_N, LOG_Q = 13, 147  # of the table's key: its dimension, bits of the largest modulus under it
OPENED = 32  # bits of an answer's coordinate that a client receives
SPARE = spare_bits(LOG_N, LOG_Q)
LONGEST_SAFE = int(SPARE / OPENED)  # coordinates of an answer that carries no more than these


def texts_of_a_key(outputs: int) -> int:
    """Texts whose answers cannot carry so much of the table's key that the rest falls below 128 bits
    (`plans.key_budget`): 63 for two labels. An answer of 128 and more coordinates carries more in one text:
    then nothing is promised against a client that deviates."""
    return answers_within(SPARE, OPENED * outputs)


@dataclass
class Publication:
    """data: the encoded public part.

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


class Publisher:
    """Makes publications, one at a time; for threads. most: texts of a key, for plans that hide the table."""

    def __init__(self, plan: TwoPartyPlan, checkpoint: Checkpoint, most: int | None = None) -> None:
        self._plan, self._checkpoint, self._most = plan, checkpoint, most
        self._lock = threading.Lock()
        self._current = self._made()

    @property
    def renewing(self) -> bool:
        """Whether `current` will make a key, which takes as long as at the start."""
        return self._current.spent

    def current(self) -> Publication:
        """What a new client is given: under a new key once the last is spent."""
        with self._lock:
            if self._current.spent:
                self._current = self._made()
            return self._current

    def take(self, publication: Publication) -> Refusal | None:
        """Counts a text, or says that the key of this publication serves no further one."""
        with self._lock:
            if publication.spent:
                return Refusal(Reason.KEY, publication.most or 0)
            publication.texts += 1
            return None

    def _made(self) -> Publication:
        if self._plan.embedding is None:
            return Publication(encode(public_part(self._plan, self._checkpoint)))
        values = integers(self._checkpoint.tensors[WORDS], self._plan.formats.table)
        table = encrypt_table(values, words_ring(self._plan))
        return Publication(
            encode(public_part(self._plan, self._checkpoint, table.message())), table, self._most
        )
