"""What a run over machines will take: seconds of R requests on n evaluators, from the plan's own prediction.

An evaluator first gets weights and keys, then answers one request after the other:

    seconds = keygen + placement + start + max(ceil(R / n) * each, R * sent / bandwidth)

placement: every evaluator gets keys and weights over the client's one link. start: each begins as two
processes, one beside the client and one on its node, reads its keys and touches its memory, all at the same
time. each: a request on the evaluator's cores. On one machine nothing is sent.

>>> from tacita.server.machines.costs import Costs
>>> costs = Costs(keygen=10.0, start=20.0, each=100.0, placed=2e9, sent=5e6)
>>> [round(costs.forecast(160, nodes, LinkSpeed(1e10, 0.0)).seconds) for nodes in (1, 16)]
[16032, 1056]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from tacita.evaluate.session import MEMORY_GB
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.plans.plan import Plan
from tacita.plans.prices.formulas import file_bytes
from tacita.progress import Progress
from tacita.resources import GB
from tacita.schemes.ciphertexts import stage_estimates
from tacita.server.machines.cluster import LEAST_STORE
from tacita.server.machines.forward import ON_THE_WAY, PIECE

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
        requests, on = (
            f"{count} {word}{'s' * (count != 1)}"
            for count, word in ((self.requests, "request"), (self.evaluators, "evaluator"))
        )
        return f"{requests} on {on}: {self.rounds} x {each:.1f} s, {once}"

    def report(self) -> Progress:
        """Returns the forecast as the report before the first request."""
        return Progress(self.words(), 0, self.requests, 0.0, self.seconds)

    def to_json(self) -> dict[str, Any]:
        """Returns all fields, and their sum."""
        return {**asdict(self), "seconds": self.seconds}


@dataclass(frozen=True)
class Costs:
    """Seconds of the client's keys, of an evaluator's start and of each request on it; bytes that an
    evaluator is given once, and of a request and its response together."""

    keygen: float
    start: float
    each: float
    placed: float
    sent: float

    def forecast(self, requests: int, evaluators: int, link: LinkSpeed | None) -> Forecast:
        """Returns the time of requests on so many evaluators. link: the client's; None where all is on one
        machine."""
        rounds = ceil(requests / max(evaluators, 1))
        placement = link.seconds(evaluators * self.placed, 1) if link else 0.0
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


def store_bytes(plans: Sequence[Plan], nodes: int) -> int:
    """Returns the bytes that a node started here must store: for each of so many nodes the pieces that are on
    their way there, a request and a response of each plan, and as much again of what Ray has not dropped
    yet."""
    sizes = [file_bytes(plan) for plan in plans]
    moving = ON_THE_WAY * PIECE + sum(each["request"] + each["response"] for each in sizes)
    return LEAST_STORE + 2 * nodes * moving
