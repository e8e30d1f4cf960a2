"""How a server makes a plan that has an option (`plans.options`): one object an option, which the planner
asks at each of its steps.

    admit     may this model have it?                samples    on which inputs the circuit is tried
    shape     which circuit is asked for             target     what an answer of those should be
    fit       approximations that it needs           state      the fields of the plan
    basis     what two parties calibrate on          admit_noise    may its logits have this noise?

A plan request makes the objects from its fields, and walks over the list of this module to do so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacita.approx import comparison
from tacita.approx.comparison import share
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.errors import InputError, PlanError, nearest
from tacita.layouts.registry import Shape
from tacita.packings.base import Circuit
from tacita.packings.executor import beginning
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import MARGIN, hidden_embedding, texts_for
from tacita.planning.calibrate.walk import Sample
from tacita.planning.fitting import Accuracy
from tacita.plans import options as stated
from tacita.plans.error import MOST_DECIMALS
from tacita.plans.plan import Plan, TensorInfo
from tacita.texts.embed import Text, tokenize
from tacita.texts.task import NEXT
from tacita.two_party.arithmetic.base import EmbeddingBounds, NormBounds
from tacita.two_party.plan.plan import EMBEDDINGS, PUBLISHED

if TYPE_CHECKING:  # which makes the objects of this module
    from tacita.planning.request import PlanRequest

Array = NDArray[np.float64]
LOGITS, TOKEN = REVEALED = ("logits", "token")
GAP = 0.1
ROOM = 0.25  # of a gap, left to noise: a comparison is fitted for the rest
CACHING = "thor"  # the scheme that keeps rows of earlier tokens
SEARCHED = 64  # texts, for samples that have a likeliest word
STEPS = 8  # rows of a sample that is asked row by row: a step is as noisy whatever is behind it


@dataclass(frozen=True)
class Basis:
    """What two parties calibrate on, and what of it their plan states. texts: None for those of the model.
    hidden_states: (states, mask) pairs. begin: ids of a public beginning. embedding: what is public of a
    hidden word table. norms: bounds of the norms behind it, by node."""

    texts: Sequence[Text] | None
    hidden_states: Sequence[Sample]
    begin: tuple[int, ...] = ()
    embedding: EmbeddingBounds | None = None
    norms: Mapping[str, NormBounds] = field(default_factory=dict)


class Option:
    """An option of a plan request; the defaults are those of one that changes nothing.

    decimals: the most that an answer is shown to. by_approximations: whether the plan's error is that of
    approximations on many texts; else that of the simulated answers alone.
    """

    decimals: ClassVar[int] = MOST_DECIMALS
    by_approximations: ClassVar[bool] = True

    @classmethod
    def of(cls, request: PlanRequest) -> Option | None:
        """Returns the option that a request asks for, or None. Raises InputError for one that no plan has."""
        raise NotImplementedError

    def admit(self, model: Checkpoint) -> None:
        """Raises InputError for a model that cannot have it."""

    def shape(self, shape: Shape) -> Shape:
        """Returns the shape of the circuit. Raises PlanError for a packing without one."""
        return shape

    def samples(self, model: Checkpoint, samples: Iterator[Sample]) -> Iterator[Sample]:
        """Returns the samples on which the circuit is tried, of those that fit."""
        return samples

    def fit(self, specs: CircuitSpecs, accuracy: Accuracy) -> CircuitSpecs:
        """Returns the specs with the approximations of the option. Raises FitError."""
        return specs

    def admit_noise(self, specs: CircuitSpecs, noise: float) -> None:
        """Raises PlanError where this noise breaks what the option states. noise: that a logit may have which
        ciphertexts compare, as a share of the range."""

    def target(self, logits: Array) -> Array | None:
        """Returns the answer wanted where the model has these logits; None where that is not decided."""
        return logits

    def bound(self, answer: float) -> float:
        """Returns the bound of an answer, from that of the model's."""
        return answer

    def state(self, circuit: Circuit, levels: Mapping[str, int]) -> dict[str, Any]:
        """Returns fields of the plan. levels: of the tensors that come in."""
        return {}

    def basis(self, model: Checkpoint, tokens: int, basis: Basis) -> Basis:
        """Returns what two parties calibrate on. Raises InputError for a model without the option there."""
        return basis

    @classmethod
    def check_circuit(cls, specs: CircuitSpecs, plan: Plan) -> Iterator[tuple[str, bool]]:
        """Yields rules of the approximations of any plan that was read, with the option or without."""
        yield from ()


@dataclass(frozen=True)
class DecisionMargin(Option):
    """The client gets the likeliest word alone. gap: between the two largest logits, from which on it is."""

    decimals = stated.CHOICE_DECIMALS
    by_approximations = False
    gap: float

    @classmethod
    def of(cls, request: PlanRequest) -> DecisionMargin | None:
        if request.reveal not in REVEALED:
            what = f"a plan that reveals {request.reveal!r:.40}"
            raise InputError(what, hint=nearest(request.reveal, REVEALED))
        if not (isfinite(request.gap) and request.gap > 0.0):
            raise InputError(f"a gap of {request.gap:g} between logits", hint="a number above 0, such as 0.1")
        if request.reveal != TOKEN and request.gap != GAP:
            what = f"a gap of {request.gap:g} between logits that the client gets"
            raise InputError(what, hint=f"reveal {TOKEN!r}, or leave the gap out")
        return DecisionMargin(request.gap) if request.reveal == TOKEN else None

    def admit(self, model: Checkpoint) -> None:
        if model.config.task != NEXT:
            hint = "the model is no decoder: leave --reveal out"
            raise InputError("a plan that reveals a token", hint=hint)

    def samples(self, model: Checkpoint, samples: Iterator[Sample]) -> Iterator[Sample]:
        """Returns those of the first `SEARCHED` that have a likeliest word."""
        first = islice(samples, SEARCHED)
        return (one for one in first if self.target(reference(model, *one).logits) is not None)

    def fit(self, specs: CircuitSpecs, accuracy: Accuracy) -> CircuitSpecs:
        """Adds the comparison of logits, which takes less than the gap."""
        fitted = comparison.fit(compared_gap(self.gap, specs.answer), accuracy.choice)
        return replace(specs, comparison=fitted)

    def admit_noise(self, specs: CircuitSpecs, noise: float) -> None:
        least = noise * sqrt(8.0) * specs.answer / ROOM  # the difference of two has sqrt(2) of it
        if self.gap < least:
            raise PlanError(
                f"a gap of {self.gap:g} between logits, whose noise may change a difference by "
                f"{least * ROOM:.2g}: more than the {self.gap * ROOM:.2g} left to it",
                hint=f"state a gap of {1.01 * least:.3g}, or take a preset with less noise",
            )

    def target(self, logits: Array) -> Array | None:
        second, first = np.sort(logits)[-2:]
        largest = np.arange(len(logits)) == int(logits.argmax())
        return np.asarray(largest, np.float64) if first - second >= self.gap else None

    def bound(self, answer: float) -> float:
        return stated.CHOSEN

    def state(self, circuit: Circuit, levels: Mapping[str, int]) -> dict[str, Any]:
        return {"gap": self.gap}

    @classmethod
    def check_circuit(cls, specs: CircuitSpecs, plan: Plan) -> Iterator[tuple[str, bool]]:
        fitted = specs.comparison
        yield "bound of the answer", plan.answer == (stated.CHOSEN if plan.gap else specs.answer)
        yield "comparison of logits", (fitted is not None) == bool(plan.gap)
        yield "gap of the comparison", fitted is None or fitted.gap == compared_gap(plan.gap, specs.answer)


@dataclass(frozen=True)
class KeptRows(Option):
    """A request is one row of a text, and the server keeps those of earlier ones (docs/decisions/0038)."""

    by_approximations = False

    @classmethod
    def of(cls, request: PlanRequest) -> KeptRows | None:
        scheme, packing = request.scheme_name, request.packing
        if request.cache and (scheme != CACHING or packing not in (None, "rows")):
            what = f"a cache with scheme {scheme}" + (f" on packing {packing!r:.40}" if packing else "")
            raise InputError(what, hint=f"rows of earlier tokens are kept by scheme {CACHING} in rows")
        return KeptRows() if request.cache else None

    def admit(self, model: Checkpoint) -> None:
        if model.config.task != NEXT:
            raise InputError("a plan with a cache", hint="the model is no decoder: leave --cache out")

    def shape(self, shape: Shape) -> Shape:
        return replace(shape, step=True)

    def samples(self, model: Checkpoint, samples: Iterator[Sample]) -> Iterator[Sample]:
        return (beginning(sample, STEPS) for sample in samples)

    def state(self, circuit: Circuit, levels: Mapping[str, int]) -> dict[str, Any]:
        fields = ((one.before, one.count, levels[one.before]) for one in circuit.kept)
        return {"kept": tuple(TensorInfo(*each, "real") for each in fields)}


@dataclass(frozen=True)
class HiddenTable(Option):
    """Two parties look words up in a table that the client never gets."""

    @classmethod
    def of(cls, request: PlanRequest) -> HiddenTable | None:
        if request.embeddings not in EMBEDDINGS:
            what = f"two-party mode: embeddings {request.embeddings!r}"
            raise InputError(what, hint=nearest(request.embeddings, EMBEDDINGS))
        return HiddenTable() if request.embeddings != PUBLISHED else None

    def shape(self, shape: Shape) -> Shape:
        """Raises PlanError: clients of ciphertexts embed their texts themselves."""
        hint = "scheme bumblebee looks words up in an encrypted table"
        raise PlanError("a hidden table of words in a plan on ciphertexts", hint=hint)

    def basis(self, model: Checkpoint, tokens: int, basis: Basis) -> Basis:
        """Calibrates on the states behind the front, which is part of the program."""
        texts = texts_for(model) if basis.texts is None else basis.texts
        embedding, norms, states = hidden_embedding(model, tokens, list(texts), MARGIN)
        return replace(basis, texts=None, hidden_states=states, embedding=embedding, norms=norms)


@dataclass(frozen=True)
class PublicBeginning(Option):
    """A text before every prompt of two parties that is no secret."""

    text: str

    @classmethod
    def of(cls, request: PlanRequest) -> PublicBeginning | None:
        return PublicBeginning(request.begin) if request.begin else None

    def shape(self, shape: Shape) -> Shape:
        """Raises PlanError: on ciphertexts a beginning is part of the model (`checkpoint.beginning`)."""
        hint = "plan a folder of `python -m bench convert --begin`; `tacita generate --begin` needs none"
        raise PlanError("a public beginning in a plan on ciphertexts", hint=hint)

    def basis(self, model: Checkpoint, tokens: int, basis: Basis) -> Basis:
        if model.config.task != NEXT or basis.hidden_states:
            hint = "it is for decoders whose embedding is published, on texts"
            raise InputError("two-party mode: a public beginning", hint=hint)
        return replace(basis, begin=tuple(tokenize(model, self.text, special=False)[0]))


# Samples are shortened before they are judged; a beginning needs texts, and a hidden table leaves none.
OPTIONS: list[type[Option]] = [KeptRows, DecisionMargin, HiddenTable, PublicBeginning]


def gap_of(reveal: str | None, gap: float) -> float:
    """Returns the gap of a file of settings where it counts, else the default: it is there for those commands
    that reveal a token (docs/decisions/0140)."""
    return gap if reveal == TOKEN else GAP


def compared_gap(gap: float, bound: float) -> float:
    """Returns the gap of the comparison of logits within a bound, as a share of their range."""
    return share((1.0 - ROOM) * gap, bound)
