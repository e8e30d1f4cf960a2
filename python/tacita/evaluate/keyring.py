"""Clients' keys, and how much of a memory limit ciphertexts may take, from the plan's prediction."""

from __future__ import annotations

import re
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from tacita import compiled
from tacita.errors import FileError, KeyMissingError, ResourceError
from tacita.planning.circuit import numbers_of
from tacita.plans import engine
from tacita.plans.plan import Plan
from tacita.plans.prices.formulas import file_bytes, prices_of
from tacita.resources import (
    CPU,
    GB,
    available_memory,
    device_number,
    require_memory,
    resident_bytes,
)

if TYPE_CHECKING:
    from tacita._native import EvaluationKeys, Evaluator


RESULTS = 8  # one part in so many is free for results
LEAST = 4  # one part in so many of the predicted budget is used in any case
NUMBER = 8  # bytes of a weight in a model: float64
LIMB = 8  # bytes of a residue: a double
STEP = 1 << 28  # bytes that are touched between two looks at what is free
REFRESH = 16_000  # bytes of a bootstrap while it runs, a coefficient of the ring: 1 GB at N = 2^16
# bytes of a layer's weight in a circuit, beside those of the model: its place in complex, padded diagonals
# and what the process grows by on the way. Measured, 24.7 on three layers of BERT-base's shape (21.9 million
# weights, packing rows): 18.4 of them in the diagonals
IN_CIRCUIT = 25
# bytes of a weight of a decoder's last map while it runs, encoded at a low level and over the special primes,
# and of those that are there at once: sums of larger maps are made in turn (`layouts.rotations.in_turn`)
ENCODED, ENCODED_AT_ONCE = 160, 1 << 30


def ciphertext_budget(plan: Plan, memory: float) -> int:
    """Bytes that a limit of `memory` GB leaves for ciphertexts at rest, beside keys, bootstrapping and
    process.

    An eighth of what is left is kept free for the results of the running operation, before others make room
    for them. Raises ResourceError when it leaves nothing.
    """
    fixed = fixed_bytes(plan)
    budget = int(memory * GB) - fixed
    if budget <= 0:
        raise ResourceError(
            f"evaluation within {memory:g} GB: keys and process alone need {fixed / GB:.1f} GB",
            hint="allow it more: --memory, or memory= of the Server",
        )
    return budget - budget // RESULTS


def measured_budget(predicted: int, memory: float, taken: int | None, results: int = 0) -> int:
    """The same once everything else is there. taken: bytes of this process without idle ones (None: not
    known). results: bytes that one operation's results may have, to be kept free if an eighth is less.

    A process may hold more than the plan knows of: what it planned with, another model's server. Where the
    limit leaves hardly anything, a quarter of what was predicted is used: the run goes on, and more is
    written to disk.
    """
    if taken is None:
        return predicted
    free = max(0, int(memory * GB) - taken)
    return min(predicted, max(free - max(free // RESULTS, results), predicted // LEAST))


def results_bytes(plan: Plan, group: int) -> int:
    """Returns the bytes of `group` ciphertexts that are refreshed at once: meanwhile they have about twice
    the limbs that they end with."""
    limbs = 2 * (plan.parameters.max_level + 1)
    return group * 2 * limbs * 2 * plan.parameters.slots * LIMB


def bootstraps_within(plan: Plan, memory: float, threads: int) -> int:
    """Returns how many bootstraps may run at once: of half the threads, which is as many as the engine takes
    from one call, those whose working memory a limit of `memory` GB leaves room for; at least one."""
    spare = int(memory * GB) - server_bytes(plan)
    return max(1, min(threads // 2, 1 + spare // (REFRESH * 2 * plan.parameters.slots)))


def server_bytes(plan: Plan) -> int:
    """Bytes of an evaluation without a limit: what the plan predicts, and model and circuit, whose size
    follows from the sizes of the model and so needs no place in the plan."""
    return plan.prediction.bytes["server_memory"] + circuit_bytes(plan)


def fixed_bytes(plan: Plan) -> int:
    """Returns `server_bytes` without ciphertexts: keys, bootstrapping's matrices, process, model, circuit."""
    return server_bytes(plan) - _working(plan)


def circuit_bytes(plan: Plan) -> int:
    """Bytes of the model's numbers and of the circuit built from them; BERT-base's take 2.8 GB. Raises
    PlanError for a model of no family."""
    m, front = plan.model, plan.model.embeddings
    weights, tables = numbers_of(m)
    last = m.hidden * front.vocab if front and plan.backwards else 0
    encoded = min(last * ENCODED, ENCODED_AT_ONCE)
    return weights * (NUMBER + IN_CIRCUIT) + tables * NUMBER + encoded


def predicted_memory(plan: Plan, memory: float) -> int:
    """Bytes of the evaluation's peak: the limit, or the plan's need where that is less."""
    return min(server_bytes(plan), int(memory * GB))


def working_bytes(plan: Plan, memory: float) -> int:
    """Bytes of ciphertexts that are in memory at the peak of an evaluation, by the plan's prediction; 0 where
    the limit leaves none."""
    return max(0, min(_working(plan), int(memory * GB) - fixed_bytes(plan)))


def predicted_spill(plan: Plan, budget: int) -> int:
    """Bytes of files at the peak, at most: 0 when everything fits, else one for each ciphertext, in memory or
    not."""
    working = _working(plan)
    return working if working > budget else 0


def _working(plan: Plan) -> int:
    return max(plan.prediction.stage_bytes, default=0)


@dataclass(frozen=True, eq=False)
class ClientKeys:
    """One client's evaluator. key_id: random, in all files of the client. nbytes: of the keys. mark: as of
    `KeyRing.load`."""

    key_id: str
    evaluator: Evaluator
    nbytes: int
    mark: str


class KeyRing:
    """The evaluators of one plan, the latest used last, as many as a limit of memory admits: at least one.

    memory: GB that an evaluation may take, all keys included: what the plan predicts for one client's, and
    further keys, equally large, in what is left. Those that were used longest ago make room. Weights are kept
    as vectors by `planning.circuit.circuit_of`, and encoded in each request (decision 19). device: what
    computes and keeps the keys, a name that `device_number` reads; they stay within its memory, too.
    """

    def __init__(
        self, plan: Plan, *, memory: float, threads: int = 0, allow_insecure: bool = False, device: str = CPU
    ) -> None:
        self.params = engine.parameters(plan.parameters, allow_insecure=allow_insecure)
        self._plan, self._threads, self._memory = plan, threads, memory
        self._held: OrderedDict[str, ClientKeys] = OrderedDict()
        self._shared: Evaluator | None = None
        self._making, self._asked, self._device = Lock(), False, device_number(device)
        self._slots = 0  # bytes of a device
        self._room: int | None = None  # bytes for all keys together there
        if self._device is not None:
            matrices = prices_of(plan.parameters).sizes.bootstrap_matrices if plan.bootstraps else 0
            self._slots, rest = compiled.native.opencl_room(self._device)
            self._room = max(0, rest - matrices)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def further_bytes(self) -> int:
        """Bytes of the keys beyond the first client's."""
        return sum(held.nbytes for held in list(self._held.values())[1:])

    def budget(self, ciphertexts: int) -> int:
        """Returns what of a budget for ciphertexts may be at rest where they are evaluated: on a device at
        most half of its slots, whose other half is for what operations make on the way."""
        return ciphertexts if self._room is None else min(ciphertexts, self._slots // 2)

    def held(self, key_id: str) -> ClientKeys | None:
        """A client's evaluator, if it is here."""
        if key_id in self._held:
            self._held.move_to_end(key_id)
        return self._held.get(key_id)

    def forget(self, key_id: str) -> None:
        """Lets go of a client's evaluator, if it is here: the next request reads a file again."""
        self._held.pop(key_id, None)

    def prepare(self) -> Evaluator:
        """Makes what all clients share, once: threads and the matrices of bootstrapping, which take a second
        and 1 GB at N = 2^16. Raises ResourceError, as for a device that is too small."""
        with self._making, engine.translated(ResourceError):
            if (made := self._shared) is None:
                made = compiled.native.Evaluator(self.params, threads=self._threads, device=self._device)
                made.prepare(self._plan.bootstraps > 0, 0)
                self._shared = made
        return made

    def provide(self) -> None:
        """Does before the first client comes what its request would wait for: `prepare`, and the touching of
        memory for its keys and ciphertexts. Cost: 1 to 2 processor seconds a GB. Ends early when the client
        comes, and where less would stay free for others than half of what the evaluation takes."""
        evaluator, need = self.prepare(), predicted_memory(self._plan, self._memory)
        if self._device is not None:
            return  # where keys and ciphertexts will lie
        left = 2 * file_bytes(self._plan)["evaluation_keys"]  # the other half is made of its seeds
        left += working_bytes(self._plan, self._memory)
        left = max(0, min(left, int(self._memory * GB) - (taken_bytes(evaluator) or 0)))
        evaluator.set_aside(left)
        while not self._asked and left + need // 2 < (available_memory() or 0):
            if not (done := evaluator.provide(STEP)):
                return
            left -= done

    def load(self, path: Path, mark: str = "") -> ClientKeys:
        """Reads a file of evaluation keys. mark: what tells this file from another one. Cost: about 3 s a GB;
        the first keys also wait for `prepare`, which runs meanwhile, and for the memory to work in.

        Others make room once the file was read: a bad one pushes nothing out; meanwhile the limit may be
        passed by one client's keys, where the machine has memory for them. Raises ResourceError before it
        starts when memory is short, KeyMissingError and FileError for another file than the plan's keys.
        """
        need, self._asked = self._missing(), True
        try:
            require_memory(need, "evaluation")
        except ResourceError:
            self._make_room()
            require_memory(need, "evaluation")
        with ThreadPoolExecutor(1) as meanwhile:
            shared = meanwhile.submit(self.prepare)
            keys = self._read(path)
        self._make_room(keys.nbytes)
        evaluator = self._with_keys(shared.result(), keys)
        if not self._held:
            evaluator.prepare(False, self._working(evaluator))
        self._held[keys.key_id] = entry = ClientKeys(keys.key_id, evaluator, keys.nbytes, mark)
        return entry

    def _missing(self) -> int:
        """Returns the bytes that the next client needs beyond those that are there."""
        if self._held:
            return next(iter(self._held.values())).nbytes
        there = circuit_bytes(self._plan)
        if self._shared is not None:
            there += self._shared.unused_bytes + prices_of(self._plan.parameters).sizes.bootstrap_matrices
        return predicted_memory(self._plan, self._memory) - min(there, resident_bytes() or 0)

    def _make_room(self, nbytes: int = 0) -> None:
        """Drops the least recently used keys until the limit leaves room for one more client's, and a device
        for so many bytes. Raises ResourceError, and drops none, where a device never has it."""
        spare = max(0, int(self._memory * GB) - server_bytes(self._plan))
        if self._room is not None:
            if nbytes > self._room:
                raise ResourceError(
                    f"evaluation keys of {nbytes / GB:.2f} GB, the device has {self._room / GB:.2f} for keys",
                    hint="a larger device, or --device cpu",
                )
            spare = min(spare, self._room - nbytes)
        while self._held and sum(held.nbytes for held in self._held.values()) > spare:
            self._held.popitem(last=False)

    def _with_keys(self, shared: Evaluator, keys: EvaluationKeys) -> Evaluator:
        """Returns the evaluator over a client's keys. Where a device refuses them, as others use its memory,
        too, the least recently used make room. Raises ResourceError where none is left."""
        while True:
            try:
                with engine.translated(ResourceError, "evaluation keys"):
                    return shared.with_keys(keys)
            except ResourceError:
                if not self._held:
                    raise
                self._held.popitem(last=False)

    def _read(self, path: Path) -> EvaluationKeys:
        try:
            with engine.translated(FileError, str(path)):
                rotations = list(self._plan.rotations)
                load = compiled.native.EvaluationKeys.load
                return load(str(path), self.params, rotations, self._plan.coefficients)
        except FileError as error:
            raise _naming_rotations(error, self._plan) from error

    def _working(self, evaluator: Evaluator) -> int:
        """Bytes to provide for ciphertexts: what the plan predicts, and within the limit what is left beside
        the circuit. What is kept free for results is not provided: what else a process takes goes there."""
        predicted, in_use = working_bytes(self._plan, self._memory), taken_bytes(evaluator)
        if in_use is None:
            return predicted
        free = max(0, int(self._memory * GB) - in_use - circuit_bytes(self._plan))
        return min(predicted, free - free // RESULTS)


def taken_bytes(evaluator: Evaluator) -> int | None:
    """Bytes of this process, less those of freed ciphertexts; None where the system does not say."""
    resident = resident_bytes()
    return None if resident is None else resident - evaluator.unused_bytes


def _naming_rotations(error: FileError, plan: Plan) -> FileError | KeyMissingError:
    """The engine names keys by Galois element, 5^step mod 2N; people and plans name them by step."""
    slots = plan.parameters.slots
    steps = {pow(5, step, 4 * slots): f"of rotation by {step}" for step in range(slots)}
    text = re.sub(r"Galois\((\d+)\)", lambda match: steps.get(int(match[1]), "of conjugation"), str(error))
    kind = KeyMissingError if "keys are missing" in text else FileError
    return kind(text, hint=error.hint or "run `tacita keygen` again with this plan")
