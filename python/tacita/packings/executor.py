"""Runs a placed circuit on any backend: lowers, bootstraps and drops tensors exactly as the plan says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tacita.errors import InputError, PlanError
from tacita.layouts.runs import Answer, Sample
from tacita.packings.base import Circuit
from tacita.plans.plan import PlacedStage
from tacita.progress import Progress
from tacita.resources import in_threads
from tacita.slots.base import Backend, Ct, Cts, Kind
from tacita.slots.stage import Live, Stage

AT_ONCE = 2  # bootstraps in one call: one shares its work over two threads, more would hold more memory


@dataclass(frozen=True)
class Reached:
    """A point between two stages, from which a run can go on.

    index: stages finished. live: the tensors after them. complex_names: those with independent parts.
    """

    index: int
    live: Live
    complex_names: frozenset[str] = frozenset()


def run(
    placed: Sequence[PlacedStage],
    stages: Sequence[Stage],
    be: Backend,
    live: Live,
    *,
    predicted: Sequence[float] = (),
    progress: Callable[[Progress], None] = lambda _: None,
    inspect: Callable[[str, Live], None] = lambda _stage, _live: None,
    begin: int = 0,
    complex_names: Set[str] = frozenset(),
    at_once: int = AT_ONCE,
    reached: Callable[[Reached], None] = lambda _: None,
) -> Live:
    """The tensors after the last stage.

    live: the request's tensors, by name; taken over and emptied, so that dead ciphertexts are freed early.
    predicted: seconds of each stage, for the time left. inspect: called with the live tensors after each
    stage (tests compare layers with it). at_once: bootstraps in one call. reached: called after each stage
    but the last, with what a later run needs to go on from there: its `live`, index as `begin`,
    `complex_names`. Raises PlanError when stages and plan differ.
    """
    _require_stages(placed, stages)
    clock = _Clock(predicted or [1.0] * len(stages), begin)
    live, request = dict(live), live
    request.clear()
    for index, (step, stage) in islice(enumerate(zip(placed, stages, strict=True)), begin, None):
        progress(clock.report(stage.name, index))
        # rebound at once: what is dead now is freed before the next stage, not after it
        live, complex_names = _after(step, stage, be, live, complex_names, at_once)
        inspect(stage.name, dict(live))
        if index + 1 < len(stages):
            reached(Reached(index + 1, dict(live), frozenset(complex_names)))
    progress(clock.report("done", len(stages)))
    return live


def run_together(
    placed: Sequence[PlacedStage],
    stages: Sequence[Stage],
    requests: Sequence[tuple[Backend, Live]],
    inspect: Callable[[int, str, Live], None] = lambda _number, _stage, _live: None,
    threads: int = 1,
    again: Sequence[tuple[int, Backend]] = (),
    begin: int = 0,
) -> list[Live]:
    """The tensors after the last stage of several requests, each on a backend of its own, as `run` gives
    them.

    All go through a stage before any goes on, so the maps that a stage makes as it runs are made once, where
    few enough are kept. inspect: called after each stage with the number of a request, too. threads: that
    requests of backends in the clear are run on. again: requests by number, each with another backend that
    takes over its tensors from the stage `begin` on, and whose result follows. The live tensors of all are
    there at once; those given are taken over and emptied. Raises PlanError as `run` does.
    """
    _require_stages(placed, stages)
    backends = [be for be, _ in requests]
    lives, names = [dict(live) for _, live in requests], [frozenset[str]()] * len(requests)
    for _, request in requests:
        request.clear()
    for number, (step, stage) in enumerate(zip(placed, stages, strict=True)):
        for i, be in again if number == begin else ():
            backends.append(be)
            lives.append(dict(lives[i]))
            names.append(names[i])

        def after(i: int, step: PlacedStage = step, stage: Stage = stage) -> tuple[Live, frozenset[str]]:
            return _after(step, stage, backends[i], lives[i], names[i])

        for i, done in enumerate(in_threads(after, range(len(lives)), threads)):
            lives[i], names[i] = done
            inspect(i, stage.name, dict(lives[i]))
    return lives


def _require_stages(placed: Sequence[PlacedStage], stages: Sequence[Stage]) -> None:
    if [stage.name for stage in stages] != [step.name for step in placed]:
        raise PlanError(
            "the plan was made for other stages than this circuit has", hint="make the plan again"
        )


def _after(
    step: PlacedStage,
    stage: Stage,
    be: Backend,
    live: Live,
    complex_names: Set[str],
    at_once: int = AT_ONCE,
) -> tuple[Live, frozenset[str]]:
    """The live tensors after a stage and those with independent parts. live: those before it, changed."""
    _enter(step, be, live, complex_names, at_once)
    with be.stage(stage.name):
        outputs = stage.run(be, dict(live))
    carried = {name for name in complex_names if outputs.get(name) is live.get(name)}
    return outputs, frozenset(carried | stage.complex_outputs)


def _enter(step: PlacedStage, be: Backend, live: Live, complex_names: Set[str], at_once: int) -> None:
    """Bootstraps, then lowers, the tensors that the step names, in place; others (masks) pass."""
    if unknown := sorted({*step.bootstraps, *step.levels} - set(live)):
        raise PlanError(
            f"stage {step.name}: there is no tensor {unknown[0]!r} before it", hint="make the plan again"
        )
    if step.bootstraps:
        with be.stage(f"{step.name}/bootstrap"):
            named = {name: live[name] for name in step.bootstraps}
            live.update(refresh(be, named, complex_names, step.kinds, step.levels, at_once))
    for name, level in step.levels.items():
        live[name] = tuple(be.drop_to(ct, level) for ct in live[name])


Slot = tuple[str, int]  # tensor, number of the ciphertext


def refresh(
    be: Backend,
    tensors: Live,
    complex_names: Set[str],
    planned: Sequence[str],
    levels: Mapping[str, int] | None = None,
    at_once: int = AT_ONCE,
) -> Live:
    """All these tensors refreshed, at `levels` where given, else at the top; `at_once` bootstraps at a time.

    planned: kinds of the bootstraps as placement chose them; as many real ciphertexts as that takes go two by
    two. Raises PlanError where there are fewer of them than were planned.
    """
    wanted = dict.fromkeys(tensors, be.max_level) | dict(levels or {})
    results: dict[Slot, Ct] = {}
    groups = _groups(tensors, complex_names, planned)
    for first in range(0, len(groups), at_once):
        slots = [(slot, kind) for group, kind in groups[first : first + at_once] for slot in group]
        cts = [tensors[name][i] for (name, i), _ in slots]
        for (slot, _), ct in zip(slots, be.bootstrap(cts, [kind for _, kind in slots]), strict=True):
            results[slot] = be.drop_to(ct, wanted[slot[0]])
    return {name: tuple(results[name, i] for i in range(len(cts))) for name, cts in tensors.items()}


def _groups(
    tensors: Live, complex_names: Set[str], planned: Sequence[str]
) -> list[tuple[tuple[Slot, ...], Kind]]:
    """What goes into each bootstrap: one ciphertext, or two real ones."""
    slots = [(name, i) for name, cts in tensors.items() for i in range(len(cts))]
    whole, real = ([s for s in slots if (s[0] in complex_names) == both] for both in (True, False))
    paired = 2 * (planned.count("complex") - len(whole))
    if not 0 <= paired <= len(real):
        raise PlanError(
            f"bootstrap of {len(real)} real and {len(whole)} complex ciphertexts: kinds {list(planned)[:9]}",
            hint="make the plan again",
        )
    groups: list[tuple[tuple[Slot, ...], Kind]] = []
    groups += [(pair, "pair") for pair in zip(real[:paired:2], real[1:paired:2], strict=True)]
    return groups + [((s,), "real") for s in real[paired:]] + [((s,), "complex") for s in whole]


class _Clock:
    """Time left: predicted seconds of the remaining stages, scaled by how the finished ones turned out."""

    def __init__(self, predicted: Sequence[float], begin: int) -> None:
        self.predicted, self.begin = list(predicted), begin
        self.began = time.monotonic()

    def report(self, stage: str, index: int) -> Progress:
        spent = time.monotonic() - self.began
        done, todo = sum(self.predicted[self.begin : index]), sum(self.predicted[index:])
        remaining = todo * (spent / done if done else 1.0)
        return Progress(stage, index, len(self.predicted), spent, remaining)


# A text that is read row by row on a circuit of steps, in the clear: what one step leaves, the next takes.
#
#     steps = Steps(plan.stages, circuit, levels, be)    # be: plain or sim
#     for sample in prefixes(text):
#         answer = steps.answer(sample)                  # of the text so far
#
# On ciphertexts the server does the same with files: `evaluate.kept`.

RESPONSE = "answer"  # the live tensor after the last stage


class Steps:
    """Runs a decoder's steps in the clear, one row of a text after the other. levels: of all that comes in.
    be: a backend in the clear, which encrypts and decrypts as well. kept: of the text so far, at these
    levels; of none, zeros."""

    def __init__(
        self, stages: Sequence[PlacedStage], circuit: Circuit, levels: Mapping[str, int], be: Any
    ) -> None:
        self._stages, self._circuit, self._levels, self._be = stages, circuit, levels, be
        self.kept: Mapping[str, Cts] = {}
        self.begin()

    def begin(self) -> None:
        """Forgets the text."""
        names, be = {one.before: one.count for one in self._circuit.kept}, self._be
        zero, self._read = np.zeros(1), 0
        self.kept = {n: tuple(be.encrypt(zero, self._levels[n]) for _ in range(c)) for n, c in names.items()}

    def answer(self, sample: Sample, **how: Any) -> Answer:
        """Answers one text as `answers` does."""
        return self.answers([sample], **how)[0]

    def answers(self, samples: Sequence[Sample], **how: Any) -> list[Answer]:
        """Answers texts of which all rows but the newest have been read, each in the place that it always
        has. how: as of `executor.run`. Raises InputError for texts of more rows than were read, and for one
        row more than there is room for: the first would come back in the place of the newest."""
        packed, be, levels = self._circuit.request.pack(samples), self._be, self._levels
        most, rows = self._circuit.request.tokens, max(map(_length, samples))
        if self._read == most or rows > self._read + 1:
            what = f"a step of a text of {rows} rows, with {self._read} of at most {most} read before it"
            raise InputError(what, hint="read the rows of a text one by one, and plan for more --tokens")
        self._read += 1
        live: Live = {name: tuple(be.encrypt(v, levels[name]) for v in vs) for name, vs in packed.items()}
        out = run(self._stages, self._circuit.stages, be, {**live, **self.kept}, **how)
        pairs = [(one.before, out[one.after]) for one in self._circuit.kept]
        self.kept = {name: tuple(be.drop_to(ct, levels[name]) for ct in cts) for name, cts in pairs}
        return self._circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]])[: len(samples)]


def prefixes(sample: Sample) -> Iterator[Sample]:
    """The beginnings of a text in reverse, the shortest first: of one row, of two, ... of all."""
    return (beginning(sample, count) for count in range(1, _length(sample) + 1))


def beginning(sample: Sample, count: int) -> Sample:
    """The first rows of a text in reverse, at most so many."""
    (rows, mask), whole = sample, _length(sample)
    count, first, real = min(count, whole), np.zeros_like(rows), np.zeros_like(mask)
    first[:count], real[:count] = rows[whole - count : whole], 1.0
    return first, real


def _length(sample: Sample) -> int:
    return int(np.count_nonzero(sample[1]))


# Refuses a plan whose arithmetic leaves the range of doubles, in one line in place of a traceback.


@contextmanager
def within_doubles(operation: str) -> Iterator[None]:
    """Wraps the making of a plan, also as a decorator. operation: named by the error.

    Raises PlanError in place of ArithmeticError and ValueError (what is not finite cannot be rounded, nor
    fitted to). A value that overflows on the way is left to the checks of the result, without a warning.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (ArithmeticError, ValueError) as error:
        raise PlanError(
            f"{operation}: values of the model leave the range of double precision ({error!s:.200})",
            hint="check the weights: scores or hidden states are far larger than those of a model that works",
        ) from error
