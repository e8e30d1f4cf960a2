"""Where the tokens of a text come from on this machine: a model in the clear, in floats or in the integers of
two parties, or ciphertexts.

In the clear what was computed of earlier tokens is kept, so a step walks over one row. On ciphertexts the
client encrypts, the server runs the decoder, the client decrypts the logits and chooses:

    request:   all tokens so far, padded to the plan's, encrypted: the server learns neither text nor length
    response:  the logits of the next token, or which token is the likeliest and nothing else

Under a scheme of many texts a request holds one of each; a text that has ended is in none.

Nothing is kept between two tokens then, so each costs what the first does. With a cache a request is the
newest row as a vector, and the mask of the text: the server keeps what it computed of earlier rows, and
learns how many come. A prompt is read row by row, too: n tokens and m behind them take n + m - 1 requests.
Every response is decrypted and checked, so that a row that left its ranges is seen even where nobody asks for
its logits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.api import classify_batch_locally
from tacita.blocks.floats import FloatTensors
from tacita.blocks.sequence import Past
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.client.session import embedded as latest_row
from tacita.models.registry import forward
from tacita.planning.calibrate.walk import prefix_rows
from tacita.plans.files import digest_of
from tacita.plans.plan import Plan
from tacita.schemes.base import CLEAR, Place
from tacita.schemes.ciphertexts import Sides, both_sides, row_by_row
from tacita.texts.answer import Answer
from tacita.texts.embed import embedded, pad_hidden
from tacita.texts.generation import Logits
from tacita.texts.rows import Reading
from tacita.two_party.model import share_prefix, simulation
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.run import Past as Shares

Array = NDArray[np.float64]
Ask = Callable[[Sequence[Array]], Sequence[Answer]]  # hidden states of texts -> the logits behind each


class Floats:
    """A model in floats, which define what it means, that remembers the rows that it was given. begin: public
    tokens before the first. slots: rows of the first tokens, padding included; None for as many as there are.
    """

    def __init__(self, model: Checkpoint, begin: Sequence[int] = (), slots: int | None = None) -> None:
        self._model, self._weights, self._slots = model, Weights(model.tensors), slots
        self._position, self._mask = len(begin), np.ones(len(begin))
        self._past = prefix_rows(model, begin) if begin else Past[Array]()

    def logits(self, ids: Sequence[int]) -> Logits:
        """Returns the logits of the token behind these ones, too."""
        rows = embedded(self._model, list(ids), [0] * len(ids), self._position)
        rows, mask = pad_hidden(rows, self._slots or len(ids), left=True)
        self._position, self._slots = self._position + len(ids), None
        self._mask = np.concatenate([self._mask, mask])
        return self._walk(rows)

    def _walk(self, rows: Array) -> Logits:
        ops = FloatTensors(self._weights, self._mask, past=self._past)
        logits: Array = forward(TensorBlocks(ops), self._model.config, rows)[0]
        self._past = ops.past
        return logits, True


class Integers(Floats):
    """The same model in the integers that two parties' shares add up to. Keys and values of a public
    beginning are those that the party with the model computes in floats."""

    def __init__(self, model: Checkpoint, plan: TwoPartyPlan, slots: int | None = None) -> None:
        super().__init__(model, plan.begin, slots)
        self._plan = plan
        self._shares = share_prefix(plan, self._past.nodes, whole=True) if plan.begin else Shares()

    def _walk(self, rows: Array) -> Logits:
        run = simulation(self._plan, self._weights, self._mask, self._shares)
        logits: Array = run.floats(rows)[0]
        self._shares = run.past
        return logits, not run.overflows


@contextmanager
def asking(
    plan: Plan, model: Checkpoint, backend: str, texts: int = 1, *, work: Path | None = None, **options: Any
) -> Iterator[Ask]:
    """Yields an `Ask` for up to `plan.batch` texts at a time on the plan's circuit. With a cache the texts
    are the same every time, each beginning with what it was. texts: that there are. work: folder of ckks,
    None for a temporary one. options: of the `Place`. Raises FileError, ResourceError."""
    if backend not in CLEAR:
        with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
            place = Place(Path(folder), **options)
            with both_sides(plan, model, place) as sides:
                yield _privately(plan, place, sides)
    elif plan.kept:  # one row a request
        answers = row_by_row(plan, model, backend, texts=texts)
        yield Reader(lambda each: answers([latest_row(plan, model, None, rows) for rows in each]))
    else:
        yield lambda texts: classify_batch_locally(plan, model, hidden_states=texts, backend=backend)


def _privately(plan: Plan, place: Place, sides: Sides) -> Ask:
    """Makes keys, unless the place keeps those that it has, and returns an `Ask` that plays both sides on
    files of the place."""
    (client, server), after = sides, ""
    if not (place.keep_key and client.work.secret_key.exists()):
        with place.bar("keygen") as report:
            client.keygen(report)
    server.forget()  # the rows of an earlier text

    def ask(texts: Sequence[Array]) -> Sequence[Answer]:
        nonlocal after
        request = client.encrypt_batch(hidden_states=texts, after=after)
        with place.bar(f"row {max(map(len, texts))}" if plan.kept else "evaluate") as report:
            server.evaluate(report)
        after = digest_of(request) if plan.kept else ""
        return client.decrypt_batch(len(texts))

    return Reader(ask) if plan.kept else ask


class Reader:
    """An `Ask` of texts that grow, always the same ones: reads the rows that it has not read yet, see
    `Reading`. step: the answers of texts whose rows but the last were read."""

    def __init__(self, step: Ask) -> None:
        self._step, self._reading = step, Reading()

    def __call__(self, texts: Sequence[Array]) -> list[Answer]:
        """Asks for each row that was not read yet and returns the last answers, with the warnings of all.
        texts: of `Reading.steps`."""
        for rows in self._reading.steps(texts):
            self._reading.take(self._step(rows))
        return self._reading.last
