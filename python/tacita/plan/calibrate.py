"""Calibration: intervals per layer and function, measured with the float model on sample text, widened,
stored.

Intervals are properties of a checkpoint and a layer. Every approximation of a plan is fitted on them, and
every tensor that crosses a stage boundary is stored divided by its bound. The margin widens what was seen:
signed intervals by margin * width on each side, positive ones (sums, variances) by the factor exp(margin *
min(max(2, log(hi/lo)), 6)), bounds by 1 + 2 * margin. The fits widen their domain once more (`approx.spec.MARGIN`).

Padded rows need no runs of their own when the client pads with copies of row 0 (`checkpoint.pad_hidden`):
their values are row 0's. Given hidden states are recorded with all their rows, whatever the padding holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.row_estimate import RowEstimate
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.embed import Text, tokenize
from tacita.errors import InputError, PlanError
from tacita.models.bert import reference
from tacita.plan.ranges import ROUNDS, Interval, Ranges
from tacita.plan.rows import Rows, RowSamples, estimates
from tacita.plan.temper import choose_temperatures, tempered

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)
Progress = Callable[[int, int], None]

MARGIN = 0.1
FALL = 5.0  # margins more below the scores after a row estimate, which is too large on rows unlike the samples
RISE = 5.0  # margins (nats) more above the means after one: 1/x diverges there and only saturates below
MAX_TEXT_BYTES = 16 << 20


@dataclass(frozen=True)
class LayerCalibration:
    """Intervals (lo, hi) and bounds (largest magnitude) of one encoder layer, margin included.

    input: bound of x. scores: scaled scores, excluded keys too. shift: subtracted before exp (upper end of
    scores). sums: row sums of exp(score - shift) over real keys. mixed: bound of |sum_j exp(score_ij -
    shift) V_j|. means, mixed_mean: the same with weights 1/n for n real keys in place of 1, for a mask that
    holds 1/n (softmax is the same, the interval is narrower); means[k] is of exp((score - shift) / 2^k),
    for k square-and-normalise rounds. context: bound after normalisation. centred1/2: bound of the
    LayerNorm input minus its mean. variance1/2: with epsilon. norm1: bound of the first LayerNorm's result.
    activation: interval of its input. density: share of its inputs in equal parts of that interval.
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

    samples: inputs measured. rows: token rows measured. layers: one per encoder layer. pooler: interval of
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
    texts are not) and over given samples; record, widen.

    tokens: the plan's token count; longer texts are cut at word boundaries. progress: called with (done,
    total). row_estimates: whether the circuit can take row estimates from its scores; then they are fitted where they are
    worth it. temper: whether peaked heads may be tempered; a circuit that takes each row's largest score need not. Cost:
    one float64 forward pass a sample, one more for estimates, one or two more for tempering.
    Errors: InputError, CheckpointError, PlanError (bad margin, no sample).
    """
    if not 0.0 <= margin <= 1.0:
        raise PlanError(f"calibrate: margin {margin}", hint="it is a share of the interval, from 0 to 1")
    if texts is None and not hidden_states:
        texts = load_texts()
    chosen = list(texts or ())
    if not chosen and not hidden_states:
        raise PlanError("calibrate: no sample", hint="pass texts or hidden states")
    config, samples = checkpoint.config, _Samples(checkpoint, tokens, chosen, hidden_states)
    ranges, rows = _measure(checkpoint, samples, progress, row_estimates)
    temperatures = choose_temperatures(ranges, config) if temper else ((1.0,) * config.heads,) * config.layers
    if (model := tempered(checkpoint, temperatures)) is not checkpoint:
        ranges, rows = _measure(model, samples, progress, row_estimates)
    return _widened(checkpoint, ranges, margin, samples, temperatures, rows)


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
class _Samples:
    """Texts and given states as (hidden, mask) pairs, embedded again at each walk."""

    checkpoint: Checkpoint
    tokens: int
    texts: Sequence[Text]
    given: Sequence[Sample]

    def __len__(self) -> int:
        return len(self.texts) + len(self.given)

    def __iter__(self) -> Iterator[Sample]:
        for text in self.texts:
            fitting = _cut(self.checkpoint, text, self.tokens)
            yield embed(self.checkpoint, fitting, len(tokenize(self.checkpoint, fitting)[0]))
        yield from self.given


def _measure(model: Checkpoint, samples: _Samples, progress: Progress | None, estimate: bool) -> tuple[Ranges, Rows]:
    """Ranges and, if wanted and worth it, the row estimates that they are after."""
    ranges, heads = Ranges(model.config.heads), model.config.heads
    none: Rows = (None,) * model.config.layers
    if not estimate:
        _pass(model, samples, progress, ranges)
        return ranges, none
    seen = RowSamples(model)
    _pass(model, samples, progress, ranges, seen)
    rows = seen.fit()
    if rows != none:
        _pass(model, samples, progress, ranges := Ranges(heads, lambda name, x: estimates(model, rows, name, x)))
    return ranges, rows


def _pass(model: Checkpoint, samples: _Samples, progress: Progress | None, *seeing: Ranges | RowSamples) -> None:
    def record(name: str, value: Array) -> None:
        for collector in seeing:
            collector.see(name, value)

    for done, (hidden, mask) in enumerate(samples, 1):
        for collector in seeing:
            collector.start(mask)
        reference(model, hidden, mask, record)
        if progress is not None:
            progress(done, len(samples))


def _cut(checkpoint: Checkpoint, text: Text, tokens: int) -> Text:
    """The text without the last words that do not fit; a pair is refused by `embed` rather than cut."""
    if not isinstance(text, str):
        return text
    words = text.split()
    while (excess := len(tokenize(checkpoint, " ".join(words))[0]) - tokens) > 0 and len(words) > 1:
        words = words[: max(1, len(words) - max(1, excess // 4))]
    return " ".join(words)


def _widened(
    checkpoint: Checkpoint,
    ranges: Ranges,
    margin: float,
    samples: _Samples,
    temperatures: tuple[tuple[float, ...], ...],
    rows: Rows,
) -> Calibration:
    config = checkpoint.config
    return Calibration(
        sha256=checkpoint.sha256,
        margin=margin,
        samples=len(samples),
        rows=ranges.rows,
        layers=tuple(_layer(ranges, f"layer{i}.", margin, row) for i, row in enumerate(rows)),
        pooler=_signed(ranges.interval("pooler_input"), margin) if config.pooling == "pooler" else None,
        answer=ranges.bound("logits") * (1.0 + 2.0 * margin),
        temperatures=temperatures,
        row_estimates=rows,
    )


def _layer(ranges: Ranges, name: str, margin: float, row: RowEstimate | None) -> LayerCalibration:
    def bound(key: str) -> float:
        return ranges.bound(name + key) * (1.0 + 2.0 * margin)

    scores = _signed(ranges.interval(f"{name}scores"), margin)
    if row is not None:
        scores = scores[0] - FALL * margin * (scores[1] - scores[0]), scores[1]
    shift, activation = scores[1], _signed(ranges.interval(f"{name}activation_input"), margin)
    return LayerCalibration(
        input=bound("input"),
        scores=scores,
        shift=shift,
        sums=_positive(_exp(ranges.interval(f"{name}log_sum_exp"), shift), margin),
        mixed=math.exp(ranges.interval(f"{name}log_mixed")[1] - shift) * (1.0 + 2.0 * margin),
        means=tuple(_means(ranges, name[:-1], k, shift, margin, row) for k in ROUNDS),
        mixed_mean=math.exp(ranges.interval(f"{name}log_mixed_mean")[1] - shift) * (1.0 + 2.0 * margin),
        context=bound("context"),
        pre_norm1=bound("pre_norm1"),
        centred1=bound("centred1"),
        variance1=_positive(ranges.interval(f"{name}variance1"), margin),
        norm1=bound("norm1"),
        activation=activation,
        density=ranges.density(name[:-1], activation),
        hidden=bound("activation"),
        pre_norm2=bound("pre_norm2"),
        centred2=bound("centred2"),
        variance2=_positive(ranges.interval(f"{name}variance2"), margin),
        output=bound("output"),
    )


def _means(ranges: Ranges, layer: str, k: int, shift: float, margin: float, row: RowEstimate | None) -> Interval:
    """Of exp((score - shift) / 2^k) over the real keys of a row."""
    low, high = _positive(_exp(ranges.log_mean(layer, 0.5**k), shift / 2**k), margin)
    return low, high * math.exp(RISE * margin if row else 0.0)


def _exp(logs: Interval, shift: float) -> Interval:
    return math.exp(logs[0] - shift), math.exp(logs[1] - shift)


def _signed(interval: Interval, margin: float) -> Interval:
    lo, hi = interval
    pad = margin * max(hi - lo, np.finfo(np.float64).eps)
    return lo - pad, hi + pad


def _positive(interval: Interval, margin: float) -> Interval:
    lo, hi = interval
    factor = math.exp(margin * min(max(2.0, math.log(hi / lo)), 6.0))
    return lo / factor, hi * factor


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
