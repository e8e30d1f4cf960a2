"""What each scheme promises, and which needs it fits: the rows of docs/threat-model.md, as data.

>>> [name for name, promise in PROMISES.items() if not promise.misses(Needs(post_quantum=True))]
['thor', 'leaf', 'arion', 'moai']
>>> PROMISES["bumblebee"].misses(Needs(rounds="one"))
['it takes a connection with many rounds']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tacita.plans.scheme import BUMBLEBEE, SCHEMES

Client = Literal["semi-honest", "malicious"]
Server = Literal["semi-honest", "malicious", "malicious-and-watching"]
Rounds = Literal["one", "any"]
Trusted = Literal["nobody", "chip", "operator"]  # who may see the text
STRENGTH = ("semi-honest", "malicious", "malicious-and-watching")


@dataclass(frozen=True)
class Needs:
    """What a user needs. rounds: "one" where the client sends once and comes back. server, client: how each
    may behave: semi-honest (it follows the protocol and is curious), malicious (it deviates), and of a server
    malicious-and-watching (it also sees what becomes of the answer). post_quantum: a text recorded today must
    stay secret from a quantum computer to come."""

    rounds: Rounds = "any"
    server: Server = "semi-honest"
    client: Client = "semi-honest"
    post_quantum: bool = False


@dataclass(frozen=True)
class Promise:
    """What holds. one_round: the client sends once. server, client: the strongest behaviour of each under
    which the text stays hidden from the server, and the weights from the client. post_quantum: it rests on
    lattices alone."""

    one_round: bool
    server: Server
    client: Client
    post_quantum: bool

    def misses(self, needs: Needs) -> list[str]:
        """Returns why it does not fit these needs; empty where it does."""
        weaker = STRENGTH.index(self.server) < STRENGTH.index(needs.server)
        extracting = STRENGTH.index(self.client) < STRENGTH.index(needs.client)
        reasons = {
            "it takes a connection with many rounds": needs.rounds == "one" and not self.one_round,
            f"it hides the text from a server that is {self.server} at most": weaker,
            "a client that deviates can extract the weights": STRENGTH.index(self.client)
            < STRENGTH.index(needs.client),
            "its key exchange does not withstand a quantum computer": needs.post_quantum > self.post_quantum,
        }
        return [reason for reason, holds in reasons.items() if holds]


_CIPHERTEXTS = Promise(one_round=True, server="malicious", client="malicious", post_quantum=True)
_TWO_PARTIES = Promise(one_round=False, server="semi-honest", client="semi-honest", post_quantum=False)
PROMISES: Mapping[str, Promise] = {**dict.fromkeys(SCHEMES, _CIPHERTEXTS), BUMBLEBEE: _TWO_PARTIES}
