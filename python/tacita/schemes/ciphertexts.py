"""thor, leaf, arion and moai: the client encrypts, the server computes on ciphertexts, the client decrypts.

They differ in data alone: the packing and the rotations that `plans.scheme` lists for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacita.checkpoint import Checkpoint
from tacita.client.session import Client
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB, Server
from tacita.packings import executor
from tacita.packings.executor import RESPONSE, Steps
from tacita.planning.calibrate.calibrate import Sample
from tacita.planning.circuit import circuit_of
from tacita.planning.pipeline import plan_scheme
from tacita.planning.survey import Subject
from tacita.plans import engine
from tacita.plans.answers import Answer, judge
from tacita.plans.commitment import LinkSpeed
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.presets import noise_of
from tacita.plans.public_folder import Public, public_of
from tacita.plans.scheme import scheme_named, shape_of
from tacita.schemes.base import Place, Private, Report, Seconds, unknown_backend
from tacita.schemes.ciphertext_estimate import estimate
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.texts.embed import Text

Read = Callable[[str], Sequence[np.ndarray]]  # a live tensor by its name -> slot vectors
See = Callable[[str, Read], None]  # a stage that has run
OfText = Callable[[Sample], Answer]


def unseen(stage: str, read: Read) -> None:
    """Looks at nothing."""


@dataclass(frozen=True)
class Ciphertexts:
    """A scheme of `plans.scheme.SCHEMES`."""

    name: str
    connected: bool = False

    @property
    def several(self) -> bool:
        """Whether a request holds many texts."""
        return scheme_named(self.name).several

    def plan(self, subject: Subject) -> Plan:
        """Plans by `planning.pipeline.plan_scheme`."""
        return plan_scheme(subject, self.name)

    def estimate(
        self,
        plan: Plan,
        inputs: int | None = None,
        *,
        link: LinkSpeed | None = None,
        memory: float = MEMORY_GB,
    ) -> dict[str, Any]:
        """Estimates by `ciphertext_estimate`."""
        return estimate(plan, inputs, link=link, memory=memory)

    def client(self, public: Public | Path | str, work: Workdir | Path | str, **options: Any) -> Client:
        """Opens a client on what the server published, with a folder of its own for the keys."""
        return Client(public, work, **options)

    def server(self, plan: Plan, model: Checkpoint, work: Workdir | Path | str, **options: Any) -> Server:
        """Opens a server on a folder with the client's evaluation keys and request."""
        return Server(plan, model, work, **options)

    def in_the_clear(
        self,
        plan: Plan,
        model: Checkpoint,
        samples: Sequence[Sample],
        backend: str,
        seed: int,
        progress: Report,
        see: See = unseen,
    ) -> list[Answer]:
        """Runs the plan's circuit with no more sequences than hold the samples. see: called after every
        stage, with a function that reads the slots of a tensor that is alive then. Raises InputError for a
        plan that keeps rows, whose requests are no whole texts (`row_by_row`)."""
        if plan.kept:
            message = "a whole text on a plan that keeps rows of earlier tokens"
            raise InputError(message, hint="tacita.generate(..., cache=True), or a plan without a cache")
        shape = shape_of(plan).shrunk(len(samples))
        circuit, be = circuit_of(plan, model, texts=len(samples)), _backend(plan, backend, seed, shape.slots)
        levels = {tensor.name: tensor.level for tensor in plan.request}
        live = {
            n: tuple(be.encrypt(v, levels[n]) for v in vs) for n, vs in circuit.request.pack(samples).items()
        }
        predicted = plan.prediction.stage_seconds
        with np.errstate(
            all="ignore"
        ):  # far outside the intervals polynomials overflow; the response's checks say so
            out = executor.run(
                plan.stages,
                circuit.stages,
                be,
                live,
                predicted=predicted,
                progress=progress,
                inspect=lambda stage, now: see(stage, lambda name: [be.decrypt(ct) for ct in now[name]]),
            )
            answers = circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]])
        return [
            judge(plan, one.values, sound=one.sound(plan.agreement), real=int(mask.sum()))
            for one, (_, mask) in zip(answers, samples, strict=False)
        ]

    @contextmanager
    def private(self, plan: Plan, model: Checkpoint, place: Place) -> Iterator[Private]:
        """Client and server on one folder; the keys are made first."""
        engine.require_secure(plan.parameters, allow_insecure=place.allow_insecure)
        files, insecure, seconds = Workdir(place.folder), place.allow_insecure, Seconds()
        client = self.client(public_of(plan, model), files, allow_insecure=insecure, one_user=True)
        options = {"threads": place.threads, "memory": place.memory, "allow_insecure": insecure}
        server = self.server(plan, model, files, **options)
        if not (place.keep_key and files.secret_key.exists()):
            with place.bar("keygen") as report:
                seconds["keygen"] = _timed(lambda: client.keygen(report))
        yield Private(lambda texts, title: _answered(client, server, texts, title, place), seconds)


def row_by_row(plan: Plan, model: Checkpoint, backend: str, seed: int = 0) -> OfText:
    """A text on "plain" or "sim" under a plan that keeps rows: called with its first row in reverse, then
    with its first two, and so on, gives the answer of each. Raises InputError for another backend."""
    be = _backend(plan, backend, seed, plan.parameters.slots)
    levels = {tensor.name: tensor.level for tensor in (*plan.request, *plan.kept)}
    steps = Steps(plan.stages, circuit_of(plan, model), levels, be)

    def answer(sample: Sample) -> Answer:
        with np.errstate(all="ignore"):  # see `Ciphertexts.in_the_clear`
            reading = steps.answer(sample)
        return judge(plan, reading.values, sound=reading.sound(plan.agreement))

    return answer


def _answered(
    client: Client, server: Server, texts: Sequence[Text], title: str, place: Place
) -> tuple[list[Answer], Seconds]:
    """Answers one request through the files of its folder."""
    seconds = {"encrypt": _timed(lambda: client.encrypt_batch(texts))}
    with place.bar(f"{title}evaluate") as report:
        seconds["evaluate"] = _timed(lambda: server.evaluate(report))
    answers: list[Answer] = []
    seconds["decrypt"] = _timed(lambda: answers.extend(client.decrypt_batch(texts=texts)))
    return answers, seconds


def _timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _backend(plan: Plan, name: str, seed: int, slots: int) -> PlainBackend | SimBackend:
    """Makes a backend of the plan's levels and noise; it holds the circuit to the plan's keys where the slots
    are the plan's."""
    full, top = plan.parameters.slots, plan.parameters.max_level
    rotations = frozenset(step for step, _ in plan.rotations) if slots == full else None
    match name:
        case "plain":
            return PlainBackend(slots, top, rotations)
        case "sim":
            noise = noise_of(plan.parameters)
            return SimBackend(slots, top, inject=True, noise=noise, rotations=rotations, seed=seed)
        case _:
            raise unknown_backend(name)
