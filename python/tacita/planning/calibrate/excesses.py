"""How often texts leave the calibrated intervals, measured on texts that did not make them.

Of many texts every fifth is held out. Of fewer, five times a fifth is tested against intervals and row
estimates of the other four fifths (temperatures are those of all): the plan's own come from all of them and
are a little wider. A text is *outside* when any value that the circuit bounds leaves its interval at all;
then its own answer may be off. It is *far* outside when a value lies beyond FAR times the interval's
half-width, where a bootstrap of its ciphertext no longer holds and every other text in that ciphertext can be
spoiled too (docs/threat-model/ciphertexts.md, "Common fate").

A batch needs texts far outside to be rarer than the texts at hand can show by a count. So the tails of those
held out are extended, as `plans.error` does, and softmax gets room where they reach too far; tails of folds
say too much (docs/decisions/0121).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tacita.packings.specs import ATTENTION, FUNCTION, NORM
from tacita.planning.calibrate.calibration import (
    GATED,
    AttentionCalibration,
    Calibration,
    NodeCalibration,
    NormCalibration,
    up,
)
from tacita.planning.calibrate.intervals import INPUT, Interval, Ranges
from tacita.plans.error import Population

Array = NDArray[np.float64]

FIFTHS = 5
MANY = 500  # texts from which a fifth is held out
FEW = 50  # texts below which nothing is estimated
FAR = 1.2  # times an interval's half-width from its middle
TAIL, MOST_IN_TAIL = 5, 20  # one of so many texts is in the tail, and no more than these
SPOILED = 0.02  # share of requests that softmaxes may spoil, by their tails
MOST_ROOM = 3.0  # nats of room, which are the levels of a step of 1/x
CONFIDENCE = 0.95
NO_REACHES: Mapping[str, Interval] = MappingProxyType({})

# what circuits rely on of a node's calibration: the fields have the names of the reference's records
# (`blocks.floats`)
INTERVALS = {ATTENTION: ("scores",), NORM: ("variance",), FUNCTION: ("argument",)}
SOFTMAX = ".means"  # last part of the stages that `room_for` gives room to
BOUNDS = {ATTENTION: ("input", "context"), NORM: ("centred", "result"), FUNCTION: ()}


@dataclass(frozen=True)
class Counts:
    """What was counted, whatever the number of texts in a request. tail: share of texts far outside by the
    tails of all stages, which says more than the count of few; 0 where none was fitted."""

    method: str
    texts: int = 0
    outside: int = 0
    far: int = 0
    tail: float = 0.0

    def population(self, batch: int) -> Population:
        """Returns the counts, and the rates for requests of `batch` texts."""
        own, own_bound = _rate(self.outside, self.texts)
        others, others_bound = (own, own_bound) if batch == 1 else _rate(self.far, self.texts)
        others = others if batch == 1 else max(others, self.tail)
        rates = own, own_bound, _any(others, batch), _any(max(others, others_bound), batch)
        return Population(self.method, self.texts, self.outside, self.far, *(up(rate) for rate in rates))


def held_out(count: int) -> list[int]:
    """Numbers from 0 of the texts that are held out of so many: every fifth, if there are MANY."""
    return list(range(FIFTHS - 1, count, FIFTHS)) if count >= MANY else []


def folds(count: int) -> Iterator[tuple[list[int], list[int]]]:
    """(texts that make intervals, texts that test them), five times; none for FEW."""
    for fold in range(FIFTHS if count >= FEW else 0):
        yield [i for i in range(count) if i % FIFTHS != fold], list(range(fold, count, FIFTHS))


def counted(
    method: str, excesses: Sequence[Array], distances: Mapping[str, Array] = MappingProxyType({})
) -> Counts:
    """Counts the texts outside and far outside. excesses: the largest of each tested text. distances: of all
    of them, by stage, where their tails are to be told."""
    largest = np.concatenate(excesses) if excesses else np.zeros(0)
    tail = min(1.0, sum(Tail.of(each).beyond(0.0) for each in distances.values()))
    return Counts(method, len(largest), int((largest > 1.0).sum()), int((largest > FAR).sum()), tail)


@dataclass(frozen=True)
class Tail:
    """The tail of a value over texts: `share` of them lie above `start`, taken to be exponential with this
    mean, as in `plans.error`."""

    share: float
    start: float
    mean: float

    @staticmethod
    def of(values: Array) -> Tail:
        """Fits the largest values, of at least TAIL."""
        ordered, count = np.sort(values), min(len(values) // TAIL, MOST_IN_TAIL)
        start = float(ordered[-count - 1])
        return Tail(count / len(values), start, float((ordered[-count:] - start).mean()))

    def beyond(self, value: float) -> float:
        """Returns the share of texts above a value, at most that of the tail."""
        if value <= self.start:
            return self.share
        return self.share * math.exp((self.start - value) / self.mean) if self.mean else 0.0

    def at(self, share: float) -> float:
        """Returns the value above which a share of texts is, no less than the tail's start."""
        return self.start + self.mean * math.log(max(self.share / share, 1.0))


def room_for(tested: Mapping[str, Array], texts: int) -> dict[str, float]:
    """Returns by how many nats the row means of each attention must be allowed to be larger so that softmaxes
    spoil at most SPOILED of the requests of so many texts, and MOST_ROOM at most.

    tested: `distances` of texts that made no interval. One text that is answered alone spoils no other.
    """
    softmaxes = {stage.rpartition(".")[0]: each for stage, each in tested.items() if stage.endswith(SOFTMAX)}
    if texts == 1 or not softmaxes:
        return {}
    share = SPOILED / (texts * len(softmaxes))
    return {name: min(max(Tail.of(each).at(share), 0.0), MOST_ROOM) for name, each in softmaxes.items()}


def excesses(
    ranges: Ranges,
    calibration: Calibration,
    *,
    reaches: Mapping[str, Interval] = NO_REACHES,
) -> dict[str, Array]:
    """Distance of each sample's values from an interval's middle in half-widths, by stage: above 1 is
    outside. (samples,) each. reaches: by node, where its function is right besides (`Functions.reach`)."""
    with np.errstate(over="ignore"):
        by_stage = {INPUT: _above(ranges.each(INPUT), calibration.entry)}
        for name, node in calibration.nodes.items():
            by_stage |= _node_excesses(ranges, name, node, calibration.rounds.get(name, 0), reaches)
        for name, bound in calibration.inputs.items():  # of sums that are stored for their readers
            key = "sum" if isinstance(calibration.nodes.get(name), NormCalibration) else "input"
            by_stage[f"{name}.{key}"] = _above(ranges.each(f"{name}.{key}"), bound)
        return {**by_stage, "answer": _above(ranges.each("answer"), calibration.answer)}


def distances(
    ranges: Ranges, calibration: Calibration, reaches: Mapping[str, Interval] = NO_REACHES
) -> dict[str, Array]:
    """Distance of each sample's values from where they are far outside, by stage: above 0 is far. (samples,)
    each. Of softmax in nats of the scores, of others in half-widths."""
    by_stage = excesses(ranges, calibration, reaches=reaches)
    result = {name: each - FAR for name, each in by_stage.items() if not name.endswith((SOFTMAX, ".mixed"))}
    for name, node in calibration.nodes.items():
        if isinstance(node, AttentionCalibration):
            result[f"{name}{SOFTMAX}"] = _nats(ranges, name, node, calibration.rounds.get(name, 0))
    return result


def _nats(ranges: Ranges, name: str, node: AttentionCalibration, k: int) -> Array:
    """How far above what spoils others the row means are, and what is mixed with the values: in nats of the
    scores. Below its interval 1/x only saturates."""
    low, high = node.means[k]
    limit = math.log(0.5 * (low + high) + 0.5 * FAR * (high - low))
    above = 2**k * (ranges.each_log_mean(name, 0.5**k)[:, 1] - limit) - node.shift
    if k:
        return np.asarray(above)
    mixed = ranges.each(f"{name}.log_mixed_mean")[:, 1] - node.shift - math.log(FAR * node.mixed_mean)
    return np.asarray(np.maximum(above, mixed))


def largest(by_stage: Mapping[str, Array]) -> Array:
    """Returns the largest of `excesses` over all stages: (samples,)."""
    return np.asarray(np.max(list(by_stage.values()), axis=0))


def of_texts(by_stage: Mapping[str, Array], owners: Sequence[int]) -> dict[str, Array]:
    """Returns what is largest of each text's samples, by stage: (texts,). owners: the text of each sample."""
    texts, places = np.unique(owners, return_inverse=True)
    result = {stage: np.full(len(texts), -np.inf) for stage in by_stage}
    for stage, each in by_stage.items():
        np.maximum.at(result[stage], places, each)
    return result


def binomial_bound(hits: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Returns the bound of Clopper and Pearson: the share at which so few hits or fewer have probability 1 -
    confidence; 1 for no trials."""
    if hits >= trials:
        return 1.0
    low, high = hits / trials, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _at_most(hits, trials, middle) > 1.0 - confidence else (low, middle)
    return high


def _at_most(hits: int, trials: int, share: float) -> float:
    """Probability of at most so many hits. 0 < share < 1."""
    logs = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(share)
        + (trials - k) * math.log1p(-share)
        for k in range(hits + 1)
    ]
    return math.fsum(math.exp(log) for log in logs)


def _rate(hits: int, trials: int) -> tuple[float, float]:
    return (hits / trials, binomial_bound(hits, trials)) if trials else (0.0, 1.0)


def _any(share: float, batch: int) -> float:
    """Returns the probability that one of `batch` texts is outside, where each is with this one."""
    return float(1.0 - (1.0 - share) ** batch)


def _node_excesses(
    ranges: Ranges, name: str, node: NodeCalibration, k: int, reaches: Mapping[str, Interval]
) -> Iterator[tuple[str, Array]]:
    """What circuits bound of a node: intervals and magnitudes of stored tensors. k: of the means that they
    take, of exp(score / 2^k)."""
    for key in INTERVALS[node.tag]:
        low, high = getattr(node, key)
        if node.tag == FUNCTION:
            least, most = reaches.get(name, (low, high))
            low, high = min(low, least), max(high, most)
        yield f"{name}.{key}", _beyond(ranges.each(f"{name}.{key}"), (low, high))
    if isinstance(node, AttentionCalibration):
        logs = ranges.each_log_mean(name, 0.5**k) - node.shift / 2**k
        yield f"{name}.means", _beyond(np.exp(logs), node.means[k])
        if not k:  # what is mixed with the values is bounded whatever the scores, in rounds
            mixed = np.exp(ranges.each(f"{name}.log_mixed_mean") - node.shift)
            yield f"{name}.mixed", _above(mixed, node.mixed_mean)
    gated = GATED if getattr(node, GATED[0], 0.0) else ()
    for key in (*BOUNDS[node.tag], *gated):
        yield f"{name}.{key}", _above(ranges.each(f"{name}.{key}"), getattr(node, key))


def _beyond(each: Array, interval: Interval) -> Array:
    middle, half = 0.5 * (interval[0] + interval[1]), 0.5 * (interval[1] - interval[0])
    return np.asarray(np.maximum(each[:, 1] - middle, middle - each[:, 0]) / half)


def _above(each: Array, bound: float) -> Array:
    return np.asarray(np.abs(each).max(axis=1) / bound)
