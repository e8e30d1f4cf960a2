"""A file of keys on its way to evaluators that begin together: which piece goes out when.

A piece is put where every node can fetch it once, and a few are on the way at a time: a node then needs
room for these, where the whole file (2 GB at full size) would stay in its store beside the evaluator's own
copy in memory. `actors` sends what is due here; nothing here knows Ray.

>>> placing = Placing(["a", "b"], size=40, piece=16)
>>> placing.due()
[slice(0, 16, None), slice(16, 32, None)]
>>> placing.arrived("a", 0), placing.due()
(None, [])
>>> placing.arrived("b", 0), placing.due(), placing.sent
(None, [slice(32, 40, None)], True)

What a run over machines will take: seconds of R requests on n evaluators, from the plan's own prediction.

An evaluator first gets keys and weights, then answers one request after the other:

    seconds = keygen + placement + start + max(ceil(R / n) * each, R * sent / bandwidth)

placement: every node fetches keys and weights over the client's one link. start: each begins as a process,
reads its keys and touches its memory, all at the same time. each: a request on the evaluator's cores. On one
machine nothing is sent.

>>> from tacita.server.machines.placing import Costs
>>> costs = Costs(keygen=10.0, start=20.0, each=100.0, placed=2e9, sent=5e6)
>>> [round(costs.forecast(160, nodes, LinkSpeed(1e10, 0.0)).seconds) for nodes in (1, 16)]
[16032, 1056]

Which machines a run is spread over: the user's words, checked before anything is started.

>>> where_of("local", nodes=2)
Where(address=None, nodes=2, cores=None)
>>> where_of("10.0.0.5:6379").address
'10.0.0.5:6379'
>>> where_of("ray://10.0.0.5:10001")
Traceback (most recent call last):
tacita.errors.InputError: --ray 'ray://10.0.0.5:10001': neither local nor HOST:PORT
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.resources import GB
from tacita.schemes.ciphertexts import stage_estimates

PIECE = 16 << 20  # bytes of a file of keys that are sent at once
ON_THE_WAY = 2  # pieces


class Placing:
    """A file on its way to evaluators. names: of the evaluators. size: bytes of the file."""

    def __init__(self, names: Iterable[str], size: int, piece: int = PIECE) -> None:
        self.names = set(names)
        self._size, self._piece = size, piece
        self._at = 0
        self._missing: dict[int, set[str]] = {}  # first byte -> who has not got the piece yet

    @property
    def sent(self) -> bool:
        """Returns whether the last piece has gone out."""
        return self._at == self._size

    def due(self) -> list[slice]:
        """Returns the pieces that go to all evaluators now; they count as sent from here on."""
        pieces = []
        while self.names and not self.sent and len(self._missing) < ON_THE_WAY:
            begin, self._at = self._at, min(self._at + self._piece, self._size)
            self._missing[begin] = set(self.names)
            pieces.append(slice(begin, self._at))
        return pieces

    def arrived(self, name: str, begin: int) -> None:
        """Records that an evaluator has the piece from this byte on."""
        self._missing[begin].discard(name)
        self._settle()

    def lost(self, name: str) -> None:
        """Forgets an evaluator that is no more: nobody waits for it."""
        self.names.discard(name)
        for names in self._missing.values():
            names.discard(name)
        self._settle()

    def _settle(self) -> None:
        self._missing = {begin: names for begin, names in self._missing.items() if names}


READING = 5.0 / GB  # seconds a byte of keys: `KeyRing.load`
STARTING = 3.0  # seconds until a process has imported what it needs, measured on two cores
NODES = (1, 2, 4, 8, 16, 32)  # for which a report says the seconds


@dataclass(frozen=True)
class Forecast:
    """The time of requests on so many evaluators. rounds: requests that the busiest of them answers. seconds:
    in all."""

    requests: int
    evaluators: int
    rounds: int
    keygen: float
    placement: float
    start: float
    evaluate: float

    @property
    def seconds(self) -> float:
        """Returns the seconds from the first key to the last answer."""
        return self.keygen + self.placement + self.start + self.evaluate

    def words(self) -> str:
        """Returns the forecast as a line of text, without the sum of seconds."""
        each = self.evaluate / max(self.rounds, 1)
        once = f"keys {self.keygen:.1f} s, placement {self.placement:.1f} s, start {self.start:.1f} s"
        on = "1 evaluator" if self.evaluators == 1 else f"{self.evaluators} evaluators"
        return f"{_requests(self.requests)} on {on}: {self.rounds} x {each:.1f} s, {once}"

    def report(self) -> Progress:
        """Returns the forecast as the report before the first request."""
        return Progress(self.words(), 0, self.requests, 0.0, self.seconds)

    def to_json(self) -> dict[str, Any]:
        """Returns all fields, and their sum."""
        return {**asdict(self), "seconds": self.seconds}


@dataclass(frozen=True)
class Costs:
    """Seconds of the client's keys, of an evaluator's start and of each request on it; bytes that a node is
    given once, and of a request and its response together."""

    keygen: float
    start: float
    each: float
    placed: float
    sent: float

    def forecast(self, requests: int, evaluators: int, link: LinkSpeed | None, nodes: int = 0) -> Forecast:
        """Returns the time of requests on so many evaluators. link: the client's; None where all is on one
        machine. nodes: that the evaluators are on (default: one each)."""
        rounds = ceil(requests / max(evaluators, 1))
        placement = link.seconds((nodes or evaluators) * self.placed, 1) if link else 0.0
        sending = link.seconds(requests * self.sent, 0) if link else 0.0
        work = max(rounds * self.each, sending)
        return Forecast(requests, evaluators, rounds, self.keygen, placement, self.start, work)


def costs_of(plan: Plan, weights: int, cores: int, memory: float = MEMORY_GB) -> Costs:
    """Returns the costs of a plan on evaluators of so many cores. weights: their bytes.

    Fewer cores than the prices were measured on take as much longer; of more no gain is promised, since that
    is for prices of such a machine to say (`tacita prices`).
    """
    predicted = plan.prediction
    slower = max(1.0, predicted.threads / cores)
    stages = list(stage_estimates(plan, memory))
    touch, spill = (sum(getattr(s, f"{name}_seconds") for s in stages) for name in ("touch", "spill"))
    keys = predicted.bytes["evaluation_keys"]
    each = slower * predicted.seconds["evaluate"] + spill
    start = STARTING + READING * keys + touch
    return Costs(predicted.seconds["keygen"], start, each, keys + weights, plan.predicted_bytes())


def link_to(link: LinkSpeed | None, *, local: bool) -> LinkSpeed | None:
    """Returns the link between client and nodes: what the user says, else a LAN; None on one machine."""
    return None if local else link or LINKS["LAN"]


def seconds_left(requests: int, done: int, evaluators: int, each: float) -> float:
    """Returns the seconds for what is not done, where each request takes `each` seconds."""
    return ceil((requests - done) / max(evaluators, 1)) * each


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


LOCAL = "local"
ADDRESS = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}")
HINT = (
    "local, or the HOST:PORT that `ray start --head` printed, on a machine that has joined with `ray start`"
)
MOST_NODES = 1024


@dataclass(frozen=True)
class Where:
    """The machines of a run. address: HOST:PORT of a cluster that runs; None for one that is started on this
    machine and ended with the run. nodes: to start here, or to use there at most. cores: of one evaluator;
    None for all of a node, or for one each where `nodes` are started here."""

    address: str | None
    nodes: int | None = None
    cores: int | None = None

    @property
    def local(self) -> bool:
        """Returns whether the machines are this one."""
        return self.address is None


def where_of(place: str, nodes: int | None = None, cores: int | None = None) -> Where:
    """Checks what the user says. Raises InputError."""
    for name, value in (("nodes", nodes), ("cores", cores)):
        if value is not None and not 1 <= value <= MOST_NODES:
            raise InputError(f"--ray: {value} {name}", hint=f"1 to {MOST_NODES}")
    if place == LOCAL:
        return Where(None, nodes, cores)
    if not ADDRESS.fullmatch(place):
        raise InputError(f"--ray {place!r:.80}: neither {LOCAL} nor HOST:PORT", hint=HINT)
    return Where(place, nodes, cores)
