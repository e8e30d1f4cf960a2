"""The first step of a plan: a model, what is asked of its plan, and what sample inputs show of it.

subject = Subject(model, PlanRequest(tokens=16), phases)
subject.survey(shape).calibration      # intervals of every node, measured once for all packings alike
subject.samples                        # inputs on which a placed circuit is tried
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

from tacita.approx.fit import Interval
from tacita.blocks.shapes import function_of
from tacita.checkpoint import Checkpoint, embed, pad_hidden
from tacita.errors import InputError
from tacita.layouts.registry import QUADRATIC, Shape
from tacita.layouts.registry import shapes as shapes_of
from tacita.models.registry import Config, nodes
from tacita.packings.executor import beginning
from tacita.packings.lowering import graph_of, in_slots
from tacita.planning.calibrate.calibrate import CalibrationOptions, Sample, Survey, survey, texts_for
from tacita.planning.calibrate.excesses import FIFTHS, held_out
from tacita.planning.calibrate.walk import Samples, trimmed, weights_of
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import draw
from tacita.plans.scheme import BUMBLEBEE, lie_side_by_side, scheme_named
from tacita.progress import Phases, Progress
from tacita.texts.embed import Text
from tacita.texts.embedding import MAX_CLASSES
from tacita.texts.task import SEARCH

TRIALS = 3  # samples on which `sim` predicts the noise of the answer of one text
BATCHED = 16  # samples on which the noise of a batch is predicted, whose ciphertexts hold as many at no cost
FIRST_ROWS = 1, 2, 4  # of a text: beginnings on which plans of steps are calibrated
TRIED = 100  # samples whose error by approximations alone is predicted: a long tail, a tenth of a second each
QUICK = 10  # the same where nothing is encrypted
NUMBERS = 24  # of answers that show their noise
Input = TypeVar("Input")


@dataclass(frozen=True)
class Subject:
    """What plans of all schemes start from: a model, what is asked of it, and what was measured of it so far.

    processes: that calibrate on many texts, see `planning.calibrate.walk`. The salt is drawn here, once for
    all schemes.
    """

    model: Checkpoint
    request: PlanRequest
    phases: Phases
    processes: int = 1
    salt: str = field(default_factory=draw, repr=False)
    _surveys: dict[tuple[Any, ...], Survey] = field(default_factory=dict)

    def on(self, scheme: str, packing: str | None) -> Subject:
        """Returns a copy for one scheme and one of its packings, by default its first. Formats are two
        parties' alone."""
        formats = self.request.formats if scheme == BUMBLEBEE else None
        request = replace(self.request, scheme=scheme, packing=packing, formats=formats)
        return replace(self, request=request)

    def admitted(self) -> Subject:
        """Returns a copy with the model as circuits take it. Raises InputError for an option that it cannot
        have."""
        count = self.model.config.outputs
        if self.model.config.problem == SEARCH and count > MAX_CLASSES:
            raise InputError(
                f"{count} documents, ciphertexts score at most {MAX_CLASSES}", hint="take --scheme bumblebee"
            )
        for option in self.request.options:
            option.admit(self.model)
        return replace(self, model=in_slots(self.model))

    def survey(self, shape: Shape, more: int = 0) -> Survey:
        """Intervals for a packing, measured when first asked for: some take row estimates from their
        scores. more: rounds of every softmax beyond what its scores ask for."""
        estimates, reaches = shape.rules.row_estimates, self._reaches()
        rounds, inside = self.request.variants.rounds, self.inside(shape)
        together = self._together(shape)
        key = estimates, rounds, more, inside, tuple(reaches), shape.step, together
        if key not in self._surveys:
            self.phases.enter("calibrate", "batch" if estimates == QUADRATIC else "rows")
            options = CalibrationOptions(
                row_estimates=estimates,
                rounds=rounds,
                more=more,
                inside=inside,
                reaches=reaches,
                texts=together,
                progress=self.phases.part,
                processes=self.processes,
            )
            request, states = self.request, self.request.hidden_states
            texts = request.texts if states else self._texts
            if shape.step:
                whole = Samples.of(self.model, request.tokens, texts or (), states)
                states = (*states, *_beginnings(whole))
                options = replace(options, owners=_owners(len(whole)))
            self._surveys[key] = survey(
                self.model, request.tokens, texts, hidden_states=states, options=options
            )
        return self._surveys[key]

    def inside(self, shape: Shape) -> frozenset[str]:
        """Attentions whose exponentials stay inside a stage: those of all tokens, where a packing has any."""
        steps = graph_of(self.model.config, shape.tokens).steps if shape.rules.inside else ()
        return frozenset(s.name for s in steps if s.op == "attention" and s.output.shape[0] > 1)

    def _together(self, shape: Shape) -> int:
        """How many texts a request has at most, those side by side among them. shape: with a single lane."""
        config, inputs = self.model.config, self.request.inputs
        beside = lie_side_by_side(shape.packing, config.task)
        return min(inputs or 1, shapes_of(shape, config.heads, inputs, beside=beside)[0].texts)

    def _reaches(self) -> dict[str, Interval]:
        """Returns, by node, the interval where its function is right whatever calibration says."""
        kinds = {name: function_of(node) for name, node in nodes(self.model.config).items()}
        reaches = {name: self.request.variants.reach(kind) for name, kind in kinds.items() if kind}
        return {name: interval for name, interval in reaches.items() if interval}

    @cached_property
    def samples(self) -> Sequence[Sample]:
        """The first inputs that fit, BATCHED at most (one if quick), on which `sim` predicts the error of the
        answer: as the options take them."""
        chosen = iter(self.request.hidden_states or _fitting(self.model, self._texts, self.request.tokens))
        for option in self.request.options:
            chosen = option.samples(self.model, chosen)
        return list(islice(chosen, 1 if self.request.quick else BATCHED))

    @property
    def error_inputs(self) -> tuple[Iterator[Sample], int]:
        """Inputs on which the error by approximations is predicted, none where an option leaves that to the
        simulation; and how many they are, those among them that do not fit."""
        if not all(option.by_approximations for option in self.request.options):
            return iter(()), 0
        most = QUICK if self.request.quick else TRIED
        if states := self.request.hidden_states:
            chosen = _spread(states, most, len(self.request.texts or ()))
            return iter(chosen), len(chosen)
        texts = _spread(self._texts, most)
        return _embedded(self.model, texts, self.request.tokens), len(texts)

    @property
    def label(self) -> str:
        """The name behind those of its phases."""
        return phase_label(self.request.scheme_name, self.request.packing)

    @property
    def _texts(self) -> Sequence[Text]:
        return texts_for(self.model) if self.request.texts is None else self.request.texts


def _beginnings(whole: Samples) -> Iterator[Sample]:
    """Yields the first rows of every sample: requests of a text that is asked row by row, whose means are
    over the rows so far. They follow the samples in the order of `_owners`."""
    count, each = len(whole), list[list[Sample]]()
    for sample in whole.at(range(count)):
        parts = (trimmed(beginning(sample, rows)) for rows in FIRST_ROWS)
        each.append([(hidden.copy(), mask.copy()) for hidden, mask in parts])  # apart from the whole's memory
    behind = _owners(count)[count:]
    for place, text in enumerate(behind):
        yield each[text][place * len(FIRST_ROWS) // len(behind)]


def _owners(count: int) -> tuple[int, ...]:
    """Returns the text of each of so many samples and of their beginnings. Those of a text have its own
    remainder by FIFTHS, with some twice: by that intervals are tested, and on no text that had a part in
    them."""
    turn = -(-count // FIFTHS) * FIFTHS
    places = [place % turn for place in range(count, count + turn)]
    texts = [at if at < count else (at - FIFTHS) % count for at in places]
    return (*range(count), *texts * len(FIRST_ROWS))


def _fitting(model: Checkpoint, texts: Sequence[Text], tokens: int) -> Iterator[Sample]:
    """Embeds the texts that fit; where none does, the first rows of the first that the model has positions
    for."""
    fitting = _embedded(model, texts, tokens)
    first = next(fitting, None)
    if first is not None:
        yield first
        yield from fitting
        return
    for hidden, mask in islice(_embedded(model, texts, model.config.positions), 1):
        yield pad_hidden(hidden[:tokens][mask[:tokens] > 0.0], tokens)


def _embedded(model: Checkpoint, texts: Sequence[Text], tokens: int) -> Iterator[Sample]:
    for text in texts:
        try:
            yield embed(model, text, tokens)
        except InputError:  # too long: calibration cut it, the prediction takes the next
            continue


def _spread(inputs: Sequence[Input], most: int, before: int = 0) -> list[Input]:
    """Picks at most so many evenly spaced inputs, of those held out of calibration where any are. before:
    samples of it that stand before these."""
    held = [number - before for number in held_out(before + len(inputs)) if number >= before]
    numbers = held or range(len(inputs))
    return [inputs[i] for i in numbers[:: -(-len(numbers) // most)]]


def draws_of(config: Config, request: PlanRequest, samples: int) -> int:
    """How often noise is drawn for so many samples: until their answers have NUMBERS; once if quick."""
    return 1 if request.quick else max(1, -(-NUMBERS // (max(1, samples) * config.outputs)))


# Progress of planning: seconds of each phase on the default model at full size, with CALIBRATED texts. Of
# other models they are as many times more as a pass of floats is, by what it took on one of 6 layers, too.
CALIBRATED = 193
ONE: Mapping[str, float] = {"calibrate": 0.6, "fit": 0.2, "place": 0.2, "simulate": 1.5, "predict": 0.35}
BATCH: Mapping[str, float] = {"calibrate": 0.6, "fit": 0.2, "place": 19.0, "simulate": 1.4, "predict": 0.35}
LAYER, WEIGHT = 0.9e-3, 2.2e-9  # seconds of such a pass by layers and by weights


def phases_of(
    progress: Callable[[Progress], None],
    schemes: Sequence[str],
    model: Checkpoint | None = None,
    request: PlanRequest | None = None,
) -> Phases:
    """Returns the phases of planning `schemes`, one after the other; each kind of them is calibrated before
    its first. schemes: names, each with a packing behind it or alone. model, request: what their work is
    counted by."""
    factors = _factors(model, request) if model and request else {}
    phases: dict[str, float] = {}
    for scheme in schemes:
        kind, shares = _shares(scheme.partition(" ")[0])
        for phase, seconds in shares.items():
            name = f"{phase} {kind if phase == 'calibrate' else scheme}"
            phases.setdefault(name, seconds * factors.get(phase, 1.0))
    return Phases(progress, list(phases.items()))


def _factors(model: Checkpoint, request: PlanRequest) -> Mapping[str, float]:
    """Returns by phase how many times more work it is than of the default model at full size."""
    texts = request.texts if request.texts is not None else () if request.hidden_states else texts_for(model)
    samples, layers = len(texts) + len(request.hidden_states), model.config.layers
    size = (layers * LAYER + weights_of(model) * WEIGHT) / (2 * LAYER + 4e5 * WEIGHT)
    return {
        "calibrate": size * samples / CALIBRATED,
        "fit": layers / 2,
        "place": layers / 2,
        "simulate": size * request.tokens / 128 / (5 if request.quick else 1),
        "predict": size * min(samples, QUICK if request.quick else TRIED) / TRIED,
    }


def phase_label(scheme: str, packing: str | None) -> str:
    """Names the phases of a scheme on one of its packings."""
    return f"{scheme} {packing}" if packing else scheme


def _shares(scheme: str) -> tuple[str, Mapping[str, float]]:
    """What is calibrated for a scheme, and its phases: two parties fit and place nothing."""
    if scheme == BUMBLEBEE:
        return BUMBLEBEE, {"calibrate": ONE["calibrate"]}
    return ("batch", BATCH) if scheme_named(scheme).several else ("rows", ONE)
