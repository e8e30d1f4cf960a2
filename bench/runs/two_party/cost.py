"""What a run cost a party, and how the correlated transfers that it used are booked.

Correlated oblivious transfers (COTs) are made millions at a time, so a run that starts with a full pool looks
too cheap and one that happens to refill it too dear. Every figure therefore counts
`used * (cost of the refills in the run / COTs made in them)` in place of the refills themselves; the price is
that of the whole session, set-up included, when no refill fell into the run. What was measured without that
correction is kept beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

REFILL = "cot"  # the name under which the engine books a refill, as the last part of a path


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, CPU seconds of the process, bytes sent and received with their framing, rounds,
    calls."""

    wall: float = 0.0
    cpu: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    rounds: float = 0.0
    calls: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Cost) -> Cost:
        return self + other.times(-1.0)

    def times(self, factor: float) -> Cost:
        """Every figure multiplied."""
        return Cost(*(factor * getattr(self, f.name) for f in fields(self)))


Costs = Mapping[str, Cost]  # by path of the operation, "gelu/less"


def difference(after: Costs, before: Costs) -> dict[str, Cost]:
    """What every operation cost between two readings; those that did not run are left out."""
    found = {name: cost - before.get(name, Cost()) for name, cost in after.items()}
    return {name: cost for name, cost in found.items() if cost.calls > 0}


@dataclass(frozen=True)
class Reading:
    """Counters of a session: the whole of it, by operation, and correlated transfers made and used."""

    sent: int
    received: int
    rounds: int
    made: int
    used: int
    operations: Costs


def refills(costs: Costs) -> Cost:
    """The sum over all refills; one inside another counts once."""
    outermost = (
        cost
        for path, cost in costs.items()
        if (parts := path.split("/"))[-1] == REFILL and REFILL not in parts[:-1]
    )
    return sum(outermost, Cost())


@dataclass(frozen=True)
class Run:
    """One party's measured run.

    whole: everything between start and end. refilled: what of it was refills, which made `refill` COTs.
    session: all refills since the connection was made, and the COTs that they made. used: COTs that the run
    consumed. operations: of the run, by path.
    """

    whole: Cost
    refilled: Cost
    session: Cost
    refill: int
    made: int
    used: int
    operations: Costs

    @property
    def per_cot(self) -> Cost:
        """Cost of one COT."""
        if self.refill:
            return self.refilled.times(1.0 / self.refill)
        return self.session.times(1.0 / self.made) if self.made else Cost()

    @property
    def bare(self) -> Cost:
        """The run without its refills."""
        return self.whole - self.refilled

    @property
    def amortised(self) -> Cost:
        """The run with exactly the COTs that it used; as measured where the session made none."""
        return self.bare + self.per_cot.times(self.used) if self.made else self.whole
