"""Calibration: intervals per layer and function, measured with the float model on sample text, widened,
stored.

Intervals are properties of a checkpoint and a layer. Every approximation of a plan is fitted on them, and
every tensor that crosses a stage boundary is stored divided by its bound. The margin widens what was seen:
signed intervals by margin * width on each side, positive ones (sums, variances) by the factor exp(margin *
min(max(2, log(hi/lo)), 6)), bounds by 1 + 2 * margin. All of it is published with the plan and therefore rounded outwards
to 8 bits (`plan.outwards`); what follows from an interval, such as the shift of the scores, follows from the rounded one.
The fits widen their domain once more (`approx.spec.MARGIN`).

Padded rows need no runs of their own when the client pads with copies of row 0 (`checkpoint.pad_hidden`):
their values are row 0's. Given hidden states are recorded with all their rows, whatever the padding holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint import Checkpoint
from tacita.checkpoint.embed import Text
from tacita.errors import InputError, PlanError
from tacita.models.reference import reference
from tacita.packings.columns.row_estimate import RowEstimate
from tacita.plan.outwards import up
from tacita.plan.population import (
    FOLDS,
    HELD_OUT,
    NOT_ESTIMATED,
    Counts,
    counted,
    folds,
    held_out,
    largest_excess,
)
from tacita.plan.ranges import ROUNDS, Interval, Ranges
from tacita.plan.rows import Rows, RowSamples
from tacita.plan.samples import Sample as Sample
from tacita.plan.samples import Samples
from tacita.plan.temper import choose_temperatures, tempered
from tacita.plan.walk import Progress as Progress
from tacita.plan.walk import walk
from tacita.plan.widen import positive, signed

Array = NDArray[np.float64]

MARGIN = 0.1
FALL = 5.0  # margins more below the scores after a row estimate, which is too large on rows unlike the samples
RISE = 5.0  # margins (nats) more above the means after one: 1/x diverges there and only saturates below
MAX_TEXT_BYTES = 16 << 20
SAMPLED = 2000  # inputs of ReLU that a sample adds to the density, about
MOST_SAMPLED = 1_000_000  # of all samples together
TANH = "pooler.tanh.argument"  # as the reference records it
MOST_FOR_ROWS = 1000  # samples that row estimates are fitted to


@dataclass(frozen=True)
class LayerCalibration:
    """Intervals (lo, hi) and bounds (largest magnitude) of one encoder layer, margin included.

    input: bound of x. scores: scaled scores, excluded keys too. shift: subtracted before exp (upper end of
    scores). sums: row sums of exp(score - shift) over real keys. mixed: bound of |sum_j exp(score_ij -
    shift) V_j|. means, mixed_mean: the same with weights 1/n for n real keys in place of 1, for a mask that
    holds 1/n (softmax is the same, the interval is narrower); means[k] is of exp((score - shift) / 2^k),
    for k square-and-normalise rounds. context: bound after normalisation. centred1/2: bound of the
    LayerNorm input minus its mean. variance1/2: with epsilon. norm1: bound of the first LayerNorm's result.
    activation: interval of its input. density: share of ReLU's inputs in equal parts of that interval, as half powers of two; empty
    for other activations, whose fits do not ask.
    hidden: bound of its output. pre_norm1/2: bound of the LayerNorm
    input. output: bound of the layer's result.
    """

    input: float
    scores: Interval
    shift: float
    sums: Interval
    mixed: float
    means: tuple[Interval, ...]
    mixed_mean: float
    context: float
    pre_norm1: float
    centred1: float
    variance1: Interval
    norm1: float
    activation: Interval
    density: tuple[float, ...]
    hidden: float
    pre_norm2: float
    centred2: float
    variance2: Interval
    output: float


@dataclass(frozen=True)
class Calibration:
    """Intervals of a checkpoint (by sha256) at a margin.

    samples: inputs measured. rows: token rows measured, rounded up. layers: one per encoder layer. pooler: interval of
    the input of tanh, None without it. answer: bound of logits or pooled vector, before it is normalised.
    temperatures: factor of the scores by layer and head, 1 but for heads too peaked; all intervals are
    those of `temper.tempered(checkpoint, temperatures)`, and a circuit must be built from that. row_estimates: what that
    circuit takes from the scores, by layer, for circuits that do; the intervals of scores and sums are after it.
    """

    sha256: str
    margin: float
    samples: int
    rows: int
    layers: tuple[LayerCalibration, ...]
    pooler: Interval | None
    answer: float
    temperatures: tuple[tuple[float, ...], ...]
    row_estimates: Rows

    def to_dict(self) -> dict[str, Any]:
        """JSON values; intervals become lists of two."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Calibration:
        """Inverse of `to_dict`, bit for bit. Errors: PlanError on missing, extra or ill-typed fields."""
        checked = _fields(Calibration, data)
        layers = tuple(LayerCalibration(**_fields(LayerCalibration, layer)) for layer in checked.pop("layers"))
        rows = tuple(row and RowEstimate.from_json(row) for row in checked.pop("row_estimates"))
        return Calibration(layers=layers, row_estimates=rows, **checked)


@dataclass(frozen=True)
class Survey:
    """A calibration, and how many of the texts that did not make it left its intervals."""

    calibration: Calibration
    counts: Counts


def calibrate(
    checkpoint: Checkpoint,
    tokens: int,
    texts: Iterable[Text] | None = None,
    *,
    hidden_states: Sequence[Sample] = (),
    margin: float = MARGIN,
    progress: Progress | None = None,
    row_estimates: bool = False,
    temper: bool = True,
) -> Calibration:
    """Run the float model over texts (default: the shipped sentences; none when hidden states are given and
    texts are not) and over given samples; record, widen, round outwards.

    tokens: the plan's token count; longer texts are cut at word boundaries. progress: called with (done,
    total) of each pass. row_estimates: whether the circuit can take row estimates from its scores; then they are fitted where
    they are worth it. temper: whether peaked heads may be tempered; a circuit that takes each row's largest score need not.
    Cost: one float64 forward pass a sample, one more of up to MOST_FOR_ROWS for estimates, the same again for tempering.
    Errors: InputError, CheckpointError, PlanError (bad margin, no sample).
    """
    samples = _samples(checkpoint, tokens, texts, hidden_states, margin)
    how = _How(row_estimates, temper, margin, progress or (lambda done, total: None))
    return _made(_measured(checkpoint, samples, range(len(samples)), how), how)


def survey(
    checkpoint: Checkpoint,
    tokens: int,
    texts: Iterable[Text] | None = None,
    *,
    hidden_states: Sequence[Sample] = (),
    margin: float = MARGIN,
    progress: Progress | None = None,
    row_estimates: bool = False,
    processes: int = 1,
) -> Survey:
    """As `calibrate`; besides counts the texts that leave the intervals, of those held out or by folds (`plan.population`).

    processes: see `plan.walk`; the result is the same for any number.
    """
    samples = _samples(checkpoint, tokens, texts, hidden_states, margin)
    how = _How(row_estimates, True, margin, progress or (lambda done, total: None), processes)
    held = held_out(len(samples))
    kept = [i for i in range(len(samples)) if i not in set(held)] if held else range(len(samples))
    measured = _measured(checkpoint, samples, kept, how)
    calibration = _made(measured, how)
    if held:
        tested = [largest_excess(measured.ranges.of(held), calibration)]
        return Survey(calibration, counted(HELD_OUT, tested))
    tested = [_fold(measured, made, test, how) for made, test in folds(len(samples))]
    return Survey(calibration, counted(FOLDS if tested else NOT_ESTIMATED, tested))


def load_texts(path: str | Path | None = None) -> tuple[str, ...]:
    """One text a line, `#` lines left out; default: the shipped file. Errors: InputError (absent, too
    large, empty).
    """
    shipped = resources.files("tacita.data").joinpath("calibration.txt")
    content = shipped.read_text(encoding="utf-8") if path is None else _read(Path(path))
    texts = tuple(line.strip() for line in content.splitlines() if line.strip() and not line.startswith("#"))
    if not texts:
        raise InputError(f"load_texts: {path} holds no text", hint="one text a line")
    return texts


def _read(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > MAX_TEXT_BYTES:
        raise InputError(f"load_texts: {path} is absent or over {MAX_TEXT_BYTES} bytes", hint="one text a line")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"load_texts: {path} is not UTF-8 ({error.reason})", hint="save it as UTF-8") from None


@dataclass(frozen=True)
class _How:
    """Options of a calibration."""

    row_estimates: bool
    temper: bool
    margin: float
    progress: Progress
    processes: int = 1


@dataclass(frozen=True)
class _Measured:
    """Ranges of all samples of the (tempered) model, after row estimates. kept: samples that make intervals."""

    checkpoint: Checkpoint
    ranges: Ranges
    kept: Sequence[int]
    rows: Rows
    temperatures: tuple[tuple[float, ...], ...]


def _samples(
    checkpoint: Checkpoint, tokens: int, texts: Iterable[Text] | None, given: Sequence[Sample], margin: float
) -> Samples:
    if not 0.0 <= margin <= 1.0:
        raise PlanError(f"calibrate: margin {margin}", hint="it is a share of the interval, from 0 to 1")
    if texts is None and not given:
        texts = load_texts()
    found = Samples.of(checkpoint, tokens, texts or (), given)
    if not len(found):
        raise PlanError("calibrate: no sample", hint="pass texts or hidden states")
    return found


def _measured(checkpoint: Checkpoint, samples: Samples, kept: Sequence[int], how: _How) -> _Measured:
    ranges, rows = _walked(checkpoint, samples, kept, how)
    config = checkpoint.config
    none = ((1.0,) * config.heads,) * config.layers
    temperatures = choose_temperatures(ranges.of(kept), config) if how.temper else none
    if (model := tempered(checkpoint, temperatures)) is not checkpoint:
        ranges, rows = _walked(model, samples, kept, how)
    return _Measured(checkpoint, ranges, kept, rows, temperatures)


def _walked(model: Checkpoint, samples: Samples, kept: Sequence[int], how: _How) -> tuple[Ranges, Rows]:
    """Ranges of all samples and, if wanted and worth it, the row estimates that they are after."""
    rows = _fitted_rows(model, samples, kept) if how.row_estimates else (None,) * model.config.layers
    count, relu = len(samples), model.config.activation == "relu"
    ranges = walk(
        model,
        samples.at(range(count)),
        count,
        rows=rows,
        kept=max(1, min(SAMPLED, MOST_SAMPLED // count)) if relu else 0,
        progress=how.progress,
        processes=how.processes,
    )
    return ranges, rows


def _fitted_rows(model: Checkpoint, samples: Samples, kept: Sequence[int]) -> Rows:
    """Of at most MOST_FOR_ROWS samples in the same distance."""
    seen = RowSamples(model)
    for hidden, mask in samples.at(kept[:: -(-len(kept) // MOST_FOR_ROWS)]):
        seen.start(mask)
        reference(model, hidden, mask, seen.see)
    return seen.fit()


def _fold(measured: _Measured, made: Sequence[int], test: Sequence[int], how: _How) -> Array:
    """Excesses of some samples over intervals of others."""
    return largest_excess(measured.ranges.of(test), _made(replace(measured, kept=made), how))


def _made(measured: _Measured, how: _How) -> Calibration:
    """Intervals of the kept samples, widened and rounded."""
    ranges, margin = measured.ranges.of(measured.kept), how.margin
    return Calibration(
        sha256=measured.checkpoint.sha256,
        margin=margin,
        samples=len(measured.kept),
        rows=int(up(sum(ranges.rows))),
        layers=tuple(_layer(ranges, f"layer{i}", margin, row) for i, row in enumerate(measured.rows)),
        pooler=signed(ranges.interval(TANH), margin) if TANH in ranges.names else None,
        answer=up(ranges.bound("answer") * (1.0 + 2.0 * margin)),
        temperatures=measured.temperatures,
        row_estimates=measured.rows,
    )


def _layer(ranges: Ranges, at: str, margin: float, row: RowEstimate | None) -> LayerCalibration:
    def bound(key: str) -> float:
        return up(ranges.bound(f"{at}.{key}") * (1.0 + 2.0 * margin))

    node = f"{at}.attention"
    scores = signed(ranges.interval(f"{node}.scores"), margin, FALL if row else 0.0)
    shift, activation = scores[1], signed(ranges.interval(f"{at}.feed_forward.argument"), margin)
    return LayerCalibration(
        input=bound("attention.input"),
        scores=scores,
        shift=shift,
        sums=positive(_exp(ranges.interval(f"{node}.log_sum_exp"), shift), margin),
        mixed=up(math.exp(ranges.interval(f"{node}.log_mixed")[1] - shift) * (1.0 + 2.0 * margin)),
        means=tuple(_means(ranges, node, k, shift, margin, row) for k in ROUNDS),
        mixed_mean=up(math.exp(ranges.interval(f"{node}.log_mixed_mean")[1] - shift) * (1.0 + 2.0 * margin)),
        context=bound("attention.context"),
        pre_norm1=bound("norm1.sum"),
        centred1=bound("norm1.centred"),
        variance1=positive(ranges.interval(f"{at}.norm1.variance"), margin),
        norm1=bound("norm1.result"),
        activation=activation,
        density=ranges.density(f"{at}.feed_forward", activation),
        hidden=bound("feed_forward.result"),
        pre_norm2=bound("norm2.sum"),
        centred2=bound("norm2.centred"),
        variance2=positive(ranges.interval(f"{at}.norm2.variance"), margin),
        output=bound("norm2.result"),
    )


def _means(ranges: Ranges, layer: str, k: int, shift: float, margin: float, row: RowEstimate | None) -> Interval:
    """Of exp((score - shift) / 2^k) over the real keys of a row."""
    interval = _exp(ranges.log_mean(layer, 0.5**k), shift / 2**k)
    return positive(interval, margin, RISE if row else 0.0)


def _exp(logs: Interval, shift: float) -> Interval:
    return math.exp(logs[0] - shift), math.exp(logs[1] - shift)


def _fields(cls: type[Calibration] | type[LayerCalibration], data: Mapping[str, Any]) -> dict[str, Any]:
    """The checked keyword arguments of cls: exactly its fields, intervals as tuples, numbers finite."""
    names = {f.name for f in fields(cls)}
    if not isinstance(data, Mapping) or set(data) != names:
        raise PlanError(
            f"{cls.__name__}: the stored fields are not the expected {len(names)}", hint="made by another version?"
        )
    return {name: _value(cls.__name__, name, data[name]) for name in names}


def _value(where: str, name: str, value: Any) -> Any:
    if name in ("layers", "sha256", "row_estimates") or (value is None and name == "pooler"):
        return value
    if isinstance(value, list | tuple):
        return tuple(_value(where, name, item) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PlanError(f"{where}: {name} is {value!r}", hint="the plan is damaged: make it again")
    return value
