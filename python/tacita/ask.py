"""Answers texts in one line of Python: the plan is made at the first call and cached for the next ones.

>>> import tacita
>>> texts = ["a film of quiet beauty", "a waste of time"]
>>> small = {"tokens": 16, "preset": "insecure_toy_n11", "texts": texts}    # for seconds in place of minutes
>>> tacita.classify("a film of quiet beauty", backend="sim", **small)
Classes('positive', privacy='none: sim encrypts nothing')
>>> [answer.label for answer in tacita.classify(texts, backend="plain", **small)]
['positive', 'negative']

The last few plans stay in the memory of the process, by the hash of the model and the plan request. They are
written to no file: a plan has a salt that belongs into its server's folder, and a file would have to be
removed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, Unpack, cast, overload

from tacita.api import Model, choose_plan, classify_batch_locally, load
from tacita.bar import reporting
from tacita.checkpoint import Checkpoint
from tacita.client import Answer
from tacita.data import DEFAULT_MODEL
from tacita.errors import InputError
from tacita.planning.request import Fields, PlanRequest, require_fields
from tacita.plans.scheme import AUTO
from tacita.schemes.base import (
    CLEAR,
    REAL,
    AnyPlan,
    Place,
    Report,
    cost_of,
    require_allowed,
    warn_unprotected,
)
from tacita.schemes.registry import scheme_of
from tacita.texts.answer import Classes, Regression, Several
from tacita.texts.embed import Text
from tacita.texts.fill import Fill
from tacita.texts.spans import Extract, Tags
from tacita.texts.task import require_kind
from tacita.texts.vectors import Embedding, Search

CACHED_PLANS = 4
A = TypeVar("A", bound=Answer)
V = TypeVar("V")  # of answers
Labelled: TypeAlias = Classes | Several | Regression  # by the problem that the model's folder names
Texts = list[str] | list[tuple[str, str]] | list[Text]


class How(Fields, total=False):
    """The keywords of a call: the fields of a plan request, and those that `classify` describes."""

    scheme: str
    backend: str
    allow_insecure: bool
    progress: Report | None


class Verb(Protocol[V]):
    """A function that asks a model: a text for an answer, or each text of a list."""

    @overload
    def __call__(self, text: Text, *, model: Model = ..., **how: Unpack[How]) -> V: ...
    @overload
    def __call__(self, text: Texts, *, model: Model = ..., **how: Unpack[How]) -> list[V]: ...


def _verb(kind: type[Answer], name: str, about: str) -> Any:
    """Returns the function of a verb, a key of `texts.task.GIVES`. kind: the class of its answers. about: its
    docstring."""

    def ask(text: Text | Texts, *, model: Model = DEFAULT_MODEL, **how: Unpack[How]) -> Any:
        return _ask(kind, name, model, text, how)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = about
    return ask


classify: Verb[Labelled] = _verb(
    Answer,
    "classify",
    """Labels a text, or each text of a list. Nothing is encrypted unless the backend is "ckks": an answer's
    `privacy` says what protected it, and a call that names no backend warns (`PrivacyWarning`).

    backend: "sim" (default) computes what encryption would answer, noise included, and "plain" the circuit
    without noise. "ckks" encrypts, with both sides on this machine: keys are made in a temporary folder for
    the call, or under bumblebee a server of its own is asked over TLS. `tacita.connect` asks another
    machine's server.
    allow_insecure: admits presets below 128 bits there. scheme: default thor; it and the other keywords are
    the fields of `PlanRequest`. progress: called with reports, of which under "ckks" the first says what the
    call will take; by default they move a bar on stderr where that is a terminal or a notebook.

    Cost: at the first call some 15 s for the plan at full size; on plain and sim seconds a text; encrypted
    what the first report says, with the default plan about 10 GB of memory, 2 GB of disk and a minute.
    Raises InputError (also for a model without labels: see `embed`), PlanError for insecure presets,
    ResourceError.
    """,
)
embed: Verb[Embedding] = _verb(
    Embedding,
    "embed",
    """Embeds texts by a model without labels: an answer's `vector` has shape (outputs,), and `similarity`
    compares two answers. Keywords and errors are those of `classify`.""",
)
search: Verb[Search] = _verb(
    Search,
    "search",
    """Scores the documents of a model (`checkpoint.documents`) for texts: the answer's `scores`, the nearest
    first. Keywords and errors are those of `classify`.""",
)
tag: Verb[Tags] = _verb(
    Tags,
    "tag",
    """Marks spans of texts by a token classifier: the answer's `spans`, and all its `tokens`. Keywords and
    errors are those of `classify`.""",
)
fill: Verb[Fill] = _verb(
    Fill,
    "fill",
    """Fills the masks of texts by a masked language model: the answer's `masks`, each with its `best` pieces.
    Keywords and errors are those of `classify`.""",
)


def answer(question: str, context: str, *, model: Model, **how: Unpack[How]) -> Extract:
    """Answers a question by a part of its context: the answer's `span`. model: for extractive question
    answering. Keywords and errors are those of `classify`."""
    extract = _ask(Extract, "answer", model, (question, context), how)
    assert not isinstance(extract, list)  # one pair was asked
    return extract


@dataclass(frozen=True)
class _Call:
    """A call, equal to another where weights, configuration and request are: then its plan is."""

    sha256: str
    request: PlanRequest
    model: Checkpoint = field(compare=False)
    backend: str = field(compare=False)
    allow_insecure: bool = field(compare=False)
    progress: Report | None = field(compare=False)

    @staticmethod
    def of(model: Model, how: How) -> _Call:
        """Makes a call of a model and keywords. Raises CheckpointError, InputError, TypeError for an unknown
        keyword."""
        loaded = model if isinstance(model, Checkpoint) else load(model)
        fields: dict[str, Any] = {"backend": "sim", "allow_insecure": False, "progress": None, **how}
        own = {name: fields.pop(name) for name in ("backend", "allow_insecure", "progress")}
        require_fields(fields, own)
        return _Call(loaded.sha256, PlanRequest(**{"scheme": "thor", **fields}), loaded, **own)


def _ask(kind: type[A], verb: str, model: Model, text: Text | Texts, how: How) -> A | list[A]:
    """Asks a text, or each of a list. kind: the class of answers that `texts.task` gives for this verb."""
    if "backend" not in how:
        warn_unprotected(verb, "sim", 4)
    answers = cast(list[A], ask_all(verb, model, text if isinstance(text, list) else [text], how))
    return answers if isinstance(text, list) else answers[0]


def ask_all(verb: str, model: Model, texts: Sequence[Text], how: How) -> list[Answer]:
    """Answers texts by a model that can be asked with this verb, a key of `texts.task.GIVES`. Raises
    InputError for a model of another kind, or no text, and what `classify` raises."""
    call = _Call.of(model, how)
    require_kind(verb, call.model.config)
    if not texts:
        raise InputError(f"{verb}: no text", hint="pass a text, or a list of them")
    _require_allowed(call)
    with reporting(call.progress, verb) as report:
        return _answered(replace(call, progress=report), texts, report)


def _answered(call: _Call, texts: Sequence[Text], report: Report) -> list[Answer]:
    if call.request.scheme_name == AUTO and call.request.inputs is None:
        call = replace(call, request=replace(call.request, inputs=len(texts)))
    call = replace(call, request=call.request.calibrated_for(texts))
    calibrated_on_arrays = bool(call.request.hidden_states)  # which have no equality to keep a plan by
    plan = _planned.__wrapped__(call) if calibrated_on_arrays else _planned(call)
    groups = [texts[at : at + plan.batch] for at in range(0, len(texts), plan.batch)]
    if call.backend == REAL:
        return _privately(plan, call, groups, report)
    clear = partial(classify_batch_locally, plan, call.model, backend=call.backend, progress=report)
    return [answer for group in groups for answer in clear(group)]


def _require_allowed(call: _Call) -> None:
    """Checks a call before its plan is made. Raises InputError for an unknown backend, PlanError for an
    insecure preset."""
    if call.backend not in (*CLEAR, REAL):
        raise InputError(f"no backend {call.backend!r}", hint=f"one of {', '.join((*CLEAR, REAL))}")
    require_allowed(call.request, call.backend, allow_insecure=call.allow_insecure)


@lru_cache(maxsize=CACHED_PLANS)
def _planned(call: _Call) -> AnyPlan:
    return choose_plan(call.model, call.request, progress=call.progress).plan


def _privately(plan: AnyPlan, call: _Call, groups: Sequence[Sequence[Text]], report: Report) -> list[Answer]:
    report(cost_of(plan, len(groups)))
    with tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        bar = partial(_bar, report)
        place = Place(Path(folder), allow_insecure=call.allow_insecure, bar=bar)
        with scheme_of(plan.scheme).private(plan, call.model, place) as private:
            return [answer for group in groups for answer in private.answer(group, "")[0]]


def _bar(progress: Report, _: str) -> nullcontext[Report]:
    return nullcontext(progress)
