"""The schemes by name; of those on ciphertexts the packings and rotations that each one means.

`tacita.schemes.registry` has an object for every name, in this order; plans are checked by what stands here.

What every plan says in the same words, whether its answers come from ciphertexts or from two parties.

>>> import tacita
>>> plan = tacita.plan(scheme="bumblebee", tokens=16, texts=["a film of quiet beauty", "a waste of time"])
>>> (plan.scheme, plan.labels, plan.batch)
('bumblebee', ('negative', 'positive'), 1)

It is how plans are read in Python, not a format: plan.json and the two-party plan keep their own bytes.

What each promises, and which needs it fits:

>>> [name for name, promise in PROMISES.items() if not promise.misses(Needs(post_quantum=True))]
['thor', 'leaf', 'arion', 'moai']
>>> PROMISES["bumblebee"].misses(Needs(rounds="one"))
['it takes a connection with many rounds']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from tacita.errors import InputError, PlanError, nearest
from tacita.layouts.registry import Shape
from tacita.plans.commitment import LinkSpeed
from tacita.plans.error import finer
from tacita.plans.plan import Plan
from tacita.texts.task import CHOICE, NEXT

AUTO = "auto"  # the packing, or the scheme, of the least estimate


@dataclass(frozen=True)
class Scheme:
    """packings: names in `layouts.registry`, the default first. rotations: one of those that they have.
    several: many texts in a request. activation: the variant of `approx.functions` that it is about,
    where a plan request names no other."""

    packings: tuple[str, ...]
    rotations: str
    several: bool
    activation: str = "tacita"


SCHEMES: Mapping[str, Scheme] = {
    "thor": Scheme(("rows", "multidiagonal"), "hoisted", several=False),
    "leaf": Scheme(("coefficients", "rows"), "hoisted", several=False, activation="leaf"),
    "arion": Scheme(("columns",), "double", several=True),
    "moai": Scheme(("columns",), "single", several=True),
}
BUMBLEBEE = "bumblebee"  # two parties that talk while they compute: it has no packing
NAMES = (*SCHEMES, BUMBLEBEE)


def require_name(name: str) -> None:
    """Raises InputError for a name that is no scheme's, nor `AUTO`."""
    if name not in (*NAMES, AUTO):
        raise InputError(f"no scheme {name!r}", hint=nearest(name, (*NAMES, AUTO)))


def scheme_named(name: str) -> Scheme:
    """Raises InputError for an unknown name."""
    if name not in SCHEMES:
        raise InputError(f"no scheme {name!r} on ciphertexts", hint=nearest(name, SCHEMES))
    return SCHEMES[name]


def packings_of(name: str, packing: str | None) -> tuple[str, ...]:
    """What is to be planned for a scheme: its default for None, all of its packings for "auto", else the one.

    Raises InputError for an unknown scheme or a packing that it does not have.
    """
    packings = scheme_named(name).packings
    if packing is not None and packing not in (AUTO, *packings):
        raise InputError(f"scheme {name} on packing {packing!r:.40}", hint=f"it has {', '.join(packings)}")
    if packing == AUTO:
        return packings
    return (packing or packings[0],)


def first_shape(name: str, slots: int, tokens: int, packing: str | None = None) -> Shape:
    """Returns the shape of a scheme on one of its packings (default: its first), with one lane. Raises
    InputError for an unknown name, ShapeError for sizes that it does not admit."""
    (chosen,) = packings_of(name, packing)
    return Shape(chosen, scheme_named(name).rotations, slots, tokens)


def shape_of(plan: Plan) -> Shape:
    """The shape of a plan's circuit. Raises PlanError for a scheme or packing that there is not.

    A plan states its packing as the kind of its layouts.
    """
    if plan.scheme not in SCHEMES:
        raise PlanError(f"scheme {plan.scheme!r}", hint=f"this program has {', '.join(SCHEMES)}")
    scheme = SCHEMES[plan.scheme]
    if plan.packing not in scheme.packings:
        message = f"scheme {plan.scheme} on packing {plan.packing}"
        raise PlanError(message, hint=f"it has {', '.join(scheme.packings)}")
    sizes = plan.parameters.slots, plan.tokens, plan.lanes
    beside = plan.batch if lie_side_by_side(plan.packing, plan.model.task) else 1
    return Shape(plan.packing, scheme.rotations, *sizes, step=bool(plan.kept), beside=beside)


def lie_side_by_side(packing: str, task: str) -> bool:
    """Tells whether a request of a packing for one text may hold several, each in slots of its own: where
    texts are written, every token of which is a request."""
    return packing == "rows" and task in (NEXT, CHOICE)


class PlanHeader(Protocol):
    """scheme: a name in `plans.scheme`. name, hidden (its width): of the model. labels: none for a model
    without a classifier.

    normalise: whether the client divides an answer by its length. task, problem: what an answer means
    (`texts.task`). backwards: whether a text's rows are in reverse (`blocks.sequence`). tokens: of
    every text. batch: texts in a
    request. answer: bound of an answer's magnitude, by calibration. decimals: the most that its
    numbers may have for their noise. logit_step: of what they are rounded to multiples before anyone sees
    them; step: the same of an answer that is normalised, before it is divided by its length. hash: sha256,
    hex, by which both sides know that they hold the same plan.
    """

    @property
    def scheme(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def hidden(self) -> int: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def normalise(self) -> bool: ...
    @property
    def task(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def backwards(self) -> bool: ...
    @property
    def tokens(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def answer(self) -> float: ...
    @property
    def decimals(self) -> int: ...
    @property
    def step(self) -> float: ...
    @property
    def logit_step(self) -> float: ...
    @property
    def hash(self) -> str: ...
    @property
    def privacy(self) -> str: ...

    def predicted_seconds(self, link: LinkSpeed | None = None) -> float:
        """Returns the seconds of a request on the machine of the prices; the link carries what
        `predicted_bytes` counts.

        Left out is what is done once: keys, the set-up of a session. None: both sides on one machine.
        """

    def predicted_bytes(self, link: LinkSpeed | None = None) -> int:
        """Returns the bytes sent for a request over a link, both directions together."""


def shown_step(plan: PlanHeader, length: float) -> float:
    """What the numbers of an answer are rounded to multiples of. length: of the vector, above zero; it counts
    where the client divides by it."""
    return finer(plan.step / length) if plan.normalise else plan.logit_step


# What each scheme promises, and which needs it fits: the rows of docs/threat-model.md, as data.

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
            "a client that deviates can extract the weights": extracting,
            "its key exchange does not withstand a quantum computer": needs.post_quantum > self.post_quantum,
        }
        return [reason for reason, holds in reasons.items() if holds]


_CIPHERTEXTS = Promise(one_round=True, server="malicious", client="malicious", post_quantum=True)
_TWO_PARTIES = Promise(one_round=False, server="semi-honest", client="semi-honest", post_quantum=False)
PROMISES: Mapping[str, Promise] = {**dict.fromkeys(SCHEMES, _CIPHERTEXTS), BUMBLEBEE: _TWO_PARTIES}
