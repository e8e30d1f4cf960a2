"""The server's side of texts that are written: it runs each to its end, and keeps for a while those whose
connection broke."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_bytes
from weakref import WeakKeyDictionary

from tacita.two_party.arithmetic.residues import Words
from tacita.two_party.limits import Admission, Limits
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import Model, Past, Prepared, Watch
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.handshake import KEY_BYTES, NO_KEY, GenerateRequest
from tacita.two_party.protocol.party import Party
from tacita.two_party.protocol.refusal import Reason, Refusal
from tacita.two_party.writing import Writer

KEPT_SECONDS = 300
MOST_BYTES = 1 << 30  # of all texts; where they are more, the oldest of the client with most bytes goes

FORGOTTEN = Refusal(Reason.FORGOTTEN, KEPT_SECONDS)
Enter = Callable[[int], Words]


@dataclass(frozen=True)
class Text:
    """What the server knows of a text between two tokens. past: its shares. before: rows that were read
    before the last step, to which a client goes back that did not learn its token. left: tokens that may
    still be asked for. since: when its connection breaks at the latest, if it does. client: whose it is."""

    past: Past = field(repr=False)
    before: int
    left: int
    since: float = 0.0
    client: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of its shares."""
        return sum(store.nbytes for store in self.past.stores)


class GenerationSessions:
    """Writes texts, and keeps those whose connection broke. Thread-safe. prefix: this party's share of the
    plan's public beginning. clock: seconds."""

    def __init__(
        self, program: Program, model: Model, prefix: Past, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._program, self._model, self._prefix, self._clock = program, model, prefix, clock
        self._lock, self._kept = threading.Lock(), dict[bytes, Text]()
        self._complete = WeakKeyDictionary[Party, bytes]()  # keys of texts whose last token was sent

    def refusal(self, request: GenerateRequest) -> Refusal | None:
        """Returns why the text cannot be gone on with, or None."""
        with self._lock:
            return None if request.key == NO_KEY or self._standing(request) else FORGOTTEN

    def open(self, request: GenerateRequest) -> Text | Refusal:
        """Returns a new text, or the one of the key, whose key is void once the client shows that it has the
        next one: another session may have used it since `refusal` was called."""
        if request.key == NO_KEY:
            return Text(self._prefix, 0, request.most)
        with self._lock:
            text = self._standing(request)
        return Text(text.past.first(request.held), 0, request.most) if text else FORGOTTEN

    def serve(
        self,
        party: Party,
        request: GenerateRequest,
        text: Text,
        enter: Enter,
        limits: Limits,
        watch: Watch,
        admission: Admission,
        prepared: Prepared,
    ) -> None:
        """Writes a text that was opened, up to where the client wants no more. enter: this party's share of
        what so many rows start from. prepared: of its maps. Raises what the connection raises; the text is
        kept then."""
        key = token_bytes(KEY_BYTES)
        text = replace(text, since=self._clock(), client=admission.client)
        self._keep(key, text)  # before it is sent: the connection may break again
        party.send(key)
        writer = Writer(party.native, self._program, self._model, watch, text.past, prepared)
        rows = request.rows
        while text.left:
            party.limit(limits.idle)
            more = handshake.more_wanted(party)
            self._forget(request.key)
            if not more:
                return self._forget(key)
            party.limit(limits.text)
            self._keep(key, replace(text, since=self._clock() + limits.text))
            logits = writer.read(partial(enter, rows), rows, ahead=text.left)
            chosen = writer.choose(logits, request.temperature, request.top_k)
            text = Text(writer.past, text.past.rows, text.left - 1, self._clock(), admission.client)
            rows = 1
            self._keep(key, text)  # before it is told, so that no client is ahead
            admission.wrote()
            writer.tell(chosen)
        self._complete[party] = key  # whether the last token arrived is known from what the client says next

    def forget_complete(self, party: Party) -> None:
        """Forgets the text whose last token was sent to this client, which has it: it asks for more."""
        self._forget(self._complete.pop(party, NO_KEY))

    def _standing(self, request: GenerateRequest) -> Text | None:
        """Returns the text of this key, where it stands as the client does and may go on so far."""
        self._drop_old()
        if (text := self._kept.get(request.key)) is None:
            return None
        back = text.past.rows - request.held
        fits = request.held in (text.past.rows, text.before) and request.most <= text.left + (back > 0)
        return text if fits else None

    def _keep(self, key: bytes, text: Text) -> None:
        """Keeps a text, but no new one, with which its client has nothing to go on."""
        with self._lock:
            self._kept.pop(key, None)
            if text.past is not self._prefix:
                self._kept[key] = text
            self._drop_old()

    def _forget(self, key: bytes) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def _drop_old(self) -> None:
        """Drops texts that are too old, and the oldest of the client with most bytes while all take too
        many."""
        oldest = self._clock() - KEPT_SECONDS
        for key in [key for key, text in self._kept.items() if text.since < oldest]:
            del self._kept[key]
        sizes = Counter[str]()
        for text in self._kept.values():
            sizes[text.client] += text.bytes
        while sizes.total() > MOST_BYTES:
            ((client, _),) = sizes.most_common(1)
            key = next(key for key, text in self._kept.items() if text.client == client)
            sizes[client] -= self._kept.pop(key).bytes
