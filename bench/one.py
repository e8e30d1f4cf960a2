"""One text after another on one server: what the first request takes, and what the second, whose keys,
matrices and circuit are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.batch import StageClock, quality, stage_rows
from bench.layers import LayerErrors
from bench.worst import compared
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.client import Answer, Client
from tacita.evaluate import Server
from tacita.evaluate.session import MEMORY_GB
from tacita.planning.circuit import circuit_of
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.public_folder import public_of
from tacita.progress import Progress
from tacita.resources import peak_memory_gb
from tacita.schemes.ciphertext_estimate import parameters
from tacita.schemes.ciphertexts import Ciphertexts

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)
Bar = Callable[[Progress], None]
REQUEST = ("encrypt", "evaluate", "decrypt")
DECIMALS = 12


def unrounded(plan: Plan) -> Plan:
    """The plan whose answers are shown as they are decrypted: who measures has the secret key anyway."""
    return replace(plan, decimals=DECIMALS, noise=0.0)


@dataclass
class Ran:
    """What was measured so far. seconds: of steps done once; requests: seconds of each request by step.
    layers: the error of each layer's output (`layers.LayerErrors`), and layers_from the backend that it is
    of. peak_gb: of the process after the last request."""

    seconds: dict[str, float] = field(default_factory=dict)
    requests: list[dict[str, float]] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    threads: int = 1
    layers: dict[str, float] = field(default_factory=dict)
    layers_from: str = "sim"
    peak_gb: float = 0.0

    @contextmanager
    def timing(self, step: str, into: dict[str, float] | None = None) -> Iterator[None]:
        """Adds the seconds of its body."""
        began, seconds = time.monotonic(), self.seconds if into is None else into
        yield
        seconds[step] = seconds.get(step, 0.0) + time.monotonic() - began


def encrypted(
    plan: Plan,
    model: Checkpoint,
    samples: Sequence[Sample],
    ran: Ran,
    files: Workdir,
    bar: Bar,
    **options: Any,
) -> None:
    """Each sample through the files of a folder, on one server. options: threads, memory, allow_insecure."""
    insecure = options["allow_insecure"]
    client = Client(public_of(plan, model), files, allow_insecure=insecure, one_user=True)
    server = Server(plan, model, files, resume=False, **options)
    ran.threads = server.threads
    with ran.timing("keygen"):
        client.keygen(bar)
    with ran.timing("circuit"):
        circuit_of(plan, model)
    for hidden, mask in samples:
        steps: dict[str, float] = {}
        with ran.timing("encrypt", steps):
            client.encrypt(hidden_states=in_order(plan, hidden[mask > 0]))
        if not ran.requests:
            with ran.timing("keys"):
                server.load_keys()
        with ran.timing("evaluate", steps):
            server.evaluate(_clocked(ran, bar))
        with ran.timing("decrypt", steps):
            ran.answers.append(client.decrypt())
        ran.requests.append(steps)
    ran.peak_gb = peak_memory_gb()


def in_order(plan: Plan, rows: Array) -> Array:
    """Rows as slots hold them -> in the order of the text, as a client has them."""
    return rows[::-1] if plan.backwards else rows


def simulated(
    plan: Plan, model: Checkpoint, samples: Sequence[Sample], ran: Ran, backend: str, bar: Bar
) -> None:
    """Each sample on plain or sim, layers compared."""
    with ran.timing("circuit"):
        errors = LayerErrors(plan, model)
    for seed, sample in enumerate(samples):
        steps: dict[str, float] = {}
        errors.start(sample)
        with ran.timing("evaluate", steps):
            ran.answers += _in_the_clear(plan, model, sample, backend, seed, _clocked(ran, bar), errors)
        ran.requests.append(steps)
    ran.layers, ran.layers_from, ran.peak_gb = errors.worst, backend, peak_memory_gb()


def compared_layers(plan: Plan, model: Checkpoint, sample: Sample, ran: Ran, bar: Bar) -> None:
    """The layers of one sample on `sim`, which has the engine's noise: nobody sees those of an encrypted run
    without its secret key, which no server has."""
    errors = LayerErrors(plan, model)
    errors.start(sample)
    _in_the_clear(plan, model, sample, "sim", 0, bar, errors)
    ran.layers, ran.layers_from = errors.worst, "sim"


def _in_the_clear(
    plan: Plan, model: Checkpoint, sample: Sample, backend: str, seed: int, bar: Bar, errors: LayerErrors
) -> list[Answer]:
    scheme = Ciphertexts(plan.scheme)
    return scheme.in_the_clear(plan, model, [sample], backend, seed, bar, errors.see)


def figures(
    plan: Plan,
    model: Checkpoint,
    samples: Sequence[Sample],
    ran: Ran,
    backend: str,
    memory: float = MEMORY_GB,
) -> dict[str, Any]:
    """The report. memory: the limit in GB.

    seconds: plan, keygen and the steps of the first request, as `tacita demo` has them; its evaluate includes
    the circuit and the reading of keys, which `setup` has apart. warm: the second request. stages: of the
    last request, beside the estimate of a process that is warm; worst: those furthest off. layer_errors: of
    each layer's output, over its range, on the backend layer_errors_from.
    """
    wanted = np.array([reference(model, *sample).logits for sample in samples])
    found = np.array([answer.anyway.logits for answer in ran.answers])
    first, last = (
        {step: one.get(step, 0.0) for step in REQUEST} for one in (ran.requests[0], ran.requests[-1])
    )
    setup = {name: ran.seconds.get(name, 0.0) for name in ("circuit", "keys")}
    once = {name: ran.seconds.get(name, 0.0) for name in ("plan", "keygen")}
    rows = stage_rows(plan, ran.stages[-1], 1, memory, warm=True)
    held = backend == "ckks"
    return {
        "model": plan.model.name,
        "backend": backend,
        "encrypted": held,
        "tokens": plan.tokens,
        "layers": plan.model.layers,
        "inputs": len(samples),
        "seconds": once | first | {"evaluate": first["evaluate"] + sum(setup.values())},
        "setup": setup,
        "warm": {"seconds": last, "wall_seconds": sum(last.values())},
        "predicted_seconds": sum(row["predicted_seconds"] for row in rows),
        "prices": plan.prediction.machine,
        "stages": [
            {"name": row["name"], "seconds": row["seconds"], "predicted": row["predicted_seconds"]}
            for row in rows
        ],
        **compared(rows),
        **{name: quality(found, wanted)[name] for name in ("agreement", "max_abs_error")},
        "range": float(np.ptp(wanted)),
        "cosine": _least_cosine(found, wanted),
        "warnings": sum(bool(answer.warnings) for answer in ran.answers),
        "layer_errors": [{"name": name, "error": error} for name, error in ran.layers.items()],
        "layer_errors_from": ran.layers_from,
        "peak_rss_gb": ran.peak_gb,
        "bootstraps": plan.bootstraps,
        "parameters": parameters(plan) if held else None,
        "plan_hash": plan.hash,
        "threads": ran.threads,
    }


def _least_cosine(found: Array, wanted: Array) -> float:
    """Returns the least cosine of an answer's rows and the float model's. 0 for an answer of zeros."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(np.min(np.sum(found * wanted, axis=1) / np.maximum(lengths, np.finfo(float).tiny)))


def _clocked(ran: Ran, bar: Bar) -> Bar:
    """A request's progress, whose stages are timed."""
    clock = StageClock()
    ran.stages.append(clock.seconds)

    def report(now: Progress) -> None:
        clock(now)
        bar(now)

    return report
