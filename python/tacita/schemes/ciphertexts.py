"""thor, leaf, arion and moai: the client encrypts, the server computes on ciphertexts, the client decrypts.

They differ in data alone: the packing and the rotations that `plans.scheme` lists for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from tacita.checkpoint import Checkpoint
from tacita.client.session import Client
from tacita.errors import InputError
from tacita.evaluate.keyring import RESULTS, fixed_bytes, predicted_spill, server_bytes
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
from tacita.plans.plan import PlacedStage, Plan
from tacita.plans.presets import noise_of
from tacita.plans.public_folder import Public, public_of
from tacita.plans.scheme import scheme_named, shape_of
from tacita.resources import GB, available_memory, run_alone
from tacita.schemes.base import Place, Private, Report, Seconds, unknown_backend
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.texts.embed import Text

Read = Callable[[str], Sequence[np.ndarray]]  # a live tensor by its name -> slot vectors
See = Callable[[str, Read], None]  # a stage that has run
OfTexts = Callable[[Sequence[Sample]], list[Answer]]
Sides = tuple[Client, Server]


def unseen(stage: str, read: Read) -> None:
    """Looks at nothing."""


@dataclass(frozen=True)
class Ciphertexts:
    """A scheme of `plans.scheme.SCHEMES`."""

    name: str
    connected: bool = False

    @property
    def several(self) -> bool:
        return scheme_named(self.name).several

    def plan(self, subject: Subject) -> Plan:
        return plan_scheme(subject, self.name)

    def estimate(
        self,
        plan: Plan,
        inputs: int | None = None,
        *,
        link: LinkSpeed | None = None,
        memory: float = MEMORY_GB,
    ) -> dict[str, Any]:
        """Returns JSON fields. inputs: texts to classify (default: one request full). link: between client
        and server, None where nothing is to be sent. memory: the server's limit, GB."""
        count = inputs or plan.batch
        requests = ceil(count / plan.batch)
        stages = list(stage_estimates(plan, memory))
        touch, spill = (sum(getattr(s, f"{name}_seconds") for s in stages) for name in ("touch", "spill"))
        seconds = plan.predicted_seconds(link) * requests + touch + spill * requests
        return {
            "model": plan.model.name,
            "scheme": plan.scheme,
            "packing": plan.packing,
            "tokens": plan.tokens,
            "texts_per_request": plan.batch,
            "lanes": plan.lanes,
            "inputs": count,
            "requests": requests,
            "wall_seconds": seconds,
            "seconds_per_input": seconds / count,
            "seconds": dict(plan.prediction.seconds),
            "touch_seconds": touch,
            "spill_seconds": spill,
            "stages": [asdict(stage) for stage in stages],
            "stage_seconds": {
                s.name: t for s, t in zip(plan.stages, plan.prediction.stage_seconds, strict=True)
            },
            "stage_bytes": {s.name: n for s, n in zip(plan.stages, plan.prediction.stage_bytes, strict=True)},
            "bytes": {**plan.prediction.bytes, "server_memory": server_bytes(plan)},
            "bootstraps": plan.bootstraps,
            "key_switches": sum(key_switches(stage) for stage in plan.stages),
            "rotation_keys": len(plan.rotations),
            "error": asdict(plan.prediction.error),
            "parameters": parameters(plan),
            "machine": plan.prediction.machine,
            "threads": plan.prediction.threads,
            "memory_limit_gb": memory,
            "spill_gb": predicted_spill(plan, _room(plan, memory)) / GB,
            "too_large": too_large(plan, memory),
        }

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
        exact: frozenset[str] = frozenset(),
        see: See = unseen,
    ) -> list[Answer]:
        """Runs the plan's circuit with no more sequences than hold the samples. see: called after every
        stage, with a function that reads the slots of a tensor that is alive then. Raises InputError for a
        plan that keeps rows, whose requests are no whole texts (`row_by_row`)."""
        if plan.kept:
            message = "a whole text on a plan that keeps rows of earlier tokens"
            raise InputError(message, hint="tacita.generate(..., cache=True), or a plan without a cache")
        if plan.coefficients and plan.model.activation in exact:
            message = f"an exact {plan.model.activation} in products of coefficients"
            raise InputError(message, hint="--packing rows has its levels, too")
        shape = shape_of(plan).shrunk(len(samples))
        circuit = circuit_of(plan, model, texts=len(samples), exact=exact)
        be = _backend(plan, backend, seed, shape.slots)
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
        seconds = Seconds()
        with both_sides(plan, model, place) as (client, server):
            if not (place.keep_key and client.work.secret_key.exists()):
                with place.bar("keygen") as report:
                    seconds["keygen"] = _timed(lambda: client.keygen(report))
            yield Private(lambda texts, title: _answered(client, server, texts, title, place), seconds)


@contextmanager
def both_sides(plan: Plan, model: Checkpoint, place: Place) -> Iterator[Sides]:
    """Opens client and server on the folder of a place, in which no other run works meanwhile; no key is
    made. Raises PlanError for parameters below 128 bits unless the place allows them, ResourceError."""
    files, insecure = Workdir(place.folder), place.allow_insecure
    client = Client(public_of(plan, model), files, allow_insecure=insecure, one_user=True)
    how: dict[str, Any] = {"memory": place.memory, "threads": place.threads, "device": place.device}
    server = Server(plan, model, files, allow_insecure=insecure, **how)
    with run_alone(place.folder):
        yield client, server


def row_by_row(plan: Plan, model: Checkpoint, backend: str, seed: int = 0, texts: int = 1) -> OfTexts:
    """So many texts on "plain" or "sim" under a plan that keeps rows: called with the first row of each in
    reverse, then with the first two, and so on, gives the answers. Raises InputError for another backend."""
    shape = shape_of(plan).shrunk(texts)
    be = _backend(plan, backend, seed, shape.slots)
    levels = {tensor.name: tensor.level for tensor in (*plan.request, *plan.kept)}
    steps = Steps(plan.stages, circuit_of(plan, model, texts=texts), levels, be)

    def answer(samples: Sequence[Sample]) -> list[Answer]:
        with np.errstate(all="ignore"):  # see `Ciphertexts.in_the_clear`
            answers = steps.answers(samples)
        return [judge(plan, one.values, sound=one.sound(plan.agreement)) for one in answers]

    return answer


def _answered(
    client: Client, server: Server, texts: Sequence[Text], title: str, place: Place
) -> tuple[list[Answer], Seconds]:
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


# What a run on ciphertexts would cost, stage by stage: time, memory, bytes, error and security of a plan.

KEY_SWITCHES = ("rotate", "rotate_shared", "rotate_hoisted", "conjugate", "relin", "mul")


@dataclass(frozen=True)
class StageEstimate:
    """What a stage should cost. seconds: bootstraps included, in memory that the process has used before.
    products: of ciphertexts. bytes: of the ciphertexts alive at its peak; spill_bytes: what of these is
    beyond the memory limit.

    touch_seconds: in the first request of a process, for the memory by which this stage makes it grow.
    spill_seconds: for taking what is beyond the limit to disk and back once, in every request. Both are 0
    where the prices have none.
    """

    name: str
    seconds: float
    seconds_per_input: float
    bootstraps: int
    key_switches: int
    products: int
    bytes: int
    spill_bytes: int
    touch_seconds: float = 0.0
    spill_seconds: float = 0.0


def stage_estimates(plan: Plan, memory: float = MEMORY_GB) -> Iterator[StageEstimate]:
    """One for each stage of the plan, in its order."""
    p = plan.prediction
    room, touched = _room(plan, memory), 0
    for stage, seconds, alive in zip(plan.stages, p.stage_seconds, p.stage_bytes, strict=True):
        held, spilled = min(alive, room), max(0, alive - room)
        grown, touched = max(0, held - touched), max(held, touched)
        yield StageEstimate(
            name=stage.name,
            seconds=seconds,
            seconds_per_input=seconds / plan.batch,
            bootstraps=len(stage.kinds) + stage.through,
            key_switches=key_switches(stage),
            products=ciphertext_products(stage),
            bytes=alive,
            spill_bytes=spilled,
            touch_seconds=_share(plan, "touch", grown),
            spill_seconds=_share(plan, "spill", spilled),
        )


def _share(plan: Plan, step: str, count: int) -> float:
    """Seconds of so many bytes: the plan's prediction has those of its whole working memory."""
    whole = max(plan.prediction.stage_bytes, default=0)
    return plan.prediction.seconds.get(step, 0.0) * count / whole if whole else 0.0


def key_switches(placed: PlacedStage) -> int:
    """Rotations, conjugations, relinearisations of a stage, bootstraps excepted."""
    return sum(placed.counts.get(op, 0) for op in KEY_SWITCHES)


def ciphertext_products(placed: PlacedStage) -> int:
    """Products of two ciphertexts of a stage, relinearised or not."""
    return sum(placed.counts.get(op, 0) for op in ("mul", "tensor", "outer"))


def too_large(plan: Plan, memory: float = MEMORY_GB) -> list[str]:
    """What does not fit: what must be in memory at once against the limit and this machine, stages against
    the limit.
    """
    free, fixed = available_memory(), fixed_bytes(plan)
    problems = []
    for what, need in (
        ("keys, matrices and circuit", fixed),
        ("key generation", plan.prediction.bytes["client_memory"]),
    ):
        limit = memory * GB if free is None else min(free, memory * GB)
        if need > limit:
            problems.append(f"{what} need {_gb(need)}, {_gb(limit)} may be taken")
    over = [stage for stage in stage_estimates(plan, memory) if stage.spill_bytes]
    if over:
        worst = max(over, key=lambda stage: stage.spill_bytes)
        spilled = f"{_gb(worst.spill_bytes)} of {_gb(worst.bytes)} go to disk in {worst.name}"
        problems.append(f"{len(over)} of {len(plan.stages)} stages do not fit {memory:g} GB: {spilled}")
    return problems


def parameters(plan: Plan) -> dict[str, Any]:
    """The parameters that a reader needs to judge the security of a run."""
    p = plan.parameters
    return {
        "preset": p.preset,
        "log_n": p.log_n,
        "log_qp": p.log_qp,
        "security_bits": p.security_bits,
        "secret": p.secret,
        "failure_log2": p.failure_log2,
    }


def _room(plan: Plan, memory: float) -> int:
    """Bytes that the memory limit leaves for ciphertexts at rest, as `ciphertext_budget`; 0 for none."""
    free = max(0, int(memory * GB) - fixed_bytes(plan))
    return free - free // RESULTS


def _gb(count: float) -> str:
    return f"{count / GB:.2f} GB"
