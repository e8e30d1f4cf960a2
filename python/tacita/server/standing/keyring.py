"""Evaluators by client: what stays in memory between the requests of one plan.

An evaluator is a client's evaluation keys, the threads, and the encoded matrices of bootstrapping (1 GB at
N = 2^16), which are made when the first keys are loaded and shared by all clients. The circuit is kept beside
them by `planning.circuit.circuit_of`, with its weights as vectors; these are encoded in each request
(decision 19).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacita.errors import FileError, KeyMissingError, ResourceError
from tacita.plans.plan import Plan
from tacita.protocol import compiled, engine
from tacita.run.resources import GB, require_memory, resident_bytes
from tacita.server.budget import RESULTS, circuit_bytes, predicted_memory, server_bytes, working_bytes

if TYPE_CHECKING:
    from tacita._native import EvaluationKeys, Evaluator


@dataclass(frozen=True, eq=False)
class Held:
    """One client's. key_id: random, in all files of the client. nbytes: of the keys."""

    key_id: str
    evaluator: Evaluator
    nbytes: int


class KeyRing:
    """The evaluators of one plan, the latest used last, as many as a limit of memory admits: at least one.

    memory: GB that an evaluation may take, all keys included. What the plan predicts for one evaluation with
    one client's keys comes first; every client's keys are equally large, and further ones are kept in what
    is left of the limit. The keys that were used longest ago make room.
    """

    def __init__(self, plan: Plan, *, memory: float, threads: int = 0, allow_insecure: bool = False) -> None:
        self.params = engine.parameters(plan.parameters, allow_insecure=allow_insecure)
        self._plan, self._threads, self._memory = plan, threads, memory
        self._held: OrderedDict[str, Held] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def further_bytes(self) -> int:
        """Of the keys beside one client's."""
        return sum(held.nbytes for held in list(self._held.values())[1:])

    def held(self, key_id: str) -> Held | None:
        """A client's evaluator, if it is here."""
        if key_id in self._held:
            self._held.move_to_end(key_id)
        return self._held.get(key_id)

    def forget(self, key_id: str) -> None:
        """Lets go of a client's evaluator, if it is here: the next request reads a file again."""
        self._held.pop(key_id, None)

    def load(self, path: Path) -> Held:
        """Reads a file of evaluation keys. Cost: about 5 s a GB; the first keys also make what all requests
        share, and have the memory that one works in provided.

        Others make room once the file was read, so that a bad one pushes nothing out; while it is read the
        limit may be passed by one client's keys, where the machine has memory for them. Raises ResourceError
        before it starts when memory is short, KeyMissingError and FileError for another file than the plan's
        keys.
        """
        need = predicted_memory(self._plan, self._memory)
        need = next((held.nbytes for held in self._held.values()), need)
        try:
            require_memory(need, "evaluation")
        except ResourceError:
            self._make_room()
            require_memory(need, "evaluation")
        keys = self._read(path)
        self._make_room()
        self._held[keys.key_id] = found = Held(keys.key_id, self._evaluator(keys), keys.nbytes)
        return found

    def _make_room(self) -> None:
        """For one more client's keys."""
        spare = max(0, int(self._memory * GB) - server_bytes(self._plan))
        while self._held and sum(held.nbytes for held in self._held.values()) > spare:
            self._held.popitem(last=False)

    def _read(self, path: Path) -> EvaluationKeys:
        try:
            with engine.translated(FileError, str(path)):
                rotations = list(self._plan.rotations)
                load = compiled.native.EvaluationKeys.load
                return load(str(path), self.params, rotations, self._plan.coefficients)
        except FileError as error:
            raise _naming_rotations(error, self._plan) from error

    def _evaluator(self, keys: EvaluationKeys) -> Evaluator:
        for held in self._held.values():
            return held.evaluator.with_keys(keys)
        evaluator = compiled.native.Evaluator(self.params, keys, self._threads)
        evaluator.prepare(self._plan.bootstraps > 0, 0)
        evaluator.prepare(False, self._working(evaluator))
        return evaluator

    def _working(self, evaluator: Evaluator) -> int:
        """Bytes to provide for ciphertexts: what the plan predicts, and within the limit what is left when
        the circuit comes too. What is kept free for results is not provided, since what else a process comes
        to hold on the way goes there, too."""
        predicted, taken = working_bytes(self._plan, self._memory), taken_bytes(evaluator)
        if taken is None:
            return predicted
        left = max(0, int(self._memory * GB) - taken - circuit_bytes(self._plan))
        return min(predicted, left - left // RESULTS)


def taken_bytes(evaluator: Evaluator) -> int | None:
    """Bytes of this process, less those of ciphertexts that are no more; None where the system does not
    say."""
    resident = resident_bytes()
    return None if resident is None else resident - evaluator.unused_bytes


def _naming_rotations(error: FileError, plan: Plan) -> FileError | KeyMissingError:
    """The engine names keys by Galois element, 5^step mod 2N; people and plans name them by step."""
    slots = plan.parameters.slots
    steps = {pow(5, step, 4 * slots): f"of rotation by {step}" for step in range(slots)}
    text = re.sub(r"Galois\((\d+)\)", lambda found: steps.get(int(found[1]), "of conjugation"), str(error))
    kind = KeyMissingError if "keys are missing" in text else FileError
    return kind(text, hint=error.hint or "run `tacita keygen` again with this plan")
