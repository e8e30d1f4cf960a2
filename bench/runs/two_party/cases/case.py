"""What a case is: the work of both parties, and the float result that theirs is compared with.

Inputs come from the case's name and size alone, so that both parties and the judge make the same ones.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.runs.two_party import session
from bench.runs.two_party.session import LOOPBACK, Options
from tacita.plans.commitment import LINKS

Array = NDArray[Any]
Floats = NDArray[np.float64]
Shares = NDArray[np.uint64]
Report = Callable[[str, float], None]  # (stage, share done)
FRACTION = 18  # bits of the fixed point between blocks


@dataclass(frozen=True)
class Prepared:
    """One party's work: the warm-up (not measured), the run (its result is what this party holds at the end),
    numbers of its own.

    check: not measured; takes the run's result and returns what is judged, where the protocol itself has to
    show it. parts: further runs by name, each measured; the last one's result replaces the run's.
    """

    warm: Callable[[], object]
    run: Callable[[], Array]
    report: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Array], Array] = lambda result: result
    parts: Mapping[str, Callable[[], Array]] = field(default_factory=dict)


class Case(ABC):
    """One row of the report."""

    name: str
    named = False  # not among those that a run without names measures

    def available(self, options: Options) -> str:
        """Why this case cannot run here; empty when it can."""
        return ""

    def share(self, options: Options) -> None:  # noqa: B027 (most cases share nothing)
        """Writes what both parties must have alike into the run's folder, before they start."""

    @abstractmethod
    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        """Makes this party's inputs. `party` is connected and set up; nothing is sent here."""

    @abstractmethod
    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        """At least max_abs_error, of what both parties ended with."""

    def finish(self, figures: dict[str, Any], client: Array) -> Mapping[str, Any]:
        """Fields of the case's own, from its figures and what the client ended with."""
        return {}

    def listen(self, options: Options, announce: Callable[[int, str], None]) -> session.Session:
        """The server's end; announces its port and its certificate's file."""
        return session.listen(options, announce)

    def connect(self, options: Options, port: int, certificate: str) -> session.Session:
        """The client's end."""
        return session.connect(options, port, certificate)

    def rng(self, use: str) -> np.random.Generator:
        """A source of the case's own for a use (weights, inputs, shares), the same in every process.

        Uses are independent: an input drawn like the weights from one source would meet its own numbers in
        them.
        """
        return np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(use.encode())])


def encode(values: Floats, fraction: int = FRACTION) -> Shares:
    """Fixed point in Z_{2^64}."""
    return np.rint(np.asarray(values) * 2.0**fraction).astype(np.int64).view(np.uint64)


def decode(values: Shares, fraction: int = FRACTION) -> Floats:
    """Inverse of `encode`."""
    return values.view(np.int64).astype(np.float64) / 2.0**fraction


def mine(values: Floats, rng: np.random.Generator, *, client: bool) -> Shares:
    """This party's share: the client's is uniform, the server's the rest. For measurements: both parties know
    both here."""
    left = rng.integers(0, 2**64, np.shape(values), dtype=np.uint64)
    return left if client else encode(values) - left


def errors(found: Floats, wanted: Floats) -> dict[str, float]:
    """Largest and mean distance."""
    distance = np.abs(np.asarray(found, dtype=np.float64) - wanted)
    return {"max_abs_error": float(distance.max(initial=0.0)), "mean_abs_error": float(distance.mean())}


def computed(figures: Mapping[str, Any], link: str) -> dict[str, float]:
    """What a run on the loopback would take over each link, at most: nothing overlaps, both directions share
    the bandwidth, every round takes a round trip. Nothing of a run over another link."""
    count, rounds = 1e6 * figures["megabytes"], figures["rounds"]
    seconds = {name: figures["wall_seconds"] + each.seconds(count, rounds) for name, each in LINKS.items()}
    return {f"{name.lower()}_seconds": each for name, each in seconds.items()} if link == LOOPBACK else {}
