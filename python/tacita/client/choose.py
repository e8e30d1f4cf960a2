"""Chooses the model and the offer of a call: those that are named, else the only model that answers so, and
the first of its offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacita.errors import InputError
from tacita.plans.scheme import AUTO
from tacita.plans.wire import Model, Models, Offer
from tacita.texts.task import GIVES, PROBLEMS, SINGLE_LABEL, TASKS, kind_of

BYTES_PER_SECOND = 125e6  # of an upload of keys, 1 Gbit/s
EITHER = ("classify", "search")  # alike where a server states no problem; its plan tells which


@dataclass(frozen=True)
class Listed:
    """The fields of a listed model that `texts.task.kind_of` reads."""

    task: str
    labels: tuple[str, ...]
    problem: str


def choose(
    models: Models, verbs: Sequence[str], model: str | None, scheme: str | None, texts: int = 1
) -> tuple[Model, Offer]:
    """Chooses a model and one of its offers. verbs: what is asked first, and kinds of models that do as well.
    scheme: "auto" for the offer by which so many texts are answered soonest, keys included. Raises
    InputError for names that the server does not offer, for no model or several that would do, and a model
    of another kind."""
    selected = _model(models, verbs, model)
    if scheme is None:
        return selected, selected.offers[0]
    if scheme == AUTO:
        return selected, min(selected.offers, key=lambda offer: seconds_of(offer, texts))
    for offer in selected.offers:
        if offer.scheme == scheme:
            return selected, offer
    raise InputError(
        f"{selected.name}: not offered under scheme {scheme!r:.60}",
        hint=f"one of {', '.join(offer.scheme for offer in selected.offers)}",
    )


def seconds_of(offer: Offer, texts: int) -> float:
    """Estimates the seconds of so many texts: keys made and sent, and as many requests as they fill."""
    once = offer.keygen_seconds + offer.keys_bytes / BYTES_PER_SECOND
    return once + -(-texts // offer.batch) * offer.seconds


def _model(models: Models, verbs: Sequence[str], name: str | None) -> Model:
    offered = [each for each in models.models if each.offers]
    names = ", ".join(each.name for each in offered) or "none"
    if name is not None:
        for each in offered:
            if each.name == name:
                return _suiting(each, verbs)
        raise InputError(f"{verbs[0]}: the server has no model {name!r:.200}", hint=f"its models: {names}")
    suiting = [each for each in offered if _suits(each, verbs)]
    if len(suiting) == 1:
        return suiting[0]
    if not suiting:
        raise InputError(f"{verbs[0]}: no model of the server answers so", hint=f"its models: {names}")
    several = ", ".join(each.name for each in suiting)
    raise InputError(
        f"{verbs[0]}: {len(suiting)} models of the server answer so", hint=f"name one: {several}"
    )


def _suiting(model: Model, verbs: Sequence[str]) -> Model:
    if not _suits(model, verbs):
        kind = _kind(model)
        gives = GIVES.get(kind, "something that this release does not know")
        raise InputError(
            f"{verbs[0]}: the model answers with {gives}, not {GIVES[verbs[0]]}",
            hint=f"ask it to {kind}" if kind else "use the server's release",
        )
    return model


def _suits(model: Model, verbs: Sequence[str]) -> bool:
    kind = _kind(model)
    return kind in verbs or (not model.problem and kind in EITHER and bool({*EITHER} & {*verbs}))


def _kind(model: Model) -> str:
    """Returns a key of `GIVES`, or "" for a task or a problem that this release does not know."""
    problem = model.problem or SINGLE_LABEL
    supported = model.task in TASKS and problem in PROBLEMS
    return kind_of(Listed(model.task, model.labels, problem)) if supported else ""
