"""Next tokens from a model that is not encrypted: in floats, or in the integers of two parties.

Both keep what was computed of earlier tokens (`blocks.sequence`), so a step walks over one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.floats import FloatTensors
from tacita.blocks.sequence import Past
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.models.registry import forward
from tacita.planning.calibrate.walk import prefix_rows
from tacita.texts.embed import embedded, pad_hidden
from tacita.texts.generation import Choice
from tacita.two_party.model import share_prefix, simulation
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.run import Past as Shares

Array = NDArray[np.float64]


class Walker(Protocol):
    """A model that remembers the rows that it was given. sound: see `Source`."""

    sound: bool

    def begin(self, ids: Sequence[int]) -> None:
        """Starts the text with public tokens, before the first rows."""

    def logits(self, rows: Array, mask: Array) -> Array:
        """Returns the logits (vocab,) of the token behind these rows (new tokens, hidden). mask: of all rows
        so far."""


class Floats:
    """A `Walker` in floats, which define what the model means."""

    sound = True

    def __init__(self, model: Checkpoint) -> None:
        self._model, self._weights, self._past = model, Weights(model.tensors), Past[Array]()

    def begin(self, ids: Sequence[int]) -> None:
        self._past = prefix_rows(self._model, ids)

    def logits(self, rows: Array, mask: Array) -> Array:
        ops = FloatTensors(self._weights, mask, past=self._past)
        logits: Array = forward(TensorBlocks(ops), self._model.config, rows)[0]
        self._past = ops.past
        return logits


class Whole:
    """A `Walker` in the integers that two parties' shares add up to."""

    def __init__(self, model: Checkpoint, plan: TwoPartyPlan) -> None:
        self._plan, self._weights, self._past = plan, Weights(model.tensors), Shares()
        self._model, self.sound = model, True

    def begin(self, ids: Sequence[int]) -> None:
        """Starts the text with keys and values that the party with the model computes in floats and
        encodes."""
        self._past = share_prefix(self._plan, prefix_rows(self._model, ids).nodes, whole=True)

    def logits(self, rows: Array, mask: Array) -> Array:
        run = simulation(self._plan, self._weights, mask, self._past)
        logits: Array = run.floats(rows)[0]
        self._past, self.sound = run.past, self.sound and not run.overflows
        return logits


class Clear:
    """A `texts.generation.Source` without encryption. begin: public tokens before every prompt. slots: rows
    of the prompt, padding included; None for as many as it has tokens."""

    near = ()  # its logits are not rounded

    def __init__(
        self,
        model: Checkpoint,
        walker: Walker,
        choice: Choice,
        begin: Sequence[int] = (),
        slots: int | None = None,
    ) -> None:
        self._model, self._walker, self._choice, self._slots = model, walker, choice, slots
        self._begin, self._chance = begin, np.random.default_rng(choice.seed)
        self._mask, self._position = np.ones(len(begin)), len(begin)

    @property
    def sound(self) -> bool:
        return self._walker.sound

    def first(self, prompt: Sequence[int]) -> int:
        if self._begin:
            self._walker.begin(self._begin)
        rows, mask = pad_hidden(self._embedded(prompt), self._slots or len(prompt), left=True)
        return self._choose(rows, mask)

    def next(self, token: int) -> int:
        return self._choose(self._embedded([token]), np.ones(1))

    def _embedded(self, ids: Sequence[int]) -> Array:
        rows = embedded(self._model, list(ids), [0] * len(ids), self._position)
        self._position += len(ids)
        return rows

    def _choose(self, rows: Array, mask: Array) -> int:
        self._mask = np.concatenate([self._mask, mask])
        return self._choice.of(self._walker.logits(rows, self._mask), self._chance)
