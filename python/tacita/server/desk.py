"""The server's side of texts that are written: each to its end, and for a while those whose connection
broke."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from secrets import token_bytes

from tacita.blocks.sequence.past import Past
from tacita.blocks.weights import Weights
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol import text_wish
from tacita.protocol.party import Party
from tacita.protocol.refusal import Reason, Refusal
from tacita.protocol.text_wish import KEY_BYTES, NO_KEY, TextWish
from tacita.server.limits import Limits
from tacita.two_party.residues import Share
from tacita.two_party.shares import SharedTensors, Watch
from tacita.two_party.steps.writing import Writer, until

KEPT_SECONDS = 300
MOST_KEPT = 16  # texts; the oldest goes first

Enter = Callable[[SharedTensors, int], Share]


@dataclass(frozen=True)
class Text:
    """What the server knows of a text between two tokens. past: its shares. before: rows that were read
    before the last step, to which a client goes back that did not learn its token. left: tokens that may
    still be asked for."""

    past: Past[Share] = field(repr=False)
    before: int
    left: int
    since: float = 0.0


class Desk:
    """For threads. begun: this party's share of the plan's public beginning. clock: seconds."""

    def __init__(
        self,
        plan: TwoPartyPlan,
        weights: Weights,
        begun: Past[Share],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan, self._weights, self._begun, self._clock = plan, weights, begun, clock
        self._lock, self._kept = threading.Lock(), dict[bytes, Text]()

    def refusal(self, wish: TextWish) -> Refusal | None:
        """Why the text cannot be gone on with, if it cannot."""
        if wish.key == NO_KEY or self._found(wish):
            return None
        return Refusal(Reason.FORGOTTEN, KEPT_SECONDS)

    def serve(self, party: Party, wish: TextWish, enter: Enter, limits: Limits, watch: Watch) -> None:
        """A text up to where the client wants no more. enter: this party's share of what so many rows start
        from. Raises what the connection raises; the text is kept then."""
        text, key = self._opened(wish), token_bytes(KEY_BYTES)
        party.send(key)
        writer = Writer(party.native, self._plan, self._weights, watch, text.past)
        rows = wish.rows
        while text.left:
            party.limit(limits.idle)
            if not text_wish.more_wanted(party):
                break
            party.limit(limits.text)
            found = writer.read(partial(_of_rows, enter, rows), rows, ahead=text.left)
            chosen = writer.choose(found, wish.temperature, wish.top_k)
            text, rows = Text(writer.past, text.past.rows, text.left - 1, self._clock()), 1
            self._keep(key, text)  # before it is told, so that no client is ahead
            writer.tell(chosen)
        self._forget(key)

    def _opened(self, wish: TextWish) -> Text:
        """A new text, or the one of the key, whose key is void from now on."""
        if wish.key == NO_KEY:
            return Text(self._begun, 0, wish.most)
        with self._lock:
            text = self._kept.pop(wish.key)
        return Text(until(text.past, wish.held), 0, wish.most)

    def _found(self, wish: TextWish) -> bool:
        """Whether a text of this key stands where the client stands, and may go on so far."""
        with self._lock:
            self._drop_old()
            text = self._kept.get(wish.key)
        if text is None:
            return False
        back = text.past.rows - wish.held
        return wish.held in (text.past.rows, text.before) and wish.most <= text.left + (back > 0)

    def _keep(self, key: bytes, text: Text) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = text
            self._drop_old()

    def _forget(self, key: bytes) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def _drop_old(self) -> None:
        """In the order in which they were kept."""
        oldest = self._clock() - KEPT_SECONDS
        for key in list(self._kept):
            if self._kept[key].since < oldest or len(self._kept) > MOST_KEPT:
                del self._kept[key]


def _of_rows(enter: Enter, rows: int, ops: SharedTensors) -> Share:
    return enter(ops, rows)
