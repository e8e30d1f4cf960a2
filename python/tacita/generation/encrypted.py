"""Next tokens from ciphertexts: the client encrypts the whole text, the server runs the decoder on it, the
client decrypts the logits and chooses.

    request:   all tokens so far, padded to the plan's, encrypted: the server learns neither text nor length
    response:  the logits of the next token, or which token is the likeliest and nothing else

Nothing is kept between two tokens, so each costs what the first does, and one request shape serves for any
length. With a cache the server keeps rows of earlier tokens: `cached`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacita.api import classify_locally
from tacita.checkpoint import Checkpoint
from tacita.generation.cached import Ask, cached_in_the_clear, cached_privately
from tacita.generation.request import Request
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.public_folder import public_of
from tacita.schemes.base import CLEAR, Place, Report, no_bar, silent
from tacita.schemes.registry import scheme_of
from tacita.texts.answer import Answer
from tacita.texts.embed import embedded
from tacita.texts.generation import Choice

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shown:
    """Callbacks that report on generation on ciphertexts. plan: progress of planning. cost: called once, with
    what all tokens will take. bar: opens a progress bar for a step by its title (`schemes.base.Place`)."""

    plan: Report = silent
    cost: Report = silent
    bar: Callable[[str], AbstractContextManager[Report]] = no_bar


SILENT = Shown()


class Encrypted:
    """A `texts.generation.Source` on ciphertexts. model: the client's part of it, its tables of words and
    positions. step: to which logits are rounded."""

    near: tuple[int, ...] = ()

    def __init__(self, model: Checkpoint, ask: Ask, choice: Choice, step: float) -> None:
        self._model, self._ask, self._choice, self._step = model, ask, choice, step
        self._ids: list[int] = []
        self._chance, self.sound = np.random.default_rng(choice.seed), True

    def first(self, prompt: Sequence[int]) -> int:
        self._ids = list(prompt)
        return self._choose()

    def next(self, token: int) -> int:
        self._ids.append(token)
        return self._choose()

    def _choose(self) -> int:
        answer = self._ask(embedded(self._model, self._ids, [0] * len(self._ids)))
        self.sound = self.sound and answer.trusted
        logits = answer.anyway.vector
        chosen = self._choice.of(logits, self._chance)
        self.near = self._choice.near(logits, chosen, self._step)
        return chosen


@contextmanager
def asking(plan: Plan, model: Checkpoint, request: Request, shown: Shown) -> Iterator[Ask]:
    """Yields an `Ask` for one text after another on the plan's circuit; ckks works in a temporary folder.
    With a cache each text must begin with the one before it. Raises ResourceError."""
    if request.backend in CLEAR:
        yield (
            cached_in_the_clear(plan, model, request.backend)
            if plan.kept
            else partial(_in_the_clear, plan, model, request.backend)
        )
        return
    with tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        place = Place(Path(folder), allow_insecure=request.allow_insecure, bar=shown.bar)
        yield _privately(plan, model, place)


def _in_the_clear(plan: Plan, model: Checkpoint, backend: str, rows: Array) -> Answer:
    return classify_locally(plan, model, hidden_states=rows, backend=backend)


def _privately(plan: Plan, model: Checkpoint, place: Place) -> Ask:
    """Makes keys and returns an `Ask` that plays both sides on files of the place."""
    scheme, files, insecure = scheme_of(plan.scheme), Workdir(place.folder), place.allow_insecure
    client = scheme.client(public_of(plan, model), files, allow_insecure=insecure, one_user=True)
    options = {"threads": place.threads, "memory": place.memory, "allow_insecure": insecure}
    server = scheme.server(plan, model, files, **options)
    with place.bar("keygen") as report:
        client.keygen(report)
    if plan.kept:
        return cached_privately(client, server, place)

    def ask(rows: Array) -> Answer:
        client.encrypt(hidden_states=rows)
        with place.bar("evaluate") as report:
            server.evaluate(report)
        answer: Answer = client.decrypt()
        return answer

    return ask
