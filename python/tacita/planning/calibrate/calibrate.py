"""Calibration: intervals of every node, measured with the float model on sample text, widened, stored.

Intervals are properties of a checkpoint and a node. Every approximation of a plan is fitted on them, and
every tensor that crosses a stage boundary is stored divided by its bound. The margin widens what was seen:
signed intervals by margin * width on each side, positive ones (sums, variances) by the factor exp(margin *
min(max(2, log(hi/lo)), 6)), bounds by 1 + 2 * margin. All of it is published with the plan and therefore
rounded outwards to 8 bits (`planning.calibrate.calibration`); what follows from an interval, such as the
shift of the scores, follows from the rounded one. The fits widen their domain once more
(`approx.spec.MARGIN`).

Padded rows need no runs of their own when the client pads with copies of row 0 (`checkpoint.pad_hidden`):
their values are row 0's. Where attention knows positions they are not, and texts are padded here too. Given
hidden states are recorded with all their rows, whatever the padding holds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacita.approx.functions import WEIGHTED
from tacita.blocks.base import Norm
from tacita.blocks.floats import FloatTensors
from tacita.blocks.shapes import function_of
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.texts import load_texts as load_texts
from tacita.errors import PlanError
from tacita.layouts.registry import NONE, Estimates
from tacita.models.registry import attentions, front, nodes, shapes
from tacita.packings.lowering import inputs_of_sums
from tacita.packings.specs import approximated
from tacita.planning.calibrate.calibration import Calibration as Calibration
from tacita.planning.calibrate.calibration import round_outward, up
from tacita.planning.calibrate.excesses import (
    Counts,
    counted,
    distances,
    excesses,
    folds,
    held_out,
    largest,
    of_texts,
    room_for,
)
from tacita.planning.calibrate.intervals import INPUT, Interval, Intervals, Ranges
from tacita.planning.calibrate.row_estimates import Rows, RowSamples, predictable
from tacita.planning.calibrate.temper import choose_temperatures, enough_rounds, tempered, untempered
from tacita.planning.calibrate.walk import Answers, Samples, row_samples, walk
from tacita.planning.calibrate.walk import Progress as Progress
from tacita.planning.calibrate.walk import Sample as Sample
from tacita.plans.error import FOLDS, HELD_OUT, NOT_ESTIMATED
from tacita.progress import Passes
from tacita.texts.embed import Text, padded_words
from tacita.texts.embedding import WORDS
from tacita.two_party.arithmetic.base import EmbeddingBounds, NormBounds

Array = NDArray[np.float64]

MARGIN = 0.1
SAMPLED = 2000  # inputs of a function that a sample adds to its density, about
MOST_SAMPLED = 1_000_000  # of all samples together
MOST_FOR_ROWS = 1000  # samples that row estimates are fitted to


@dataclass(frozen=True)
class CalibrationOptions:
    """margin: see the module. row_estimates: what the circuit can take from its scores; it is fitted where it
    is worth it. temper: whether peaked heads may be tempered; a circuit that takes each row's largest score
    need not. rounds: of softmax (`approx.softmax`), the fewest and the most; more come before any tempering.
    more: of them, in every softmax beyond what its scores ask for.
    inside: attentions whose exponentials stay inside a stage (`layouts.registry.Rules`).
    reaches: by node, where its function is right whatever calibration says; a text is not outside there.
    texts: of a request, each of which can spoil the others' answers (`excesses.room_for`).
    owners: the text of each sample, where some have several: texts are counted, by their furthest sample.

    progress: called with (done, total) of all passes. processes: see `planning.calibrate.walk`; the result is
    the same for any number.
    """

    margin: float = MARGIN
    row_estimates: Estimates = NONE
    temper: bool = True
    rounds: tuple[int, int] = (0, 0)
    more: int = 0
    inside: frozenset[str] = frozenset()
    reaches: Mapping[str, Interval] = field(default_factory=dict)
    texts: int = 1
    owners: Sequence[int] = ()
    progress: Callable[[float, float], None] = lambda done, total: None
    processes: int = 1


DEFAULT = CalibrationOptions()


@dataclass(frozen=True)
class Survey:
    """A calibration, and how many of the texts that did not make it left its intervals. answers: of the model
    itself on some samples, by `walk.mark`."""

    calibration: Calibration
    counts: Counts
    answers: Answers


def calibrate(
    checkpoint: Checkpoint,
    tokens: int,
    texts: Iterable[Text] | None = None,
    *,
    hidden_states: Sequence[Sample] = (),
    behind: tuple[int, ...] = (),
    options: CalibrationOptions = DEFAULT,
) -> Calibration:
    """Run the float model over texts (default: the shipped sentences; none when hidden states are given and
    texts are not) and over given samples; record, widen, round outwards.

    tokens: the plan's token count; longer texts are cut at word boundaries. behind: ids that stand before
    each text and are not measured.
    Cost: one float64 forward pass a sample, one more of up to MOST_FOR_ROWS for estimates, the same again for
    tempering.
    Errors: InputError, CheckpointError, PlanError (bad margin, no sample).
    """
    samples = _samples(checkpoint, tokens, texts, hidden_states, options.margin, behind)
    train = range(len(samples))
    return _measured(checkpoint, samples, train, options).calibration(train)


def survey(
    checkpoint: Checkpoint,
    tokens: int,
    texts: Iterable[Text] | None = None,
    *,
    hidden_states: Sequence[Sample] = (),
    options: CalibrationOptions = DEFAULT,
) -> Survey:
    """Calibrates as `calibrate` does, and counts the texts outside the intervals, held out or by folds
    (`planning.calibrate.excesses`)."""
    samples = _samples(checkpoint, tokens, texts, hidden_states, options.margin)
    count = len(samples)
    held = held_out(count)
    train = [i for i in range(count) if i not in set(held)]
    measured = _measured(checkpoint, samples, train, options)
    if not held:
        excess = [test.excess for test in measured.folds(count)]
        counts = counted(FOLDS if excess else NOT_ESTIMATED, excess)
        return Survey(measured.calibration(train), counts, measured.answers)
    test = _Test(measured, train, held)
    test = replace(test, measured=measured.with_room(room_for(test.distances, options.texts)))
    return Survey(test.calibration, counted(HELD_OUT, [test.excess], test.distances), {})


def texts_for(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Returns the texts to calibrate on by default: the model's own, else the package's."""
    return checkpoint.texts or load_texts()


@dataclass(frozen=True)
class _Measured:
    """Ranges of all samples of the (tempered) model, after row estimates. collected, walked: rows of all
    samples and the ranges without them, where one walk gave both. beyond: nats by which rows that fitted no
    estimate lie outside (`row_estimates.AttentionRows.beyond`)."""

    checkpoint: Checkpoint
    options: CalibrationOptions
    collected: RowSamples | None
    walked: Ranges | None
    ranges: Ranges
    rows: Rows
    beyond: Mapping[str, Interval]
    temperatures: Mapping[str, tuple[float, ...]]
    rounds: Mapping[str, int]
    answers: Answers

    def calibration(self, train: Sequence[int]) -> Calibration:
        """Builds the calibration: intervals of the `train` samples, widened and rounded."""
        ranges, config, options = self.ranges.of(train), self.checkpoint.config, self.options
        intervals = Intervals(ranges, options.margin, self.beyond)
        kinds = approximated(nodes(config))
        calibrated = {name: intervals.of(name, kind, self.rows.get(name)) for name, kind in kinds.items()}
        return Calibration(
            sha256=self.checkpoint.sha256,
            margin=options.margin,
            samples=len(train),
            rows=int(up(sum(ranges.rows))),
            nodes=calibrated,
            entry=intervals.bound(INPUT),
            answer=intervals.bound("answer"),
            temperatures=self.temperatures,
            row_estimates=self.rows,
            inputs={name: intervals.bound(node) for name, node in inputs_of_sums(config).items()},
            rounds=enough_rounds(self.rounds, calibrated, options.rounds[1], options.inside, options.more),
        )

    def with_room(self, room: Mapping[str, float]) -> _Measured:
        """Returns the same with more room above the row means of these attentions, in nats."""
        beyond = dict(self.beyond)
        for name, nats in room.items():
            below, above = beyond.get(name, (0.0, 0.0))
            beyond[name] = below, above + nats
        return replace(self, beyond=beyond)

    def folds(self, count: int) -> list[_Test]:
        """Returns the tests of each fold on what the others alone make: row estimates, too."""
        return [_Test(self._without(fold), *parts) for fold, parts in enumerate(folds(count))]

    def _without(self, fold: int) -> _Measured:
        if self.collected is None or self.walked is None or not self.rows:
            return self
        others = self.collected.without(fold)
        rows = others.fit(self.options.row_estimates)
        beyond = {name: others.beyond[name] for name in rows}
        return replace(self, ranges=self.collected.completed(self.walked, rows), rows=rows, beyond=beyond)


@dataclass(frozen=True)
class _Test:
    """Samples `held` that are compared with the intervals of the samples `train`."""

    measured: _Measured
    train: Sequence[int]
    held: Sequence[int]

    @cached_property
    def excess(self) -> Array:
        """Returns the largest excess of each text over the intervals."""
        return largest(self._compare(excesses))

    @cached_property
    def distances(self) -> dict[str, Array]:
        """Returns by stage how far each text is from being far outside."""
        return self._compare(distances)

    @cached_property
    def calibration(self) -> Calibration:
        return self.measured.calibration(self.train)

    def _compare(self, by_stage: Callable[..., dict[str, Array]]) -> dict[str, Array]:
        ranges, options = self.measured.ranges.of(self.held), self.measured.options
        each = by_stage(ranges, self.calibration, reaches=options.reaches)
        return of_texts(each, [options.owners[i] for i in self.held]) if options.owners else each


def _samples(
    checkpoint: Checkpoint,
    tokens: int,
    texts: Iterable[Text] | None,
    states: Sequence[Sample],
    margin: float,
    behind: tuple[int, ...] = (),
) -> Samples:
    if not 0.0 <= margin <= 1.0:
        raise PlanError(f"calibrate: margin {margin}", hint="it is a share of the interval, from 0 to 1")
    if texts is None and not states:
        texts = texts_for(checkpoint)
    samples = Samples.of(checkpoint, tokens, texts or (), states, behind)
    if not len(samples):
        raise PlanError("calibrate: no sample", hint="pass texts or hidden states")
    return samples


def _measured(
    checkpoint: Checkpoint, samples: Samples, train: Sequence[int], options: CalibrationOptions
) -> _Measured:
    """Chooses the temperatures, then measures the tempered model. The choice needs row samples only, or
    ranges where a packing takes nothing from scores or there are more samples than rows are kept of. Row
    samples of all samples come with their ranges."""
    passes = Passes(options.progress)
    collected, rows, walked, ranges, answers = _row_samples(checkpoint, samples, train, options, passes)
    temperatures, rounds = untempered(checkpoint.config), dict[str, int]()
    if options.temper:
        log_mean = collected.log_mean(rows) if collected else None
        if log_mean is None or len(train) > MOST_FOR_ROWS:
            ranges = ranges or _walked(checkpoint, samples, rows, options, passes.following())
            log_mean = ranges.of(train).log_mean
        temperatures, rounds = choose_temperatures(
            log_mean, checkpoint.config, options.rounds, rows, options.inside
        )
    if (model := tempered(checkpoint, temperatures)) is not checkpoint:
        collected, rows, walked, ranges, _ = _row_samples(model, samples, train, options, passes)
    ranges = ranges or _walked(model, samples, rows, options, passes.following(last=True))
    beyond = {name: collected.beyond[name] for name in rows} if collected else {}
    return _Measured(
        checkpoint, options, collected, walked, ranges, rows, beyond, temperatures, rounds, answers
    )


def _walked(
    model: Checkpoint, samples: Samples, rows: Rows, options: CalibrationOptions, progress: Progress
) -> Ranges:
    count = len(samples)
    return walk(
        model,
        samples.at(range(count)),
        count,
        rows=rows,
        kept=_densities(model, count),
        progress=progress,
        processes=options.processes,
        behind=len(samples.behind),
    )


def _densities(model: Checkpoint, count: int) -> dict[str, int]:
    """Returns how many inputs are kept of the functions that are fitted to the density of theirs."""
    weighted = [name for name, node in nodes(model.config).items() if function_of(node) in WEIGHTED]
    return dict.fromkeys(weighted, max(1, min(SAMPLED, MOST_SAMPLED // count)))


def _row_samples(
    model: Checkpoint, samples: Samples, train: Sequence[int], options: CalibrationOptions, passes: Passes
) -> tuple[RowSamples | None, Rows, Ranges | None, Ranges | None, Answers]:
    """Collects row samples of at most MOST_FOR_ROWS evenly spaced samples, and fits estimates to them; None
    where nothing is taken from scores. Ranges, without and with what follows from rows, are there where these
    are all samples."""
    if options.row_estimates == NONE or not any(map(predictable, attentions(model.config).values())):
        return None, {}, None, None, {}
    chosen = train[:: -(-len(train) // MOST_FOR_ROWS)]
    densities = _densities(model, len(samples)) if len(chosen) == len(samples) else None
    progress = passes.following(last=densities is not None)
    collected, walked, answers = row_samples(
        model, samples.at(chosen), len(chosen), options.processes, progress, densities
    )
    rows = collected.fit(options.row_estimates)
    return collected, rows, walked, collected.completed(walked, rows) if walked else None, answers


# Calibration of a model whose embedding stays at the server: bounds of the tables, and samples as such a
# request holds them.
#
# A client that looks words up cannot pad with copies of a whole row, since the server adds the positions. It
# pads with the first token instead, so padded rows are its word at later positions: they are part of the
# samples.

MOST_SAMPLES = 64  # every one is as long as a request


def hidden_embedding(
    checkpoint: Checkpoint, tokens: int, texts: Sequence[Text], margin: float
) -> tuple[EmbeddingBounds, dict[str, NormBounds], list[Sample]]:
    """Bounds of the tables, of each norm after them by its node, and (hidden states, mask) of the first
    `MOST_SAMPLES` texts with padding."""
    words, seen = checkpoint.tensors[WORDS], _Seen(list)
    rows = [padded_words(checkpoint, text, tokens) for text in texts[:MOST_SAMPLES]]
    samples = [(_embedded(checkpoint, words[ids], seen), mask) for ids, mask in rows]
    steps = shapes(checkpoint.config, tokens, hidden_embedding=True).nodes.items()
    norms = {
        name: _norm_bounds(checkpoint, name, node, seen, margin)
        for name, node in steps
        if isinstance(node, Norm) and f"{name}.sum" in seen
    }
    sums = _Seen(list)  # of positions alone; the first is before the first norm
    hidden = _embedded(checkpoint, np.zeros((tokens, words.shape[1])), sums)
    first = next((values[0] for name, values in sums.items() if name.endswith(".sum")), hidden)
    entry = float(np.abs(words).max()) + float(np.abs(first).max())
    return EmbeddingBounds(power_above(np.array(entry))), norms, samples


_Seen = defaultdict[str, list[Array]]  # what the nodes before the hidden states recorded


def _embedded(checkpoint: Checkpoint, words: Array, seen: _Seen) -> Array:
    """Rows of the word table (tokens, hidden) -> hidden states, in floats."""
    weights = Weights(checkpoint.tensors)
    ops = FloatTensors(weights, np.ones(len(words)), lambda name, x: seen[name].append(x))
    blocks = TensorBlocks(ops)
    return np.asarray(blocks.answer(front(blocks, checkpoint.config, words)))


def _norm_bounds(checkpoint: Checkpoint, name: str, norm: Norm, seen: _Seen, margin: float) -> NormBounds:
    """Returns the public bounds of a norm: those of its recorded values, widened."""
    wider = 1.0 + 4.0 * margin
    centred, variance = (np.stack(seen[f"{name}.{part}"]) for part in ("centred", "variance"))
    interval = round_outward((float(variance.min()) / wider, float(variance.max()) * wider))
    gamma, _ = Weights(checkpoint.tensors).norm(norm)
    return NormBounds(up(float(np.abs(centred).max()) * wider), interval, power_above(gamma))


def power_above(values: Array) -> float:
    """The least power of two above every magnitude; 1 for zeros."""
    largest = float(np.abs(values).max())
    return float(2.0 ** (math.floor(math.log2(largest)) + 1)) if largest > 0.0 else 1.0
